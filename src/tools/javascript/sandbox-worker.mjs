// A thread that runs programs one at a time, each in an instance of QuickJS that is made for it and dropped after it.
// Plain JavaScript, because a thread cannot be started from TypeScript on every Node that we support.
import { parentPort, workerData } from 'node:worker_threads';
import variant from '@jitl/quickjs-wasmfile-release-sync';
import { newQuickJSWASMModuleFromVariant, newVariant } from 'quickjs-emscripten-core';
import { guest } from './sandbox-guest.mjs';

const { wasmModule, initialPages, maximumPages, maxResultLength, maxLogChars } = workerData;
const GUEST = `(${guest})`;
const JOBS_AT_ONCE = 200;
const FLUSH_LINES = 100;
const FLUSH_MS = 50;
const PAGE_BYTES = 65536;

async function prepare() {
  // The runtime's own limit does not hold; this one is the engine's that runs it.
  const wasmMemory = new WebAssembly.Memory({ initial: initialPages, maximum: maximumPages });
  const quickjs = await newQuickJSWASMModuleFromVariant(newVariant(variant, { wasmModule, wasmMemory }));
  const runtime = quickjs.newRuntime();
  const context = runtime.newContext();
  const sandbox = { runtime, context, wasmMemory, log: () => {}, stopped: () => false };
  runtime.setInterruptHandler(() => sandbox.stopped());
  const log = context.newFunction('log', (stream, text) => {
    sandbox.log(context.getString(stream), context.getString(text));
  });
  const make = context.unwrapResult(context.evalCode(GUEST, 'sandbox.js'));
  const limit = context.newNumber(maxResultLength);
  const face = context.unwrapResult(context.callFunction(make, context.undefined, log, limit));
  sandbox.start = context.getProp(face, 'start');
  sandbox.outcome = context.getProp(face, 'outcome');
  return sandbox;
}

let next = prepare();
// A failure to prepare is told to whoever needs the instance, not to the thread.
next.catch(() => {});

parentPort.on('message', async ({ code, input, stop }) => {
  const lines = [];
  let answer;
  try {
    const sandbox = await next;
    answer = run(sandbox, code, input, new Int32Array(stop), lines);
  } catch (error) {
    answer = { failed: error instanceof Error ? error.message : String(error) };
  }
  parentPort.postMessage({ lines, answer });
  next = prepare();
  next.catch(() => {});
});

function run(sandbox, code, input, stop, lines) {
  const { runtime, context } = sandbox;
  let flushed = performance.now();
  let chars = 0;
  sandbox.stopped = () => Atomics.load(stop, 0) !== 0;
  sandbox.log = (stream, text) => {
    chars += text.length + 1;
    if (chars > maxLogChars) return;
    for (const line of text.split('\n')) lines.push([stream, line]);
    if (lines.length < FLUSH_LINES && performance.now() - flushed < FLUSH_MS) return;
    parentPort.postMessage({ lines: lines.splice(0) });
    flushed = performance.now();
  };
  try {
    const started = context.callFunction(
      sandbox.start,
      context.undefined,
      context.newString(code),
      context.newString(input),
    );
    if (started.error) return notEnded(sandbox, started.error);
    while (runtime.hasPendingJob()) {
      const { error } = runtime.executePendingJobs(JOBS_AT_ONCE);
      if (error || sandbox.stopped()) return notEnded(sandbox, error);
    }
    const outcome = context.callFunction(sandbox.outcome, context.undefined);
    if (outcome.error) return notEnded(sandbox, outcome.error);
    if (context.typeof(outcome.value) === 'string') return { text: context.getString(outcome.value) };
    return notEnded(sandbox, undefined);
  } catch (error) {
    // Running out of the host's stack comes through the engine as an error of the host.
    if (error instanceof RangeError) return { error: { name: 'RangeError', message: 'stack overflow', stack: '' } };
    if (isFull(sandbox)) return { memory: true };
    throw error;
  }
}

function isFull({ wasmMemory }) {
  return wasmMemory.buffer.byteLength > (maximumPages - 64) * PAGE_BYTES;
}

/** Why there is no outcome. The state of the instance is in doubt by now, so nothing but two short texts is asked of it. */
function notEnded(sandbox, error) {
  if (sandbox.stopped()) return { stopped: true };
  const { context } = sandbox;
  const [name, message] = ['name', 'message'].map((field) => {
    try {
      const text = error && context.getProp(error, field);
      return text && context.typeof(text) === 'string' ? context.getString(text).slice(0, 1000) : '';
    } catch {
      return '';
    }
  });
  if (message.includes('out of memory') || (message === '' && isFull(sandbox))) return { memory: true };
  if (message !== '') return { error: { name: name || 'Error', message, stack: '' } };
  return { pending: true };
}
