import { type ValidationReport, validatePlan } from '../compiler/validate-plan.ts';
import { AppError } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import type { EngineName } from '../contracts/values.ts';

/** What every engine asks before it starts a run: the report to keep with the run, or no run at all. */
export function checkCapabilities(plan: Plan, engine: EngineName): ValidationReport {
  const report = reportOf(plan, engine);
  if (report.status !== 'ERRORS') return report;
  const text = report.errors.map((error) => error.message).join('; ');
  throw new AppError('CAPABILITY_NOT_SUPPORTED', `The plan cannot run here: ${text}`, { report });
}

const REPORTS = new WeakMap<Plan, Map<EngineName, ValidationReport>>();

/** Plans do not change, and many runs follow one. */
function reportOf(plan: Plan, engine: EngineName): ValidationReport {
  const known = REPORTS.get(plan) ?? new Map<EngineName, ValidationReport>();
  REPORTS.set(plan, known);
  const report = known.get(engine) ?? validatePlan(plan, engine);
  known.set(engine, report);
  return report;
}
