/**
 * The one table of error codes. `http` is the status an API answers with, `exit` the exit code of the command line,
 * `retry` what the caller must do: never = the same call fails again, later = try again after a pause,
 * pause = a person has to act first. `cure` is the next step, shown after the message and in the documentation.
 */
export const ERRORS = {
  // Events and runs
  SCHEMA_VALIDATION_FAILED: { http: 422, retry: 'never', exit: 65, cure: 'Correct the fields that the message names.' },
  INVALID_TRANSITION: { http: 409, retry: 'never', exit: 65, cure: 'Read the state of the run again before acting.' },
  EVENT_TOO_LARGE: {
    http: 413,
    retry: 'never',
    exit: 65,
    cure: 'Store the value as an artifact and send its reference.',
  },
  EMITTER_NOT_ALLOWED: {
    http: 403,
    retry: 'never',
    exit: 77,
    cure: 'Let the emitter of the catalogue write this event.',
  },
  LEGACY_EVENT_TYPE: { http: 422, retry: 'never', exit: 65, cure: 'Emit the canonical type that the message names.' },
  RUN_NOT_FOUND: { http: 404, retry: 'never', exit: 66, cure: 'Check the run id and the database.' },
  RUN_EXISTS: { http: 409, retry: 'never', exit: 65, cure: 'Choose another run id.' },
  RUN_AMBIGUOUS: { http: 409, retry: 'never', exit: 66, cure: 'Give more characters of the run id.' },
  HEAD_MOVED: { http: 409, retry: 'later', exit: 75, cure: 'Fold the events that are missing and decide again.' },
  LEASE_LOST: { http: 409, retry: 'never', exit: 75, cure: 'Somebody else goes on with the work; do nothing.' },
  EFFECT_TAKEN: { http: 409, retry: 'never', exit: 75, cure: 'Read the receipt and go on with what it says.' },
  PAYLOAD_ERASED: {
    http: 410,
    retry: 'never',
    exit: 65,
    cure: 'The payload was erased on purpose; it cannot be brought back.',
  },
  CHAIN_BROKEN: {
    http: 409,
    retry: 'never',
    exit: 65,
    cure: 'Do not trust this log; compare it with a backup or a bundle.',
  },
  // Plans and playbooks
  PLAYBOOK_INVALID: { http: 422, retry: 'never', exit: 65, cure: 'Correct the problems that are listed.' },
  INVALID_STEP_SCHEMA: {
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Remove or rename the field that the message names.',
  },
  PLAN_INTEGRITY_VALIDATION_FAILED: {
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Compile again; do not run a plan that was changed.',
  },
  PLAN_URI_NOT_ALLOWED: {
    http: 403,
    retry: 'never',
    exit: 77,
    cure: 'Add the location to the allowlist, or store the plan elsewhere.',
  },
  PLAN_SCHEMA_VERSION_UNSUPPORTED: {
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Compile the playbook with this version.',
  },
  PLAN_EXPIRED: { http: 410, retry: 'never', exit: 65, cure: 'Compile the playbook again.' },
  PLAN_TOO_LARGE: { http: 413, retry: 'never', exit: 65, cure: 'Split the playbook, or raise the limit.' },
  PLAN_NOT_FOUND: { http: 404, retry: 'never', exit: 66, cure: 'Compile the playbook, or check the reference.' },
  SECRET_IN_PLAN: {
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Put the value into the secrets provider and name it with `auth` or `keychain`.',
  },
  CAPABILITY_NOT_SUPPORTED: {
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Choose another engine, or allow a fallback.',
  },
  // Templates and routing
  TEMPLATE_SYNTAX: { http: 422, retry: 'never', exit: 65, cure: 'Correct the template.' },
  TEMPLATE_UNDEFINED: {
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Use a name that exists here, or the filter default().',
  },
  TEMPLATE_TYPE: { http: 422, retry: 'never', exit: 65, cure: 'Convert the value, or correct the filter.' },
  TEMPLATE_FORBIDDEN: { http: 422, retry: 'never', exit: 65, cure: 'Templates read values; they cannot change them.' },
  TEMPLATE_LIMIT: {
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Make the template smaller, or move the work into a task.',
  },
  LOOP_NOT_A_LIST: { http: 422, retry: 'never', exit: 1, cure: 'Make `loop.in` give a list.' },
  LOOP_ITERATIONS_FAILED: { http: 500, retry: 'never', exit: 1, cure: 'See the failed iterations.' },
  CTX_CONFLICT: { http: 409, retry: 'never', exit: 1, cure: 'Let only one iteration write this key.' },
  JUMP_LIMIT: { http: 422, retry: 'never', exit: 1, cure: 'Give the jump a condition that ends.' },
  STEP_LIMIT: { http: 422, retry: 'never', exit: 1, cure: 'Give the cycle a condition that ends, or raise the limit.' },
  NO_NEXT: { http: 422, retry: 'never', exit: 1, cure: 'Add an arc that matches, or leave out no_next_is_error.' },
  // Tasks
  TASK_FAILED: { http: 500, retry: 'never', exit: 1, cure: 'See the error of the task.' },
  TASK_TIMEOUT: { http: 504, retry: 'later', exit: 1, cure: 'Raise spec.timeout, or make the call faster.' },
  STEP_TIMEOUT: { http: 504, retry: 'never', exit: 1, cure: 'Raise lifecycle.timeout_s, or split the step.' },
  TOOL_UNAVAILABLE: { http: 501, retry: 'pause', exit: 69, cure: 'Install or define the tool that the message names.' },
  RUN_FAILED: { http: 500, retry: 'never', exit: 1, cure: 'See which step failed: runledger status RUN.' },
  CHILD_RUN_FAILED: { http: 500, retry: 'never', exit: 1, cure: 'See the child run.' },
  WRITE_BUDGET_EXCEEDED: { http: 503, retry: 'later', exit: 75, cure: 'The database was too slow; retry the step.' },
  POLICY_DENIED: { http: 403, retry: 'never', exit: 77, cure: 'Change the action, or the policy that denies it.' },
  APPROVAL_REJECTED: { http: 403, retry: 'never', exit: 77, cure: 'Talk to the person who rejected it.' },
  APPROVAL_EXPIRED: { http: 403, retry: 'never', exit: 77, cure: 'Retry the run and have it approved in time.' },
  CANCELLED: { http: 409, retry: 'never', exit: 130, cure: 'The run was cancelled; start or retry it.' },
  SIGNAL_REJECTED: {
    http: 409,
    retry: 'never',
    exit: 65,
    cure: 'Read the reason; the state does not allow this signal.',
  },
  READ_ONLY_VIOLATION: {
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Declare `effect: {class: write}` on the task, so that it passes the gate of writes.',
  },
  URL_NOT_ALLOWED: {
    http: 403,
    retry: 'never',
    exit: 77,
    cure: 'Allow the address in the configuration, if calls to it are meant.',
  },
  RESULT_NOT_JSON: {
    http: 422,
    retry: 'never',
    exit: 65,
    cure: 'Give back what JSON can say: text, numbers, true, false, null, lists and mappings.',
  },
  RESULT_NOT_FOUND: { http: 404, retry: 'never', exit: 66, cure: 'See which steps have ended: runledger status RUN.' },
  RESULT_TOO_LARGE: { http: 422, retry: 'never', exit: 1, cure: 'Give back less, or raise the limit of the tool.' },
  RESPONSE_TOO_LARGE: { http: 502, retry: 'never', exit: 1, cure: 'Ask for less at a time, or raise the limit.' },
  SECRET_NOT_FOUND: {
    http: 424,
    retry: 'pause',
    exit: 78,
    cure: 'Put the secret into the secrets provider under this name, for this tenant and environment.',
  },
  SECRET_INVALID: {
    http: 424,
    retry: 'pause',
    exit: 78,
    cure: 'Give the secret the shape that the tool expects.',
  },
  ARTIFACT_NOT_FOUND: { http: 404, retry: 'never', exit: 66, cure: 'Check the reference and the artifact store.' },
  ARTIFACT_CORRUPT: {
    http: 409,
    retry: 'never',
    exit: 65,
    cure: 'Do not use these bytes; restore the artifact from a backup.',
  },
  // The ground
  CONFIG_INVALID: {
    http: 500,
    retry: 'never',
    exit: 78,
    cure: 'Correct the configuration value that the message names.',
  },
  STORE_UNAVAILABLE: { http: 503, retry: 'later', exit: 69, cure: 'Check that the database runs and can be reached.' },
  STORE_SCHEMA_TOO_NEW: {
    http: 503,
    retry: 'pause',
    exit: 69,
    cure: 'Upgrade Runledger; a newer version changed the schema.',
  },
  STORE_SCHEMA_TOO_OLD: { http: 503, retry: 'pause', exit: 69, cure: 'Run the migrations.' },
  MIGRATION_FAILED: { http: 503, retry: 'pause', exit: 69, cure: 'Read the message of the database.' },
  EMBEDDED_UNAVAILABLE: {
    http: 503,
    retry: 'pause',
    exit: 69,
    cure: 'Install the platform package, or set DATABASE_URL.',
  },
  EMBEDDED_DATA_VERSION: {
    http: 503,
    retry: 'pause',
    exit: 69,
    cure: 'Dump with the old version, or remove the data folder.',
  },
  EMBEDDED_START_FAILED: { http: 503, retry: 'later', exit: 69, cure: 'Read the log of the embedded server.' },
  EMBEDDED_FOLDER_UNUSABLE: {
    http: 503,
    retry: 'pause',
    exit: 69,
    cure: 'Choose another folder, or set DATABASE_URL.',
  },
  EMBEDDED_IN_USE: { http: 503, retry: 'pause', exit: 69, cure: 'Stop the other server of this data folder.' },
  DEPENDENCY_MISSING: { http: 501, retry: 'pause', exit: 69, cure: 'Install the package that the message names.' },
  FILE_NOT_READABLE: { http: 400, retry: 'never', exit: 66, cure: 'Check the name of the file and its permissions.' },
  FILE_EXISTS: { http: 409, retry: 'never', exit: 73, cure: 'Choose another folder, or move the file away.' },
  FILE_NOT_WRITABLE: {
    http: 400,
    retry: 'never',
    exit: 73,
    cure: 'Check the permissions of the folder, or choose another one.',
  },
  DISK_FULL: {
    http: 507,
    retry: 'pause',
    exit: 74,
    cure: 'Free some space and try again; what was recorded is kept.',
  },
  USAGE: { http: 400, retry: 'never', exit: 64, cure: 'See --help.' },
  INTERNAL: { http: 500, retry: 'never', exit: 70, cure: 'This is a defect of Runledger; please report it.' },
} as const satisfies Record<string, ErrorRow>;

interface ErrorRow {
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
