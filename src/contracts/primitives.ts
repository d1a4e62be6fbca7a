import Type from 'typebox';

/**
 * Fields of the idempotency key may not hold its delimiter. Postgres text can hold neither NUL nor half a surrogate pair:
 * the latter would come back as another character, and the record hash would not fit any more.
 */
const KEY_PART = '^[^|\\u0000\\ud800-\\udfff]+$';

export const KeyPart = Type.String({ minLength: 1, maxLength: 512, pattern: KEY_PART });
export const Id = Type.String({ minLength: 1, maxLength: 512, pattern: '^[^\\u0000\\ud800-\\udfff]+$' });
export const Text = Type.String({ maxLength: 65_536 });
export const Sha256Hex = Type.String({ pattern: '^[0-9a-f]{64}$' });
export const UuidV4 = Type.String({ pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' });
export const Uuid = Type.String({ pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' });
/** RFC 3339 in UTC; kept as the text that was sent. */
export const UtcTime = Type.String({
  pattern:
    '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])T([01]\\d|2[0-3]):[0-5]\\d:([0-5]\\d|60)(\\.\\d{1,9})?(Z|\\+00:00)$',
});
export const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** 32 bits: an attempt is counted by people and engines, not by machines in a loop. */
export const Attempt = Type.Integer({ minimum: 1, maximum: 2_147_483_647 });
/** Any JSON value that a playbook computes. */
export const Json = Type.Unknown();
export const JsonObject = Type.Record(Type.String(), Type.Unknown());
