import { randomFillSync } from 'node:crypto';
import {
  CATALOGUE,
  type Emitter,
  EVENT_TYPES,
  type EventRow,
  type EventType,
  eventRow,
} from '../contracts/catalogue.ts';
import type { RunEventWrite } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import { RUN_STATUSES, type RunStatus, TERMINAL_RUN_STATUSES } from '../contracts/states.ts';
import { eventProblems } from '../contracts/validate-event.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import { idempotencyKey } from '../lib/idempotency-key.ts';
import { jsonProblem } from '../lib/json-problem.ts';
import { payloadDigest, recordHash } from './record-hash.ts';
import { isStamped } from './stamp-event.ts';

/** An event that passed every check that needs no database, in the form in which it is stored. */
export interface PreparedEvent {
  readonly event: RunEventWrite;
  readonly code: number;
  readonly path: string;
  readonly payload: string | null;
  /** Sixteen bytes, one per character. */
  readonly salt: string;
  readonly recordHash: string;
  readonly rule: number;
  readonly isStepFact: boolean;
}

export interface PrepareOptions {
  readonly as: Emitter;
  readonly maxEventBytes: number;
  /** Imported events keep the id and key that they came with, and have no emitter to check. */
  readonly imported?: boolean;
}

/** Checks one event and makes its record. Throws the coded error that the producer gets; nothing is stored then. */
export function prepareEvent(event: RunEventWrite, options: PrepareOptions): PreparedEvent {
  const stamped = !options.imported && isStamped(event);
  const problems = eventProblems(event, { imported: options.imported ?? false, stamped });
  if (problems.length > 0) throw invalid(event, problems);
  const row = eventRow(event.eventType) as EventRow;
  if (!options.imported) {
    if (!row.emitters.includes(options.as)) {
      const allowed = row.emitters.join(' or ');
      throw new AppError('EMITTER_NOT_ALLOWED', `${event.eventType} is written by ${allowed}, not by ${options.as}`, {
        eventType: event.eventType,
        emitter: options.as,
      });
    }
    if (!stamped && event.idempotencyKey !== idempotencyKey(event)) {
      throw invalid(event, [{ path: '/idempotencyKey', message: 'does not follow from the fields of the event' }]);
    }
  }
  const payload = payloadText(event);
  // Characters are counted first, since a text of n characters has at least n bytes.
  if (payload !== null && payload.length * 3 > options.maxEventBytes) {
    const bytes = Buffer.byteLength(payload);
    if (bytes > options.maxEventBytes) {
      throw new AppError(
        'EVENT_TOO_LARGE',
        `The payload of ${event.eventType} has ${bytes} bytes; ${options.maxEventBytes} are allowed`,
        {
          eventType: event.eventType,
          bytes,
          limit: options.maxEventBytes,
        },
      );
    }
  }
  const salt = newSalt();
  return {
    event,
    code: row.code,
    path: event.entity ?? event.stepId ?? '',
    payload,
    salt,
    recordHash: recordHash(event, payloadDigest(salt, payload ?? '')),
    rule: RULES.get(event.eventType as EventType) as number,
    isStepFact: row.stepMove !== undefined,
  };
}

function payloadText(event: RunEventWrite): string | null {
  if (event.payload === undefined) return null;
  try {
    return canonicalJson(event.payload);
  } catch (error) {
    const { path, message } = jsonProblem(event.payload) ?? { path: '', message: (error as Error).message };
    throw invalid(event, [{ path: `/payload${path}`, message }]);
  }
}

function invalid(event: unknown, problems: readonly { path: string; message: string }[]): AppError {
  const type = (event as { eventType?: unknown } | null)?.eventType;
  const name = typeof type === 'string' ? type.slice(0, 100) : 'The event';
  const text = problems.map((p) => `${p.path} ${p.message}`).join('; ');
  return new AppError('SCHEMA_VALIDATION_FAILED', `${name} is not valid: ${text}`, { problems });
}

const saltPool = Buffer.alloc(16 * 1024);
let saltUsed = saltPool.length;

/** Sixteen random bytes at a time from the system cost more than the rest of the hashing. */
function newSalt(): string {
  if (saltUsed >= saltPool.length) {
    randomFillSync(saltPool);
    saltUsed = 0;
  }
  saltUsed += 16;
  return saltPool.toString('latin1', saltUsed - 16, saltUsed);
}

/** Types that are facts of the step machine, in the order of the bits that the append function keeps for them. */
export const STEP_FACTS = EVENT_TYPES.filter((type) => eventRow(type)?.stepMove);
export const NO_STATUS = 128;
export const statusBit = (status: RunStatus): number => 1 << RUN_STATUSES.indexOf(status);

export function statusOfBit(bit: number): RunStatus | null {
  return bit === NO_STATUS ? null : (RUN_STATUSES[Math.log2(bit)] ?? null);
}

const ANY_STATUS = RUN_STATUSES.reduce((bits, status) => bits | statusBit(status), NO_STATUS);
const OPEN_STATUS = TERMINAL_RUN_STATUSES.reduce((bits, status) => bits & ~statusBit(status), ANY_STATUS);

/** The catalogue's rule for a type, packed as the append function reads it (see 0002_append.sql). */
function packRule(type: EventType): number {
  const row: EventRow = CATALOGUE[type];
  let from = row.afterTerminal ? ANY_STATUS : OPEN_STATUS;
  let to = 0;
  if (row.runMove) {
    from = row.runMove.from.reduce((bits, status) => bits | (status === null ? NO_STATUS : statusBit(status)), 0);
    to = statusBit(row.runMove.to);
  }
  let [need, bar, fact] = [0, 0, 0];
  const move = row.stepMove;
  if (move) {
    fact = STEP_FACTS.indexOf(type) + 1;
    STEP_FACTS.forEach((other, bit) => {
      const reached = eventRow(other)?.stepMove?.to;
      if (reached === 'PENDING' || other === type) return;
      if (reached === move.from) need |= 1 << bit;
      else bar |= 1 << bit;
    });
  }
  return from | (to << 8) | (need << 16) | (bar << 21) | (fact << 26) | (row.commutes ? 0 : 1 << 29);
}

const RULES = new Map<EventType, number>(EVENT_TYPES.map((type) => [type, packRule(type)]));

/** Per fact of the step machine those that must be stored before it, a bit for each. */
export const STEP_NEEDS: readonly number[] = STEP_FACTS.map((type) => ((RULES.get(type) as number) >> 16) & 31);
