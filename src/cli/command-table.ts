import type { Command } from './context.ts';

/** A flag of the command line. `value` is what the help calls its argument; without it the flag is a switch. */
export interface Flag {
  readonly summary: string;
  readonly value?: string;
  readonly short?: string;
  readonly many?: boolean;
}

export interface CommandRow {
  readonly summary: string;
  /** What stands behind the name: `RUN`, `[STEP]`. */
  readonly positionals: readonly string[];
  readonly flags: Readonly<Record<string, Flag>>;
  readonly examples: readonly string[];
  /** What --json prints: one object, or with `lines` one per line. Fields with `?` may be missing; more may be added. */
  readonly json: string;
  /** More than one line where one is not enough. */
  readonly notes?: string;
  readonly load: () => Promise<Command>;
}

/** Flags that every command takes. */
export const COMMON_FLAGS: Readonly<Record<string, Flag>> = {
  json: { summary: 'Print JSON for programs; its shape is stable' },
  verbose: { summary: 'Say what is done on stderr' },
  folder: { summary: 'The folder of the embedded database (.runledger)', value: 'DIR' },
  config: { summary: 'The configuration file (runledger.config.ts, .js or .json)', value: 'FILE' },
  help: { summary: 'Show this help', short: 'h' },
};

const set: Flag = {
  summary: 'A value of the workload; JSON, or else text; dots lead inwards',
  value: 'K=V',
  many: true,
};
const logs: Flag = { summary: 'Show what the tasks print' };
const detach: Flag = { summary: 'Do not work on the run here: workers elsewhere do' };
const engine: Flag = { summary: 'Who schedules: native (the default) or temporal', value: 'ENGINE' };
const limit: Flag = { summary: 'How many at most', value: 'N' };

/** Every command as data: help, completion and documentation are made from it. */
export const COMMANDS: Readonly<Record<string, CommandRow>> = {
  run: {
    summary: 'Compile a playbook and run it',
    positionals: ['FILE'],
    flags: {
      set,
      input: { summary: 'A JSON or YAML file of values for the workload', value: 'FILE' },
      watch: { summary: 'Run again whenever the playbook, a sub-playbook or the input file changes' },
      engine,
      logs,
      detach,
      strict: { summary: 'Refuse a playbook that has warnings' },
    },
    examples: [
      'runledger run examples/hello.yaml',
      'runledger run examples/hello.yaml --set name=Ada',
      'runledger run examples/hello.yaml --watch',
    ],
    notes:
      'Ctrl-C pauses the run and waits for the steps in flight; Ctrl-C again hands them back and leaves at once. `resume` takes up either.',
    json: '{runId, status, planId, planVersion, durationMs, result?, error?: {category, code, message, retryable, stepId?}, steps: [{stepId, status: waiting|running|done|failed|skipped, attempt, durationMs?, loop?: {ended, failed}, receipts?: {count, runId}}], unknownWrites?: [{runId, step, operation?, target?}]}; interrupted: {runId, status, interrupted: true}; waiting for `settle`: {runId, status, openWrites: [{runId, step, operation?, target?}]}; with --detach: {runId, status}',
    load: async () => (await import('./commands/run.ts')).run,
  },
  init: {
    summary: 'Write a configuration and playbooks that run',
    positionals: ['[FOLDER]'],
    flags: {},
    examples: ['runledger init my-project', 'runledger init'],
    notes: 'No file that is there is changed: one that differs is refused, and then nothing is written.',
    json: '{folder, written: [path], kept: [path]}',
    load: async () => (await import('./commands/init.ts')).init,
  },
  compile: {
    summary: 'Check a playbook and show its plan',
    positionals: ['FILE'],
    flags: {
      explain: { summary: 'Describe the flow in words' },
      graph: { summary: 'Draw the flow', value: 'mermaid|dot' },
      engine: {
        summary: 'Say whether an engine can do what it asks for: native, temporal, conductor or mock',
        value: 'ENGINE',
      },
      strict: { summary: 'Treat warnings as problems' },
    },
    examples: [
      'runledger compile examples/branches.yaml --explain',
      'runledger compile examples/branches.yaml --graph mermaid',
    ],
    json: '{planRef, plan, children: [planRef], warnings: [problem], engine?, runnable?: whether this version can start runs there, reports?}',
    load: async () => (await import('./commands/compile.ts')).compile,
  },
  runs: {
    summary: 'List runs, newest first',
    positionals: [],
    flags: {
      status: { summary: 'Only runs of this status', value: 'STATUS', many: true },
      plan: { summary: 'Only runs of this plan', value: 'ID' },
      since: { summary: 'Only runs created since then: a time, or how long ago (90s, 30m, 12h, 7d)', value: 'TIME' },
      all: { summary: 'Also runs that other runs started' },
      limit,
      before: { summary: 'The page after this one: what `next` of the page before said', value: 'CURSOR' },
    },
    examples: ['runledger runs', 'runledger runs --status FAILED --since 24h', 'runledger runs --limit 5 --json'],
    json: '{runs: [run], next?}; a run: {runId, tenantId, projectId, environmentId, planId, planVersion, createdAt, status?, lastSeq, chainHead, engine, triggerType?, triggerRef?, parentRunId?, retryOf?}',
    load: async () => (await import('./commands/runs.ts')).runs,
  },
  status: {
    summary: 'Show the state of a run and its steps',
    positionals: ['RUN'],
    flags: { 'as-of': { summary: 'The state after this event', value: 'SEQ' } },
    examples: ['runledger status latest', 'runledger status latest --as-of 5'],
    json: '{run, snapshot}; run as in `runs`, snapshot as in schemas/RunSnapshot.schema.json',
    load: async () => (await import('./commands/status.ts')).status,
  },
  events: {
    summary: 'Show the log of a run',
    positionals: ['RUN'],
    flags: {
      follow: { summary: 'Go on until the run has ended', short: 'f' },
      canonical: { summary: 'The dotted names and the envelope of the canonical taxonomy' },
      after: { summary: 'Only events after this one', value: 'SEQ' },
      type: { summary: 'Only events of this type', value: 'TYPE', many: true },
    },
    examples: ['runledger events latest', 'runledger events latest --json > run.jsonl'],
    notes:
      'A line says what matters of an event. With --json every line is the whole record, with what `verify` needs to check it.',
    json: 'lines: the record of an event as in schemas/RunEventRecord.schema.json with proof: {recordHash, chainHash, salt?}; with --canonical: the canonical envelope',
    load: async () => (await import('./commands/events.ts')).events,
  },
  logs: {
    summary: 'Show what the tasks of a run printed',
    positionals: ['RUN'],
    flags: {
      follow: { summary: 'Go on until the run has ended', short: 'f' },
      step: { summary: 'Only lines of this step', value: 'STEP' },
    },
    examples: ['runledger logs latest', 'runledger logs latest --step start --json'],
    notes:
      'Lines are kept beside the log of the run, with secrets blanked out. Nothing is proven by them, and the last ones of a worker that was killed are missing. With --json every line is one object.',
    json: 'lines: {runId, printedAt, stepId, entity, attempt, stream: stdout|stderr|log, line}',
    load: async () => (await import('./commands/logs.ts')).logs,
  },
  result: {
    summary: 'Print the result of a run or of one of its steps',
    positionals: ['RUN', '[STEP]'],
    flags: {},
    examples: ['runledger result latest', 'runledger result latest start --json'],
    json: 'the result itself',
    load: async () => (await import('./commands/result.ts')).result,
  },
  resume: {
    summary: 'Go on with a run that was paused, interrupted or left behind',
    positionals: ['RUN'],
    flags: { logs, detach },
    examples: ['runledger resume latest'],
    json: 'as `run`',
    load: async () => (await import('./commands/resume.ts')).resume,
  },
  pause: {
    summary: 'Hand out no more steps; those in flight go on',
    positionals: ['RUN'],
    flags: {},
    examples: ['runledger pause latest'],
    json: '{runId, status, substatus?}',
    load: async () => (await import('./commands/pause.ts')).pause,
  },
  cancel: {
    summary: 'End a run',
    positionals: ['RUN'],
    flags: { reason: { summary: 'Why, for the log', value: 'TEXT' }, detach },
    examples: ['runledger cancel latest --reason "wrong input"'],
    json: 'as `run`; with --detach: {runId, cancelled: true}',
    load: async () => (await import('./commands/cancel.ts')).cancel,
  },
  retry: {
    summary: 'Run an ended run again, keeping what it completed',
    positionals: ['RUN'],
    flags: {
      from: { summary: 'Run this step and what follows it again', value: 'STEP' },
      plan: { summary: 'The plan of the old run, or the newest of its name (needs --from)', value: 'same|latest' },
      logs,
      detach,
    },
    examples: ['runledger retry latest', 'runledger retry latest --from fetch --plan latest'],
    json: 'as `run`; with --detach: {runId, retryOf, status}',
    load: async () => (await import('./commands/retry.ts')).retry,
  },
  'skip-step': {
    summary: 'Skip a step that is scheduled and has not begun',
    positionals: ['RUN', 'STEP'],
    flags: {},
    examples: ['runledger skip-step latest notify'],
    notes:
      'A step can be skipped while it waits: for a worker, for its admission, for a retry, or because the run is paused. `status` shows it as waiting. One that is not scheduled yet, runs or has ended is refused, and nothing changes. The run goes on behind it as if it had no result.',
    json: '{runId, stepId, skipped: true}',
    load: async () => (await import('./commands/skip-step.ts')).skipStep,
  },
  settle: {
    summary: 'Say what became of a write whose outcome was lost',
    positionals: ['RUN', '[STEP]'],
    flags: {
      happened: { summary: 'It happened: the step goes on with its result' },
      result: { summary: 'What it gave, for --happened; null if it is left out', value: 'JSON' },
      'send-again': { summary: 'Send it again' },
      'give-up': { summary: 'Let the step fail with APPROVAL_REJECTED' },
      reason: { summary: 'Why, for the log', value: 'TEXT' },
    },
    examples: [
      `runledger settle latest --happened --result '{"id": 7}'`,
      'runledger settle latest charge --send-again',
      'runledger settle latest --give-up --reason "the customer cancelled"',
    ],
    notes:
      'A worker that dies between sending a write and recording its answer leaves a write of which nobody knows whether it happened. Where the destination cannot be asked, the step waits for a person: `run` and `resume` leave with exit code 75 and say so. Look at the destination, answer, and go on with `resume`; workers elsewhere go on at once. A run that has failed does not wait: its `retry` asks. STEP is needed where several writes are open; `step/3` names an iteration.',
    json: '{runId, step, answer: happened|send-again|give-up}',
    load: async () => (await import('./commands/settle.ts')).settle,
  },
  replay: {
    summary: 'Decide a recorded run again and report the first difference',
    positionals: ['RUN'],
    flags: {},
    examples: ['runledger replay latest'],
    json: '{runId, ok: true, decisions, events}, or {runId, ok: false, runSeq, reason, command, recorded?, decided?}',
    load: async () => (await import('./commands/replay.ts')).replay,
  },
  diff: {
    summary: 'Compare what two runs did: route, results, attempts, times',
    positionals: ['RUN', 'RUN'],
    flags: {},
    examples: ['runledger diff 1f3a latest', 'runledger diff 1f3a latest --json'],
    notes:
      'Steps are paired by how they were reached, so that the second turn of a cycle meets the second turn. Times are shown where they changed much, and are no difference; nor are `elapsed_ms` and the `date` header of an HTTP answer. The exit code is 1 if the runs differ.',
    json: '{same, a: {runId, status, planRef, durationMs?}, b: as a, differences: [{what, stepId?, a?, b?}], steps: [{stepId, a?: {durationMs?, attempts, calls}, b?: as a}]}',
    load: async () => (await import('./commands/diff.ts')).diff,
  },
  verify: {
    summary: 'Check the hash chain of a run, or of a file of its events',
    positionals: ['RUN|FILE'],
    flags: {},
    examples: ['runledger verify latest', 'runledger verify run.jsonl'],
    json: '{ok: true, records, head: {lastSeq, chainHash}, erased: [runSeq]}',
    load: async () => (await import('./commands/verify.ts')).verify,
  },
  worker: {
    summary: 'Work on runs of this database until it is stopped',
    positionals: [],
    flags: {
      concurrency: { summary: 'Units of work at once', value: 'N' },
      tenant: { summary: 'Take only work of this tenant', value: 'NAME' },
      project: { summary: 'Take only work of this project', value: 'NAME' },
      engine,
      logs,
    },
    examples: [
      'DATABASE_URL=postgres://localhost/runs runledger worker',
      'DATABASE_URL=postgres://localhost/runs runledger worker --tenant acme',
      'TEMPORAL_ADDRESS=localhost:7233 runledger worker --engine temporal',
    ],
    json: 'lines: {worker, state: working}, and with --logs {runId, stepId, entity, stream, line}',
    load: async () => (await import('./commands/worker.ts')).worker,
  },
  migrate: {
    summary: 'Bring the schema of the database up to date',
    positionals: [],
    flags: { print: { summary: 'Print the SQL and change nothing' } },
    examples: ['DATABASE_URL=postgres://localhost/runs runledger migrate', 'runledger migrate --print'],
    json: '{applied: [name]}; with --print: {migrations: [{version, name, breaking, sql, checksum}]}',
    load: async () => (await import('./commands/migrate.ts')).migrate,
  },
  doctor: {
    summary: 'Look for what keeps runs from working, each problem with its cure',
    positionals: [],
    flags: { fix: { summary: 'Mend what can be mended without losing anything' } },
    examples: ['runledger doctor', 'runledger doctor --fix'],
    notes:
      'Looks at Node, the configuration, the file of secrets, the folder and its disk, the binaries of the embedded Postgres, the database and its schema, alerts, Python, and at runs that are stuck: work that was lost, leases of workers that died, units that fail again and again. --fix closes the file of secrets to others, restores library links, migrates the schema, makes lost work again from the log and frees abandoned leases.',
    json: '{ok, findings: [{check, ok, says, cure?, fixed?}]}',
    load: async () => (await import('./commands/doctor.ts')).doctor,
  },
  completion: {
    summary: 'Print the completion script of a shell',
    positionals: ['bash|zsh|fish'],
    flags: {},
    examples: ['source <(runledger completion bash)'],
    json: '{shell, script}',
    load: async () => (await import('./commands/completion.ts')).completion,
  },
  version: {
    summary: 'Print the version',
    positionals: [],
    flags: {},
    examples: ['runledger version --json'],
    json: '{version, node, platform}',
    load: async () => (await import('./commands/version.ts')).version,
  },
};

/** What the exit code of a command says; codes of errors beyond these stand in the table of errors. */
export const EXIT_CODES: Readonly<Record<number, string>> = {
  0: 'it worked; a run completed',
  1: 'the run failed, or a check found a difference',
  64: 'the command line is wrong',
  65: 'the playbook or other data is wrong',
  66: 'the file or the run does not exist',
  69: 'the database or a dependency is not available',
  70: 'a defect of Runledger',
  73: 'a file is in the way or cannot be written',
  74: 'the disk is full',
  75: 'try again later; a run waits for `settle`, or was paused from elsewhere',
  77: 'not allowed',
  78: 'the configuration is wrong',
  130: 'interrupted or cancelled',
  143: 'ended by a signal',
};
