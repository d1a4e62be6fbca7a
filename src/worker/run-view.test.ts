import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compileSync } from '../compiler/compile.ts';
import type { RunEventRecord } from '../contracts/envelope.ts';
import type { EventDraft } from '../kernel/commands.ts';
import { toJson } from '../kernel/state-json.ts';
import { stampEvent } from '../store/stamp-event.ts';
import { arbitraryLog } from '../testing/arbitrary-log.ts';
import { expectStored, RunView } from './run-view.ts';

const text = `apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: view, version: "1"}
workflow:
- {step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: noop}, next: {arcs: [{step: c}]}}
- {step: c, tool: {kind: noop}}
`;
const compiled = compileSync({ text, file: 'view.yaml' });
if (!compiled.ok) throw new Error('the plan of this test does not compile');
const { plan } = compiled;
const run = {
  runKey: 1,
  runId: 'r',
  tenantId: 't',
  projectId: 'p',
  environmentId: 'e',
  planId: 'view',
  planVersion: '1',
};

/** What a worker holds before its own events: the draft of each, without what only a stamp gives. */
const draftOf = ({ eventType, stepId, entity, logicalAttemptId, payload }: RunEventRecord): EventDraft => ({
  eventType: eventType as EventDraft['eventType'],
  logicalAttemptId,
  ...(stepId === undefined ? {} : { stepId }),
  ...(entity === undefined ? {} : { entity }),
  ...(payload === undefined ? {} : { payload }),
});
const known = (view: RunView): unknown => [JSON.stringify(toJson(view.state)), view.head, view.isBehind];

test('a state that was expected is the one that the stored events give', () => {
  fc.assert(
    fc.property(arbitraryLog, fc.nat({ max: 30 }), fc.integer({ min: 1, max: 3 }), (log, cut, engineAttempt) => {
      const records = log.map((record, i) => ({ ...record, runSeq: i + 1 }));
      const [adopts, folds] = [new RunView(run, plan), new RunView(run, plan)];
      for (const view of [adopts, folds]) view.take(records.slice(0, cut));
      const drafts = records.slice(cut).map(draftOf);
      const emittedAt = '2026-01-01T00:00:00.000Z';
      const from = adopts.state;
      const to = expectStored(from, drafts, emittedAt, engineAttempt);
      const events = drafts.map((draft) =>
        stampEvent(run, { engineAttemptId: engineAttempt, ...draft }, { emittedAt }),
      );
      const receipts = events.map(({ eventId }, i) => ({
        eventId,
        runSeq: from.lastEventSeq + 1 + i,
        persistedAt: emittedAt,
        duplicate: false,
      }));
      folds.stored(events, receipts);
      adopts.stored(events, receipts, { from, to });
      expect(known(adopts)).toEqual(known(folds));
      if (events.length > 0) expect(adopts.state).toBe(to);
    }),
  );
});

test('what is stored behind events of others, or was stored before, is not taken for what was expected', () => {
  fc.assert(
    fc.property(arbitraryLog, fc.boolean(), (log, isDuplicate) => {
      fc.pre(log.length > 0);
      const view = new RunView(run, plan);
      const emittedAt = '2026-01-01T00:00:00.000Z';
      const from = view.state;
      const drafts = log.map(draftOf);
      const to = expectStored(from, drafts, emittedAt);
      const events = drafts.map((draft) => stampEvent(run, draft, { emittedAt }));
      const receipts = events.map(({ eventId }, i) => ({
        eventId,
        runSeq: i + (isDuplicate ? 1 : 2),
        persistedAt: emittedAt,
        duplicate: isDuplicate,
      }));
      view.stored(events, receipts, { from, to });
      expect(view.state).toBe(from);
      expect(view.isBehind).toBe(true);
    }),
  );
});
