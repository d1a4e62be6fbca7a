/** What the compiler takes at most. A file beyond one of these gets the problem TOO_LARGE, never a slow or dead process. */
export const LIMITS = {
  /** Characters of one file. */
  sourceLength: 1_048_576,
  /** Lexical tokens of one file: the YAML library needs about 2 microseconds and 300 bytes for each. */
  tokens: 400_000,
  /** Collections inside each other; the library composes them recursively. */
  depth: 64,
  /** Values of one file after its aliases are written out. */
  nodes: 250_000,
  steps: 10_000,
  tasksPerStep: 500,
  arcs: 100_000,
  /** Names over all `reaches`, which grow with steps times joins. */
  joinPairs: 1_000_000,
  /** Playbooks that one playbook may pull in, and how deep. */
  children: 500,
  childDepth: 32,
  planBytes: 8_388_608,
  /** Names that are compared in search of what the author meant. */
  comparisons: 50_000,
  /** Problems that are kept per file; the rest is counted. */
  problems: 200,
} as const;
