import type { ErrorCode } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import { CAPABILITIES } from './capabilities.ts';

/** How an engine has a capability. Without a row it does not have it. */
interface CapabilitySupport {
  /** The engine does it itself. */
  readonly native?: boolean | undefined;
  /** How it can be done without the engine, for plans that say `emulate`. */
  readonly emulation?: string | undefined;
  /** What is lost without it, for plans that say `degrade`; absent if it cannot be left out. */
  readonly withoutIt?: string | undefined;
}

/** The row of one engine in the capability matrix. */
export interface CapabilityRow {
  readonly engine: string;
  readonly capabilities: Readonly<Record<string, CapabilitySupport>>;
}

type ValidationWarningCode = 'CAPABILITY_EMULATED' | 'CAPABILITY_DROPPED';

export interface ValidationReport {
  readonly planId: string;
  readonly status: 'VALID' | 'WARNINGS' | 'ERRORS';
  readonly errors: readonly { readonly code: ErrorCode; readonly capability: string; readonly message: string }[];
  readonly warnings: readonly { readonly code: ValidationWarningCode; readonly message: string }[];
}

/** Compares what a plan demands with what an engine can do. A report with errors refuses the start. */
export function validatePlan(plan: Plan, row: CapabilityRow): ValidationReport {
  const { planId, requiresCapabilities, fallbackBehavior = 'reject', targetAdapter = 'any' } = plan.metadata;
  const errors: { code: ErrorCode; capability: string; message: string }[] = [];
  const warnings: { code: ValidationWarningCode; message: string }[] = [];
  const refuse = (capability: string, message: string): void => {
    errors.push({ code: 'CAPABILITY_NOT_SUPPORTED', capability, message });
  };
  if (targetAdapter !== 'any' && targetAdapter !== row.engine) {
    refuse(`adapter:${targetAdapter}`, `the plan is made for ${targetAdapter}, not for ${row.engine}`);
  }
  for (const capability of requiresCapabilities ?? []) {
    const support = Object.hasOwn(row.capabilities, capability) ? row.capabilities[capability]! : {};
    const { native, emulation, withoutIt } = support;
    if (native) continue;
    const name = `${capability}${meaning(capability)}`;
    if (fallbackBehavior === 'emulate' && emulation !== undefined) {
      warnings.push({ code: 'CAPABILITY_EMULATED', message: `${row.engine} emulates ${name}: ${emulation}` });
    } else if (fallbackBehavior === 'degrade' && withoutIt !== undefined) {
      warnings.push({ code: 'CAPABILITY_DROPPED', message: `${row.engine} runs without ${name}: ${withoutIt}` });
    } else {
      refuse(capability, `${row.engine} does not have ${name}; ${advice(fallbackBehavior, support)}`);
    }
  }
  const status = errors.length > 0 ? 'ERRORS' : warnings.length > 0 ? 'WARNINGS' : 'VALID';
  return { planId, status, errors, warnings };
}

function meaning(capability: string): string {
  return Object.hasOwn(CAPABILITIES, capability) ? ` (${CAPABILITIES[capability as keyof typeof CAPABILITIES]})` : '';
}

function advice(fallback: string, { emulation, withoutIt }: CapabilitySupport): string {
  const other = emulation !== undefined ? 'emulate' : withoutIt !== undefined ? 'degrade' : undefined;
  return other === undefined || other === fallback
    ? 'choose another engine'
    : `choose another engine, or say fallbackBehavior: ${other}`;
}
