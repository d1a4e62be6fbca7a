import { canonicalJson } from '../lib/canonical-json.ts';
import { sha256Hex } from '../lib/hash.ts';
import type { CallPlace } from './tool.ts';

/**
 * The default key of a write. The entity says which call of the run it is, without the attempt, so that a retry finds what an
 * earlier attempt did while two iterations that send the same are two effects; the digest tells changed input apart.
 */
export function defaultEffectKey(operation: string, target: string, place: CallPlace, identity: unknown): string {
  const entity = place.entity.replace(/@\d+$/, '');
  return `${operation}:${target}:${entity}:${sha256Hex(canonicalJson(identity)).slice(0, 32)}`;
}

/**
 * The key as a destination gets it: of one length and alphabet that every destination takes, and different for every tenant,
 * because two tenants may write to one destination with keys that their authors chose alike.
 */
export function destinationKey(key: string, place: CallPlace): string {
  return sha256Hex(`${place.tenantId}|${key}`);
}
