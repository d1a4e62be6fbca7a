export { CAPABILITY_MATRIX, type CapabilityRow } from '../compiler/capability-matrix.ts';
export {
  type CompileOptions,
  type CompileResult,
  compile,
  compileSync,
  type PlaybookSource,
} from '../compiler/compile.ts';
export { toDot, toMermaid } from '../compiler/draw-graph.ts';
export { explain } from '../compiler/explain.ts';
export { playbookJsonSchema } from '../compiler/json-schema.ts';
export { locateError } from '../compiler/locate-error.ts';
export { parsePlan } from '../compiler/parse-plan.ts';
export { formatProblems, PROBLEMS, type Problem } from '../compiler/problems.ts';
export { type ValidationReport, validatePlan } from '../compiler/validate-plan.ts';
