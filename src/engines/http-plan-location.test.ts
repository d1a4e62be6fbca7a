import { afterAll, beforeAll, expect, test } from 'vitest';
import { compiled, withTool } from '../compiler/compile.fixture.ts';
import type { PlanRef } from '../contracts/values.ts';
import type { Resolver } from '../lib/net-guard.ts';
import { startServer, type TestServer } from '../tools/http/test-server.fixture.ts';
import { httpPlanLocation } from './http-plan-location.ts';
import { type PlanLocation, PlanSource } from './plan-ref.ts';

const plan = compiled(withTool('{kind: noop}'));
let server: TestServer;
beforeAll(async () => {
  server = await startServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://server');
    const to = searchParams.get('to');
    if (to !== null) response.writeHead(302, { location: to }).end();
    else if (pathname === '/prod/plan.json') response.end(plan.json);
    else if (pathname === '/prod/endless') {
      response.write('x'.repeat(1000));
      const timer = setInterval(() => response.write('x'.repeat(100_000)), 1);
      response.on('close', () => clearInterval(timer));
    } else response.writeHead(pathname === '/prod/broken' ? 500 : 404).end();
  });
});
afterAll(() => server.close());

const source = (allow: readonly PlanLocation[]): PlanSource =>
  new PlanSource({
    store: { raiseAlert: async () => true },
    work: { findPlan: async () => undefined, findPlanById: async () => undefined, putPlan: async () => {} },
    allow,
    maxBytes: 50_000,
  });
const at = (uri: string): PlanRef => ({ ...plan.planRef, uri });
const codeOf = (fetching: Promise<unknown>): Promise<string> =>
  fetching.then(
    () => 'fetched',
    (error: { code?: string }) => error.code ?? String(error),
  );
/** The test's own server stands for one of the company's network. */
const own = { addresses: { allow: ['127.0.0.1'] } };

test('a plan is fetched from below its location, and what is not there, not reachable or too large has a code of its own', async () => {
  const plans = source([httpPlanLocation(`${server.origin}/prod/`, own), httpPlanLocation('http://127.0.0.1:1/', own)]);
  expect((await plans.fetch(at(`${server.origin}/prod/plan.json`))).plan).toEqual(plan.plan);
  const fresh = source([httpPlanLocation(`${server.origin}/prod/`, own), httpPlanLocation('http://127.0.0.1:1/', own)]);
  expect(await codeOf(fresh.fetch(at(`${server.origin}/prod/none.json`)))).toBe('PLAN_NOT_FOUND');
  expect(await codeOf(fresh.fetch(at(`${server.origin}/prod/broken`)))).toBe('PLAN_UNREACHABLE');
  expect(await codeOf(fresh.fetch(at('http://127.0.0.1:1/plan.json')))).toBe('PLAN_UNREACHABLE');
  expect(await codeOf(fresh.fetch(at(`${server.origin}/prod/endless`)))).toBe('PLAN_TOO_LARGE');
  expect(await codeOf(fresh.fetch(at(`${server.origin}/other/plan.json`)))).toBe('PLAN_URI_NOT_ALLOWED');
});

test('WE-3.1.1b file, ftp, gopher, loopback, link-local and metadata targets are refused in every spelling, whatever the allowlist says', async () => {
  const everything: PlanLocation[] = ['file:', 'ftp:', 'gopher:', 'http:'].map((prefix) => ({
    prefix,
    fetch: async () => {
      throw new Error('it was fetched');
    },
  }));
  for (const uri of [
    'file:///etc/passwd',
    'FILE:///etc/passwd',
    'ftp://plans.example.com/a',
    'gopher://plans.example.com/a',
  ])
    expect(await codeOf(source(everything).fetch(at(uri))), uri).toBe('PLAN_URI_NOT_ALLOWED');
  const hosts = [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '169.254.0.7',
    '169.254.169.254',
  ];
  hosts.push('2852039166', '0251.0376.0251.0376', '[fe80::1]', '[fd00:ec2::254]', 'metadata.google.internal');
  for (const host of hosts) {
    expect(() => httpPlanLocation(`http://${host}/`), host).toThrow(
      expect.objectContaining({ code: 'CONFIG_INVALID' }),
    );
    const made = httpPlanLocation('http://plans.example.com/');
    expect(await codeOf(made.fetch(`http://${host}/plan.json`, 1000)), host).toBe('PLAN_URI_NOT_ALLOWED');
  }
});

test('WE-3.1.1b a name that leads to a forbidden address is refused, and nothing is sent there', async () => {
  const before = server.seen.length;
  for (const address of ['127.0.0.1', '::ffff:127.0.0.1', '169.254.169.254', 'fe80::1']) {
    const resolve: Resolver = async () => [{ address: '93.184.216.34' }, { address }];
    const plans = source([httpPlanLocation(`http://plans.example.com:${server.port}/`, { resolve })]);
    const fetching = plans.fetch(at(`http://plans.example.com:${server.port}/prod/plan.json`));
    expect(await codeOf(fetching), address).toBe('PLAN_URI_NOT_ALLOWED');
  }
  expect(server.seen.length).toBe(before);
});

test('WE-3.1.1b a redirect out of the location is not followed: to the metadata service, to a file, or to another folder of the same server', async () => {
  const plans = source([httpPlanLocation(`${server.origin}/prod/`, own)]);
  const { length: before } = server.seen;
  const targets = [
    'http://169.254.169.254/latest',
    'file:///etc/passwd',
    '/other/plan.json',
    '../secret',
    `http://u@127.0.0.1:${server.port}/prod/plan.json`,
  ];
  for (const to of targets) {
    const uri = `${server.origin}/prod/moved?to=${encodeURIComponent(to)}`;
    expect(await codeOf(plans.fetch(at(uri))), to).toBe('PLAN_URI_NOT_ALLOWED');
  }
  expect(server.seen.length).toBe(before + targets.length);
  const inside = `${server.origin}/prod/moved?to=${encodeURIComponent('/prod/plan.json')}`;
  expect((await plans.fetch(at(inside))).plan).toEqual(plan.plan);
});

test('a location without its last slash, or with a scheme that is not http, is refused when it is configured', () => {
  for (const prefix of ['https://plans.example.com/prod', 'ftp://plans.example.com/', 'nothing'])
    expect(() => httpPlanLocation(prefix), prefix).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }));
});
