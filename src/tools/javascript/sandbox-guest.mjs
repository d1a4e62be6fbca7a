/**
 * What runs inside the sandbox before the program: it gives the program its variables and a console, and makes its result,
 * or what it threw, to one text. The function is never called out here; its source is evaluated inside. Everything it needs is
 * taken before the program can change it, and what a program breaks all the same it breaks for itself alone.
 */
export function guest(log, maxResultLength) {
  const { parse, stringify } = JSON;
  const { defineProperty, fromEntries, keys } = Object;
  const { isView } = ArrayBuffer;
  const { isArray } = Array;
  const AsyncFunction = (async () => {}).constructor;
  const text = String;
  const { InternalError } = globalThis;
  let outcome;

  class Ended {
    constructor(result, main) {
      this.result = result;
      this.main = main;
    }
  }

  const show = (value) => {
    if (typeof value === 'string') return value;
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    try {
      return stringify(value, plain) ?? text(value);
    } catch {
      return text(value);
    }
  };
  const logger =
    (stream) =>
    (...values) =>
      log(stream, values.map(show).join(' '));
  const [toOut, toError] = [logger('stdout'), logger('stderr')];
  globalThis.console = { log: toOut, info: toOut, debug: toOut, trace: toOut, warn: toError, error: toError };

  /** What JSON would leave out or empty without a word is converted, or refused. */
  function plain(key, value) {
    const refuse = (what) => {
      throw new TypeError(`${key === '' ? 'it' : `'${key}' in it`} is ${what}`);
    };
    switch (typeof value) {
      case 'bigint':
        return text(value);
      case 'function':
      case 'symbol':
        return refuse(`a ${typeof value}`);
      case 'number':
        return value === Infinity || value === -Infinity ? refuse('infinite') : value;
      case 'object':
        if (value === null || isArray(value)) return value;
        if (value instanceof Map) return fromEntries(value);
        if (value instanceof Set || isView(value)) return [...value];
        if (value instanceof Error) return { name: value.name, message: value.message };
        if (value instanceof Promise) return refuse('a promise that nobody waited for');
        if (value instanceof ArrayBuffer || value instanceof WeakMap || value instanceof WeakSet) {
          return refuse('not a value that JSON has a word for');
        }
        return value;
      default:
        return value;
    }
  }

  const describe = (error) => {
    const limit = (value) => text(value).slice(0, 4000);
    if (error instanceof InternalError && error.message === 'out of memory') return { memory: true };
    if (error instanceof Error) {
      return { error: { name: limit(error.name), message: limit(error.message), stack: limit(error.stack ?? '') } };
    }
    return { error: { name: 'Error', message: limit(show(error)), stack: '' } };
  };
  const finish = (answer) => {
    outcome ??= stringify(answer);
  };
  const finishWith = (value) => {
    let result;
    try {
      result = stringify(value === undefined ? null : value, plain);
    } catch (error) {
      if (error instanceof InternalError) return finish(describe(error));
      finish({ refused: 'RESULT_NOT_JSON', message: `the result is not JSON: ${text(error?.message)}` });
      return;
    }
    if (result.length > maxResultLength) {
      finish({ refused: 'RESULT_TOO_LARGE', message: `the result has ${result.length} characters` });
    } else outcome ??= `{"result":${result}}`;
  };

  /** An expression gives its value, and a function is called; anything else is the body of a function. */
  const compile = (code) => {
    try {
      const expression = new AsyncFunction(`return (${code.replace(/[;\s]+$/, '')}\n)`);
      return async (input) => {
        const value = await expression();
        return typeof value === 'function' ? value(input) : value;
      };
    } catch {}
    const collect = `;return __ended(typeof result === 'undefined' ? undefined : result, typeof main === 'function' ? main : undefined)`;
    const body = new AsyncFunction('__ended', `${code}\n${collect}`);
    return async (input, given) => {
      const value = await body((result, main) => new Ended(result, main));
      if (!(value instanceof Ended)) return value;
      return value.main && (value.result === undefined || value.result === given) ? value.main(input) : value.result;
    };
  };

  return {
    start(code, inputText) {
      const input = parse(inputText);
      for (const name of keys(input)) {
        try {
          defineProperty(globalThis, name, {
            value: input[name],
            writable: true,
            configurable: true,
            enumerable: true,
          });
        } catch {}
      }
      if (!('input' in input)) globalThis.input = input;
      const given = input.result;
      (async () => compile(code)(input, given))().then(finishWith, (error) => finish(describe(error)));
    },
    outcome: () => outcome,
  };
}
