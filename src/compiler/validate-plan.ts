import type { ErrorCode } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import type { EngineName } from '../contracts/values.ts';
import { CAPABILITIES } from './capabilities.ts';
import { CAPABILITY_MATRIX, type CapabilityRow, type CapabilitySupport } from './capability-matrix.ts';

type ValidationWarningCode = 'CAPABILITY_EMULATED' | 'CAPABILITY_DROPPED';

export interface ValidationReport {
  readonly planId: string;
  readonly status: 'VALID' | 'WARNINGS' | 'ERRORS';
  readonly errors: readonly { readonly code: ErrorCode; readonly capability: string; readonly message: string }[];
  readonly warnings: readonly { readonly code: ValidationWarningCode; readonly message: string }[];
}

/**
 * Compares what a plan demands with what an engine of the matrix, or another one's row, can do. A report with errors
 * refuses the start.
 */
export function validatePlan(plan: Plan, engine: EngineName | CapabilityRow): ValidationReport {
  const row: CapabilityRow = typeof engine === 'string' ? CAPABILITY_MATRIX[engine] : engine;
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
    if (native !== undefined) continue;
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
