import { expect, test } from 'vitest';
import { compiled, withTool } from '../compiler/compile.fixture.ts';
import type { PlanRef } from '../contracts/values.ts';
import type { StoredPlan } from '../store/work.ts';
import { PlanSource } from './plan-ref.ts';

const plan = compiled(withTool('{kind: noop}'));

function source(bytes: string = plan.json) {
  const plans = new Map<string, StoredPlan>();
  const alerts: Record<string, unknown>[] = [];
  const fetched: string[] = [];
  const made = new PlanSource({
    store: {
      raiseAlert: async (alert) => {
        alerts.push(alert);
        return true;
      },
    },
    work: {
      findPlan: async (sha256) => plans.get(sha256),
      findPlanById: async (planId) => [...plans.values()].find((stored) => stored.planId === planId),
      putPlan: async (stored) => void plans.set(stored.sha256, stored),
    },
    allow: [
      {
        prefix: 'https://plans.example.com/prod/',
        fetch: async (uri) => {
          fetched.push(uri);
          return new TextEncoder().encode(bytes);
        },
      },
    ],
    now: () => Date.parse('2026-06-01T00:00:00Z'),
    maxBytes: 100_000,
  });
  return { source: made, alerts, fetched };
}

const at = (uri: string, more: Partial<PlanRef> = {}): PlanRef => ({ ...plan.planRef, uri, ...more });

test('WE-3.1a a plan that was kept is found by its reference', async () => {
  const { source: plans } = source();
  const ref = await plans.keep(plan);
  expect((await plans.fetch(ref)).plan).toEqual(plan.plan);
  expect(await plans.childRef({ path: plan.planRef.planId })).toMatchObject({ sha256: plan.sha256 });
});

test('WE-3.1.1a a location of the allowlist is fetched, and any other is refused before anything is fetched', async () => {
  const { source: plans, fetched } = source();
  await plans.fetch(at('https://plans.example.com/prod/a.json'));
  expect(fetched).toEqual(['https://plans.example.com/prod/a.json']);
  const bad = [
    'https://plans.example.com/prod/../secret/a.json',
    'https://plans.example.com/prod/%2e%2e/a.json',
    'https://plans.example.com.evil.com/prod/a.json',
    'https://user@plans.example.com/prod/a.json',
    'http://plans.example.com/prod/a.json',
    'https://plans.example.com:8443/prod/a.json',
    'ftp://plans.example.com/prod/a.json',
    'gopher://plans.example.com/',
    'file:///etc/passwd',
    'http://127.0.0.1/',
    'http://[::ffff:169.254.169.254]/latest',
    'http://2852039166/latest',
    'no uri at all',
  ];
  for (const uri of bad) {
    await expect(plans.fetch(at(uri)), uri).rejects.toMatchObject({ code: 'PLAN_URI_NOT_ALLOWED' });
  }
  expect(fetched.length).toBe(1);
});

test('WE-3.1c bytes with another hash are refused, and both hashes are in an alert', async () => {
  const { source: plans, alerts } = source(`${plan.json} `);
  const fetching = plans.fetch(at('https://plans.example.com/prod/a.json'));
  await expect(fetching).rejects.toMatchObject({ code: 'PLAN_INTEGRITY_VALIDATION_FAILED' });
  expect(alerts).toEqual([
    expect.objectContaining({
      severity: 'P1',
      details: expect.objectContaining({ expected: plan.sha256, actual: expect.stringMatching(/^[0-9a-f]{64}$/) }),
    }),
  ]);
});

test('WE-3.1b WE-3.1d WE-3.1e version, expiry, size and completeness of a reference are checked without fetching', async () => {
  const { source: plans, fetched } = source();
  const uri = 'https://plans.example.com/prod/a.json';
  const bad: [Partial<Record<keyof PlanRef, unknown>>, string][] = [
    [{ schemaVersion: 'v2.0' }, 'PLAN_SCHEMA_VERSION_UNSUPPORTED'],
    [{ schemaVersion: 'v1.9' }, 'PLAN_SCHEMA_VERSION_UNSUPPORTED'],
    [{ expiresAt: '2026-05-31T23:59:59Z' }, 'PLAN_EXPIRED'],
    [{ sizeBytes: 100_001 }, 'PLAN_TOO_LARGE'],
    [{ planVersion: undefined }, 'SCHEMA_VALIDATION_FAILED'],
    [{ sha256: 'abc' }, 'SCHEMA_VALIDATION_FAILED'],
  ];
  for (const [change, code] of bad) {
    await expect(plans.fetch(at(uri, change as Partial<PlanRef>)), code).rejects.toMatchObject({ code });
  }
  expect(fetched).toEqual([]);
  await expect(plans.fetch(at(uri, { planId: 'another' }))).rejects.toMatchObject({
    code: 'PLAN_INTEGRITY_VALIDATION_FAILED',
  });
});

test('WE-3.2c a plan that somebody else wrote is checked like any other', async () => {
  const foreign = plan.json.replace('"kind":"noop"', '"kind":"noop","surprise":1');
  const { source: plans } = source(foreign);
  const { sha256Hex } = await import('../lib/hash.ts');
  const ref = at('https://plans.example.com/prod/a.json', { sha256: sha256Hex(foreign) });
  await expect(plans.fetch(ref)).rejects.toMatchObject({ code: 'INVALID_STEP_SCHEMA' });
});
