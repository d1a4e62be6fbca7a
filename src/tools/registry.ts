import { AppError } from '../contracts/errors.ts';
import { closestName } from '../lib/closest-name.ts';
import { fieldsFromInput } from './fields-from-input.ts';
import { inputChecker, refusedOutcome } from './outcomes.ts';
import type { CallContext, Tool, ToolOutcome } from './tool.ts';

export interface ToolRegistry {
  readonly kinds: readonly string[];
  /** The tool of that kind; throws TOOL_UNAVAILABLE with what to do. */
  get(kind: string): Tool;
  /**
   * The fields as the tool takes them: what `input` of the task gives is merged in where the tool has no `input` of its
   * own. Throws INVALID_STEP_SCHEMA that names the field.
   */
  prepare(tool: Tool, fields: Record<string, unknown>): Record<string, unknown>;
  /** Looks the tool up, checks the fields and calls it. Never throws: whatever happens is one outcome. */
  call(kind: string, fields: Record<string, unknown>, context: CallContext): Promise<ToolOutcome>;
  /** Closes every tool, also when one of them fails to. */
  close(): Promise<void>;
}

/** Kinds of the language that are not built in, and what to do about each. */
const NOT_BUILT_IN: Readonly<Record<string, string>> = {
  container: 'no container runtime is configured here; use `shell`, or define a tool of this kind',
  ducklake: 'use `duckdb` and attach the lake in its command, or define a tool of this kind',
  subscription: 'use a loop with `mode: cursor`, or define a tool of this kind',
  agent: 'define a tool of this kind that calls your agent',
  script: 'use `python`, `javascript` or `shell` with a `script`, or define a tool of this kind',
  snowflake: 'define a tool of this kind that calls your warehouse',
  nats: 'define a tool of this kind that calls your server',
  slack: "use `http` with Slack's API, or define a tool of this kind",
  servicenow: "use `http` with ServiceNow's API, or define a tool of this kind",
  llm: "use `http` with the provider's API, or define a tool of this kind",
};
/** Tasks that start something in the engine instead of calling out. */
const RUN_BY_ENGINE: readonly string[] = ['playbook', 'workbook'];

export function createToolRegistry(tools: readonly Tool[]): ToolRegistry {
  const byKind = new Map<string, Tool>();
  for (const tool of tools) {
    if (byKind.has(tool.kind)) {
      throw new AppError('CONFIG_INVALID', `two tools have the kind '${tool.kind}'`, { kind: tool.kind });
    }
    if (RUN_BY_ENGINE.includes(tool.kind)) {
      throw new AppError('CONFIG_INVALID', `the kind '${tool.kind}' belongs to the engine`, { kind: tool.kind });
    }
    byKind.set(tool.kind, tool);
  }
  // Compiled on first use: most runs need a few of the tools, and each schema costs about a millisecond.
  const checkers = new Map<Tool, (fields: Record<string, unknown>) => void>();
  let closing: Promise<void> | undefined;

  const get = (kind: string): Tool => {
    const tool = byKind.get(kind);
    if (!tool) throw unavailable(kind, [...byKind.keys()]);
    return tool;
  };
  const prepare = (tool: Tool, fields: Record<string, unknown>): Record<string, unknown> => {
    let check = checkers.get(tool);
    if (!check) {
      check = inputChecker(tool.kind, tool.input);
      checkers.set(tool, check);
    }
    const { properties } = tool.input as { properties?: Record<string, unknown> };
    const merged =
      properties && !Object.hasOwn(properties, 'input')
        ? fieldsFromInput(tool.input as Parameters<typeof fieldsFromInput>[0], fields)
        : fields;
    check(merged);
    return merged;
  };

  return {
    kinds: [...byKind.keys()].sort(),
    get,
    prepare,
    async call(kind, fields, context) {
      try {
        const tool = get(kind);
        return await tool.call(prepare(tool, fields), context);
      } catch (error) {
        return thrownOutcome(error);
      }
    },
    close() {
      closing ??= closeAll([...byKind.values()]);
      return closing;
    },
  };
}

function unavailable(kind: string, kinds: readonly string[]): AppError {
  const message = (): string => {
    if (RUN_BY_ENGINE.includes(kind)) return `'${kind}' is run by the engine and is no tool`;
    const advice = Object.hasOwn(NOT_BUILT_IN, kind) ? NOT_BUILT_IN[kind] : undefined;
    if (advice !== undefined) return `the tool '${kind}' is not built in: ${advice} with defineTool`;
    const near = closestName(kind, kinds);
    if (near !== undefined) return `there is no tool '${kind}'; did you mean '${near}'?`;
    return `there is no tool '${kind}'; define it with defineTool, or use one of ${[...kinds].sort().join(', ')}`;
  };
  return new AppError('TOOL_UNAVAILABLE', message(), { kind });
}

/** What a tool threw. A tool returns its failures, so this is a defect, except where the call was refused before it. */
function thrownOutcome(error: unknown): ToolOutcome {
  if (error instanceof AppError) {
    const kinds: Readonly<Record<string, string>> = { INVALID_STEP_SCHEMA: 'input', TOOL_UNAVAILABLE: 'tool' };
    return refusedOutcome(kinds[error.code] ?? 'internal', error);
  }
  const message = error instanceof Error ? error.message : String(error);
  return { status: 'error', error: { kind: 'internal', code: 'INTERNAL', message, retryable: false } };
}

async function closeAll(tools: readonly Tool[]): Promise<void> {
  const ends = await Promise.allSettled(tools.map(async (tool) => tool.close?.()));
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed) throw failed.reason;
}
