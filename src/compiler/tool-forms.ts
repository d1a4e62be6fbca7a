/** What the compiler knows of a tool: its fields, their other spellings, and what is not a template. */
export interface ToolForm {
  readonly summary: string;
  readonly fields: Readonly<Record<string, string>>;
  /** Other spelling -> the field that the plan holds. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** One of each group must be given. */
  readonly needs?: readonly (readonly string[])[];
  /** Takes fields that are not listed here. */
  readonly open?: boolean;
  /** Fields that are passed on as they stand: rendering a value into code would let data become code. */
  readonly verbatim?: readonly string[];
  /** Known, but not built in: the worker answers TOOL_UNAVAILABLE unless a user defines it. */
  readonly external?: boolean;
}

const SCRIPT = 'Text loaded on the worker: {uri, source: {type: inline|file|http|s3|gcs}}; its sha256 is in the log.';
const AUTH = 'Name of an entry of the secrets provider, or a template that gives one.';
const INPUT = 'Values for the tool, each may be a template.';
const SQL = {
  auth: AUTH,
  command: 'SQL; several statements are divided by semicolons, or stand in a list.',
  params: 'Parameters of the statement.',
  script: SCRIPT,
  input: INPUT,
};

export const TOOL_FORMS: Readonly<Record<string, ToolForm>> = {
  http: {
    summary: 'Calls an HTTP endpoint.',
    fields: {
      method: 'GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS.',
      url: 'Where to; also spelt `endpoint`.',
      params: 'Query parameters.',
      headers: 'Request headers.',
      json: 'Body, sent as JSON.',
      data: 'Body: a mapping or a text.',
      payload: 'Body, sent as JSON.',
      body: 'Body, sent as it is.',
      form: 'Body, sent as a form.',
      auth: AUTH,
      follow_redirects: 'Whether redirects are followed.',
      verify_ssl: 'Whether the certificate is checked.',
      input: INPUT,
    },
    aliases: { endpoint: 'url', credential: 'auth' },
    needs: [['url']],
  },
  postgres: {
    summary: 'Runs SQL on Postgres; rows come back as objects.',
    fields: { ...SQL, pool: 'Settings of the connection pool.' },
    aliases: { query: 'command', credential: 'auth' },
    needs: [['command', 'script']],
  },
  duckdb: {
    summary: 'Runs SQL in an embedded DuckDB.',
    fields: { ...SQL, database: 'File of the database; in memory if left out.' },
    aliases: { query: 'command', commands: 'command', credential: 'auth' },
    needs: [['command', 'script']],
  },
  snowflake: {
    summary: 'Runs SQL on Snowflake.',
    fields: SQL,
    aliases: { query: 'command', credential: 'auth' },
    needs: [['command', 'script']],
    open: true,
  },
  python: {
    summary: 'Runs Python; the result is the variable `result` or what `main` returns.',
    fields: {
      code: 'The program; not a template, values come through `input`.',
      script: SCRIPT,
      input: 'Variables of the program.',
      libs: 'Modules to import: name -> module.',
      auth: AUTH,
    },
    aliases: { args: 'input', credential: 'auth' },
    needs: [['code', 'script']],
    verbatim: ['code'],
  },
  javascript: {
    summary: 'Runs JavaScript in a sandbox.',
    fields: {
      code: 'The program; not a template, values come through `input`.',
      script: SCRIPT,
      input: 'Variables of the program.',
    },
    aliases: { args: 'input' },
    needs: [['code', 'script']],
    verbatim: ['code'],
  },
  shell: {
    summary: 'Runs commands.',
    fields: {
      cmds: 'The commands, a list.',
      env: 'Environment variables.',
      cwd: 'The working folder.',
      continue_on_error: 'Whether the commands after one that failed are run.',
      script: SCRIPT,
      input: 'Values for the commands, as environment variables.',
    },
    needs: [['cmds', 'script']],
  },
  playbook: {
    summary: 'Runs another playbook and waits for it.',
    fields: {
      path: 'Path of the playbook; a template is resolved when the step runs.',
      input: 'The payload of the child run.',
      return_step: 'The step of the child whose result is taken; the last one if left out.',
    },
    aliases: { payload: 'input', args: 'input' },
    needs: [['path']],
  },
  workbook: {
    summary: 'Runs a task of the workbook.',
    fields: { name: 'Name of the task in the workbook; also spelt `task`.', input: 'Values for the task.' },
    aliases: { args: 'input', task: 'name' },
  },
  noop: { summary: 'Does nothing, or gives a value.', fields: { result: 'The value to give.', input: INPUT } },
  artifact: {
    summary: 'Gets or puts an artifact.',
    fields: {
      action: 'get or put.',
      ref: 'For get: a reference, or its uri.',
      data: 'For put: a text, or any JSON.',
      encoding: 'json, text or base64; how `data` is read, and how what is got is given.',
      artifact_kind: 'For put: says how long it is kept.',
      auth: AUTH,
      input: INPUT,
    },
    aliases: { credential: 'auth' },
    open: true,
  },
  nats: {
    summary: 'Key-value and object buckets and publishing on NATS.',
    fields: { auth: AUTH, operation: 'What to do: kv_get, kv_put, publish, ...', input: INPUT },
    aliases: { credential: 'auth' },
    open: true,
  },
  transfer: {
    summary: 'Moves rows from one database to another.',
    fields: {
      source: 'Where from.',
      target: 'Where to.',
      chunk_size: 'Rows at a time.',
      mode: 'append, replace or upsert.',
      input: INPUT,
    },
    open: true,
  },
  slack: {
    summary: 'Posts or updates a message.',
    fields: { auth: AUTH, input: INPUT },
    aliases: { credential: 'auth' },
    open: true,
  },
  servicenow: {
    summary: 'Reads, updates or creates an incident.',
    fields: { auth: AUTH, operation: 'get, update or create.', input: INPUT },
    aliases: { credential: 'auth' },
    open: true,
  },
  llm: {
    summary: 'Asks a language model; reports tokens and cost.',
    fields: { provider: 'The provider.', model: 'The model.', messages: 'The conversation.', auth: AUTH, input: INPUT },
    aliases: { credential: 'auth' },
    open: true,
  },
  secrets: {
    summary: 'Resolves a reference to a secret.',
    fields: { auth: AUTH, field: 'One field of a secret that has several.', input: INPUT },
    aliases: { credential: 'auth' },
    open: true,
  },
  container: {
    summary: 'Runs a container where a runtime is configured.',
    fields: { auth: AUTH, input: INPUT },
    open: true,
    external: true,
  },
  ducklake: {
    summary: 'Runs SQL on DuckLake.',
    fields: SQL,
    aliases: { query: 'command', credential: 'auth' },
    open: true,
    external: true,
  },
  subscription: {
    summary: 'Draws from a subscription.',
    fields: { auth: AUTH, input: INPUT },
    open: true,
    external: true,
  },
  agent: { summary: 'Runs an agent.', fields: { auth: AUTH, input: INPUT }, open: true, external: true },
  script: {
    summary: 'Runs a script.',
    fields: { auth: AUTH, script: SCRIPT, input: INPUT },
    open: true,
    external: true,
  },
};

/** A tool that the user defines; without `fields` it takes any. */
export interface UserTool {
  readonly summary?: string;
  readonly fields?: Readonly<Record<string, string>> | readonly string[];
  readonly verbatim?: readonly string[];
}

export function userToolForm(tool: UserTool): ToolForm {
  const { fields } = tool;
  const list = Array.isArray(fields) ? Object.fromEntries(fields.map((name: string) => [name, ''])) : fields;
  return {
    summary: tool.summary ?? '',
    fields: (list ?? {}) as Record<string, string>,
    ...(tool.verbatim ? { verbatim: tool.verbatim } : {}),
    open: fields === undefined,
  };
}
