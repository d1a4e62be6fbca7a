import Type, { type Static } from 'typebox';
import { AppError } from '../../contracts/errors.ts';
import { sha256Hex } from '../../lib/hash.ts';
import { defineTool, toolFailure } from '../define-tool.ts';
import { inputProblem } from '../outcomes.ts';
import type { CallContext, Tool } from '../tool.ts';

const Encoding = Type.Enum(['json', 'text', 'base64']);

const ArtifactInput = Type.Object({
  action: Type.Enum(['get', 'put']),
  /** What to get: a reference, or the uri of one. */
  ref: Type.Optional(Type.Union([Type.String(), Type.Object({ uri: Type.String() }, { additionalProperties: true })])),
  /** What to put: a text, or any JSON. */
  data: Type.Optional(Type.Unknown()),
  /** How `data` is read, and how what is got is given. Without it JSON is JSON, a text is a text, and the rest base64. */
  encoding: Type.Optional(Encoding),
  /** Says how long it is kept. */
  artifact_kind: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
});
type ArtifactInput = Static<typeof ArtifactInput>;

const DEFAULT_KIND = 'artifact';
const MAX_GET_BYTES = 64 * 1024 * 1024;

/** Puts values into the artifact store and gets them back. The same bytes have one place, so putting twice is putting once. */
export function artifactTool(): Tool {
  return defineTool({
    kind: 'artifact',
    input: ArtifactInput,
    effect: ({ action }) => (action === 'put' ? 'write' : 'read'),
    describe: ({ action, artifact_kind: kind, ref }) => ({
      operation: action,
      target: action === 'put' ? (kind ?? DEFAULT_KIND) : (uriOf(ref) ?? 'no reference'),
    }),
    honoursKey: () => true,
    run: async (input, context) => (input.action === 'put' ? await put(input, context) : await get(input, context)),
  });
}

async function put(input: ArtifactInput, context: CallContext): Promise<unknown> {
  const kind = input.artifact_kind ?? DEFAULT_KIND;
  const bytes = toBytes(input);
  try {
    const { uri, sha256, sizeBytes, expiresAt } = await context.artifacts.put(bytes, kind);
    return { uri, kind, sha256, sizeBytes, ...(expiresAt === undefined ? {} : { expiresAt }) };
  } catch (error) {
    throw failure(error);
  }
}

async function get(input: ArtifactInput, context: CallContext): Promise<unknown> {
  const uri = uriOf(input.ref);
  if (uri === undefined) throw refused('artifact get needs `ref`');
  let bytes: Uint8Array;
  try {
    bytes = await context.artifacts.get(uri);
  } catch (error) {
    throw failure(error);
  }
  if (bytes.length > MAX_GET_BYTES) {
    throw toolFailure({
      code: 'RESPONSE_TOO_LARGE',
      message: `${uri} is larger than ${MAX_GET_BYTES} bytes; use the tool transfer`,
    });
  }
  const { data, encoding } = fromBytes(bytes, input.encoding);
  return { data, encoding, uri, sha256: sha256Hex(bytes), sizeBytes: bytes.length };
}

function toBytes({ data, encoding }: ArtifactInput): Uint8Array {
  if (data === undefined) throw refused('artifact put needs `data`');
  if (typeof data !== 'string' || encoding === 'json') return Buffer.from(JSON.stringify(data));
  if (encoding !== 'base64') return Buffer.from(data);
  if (!/^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(data)) throw refused('`data` of artifact is not base64');
  return Buffer.from(data, 'base64');
}

function fromBytes(bytes: Uint8Array, encoding: ArtifactInput['encoding']): { data: unknown; encoding: string } {
  if (encoding === 'base64') return { data: Buffer.from(bytes).toString('base64'), encoding };
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    if (encoding !== undefined) throw refused(`the artifact is not ${encoding}; get it as base64`);
    return { data: Buffer.from(bytes).toString('base64'), encoding: 'base64' };
  }
  if (encoding === 'text') return { data: text, encoding };
  try {
    return { data: JSON.parse(text), encoding: 'json' };
  } catch {
    if (encoding !== undefined) throw refused('the artifact is not JSON');
    return { data: text, encoding: 'text' };
  }
}

function uriOf(ref: ArtifactInput['ref']): string | undefined {
  return typeof ref === 'object' ? ref.uri : ref;
}

/** Nothing was stored, whatever went wrong: a file gets its name last. */
function failure(error: unknown): AppError {
  if (error instanceof AppError) return toolFailure({ code: error.code, message: error.message });
  const { code = 'ARTIFACT_STORE_FAILED', message } = error as NodeJS.ErrnoException;
  return toolFailure({ code, message, retryable: true });
}

function refused(message: string): AppError {
  return toolFailure({ code: inputProblem(message).code, message });
}
