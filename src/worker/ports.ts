import type { ToolRegistry } from '../tools/registry.ts';
import type { ArtifactStore, ProposedAction } from '../tools/tool.ts';
import type { ScriptSources } from './load-script.ts';
import type { OAuthTokens } from './oauth-tokens.ts';

/** Where secrets come from. Values stay on the worker: they are never logged, recorded or put into a plan. */
export interface SecretsProvider {
  resolve(name: string, scope: { readonly tenantId: string; readonly environmentId: string }): Promise<unknown>;
}

/** An action before it happens, as a policy judges it and the receipt records it. No values, only names. */
export interface EffectAction extends ProposedAction {
  readonly connector: string;
  readonly key: string;
  readonly tier: 'low' | 'med' | 'high';
  /** SHA-256 of what the action does, its values included: another action has another digest. */
  readonly digest: string;
}

export interface PolicyDecision {
  readonly decision: 'allow' | 'deny' | 'needs_approval';
  readonly policies: readonly string[];
  readonly revision?: string;
  readonly reason?: string;
}

export interface EffectScope {
  readonly tenantId: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly runId: string;
  readonly stepId: string;
}

/** Asked before every write. */
export interface PolicyPort {
  evaluate(action: EffectAction, scope: EffectScope): Promise<PolicyDecision>;
}

/** Permits, and says in the log that nobody configured a policy. */
export const NO_POLICY: PolicyPort = {
  evaluate: async () => ({ decision: 'allow', policies: [], reason: 'No policy is configured.' }),
};

/** A line that a task printed. */
export interface LogLine {
  readonly tenantId: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly runId: string;
  readonly stepId: string;
  readonly entity: string;
  readonly logicalAttemptId: number;
  readonly engineAttemptId: number;
  readonly stream: 'stdout' | 'stderr' | 'log';
  readonly line: string;
}

/** What the step runner uses of its surroundings. */
export interface RunnerPorts {
  readonly tokens: OAuthTokens;
  readonly scripts: ScriptSources;
  readonly tools: ToolRegistry;
  readonly artifacts: ArtifactStore;
  readonly secrets: SecretsProvider;
  readonly policy: PolicyPort;
  readonly log?: (line: LogLine) => void;
}
