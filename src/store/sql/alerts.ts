import type { Alert } from '../../contracts/alerts.ts';
import { microsToText } from '../../lib/time.ts';
import type { Postgres } from './postgres.ts';

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
