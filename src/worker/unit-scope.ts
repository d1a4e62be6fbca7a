import type { PipelineContext } from '../kernel/pipeline-scope.ts';
import type { ArtifactStore } from '../tools/tool.ts';
import { fetchValues } from './store-result.ts';
import type { UnitHost } from './unit-host.ts';

/** What the kernel is asked with about a unit; stored values are fetched as it needs them. */
export class UnitScope {
  readonly #artifacts: ArtifactStore;
  readonly #host: UnitHost;
  #values: Record<string, unknown> = {};

  constructor(artifacts: ArtifactStore, host: UnitHost) {
    this.#artifacts = artifacts;
    this.#host = host;
  }

  context(): PipelineContext {
    const { view, place, item } = this.#host;
    return {
      plan: view.plan,
      state: view.state,
      stepId: place.stepId,
      attempt: place.attempt,
      ...(place.index === undefined ? {} : { iteration: { index: place.index, item } }),
      values: this.#values,
      random: Math.random(),
    };
  }

  /** The kernel's answer, asked again with every stored value that it misses. */
  async answer<T extends object>(ask: () => T | { readonly need: readonly string[] }): Promise<T> {
    for (;;) {
      const answer = ask();
      if (!('need' in answer) || !Array.isArray(answer.need)) return answer as T;
      this.#values = await fetchValues(this.#artifacts, answer.need, this.#values);
    }
  }
}
