import { readFileSync } from 'node:fs';
import { Compile } from 'typebox/compile';
import { describe, expect, test } from 'vitest';
import { PLAN_SCHEMA_VERSION } from '../contracts/plan.ts';
import { PlanRef } from '../contracts/values.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import { sha256Hex } from '../lib/hash.ts';
import { found } from './compile.fixture.ts';
import { compile, compileSync, type PlaybookSource } from './compile.ts';
import { toDot, toMermaid } from './draw-graph.ts';
import { explain } from './explain.ts';
import { parsePlan } from './parse-plan.ts';

const source = (name: string): PlaybookSource => ({
  file: `${name}.yaml`,
  text: readFileSync(new URL(`golden/${name}.yaml`, import.meta.url), 'utf8'),
});
const resolve = (path: string) => (path === 'lib/child' ? source('child') : undefined);

describe('golden playbooks', () => {
  test.each(['fetch-cities', 'older-spellings', 'child', 'cursor'])(
    'NE-D1 %s compiles to the plan on record',
    async (name) => {
      const result = compileSync(source(name), { resolve });
      if (!result.ok) throw new Error(found(result).join('\n'));
      const record = { sha256: result.sha256, plan: result.plan };
      await expect(`${JSON.stringify(record, sorted, 2)}\n`).toMatchFileSnapshot(`golden/${name}.plan.json`);
      expect(result.json).toBe(canonicalJson(result.plan));
      expect(result.sha256).toBe(sha256Hex(result.json));
      expect(parsePlan(result.json, { sha256: result.sha256 }).plan).toEqual(result.plan);
    },
  );

  test('WE-3.1e a compiled plan has a complete reference', async () => {
    const result = await compile(source('cursor'));
    if (!result.ok) throw new Error(found(result).join('\n'));
    expect(result.planRef).toEqual({
      uri: `runledger-plan:sha256/${result.sha256}`,
      sha256: result.sha256,
      schemaVersion: PLAN_SCHEMA_VERSION,
      planId: 'drain',
      planVersion: '2',
      sizeBytes: Buffer.byteLength(result.json),
    });
    const schema = Compile(PlanRef);
    expect(schema.Check(result.planRef)).toBe(true);
    for (const field of ['uri', 'sha256', 'schemaVersion', 'planId', 'planVersion']) {
      expect(schema.Check({ ...result.planRef, [field]: undefined })).toBe(false);
    }
    const { sizeBytes: _optional, ...required } = result.planRef;
    expect(schema.Check({ ...required, expiresAt: '2030-01-01T00:00:00Z' })).toBe(true);
    expect(schema.Check({ ...required, extra: 1 })).toBe(false);
  });

  test('a plan names its child by its exact version, and the child is compiled with it', () => {
    const result = compileSync(source('older-spellings'), { resolve });
    if (!result.ok) throw new Error(found(result).join('\n'));
    const child = compileSync(source('child'));
    if (!child.ok) throw new Error(found(child).join('\n'));
    const exact = {
      path: 'lib/child',
      planId: 'lib/child',
      planVersion: child.planRef.planVersion,
      sha256: child.sha256,
    };
    expect(result.plan.children).toEqual([exact]);
    expect(result.plan.steps[1]!.tasks[0]!.child).toEqual(exact);
    expect(result.plan.steps[2]!.tasks[0]!.child).toBeUndefined();
    expect(result.children.get(child.sha256)?.json).toBe(child.json);
  });

  test('pictures and words of a plan', async () => {
    const result = compileSync(source('fetch-cities'));
    if (!result.ok) throw new Error(found(result).join('\n'));
    await expect(toMermaid(result.plan)).toMatchFileSnapshot('golden/fetch-cities.mmd');
    await expect(toDot(result.plan)).toMatchFileSnapshot('golden/fetch-cities.dot');
    await expect(explain(result.plan)).toMatchFileSnapshot('golden/fetch-cities.txt');
  });
});

/** Keys in order, so that the record does not change when the code builds an object in another order. */
function sorted(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
