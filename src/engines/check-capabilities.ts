import { type ValidationReport, validatePlan } from '../compiler/validate-plan.ts';
import { AppError } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import type { EngineName } from '../contracts/values.ts';

/** What every engine asks before it starts a run: the report to keep with the run, or no run at all. */
export function checkCapabilities(plan: Plan, engine: EngineName): ValidationReport {
  const report = validatePlan(plan, engine);
  if (report.status !== 'ERRORS') return report;
  const text = report.errors.map((error) => error.message).join('; ');
  throw new AppError('CAPABILITY_NOT_SUPPORTED', `The plan cannot run here: ${text}`, { report });
}
