import type { Alert } from '../../contracts/alerts.ts';
import { microsToText } from '../../lib/time.ts';
import type { Connection, Postgres } from './postgres.ts';

export async function raiseAlert(postgres: Postgres, alert: Omit<Alert, 'raisedAt'>): Promise<boolean> {
  const text = `
    insert into runledger.alerts (dedupe_key, code, severity, message, run_id, alert) values ($1, $2, $3, $4, $5, $6)
    on conflict (dedupe_key) do nothing returning 1`;
  const values = [
    alert.dedupeKey,
    alert.code,
    alert.severity,
    alert.message,
    alert.runId ?? null,
    JSON.stringify(alert),
  ];
  return (await postgres.query({ name: 'raise_alert', text }, values)).length > 0;
}

/** Alerts that belong to a transaction: they are raised if it commits. Those that were raised before stay as they are. */
export async function raiseAlerts(client: Connection, alerts: readonly Omit<Alert, 'raisedAt'>[]): Promise<void> {
  const text = `
    insert into runledger.alerts (dedupe_key, code, severity, message, run_id, alert)
    select a->>'dedupeKey', a->>'code', a->>'severity', a->>'message', a->>'runId', a::text
      from json_array_elements($1::json) a
    on conflict (dedupe_key) do nothing`;
  await client.query({ name: 'raise_alerts', text, values: [JSON.stringify(alerts)] });
}

export async function listAlerts(
  postgres: Postgres,
  query: { runId?: string; code?: string; limit: number },
): Promise<Alert[]> {
  const text = `
    select alert, (extract(epoch from raised_at) * 1000000)::bigint::text as us from runledger.alerts
     where ($1::text is null or run_id = $1) and ($2::text is null or code = $2) order by alert_key desc limit $3`;
  const rows = await postgres.query<{ alert: string; us: string }>({ name: 'list_alerts', text }, [
    query.runId ?? null,
    query.code ?? null,
    query.limit,
  ]);
  return rows.map((row) => ({ ...(JSON.parse(row.alert) as Alert), raisedAt: microsToText(Number(row.us)) }));
}
