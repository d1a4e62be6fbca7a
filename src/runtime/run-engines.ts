/** The engines that runs can be placed on. */
export const RUN_ENGINES = ['native', 'temporal'] as const;
export type RunEngine = (typeof RUN_ENGINES)[number];
