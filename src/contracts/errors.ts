/**
 * The one table of error codes. `http` is the status an API answers with, `exit` the exit code of the command line,
 * `retry` what the caller must do: never = the same call fails again, later = try again after a pause,
 * pause = a person has to act first. `cause` says what has happened in general, where the message says what exactly;
 * `cure` is the next step, shown after the message. Both are in the documentation.
 */
export const ERRORS = {
  // Events and runs
  SCHEMA_VALIDATION_FAILED: {
    cause: 'An event, a reference or a request does not have the shape that its schema asks for.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Correct the fields that the message names.',
  },
  INVALID_TRANSITION: {
    cause: 'The state of the run or step does not allow this event: it has ended, or another event came first.',
    http: 409,
    retry: 'never',
    exit: 65,
    cure: 'Read the state of the run again before acting.',
  },
  EVENT_TOO_LARGE: {
    cause: 'The payload of an event is larger than the log takes, or too many events came in one call.',
    http: 413,
    retry: 'never',
    exit: 65,
    cure: 'Store the value as an artifact and send its reference.',
  },
  EMITTER_NOT_ALLOWED: {
    cause: 'The producer wrote an event that only another role may write.',
    http: 403,
    retry: 'never',
    exit: 77,
    cure: 'Let the emitter of the catalogue write this event.',
  },
  LEGACY_EVENT_TYPE: {
    cause: 'A producer of this system used the old name of an event.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Emit the canonical type that the message names.',
  },
  RUN_NOT_FOUND: {
    cause: 'No run has this id, or it belongs to another tenant or another database.',
    http: 404,
    retry: 'never',
    exit: 66,
    cure: 'Check the run id and the database.',
  },
  STEP_NOT_FOUND: {
    cause: 'The run and its plan have no step of this name.',
    http: 404,
    retry: 'never',
    exit: 66,
    cure: 'See its steps: runledger status RUN.',
  },
  RUN_EXISTS: {
    cause: 'Another run has this id.',
    http: 409,
    retry: 'never',
    exit: 65,
    cure: 'Choose another run id.',
  },
  RUN_AMBIGUOUS: {
    cause: 'The beginning of the id fits several runs.',
    http: 409,
    retry: 'never',
    exit: 66,
    cure: 'Give more characters of the run id.',
  },
  HEAD_MOVED: {
    cause: 'Somebody else decided about the run in the meantime.',
    http: 409,
    retry: 'later',
    exit: 75,
    cure: 'Fold the events that are missing and decide again.',
  },
  LEASE_LOST: {
    cause: 'The worker took too long or was cut off, and its work was given to another one.',
    http: 409,
    retry: 'never',
    exit: 75,
    cure: 'Somebody else goes on with the work; do nothing.',
  },
  EFFECT_TAKEN: {
    cause: 'Another call has the key of this effect.',
    http: 409,
    retry: 'never',
    exit: 75,
    cure: 'Read the receipt and go on with what it says.',
  },
  PAYLOAD_ERASED: {
    cause: 'The payload that is needed was erased.',
    http: 410,
    retry: 'never',
    exit: 65,
    cure: 'The payload was erased on purpose; it cannot be brought back.',
  },
  CHAIN_BROKEN: {
    cause: 'A record of the log is not as it was written, is missing, or was put in later.',
    http: 409,
    retry: 'never',
    exit: 65,
    cure: 'Do not trust this log; compare it with a backup or a bundle.',
  },
  // Plans and playbooks
  PLAYBOOK_INVALID: {
    cause: 'The playbook does not compile.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Correct the problems that are listed.',
  },
  INVALID_STEP_SCHEMA: {
    cause:
      'A plan, or the rendered fields of a task, have something that the tool or the language does not know, or lack something.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Correct the field that the message names.',
  },
  PLAN_INTEGRITY_VALIDATION_FAILED: {
    cause: 'The bytes of the plan do not have the hash that its reference promises.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Compile again; do not run a plan that was changed.',
  },
  PLAN_URI_NOT_ALLOWED: {
    cause: 'The reference of the plan leads to a place that is not on the allowlist.',
    http: 403,
    retry: 'never',
    exit: 77,
    cure: 'Add the location to the allowlist, or store the plan elsewhere.',
  },
  PLAN_SCHEMA_VERSION_UNSUPPORTED: {
    cause: 'The plan was written by a version that is too old or too new.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Compile the playbook with this version.',
  },
  PLAN_EXPIRED: {
    cause: 'The reference of the plan has passed its date.',
    http: 410,
    retry: 'never',
    exit: 65,
    cure: 'Compile the playbook again.',
  },
  PLAN_TOO_LARGE: {
    cause: 'The plan has more bytes than are taken.',
    http: 413,
    retry: 'never',
    exit: 65,
    cure: 'Split the playbook, or raise the limit.',
  },
  PLAN_NOT_FOUND: {
    cause: 'The store has no plan of this hash or name.',
    http: 404,
    retry: 'never',
    exit: 66,
    cure: 'Compile the playbook, or check the reference.',
  },
  PLAN_UNREACHABLE: {
    cause: 'The place where the plan is kept does not answer.',
    http: 503,
    retry: 'later',
    exit: 69,
    cure: 'Check that the place answers; the run goes on by itself when it does.',
  },
  SECRET_IN_PLAN: {
    cause: 'The playbook holds what looks like a secret value.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Put the value into the secrets provider and name it with `auth` or `keychain`.',
  },
  CAPABILITY_NOT_SUPPORTED: {
    cause: 'The plan asks for something that the engine cannot do.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Choose another engine, or allow a fallback.',
  },
  // Templates and routing
  TEMPLATE_SYNTAX: {
    cause: 'A template cannot be read.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Correct the template.',
  },
  TEMPLATE_UNDEFINED: {
    cause: 'A template uses a name that has no value here.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Use a name that exists here, or the filter default().',
  },
  TEMPLATE_TYPE: {
    cause: 'A filter or an operator got a value of the wrong type, such as a text to divide.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Convert the value, or correct the template.',
  },
  TEMPLATE_FORBIDDEN: {
    cause: 'A template tries something that templates may not do.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Templates read values; they cannot change them.',
  },
  TEMPLATE_LIMIT: {
    cause: 'A template takes too long or gives too much.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Make the template smaller, or move the work into a task.',
  },
  LOOP_NOT_A_LIST: {
    cause: 'What `loop.in` gives is no list.',
    http: 422,
    retry: 'never',
    exit: 1,
    cure: 'Make `loop.in` give a list.',
  },
  LOOP_ITERATIONS_FAILED: {
    cause: 'Iterations of a loop failed, and nothing takes care of that.',
    http: 500,
    retry: 'never',
    exit: 1,
    cure: '`runledger events RUN --type LoopIterationFailed` shows what each of them met.',
  },
  CTX_CONFLICT: {
    cause: 'Parallel iterations wrote different values under one key of `ctx`.',
    http: 409,
    retry: 'never',
    exit: 1,
    cure: 'Let only one iteration write this key.',
  },
  JUMP_LIMIT: {
    cause: 'A pipeline jumped back more often than is allowed.',
    http: 422,
    retry: 'never',
    exit: 1,
    cure: 'Give the jump a condition that ends.',
  },
  STEP_LIMIT: {
    cause: 'The run has more step instances than are allowed.',
    http: 422,
    retry: 'never',
    exit: 1,
    cure: 'Give the cycle a condition that ends, or raise the limit.',
  },
  NO_NEXT: {
    cause: 'No arc of the step matched, and the playbook calls that an error.',
    http: 422,
    retry: 'never',
    exit: 1,
    cure: 'Add an arc that matches, or leave out no_next_is_error.',
  },
  // Tasks
  TASK_FAILED: {
    cause: 'A task failed, or its policy said `fail`.',
    http: 500,
    retry: 'never',
    exit: 1,
    cure: 'See the error of the task.',
  },
  TASK_TIMEOUT: {
    cause: 'A call of a tool took longer than its time-out.',
    http: 504,
    retry: 'later',
    exit: 1,
    cure: 'Raise spec.timeout, or make the call faster.',
  },
  STEP_TIMEOUT: {
    cause: 'The step took longer than its lifecycle allows.',
    http: 504,
    retry: 'never',
    exit: 1,
    cure: 'Raise lifecycle.timeout_s, or split the step.',
  },
  TOOL_UNAVAILABLE: {
    cause: 'No tool of this kind is built in or defined, or what it needs is not installed.',
    http: 501,
    retry: 'pause',
    exit: 69,
    cure: 'Install or define the tool that the message names.',
  },
  RUN_FAILED: {
    cause: 'The run failed; the error of the step that began it is in `details.error`.',
    http: 500,
    retry: 'never',
    exit: 1,
    cure: 'See which step failed: runledger status RUN.',
  },
  CHILD_RUN_FAILED: {
    cause: 'The sub-playbook that the step waited for failed or was cancelled.',
    http: 500,
    retry: 'never',
    exit: 1,
    cure: 'See what happened in the child run: runledger status CHILD.',
  },
  WRITE_BUDGET_EXCEEDED: {
    cause: 'The log did not take the end of the step in time.',
    http: 503,
    retry: 'later',
    exit: 75,
    cure: 'The database was too slow; retry the step.',
  },
  POLICY_DENIED: {
    cause: 'A policy denied the write.',
    http: 403,
    retry: 'never',
    exit: 77,
    cure: 'Change the action, or the policy that denies it.',
  },
  APPROVAL_REJECTED: {
    cause: 'A person rejected the write.',
    http: 403,
    retry: 'never',
    exit: 77,
    cure: 'Talk to the person who rejected it.',
  },
  APPROVAL_EXPIRED: {
    cause: 'Nobody approved the write in time.',
    http: 403,
    retry: 'never',
    exit: 77,
    cure: 'Retry the run and have it approved in time.',
  },
  CANCELLED: {
    cause: 'Somebody cancelled the run.',
    http: 409,
    retry: 'never',
    exit: 130,
    cure: 'The run was cancelled; start or retry it.',
  },
  NOTHING_TO_SETTLE: {
    cause: 'No step of the run, or more than one, waits for a person to say what became of its write.',
    http: 409,
    retry: 'never',
    exit: 65,
    cure: '`runledger status RUN` shows what the run waits for.',
  },
  SIGNAL_REJECTED: {
    cause: 'The run is in a state in which it does not take this signal.',
    http: 409,
    retry: 'never',
    exit: 65,
    cure: 'Read the reason; the state does not allow this signal.',
  },
  READ_ONLY_VIOLATION: {
    cause: 'A statement that was taken for a read tried to write.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Declare `effect: {class: write}` on the task, so that it passes the gate of writes.',
  },
  URL_NOT_ALLOWED: {
    cause: 'The address, or one that its name resolves to, is of a class that is refused or is on the deny list.',
    http: 403,
    retry: 'never',
    exit: 77,
    cure: 'Put it into `addresses.allow` of the configuration, if calls to it are meant.',
  },
  SCRIPT_UNREACHABLE: {
    cause: 'The place where the script is kept does not answer.',
    http: 503,
    retry: 'later',
    exit: 69,
    cure: 'Check that the address of the script answers.',
  },
  RESULT_NOT_JSON: {
    cause: 'A program gave back something that JSON has no word for.',
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Give back what JSON can say: text, numbers, true, false, null, lists and mappings.',
  },
  RESULT_NOT_FOUND: {
    cause: 'The run or the step has no result, or not yet.',
    http: 404,
    retry: 'never',
    exit: 66,
    cure: 'See which steps have ended: runledger status RUN.',
  },
  RESULT_TOO_LARGE: {
    cause: 'A result is larger than the tool hands over.',
    http: 422,
    retry: 'never',
    exit: 1,
    cure: 'Give back less, or raise the limit of the tool.',
  },
  RESPONSE_TOO_LARGE: {
    cause: 'The answer of a server is larger than the tool reads.',
    http: 502,
    retry: 'never',
    exit: 1,
    cure: 'Ask for less at a time, or raise the limit.',
  },
  SECRET_NOT_FOUND: {
    cause: 'No provider has a secret of this name for this tenant and environment.',
    http: 424,
    retry: 'pause',
    exit: 78,
    cure: 'Do what the message says, or put the secret into your own provider for this tenant and environment.',
  },
  SECRET_UNAVAILABLE: {
    cause: 'The server that gives the token does not answer.',
    http: 503,
    retry: 'later',
    exit: 69,
    cure: 'Check that the endpoint of the keychain entry answers.',
  },
  SECRET_INVALID: {
    cause: 'The secret is there, but not in the shape that the tool needs.',
    http: 424,
    retry: 'pause',
    exit: 78,
    cure: 'Give the secret the shape that the tool expects.',
  },
  ARTIFACT_NOT_FOUND: {
    cause: 'The artifact that a reference names is not in the store.',
    http: 404,
    retry: 'never',
    exit: 66,
    cure: 'Check the reference and the artifact store.',
  },
  ARTIFACT_CORRUPT: {
    cause: 'The bytes of the artifact do not have the hash that the reference promises.',
    http: 409,
    retry: 'never',
    exit: 65,
    cure: 'Do not use these bytes; restore the artifact from a backup.',
  },
  // The ground
  CONFIG_INVALID: {
    cause: 'The configuration file or an option cannot be used.',
    http: 500,
    retry: 'never',
    exit: 78,
    cure: 'Correct the configuration value that the message names.',
  },
  ENGINE_UNAVAILABLE: {
    cause: 'The server of the engine that schedules the run cannot be reached, or refuses this client.',
    http: 503,
    retry: 'later',
    exit: 69,
    cure: 'Check that the engine runs, its address, its namespace and the credentials.',
  },
  STORE_UNAVAILABLE: {
    cause: 'The database cannot be reached.',
    http: 503,
    retry: 'later',
    exit: 69,
    cure: 'Check that the database runs, and that DATABASE_URL (or databaseUrl in the configuration) leads to it.',
  },
  STORE_SCHEMA_TOO_NEW: {
    cause: 'A newer version of Runledger changed the schema in a way that this one does not know.',
    http: 503,
    retry: 'pause',
    exit: 69,
    cure: 'Upgrade Runledger; a newer version changed the schema.',
  },
  STORE_SCHEMA_TOO_OLD: {
    cause: 'The database lacks migrations that this version needs.',
    http: 503,
    retry: 'pause',
    exit: 69,
    cure: 'Run the migrations.',
  },
  MIGRATION_FAILED: {
    cause: 'The database refused a migration, of which nothing was applied, or its schema is that of another build.',
    http: 503,
    retry: 'pause',
    exit: 69,
    cure: 'Correct what the message of the database names, and run again: runledger migrate.',
  },
  EMBEDDED_UNAVAILABLE: {
    cause: 'There are no Postgres binaries for this platform here.',
    http: 503,
    retry: 'pause',
    exit: 69,
    cure: 'Install the platform package, or set DATABASE_URL.',
  },
  EMBEDDED_DATA_VERSION: {
    cause: 'The data folder was written by another major version of Postgres.',
    http: 503,
    retry: 'pause',
    exit: 69,
    cure: 'Dump with the old version, or remove the data folder.',
  },
  EMBEDDED_START_FAILED: {
    cause: 'The embedded Postgres did not start.',
    http: 503,
    retry: 'later',
    exit: 69,
    cure: 'Read the log of the embedded server.',
  },
  EMBEDDED_FOLDER_UNUSABLE: {
    cause: 'The folder cannot be made, written or used for a socket.',
    http: 503,
    retry: 'pause',
    exit: 69,
    cure: 'Choose another folder, or set DATABASE_URL.',
  },
  EMBEDDED_IN_USE: {
    cause: 'A Postgres that is not ours runs on the data folder.',
    http: 503,
    retry: 'pause',
    exit: 69,
    cure: 'Stop the other server of this data folder.',
  },
  DEPENDENCY_MISSING: {
    cause: 'An optional package is not installed.',
    http: 501,
    retry: 'pause',
    exit: 69,
    cure: 'Install the package that the message names.',
  },
  FILE_NOT_READABLE: {
    cause: 'The file does not exist or may not be read.',
    http: 400,
    retry: 'never',
    exit: 66,
    cure: 'Check the name of the file and its permissions.',
  },
  FILE_EXISTS: {
    cause: 'A file that would be written is there already.',
    http: 409,
    retry: 'never',
    exit: 73,
    cure: 'Choose another folder, or move the file away.',
  },
  FILE_NOT_WRITABLE: {
    cause: 'A file or folder may not be written.',
    http: 400,
    retry: 'never',
    exit: 73,
    cure: 'Check the permissions of the folder, or choose another one.',
  },
  DISK_FULL: {
    cause: 'The disk has no space left.',
    http: 507,
    retry: 'pause',
    exit: 74,
    cure: 'Free some space and try again; what was recorded is kept.',
  },
  USAGE: {
    cause: 'The command or the call is not written as it should be.',
    http: 400,
    retry: 'never',
    exit: 64,
    cure: 'See runledger --help.',
  },
  INTERNAL: {
    cause: 'Something happened that the code does not expect.',
    http: 500,
    retry: 'never',
    exit: 70,
    cure: 'This is a defect of Runledger; please report it.',
  },
} as const satisfies Record<string, ErrorRow>;

interface ErrorRow {
  readonly cause: string;
  readonly http: number;
  readonly retry: 'never' | 'later' | 'pause';
  readonly exit: number;
  readonly cure: string;
}

export type ErrorCode = keyof typeof ERRORS;

/** The only error class. `details` is data for machines and never holds a stack trace or a secret. */
export class AppError extends Error {
  override readonly name = 'AppError';
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, details: Record<string, unknown> = {}, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
    this.details = details;
  }

  get retryable(): boolean {
    return ERRORS[this.code].retry === 'later';
  }
}
