import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Redactor } from './redact.ts';

const SECRET = 's3cr3t/Pä"ss w+rd';
function redactor(...secrets: unknown[]): Redactor {
  const made = new Redactor();
  for (const secret of secrets) made.add(secret);
  return made;
}

describe('texts', () => {
  test.each([
    ['as it is', SECRET],
    ['in JSON', JSON.stringify(SECRET).slice(1, -1)],
    ['in JSON in JSON', JSON.stringify(JSON.stringify(SECRET)).slice(3, -3)],
    ['in JSON of ASCII', 's3cr3t/P\\u00e4\\"ss w+rd'],
    ['in JSON with escaped slashes', 's3cr3t\\/Pä\\"ss w+rd'],
    ['in a query', encodeURIComponent(SECRET)],
    ['in a form', encodeURIComponent(SECRET).replaceAll('%20', '+')],
    ['in lower-case percent codes', encodeURIComponent(SECRET).replace(/%../g, (code) => code.toLowerCase())],
    ['in HTML', 's3cr3t/Pä&quot;ss w+rd'],
    ['in hex', Buffer.from(SECRET).toString('hex')],
    ['in base64', Buffer.from(SECRET).toString('base64').replace(/=+$/, '')],
    ['in base64 for URLs', Buffer.from(SECRET).toString('base64url')],
  ])('ES-2a a secret is found %s', (_name, form) => {
    expect(redactor(SECRET).text(`before ${form} after`)).toMatch(/^before \[redacted\].{0,3} after$/);
  });

  test.each(['u:', 'us:', 'use:', 'longer user:'])(
    'ES-2a a secret is found in the base64 of what holds it, behind "%s"',
    (prefix) => {
      const header = `Basic ${Buffer.from(`${prefix}${SECRET}`).toString('base64')}`;
      const clean = redactor(SECRET).text(header);
      expect(clean).toContain('[redacted]');
      // What is left decodes to nothing of the secret but a byte at an end.
      const rest = clean.replace('Basic ', '').split('[redacted]');
      expect(rest[1]!.length).toBeLessThanOrEqual(4);
    },
  );

  test('two secrets that overlap leave no rest', () => {
    expect(redactor('abcdef', 'defghi').text('xx abcdefghi yy')).toBe('xx [redacted] yy');
    expect(redactor('token-1', 'token-1-long').text('token-1-long token-1')).toBe('[redacted] [redacted]');
    expect(redactor('aaaa').text('aaaaaaa')).toBe('[redacted]');
  });

  test('a short secret is taken out only where it is the whole value', () => {
    const short = redactor('no');
    expect(short.text('no')).toBe('[redacted]');
    expect(short.text('nothing is known')).toBe('nothing is known');
    expect(redactor('', '   ').isEmpty).toBe(true);
  });

  test('a secret of special characters is no pattern', () => {
    expect(redactor('a.*b(c|d)[e]$^\\').text('a.*b(c|d)[e]$^\\ and aXXb')).toBe('[redacted] and aXXb');
  });

  test('the parts of a URL, of a header and of a key are secrets of their own', () => {
    const made = redactor(
      'postgres://ann:p%40ss-word@db.example/x',
      'Bearer tok-123',
      '-----BEGIN KEY-----\nabcdefghijklmnop\n-----END KEY-----',
    );
    expect(made.text('password is p@ss-word')).toBe('password is [redacted]');
    expect(made.text('sent p%40ss-word')).toBe('sent [redacted]');
    expect(made.text('db.example of ann')).toBe('db.example of ann');
    expect(made.text('x-token: tok-123')).toBe('x-token: [redacted]');
    expect(made.text('  abcdefghijklmnop')).toBe('  [redacted]');
    expect(made.text('-----BEGIN KEY-----')).toBe('-----BEGIN KEY-----');
  });

  test('what only says where something is stays readable', () => {
    const made = redactor({
      host: 'db.example',
      port: 5432,
      user: 'annette',
      database: 'orders',
      password: 'hunter22',
    });
    expect(made.text('annette@db.example:5432/orders with hunter22')).toBe(
      'annette@db.example:5432/orders with [redacted]',
    );
  });
});

describe('values', () => {
  test('ES-2a secrets go from keys, values and numbers at any depth, and nothing else changes', () => {
    const made = redactor('hunter22', 123456);
    const value = { a: ['x hunter22'], hunter22: { b: 123456, c: 12345 }, d: null, e: true };
    expect(made.redact(value)).toEqual({
      a: ['x [redacted]'],
      '[redacted]': { b: '[redacted]', c: 12345 },
      d: null,
      e: true,
    });
    const clean = { a: [1, 'b', { c: null }] };
    expect(made.redact(clean)).toBe(clean);
  });

  test('ES-2a no secret survives in any value that holds it, however it is encoded and whatever is around it', () => {
    const word = (units: string, minLength: number) =>
      fc.string({ unit: fc.constantFrom(...units), minLength, maxLength: 30 });
    const encode = fc.constantFrom<(text: string) => string>(
      (text) => text,
      encodeURIComponent,
      (text) => JSON.stringify(text).slice(1, -1),
      (text) => Buffer.from(text).toString('base64'),
      (text) => Buffer.from(text).toString('hex'),
    );
    // Letters that the surroundings do not have, so that a find is a find.
    fc.assert(
      fc.property(word('ABXYZ!"/&Ä☃ ', 8), encode, word('gh ', 0), word('gh ', 0), (secret, encoded, before, after) => {
        fc.pre(secret.trim() !== '');
        const form = encoded(secret);
        const redacted = redactor(secret).redact({ [`${before}${form}${after}`]: [`${after}${form}${before}`, form] });
        const text = JSON.stringify(redacted);
        expect(text.match(/\[redacted\]/g)).toHaveLength(3);
        // Of base64 the characters at the end may stay: they hold fewer bits than a byte of the secret.
        expect(text.replaceAll('[redacted]', '').replace(/[gh [\]{}":,]/g, '').length).toBeLessThanOrEqual(9);
      }),
    );
  });
});

describe('streams', () => {
  test('ES-2a a secret that is cut by the pieces of a stream is found', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('x', 'yy\n', 'hunter22', 'hunter', '22', 'tok-999', '')),
        fc.array(fc.nat(12), { minLength: 1 }),
        (parts, sizes) => {
          const made = redactor('hunter22', 'tok-999');
          const whole = parts.join('');
          const stream = made.stream();
          let out = '';
          for (let at = 0, i = 0; at < whole.length; i++) {
            const size = Math.max(sizes[i % sizes.length]!, 1);
            out += stream.write(whole.slice(at, at + size));
            at += size;
          }
          out += stream.end();
          expect(out.replaceAll('[redacted]', '#')).toBe(made.text(whole).replaceAll('[redacted]', '#'));
          expect(out).not.toContain('hunter22');
        },
      ),
    );
  });
});
