import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AppError } from '../contracts/errors.ts';
import { classifyIp, formatIp, parseIp } from './ip-address.ts';
import { type AddressPolicy, checkUrl, type Resolver, resolveAllowed } from './net-guard.ts';

const STRICT: AddressPolicy = { refuse: ['loopback', 'link-local', 'metadata', 'reserved'] };
const classOf = (text: string): string => classifyIp(parseIp(text)!);
const codeOf = async (run: () => unknown): Promise<string> => {
  try {
    await run();
    return 'allowed';
  } catch (error) {
    return error instanceof AppError ? error.code : String(error);
  }
};
const answering =
  (...addresses: string[]): Resolver =>
  async () =>
    addresses.map((address) => ({ address }));

describe('addresses', () => {
  test.each([
    ['127.0.0.1', 'loopback'],
    ['127.1', 'loopback'],
    ['2130706433', 'loopback'],
    ['0x7f000001', 'loopback'],
    ['0x7f.1', 'loopback'],
    ['0177.0.0.01', 'loopback'],
    ['0', 'loopback'],
    ['0.0.0.0', 'loopback'],
    ['127.0.0.1.', 'loopback'],
    ['::1', 'loopback'],
    ['[::1]', 'loopback'],
    ['::', 'loopback'],
    ['0:0:0:0:0:0:0:1', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:7f00:1', 'loopback'],
    ['::127.0.0.1', 'loopback'],
    ['64:ff9b::127.0.0.1', 'loopback'],
    ['2002:7f00:1::', 'loopback'],
    ['fe80::1', 'link-local'],
    ['fe80::1%eth0', 'link-local'],
    ['FEBF::1', 'link-local'],
    ['169.254.0.1', 'link-local'],
    ['169.254.169.254', 'metadata'],
    ['2852039166', 'metadata'],
    ['0xa9fea9fe', 'metadata'],
    ['0251.0376.0251.0376', 'metadata'],
    ['169.254.43518', 'metadata'],
    ['::ffff:169.254.169.254', 'metadata'],
    ['::ffff:0:169.254.169.254', 'metadata'],
    ['64:ff9b::a9fe:a9fe', 'metadata'],
    ['2002:a9fe:a9fe::1', 'metadata'],
    ['2001:0:4136:e378:8000:63bf:5601:5601', 'metadata'],
    ['2001:db8::5efe:169.254.169.254', 'metadata'],
    ['fd00:ec2::254', 'metadata'],
    ['fd00:0ec2:0:0:0:0:0:0254', 'metadata'],
    ['100.100.100.200', 'metadata'],
    ['168.63.129.16', 'metadata'],
    ['10.1.2.3', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.1.1', 'private'],
    ['100.64.0.1', 'private'],
    ['fd12::1', 'private'],
    ['224.0.0.1', 'reserved'],
    ['255.255.255.255', 'reserved'],
    ['ff02::1', 'reserved'],
    ['172.32.0.1', 'public'],
    ['8.8.8.8', 'public'],
    ['169.253.255.255', 'public'],
    ['2606:4700::1111', 'public'],
    ['::ffff:8.8.8.8', 'public'],
  ])('%s is %s', (text, expected) => {
    expect(classOf(text)).toBe(expected);
  });

  test.each([
    '',
    'a',
    '1.2.3.4.5',
    '256.1.1.1',
    '1.2.3.256',
    '4294967296',
    '08',
    '0x',
    '1..2',
    ':::',
    '1:2',
    '::1::',
    '1:2:3:4:5:6:7:8:9',
    '::1.2.3',
    'example.com',
    '-1',
    '1e3',
  ])("'%s' is a name or nothing, or at most a spelling of zero", (text) => {
    const ip = parseIp(text);
    if (text === '0x') expect(ip).toEqual(Uint8Array.of(0, 0, 0, 0));
    else expect(ip).toBeUndefined();
  });

  test('every address survives being written and read, and every spelling of IPv4 has one class', () => {
    const byte = fc.integer({ min: 0, max: 255 });
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
        expect(parseIp(formatIp(bytes))).toEqual(bytes);
      }),
    );
    fc.assert(
      fc.property(byte, byte, byte, byte, (a, b, c, d) => {
        const value = ((a * 256 + b) * 256 + c) * 256 + d;
        const spellings = [
          `${a}.${b}.${c}.${d}`,
          String(value),
          `0x${value.toString(16)}`,
          `0${value.toString(8)}`,
          `${a}.${b}.${c * 256 + d}`,
          `0x${a.toString(16)}.0${b.toString(8)}.${c}.${d}`,
          `::ffff:${a}.${b}.${c}.${d}`,
        ];
        expect(new Set(spellings.map(classOf)).size).toBe(1);
        // Where the platform's own URL parser reads an address, it is the same one.
        expect(spellings.slice(0, 6).map((text) => formatIp(parseIp(text)!))).toEqual(
          spellings.slice(0, 6).map((text) => new URL(`http://${text}/`).hostname),
        );
      }),
    );
  });
});

describe('URLs', () => {
  test.each([
    'file:///etc/passwd',
    'ftp://example.com/a',
    'gopher://example.com:70/',
    'http://127.0.0.1/',
    'http://127.1/',
    'http://2130706433/',
    'http://0x7f.0.0.1/',
    'http://0177.1/',
    'http://[::1]/',
    'http://[::ffff:7f00:1]/',
    'http://169.254.169.254/latest/meta-data',
    'http://0251.0376.0251.0376/',
    'http://①⑥⑨.254.169.254/',
    'http://metadata.google.internal/',
    'http://METADATA.google.internal./',
    'http://user:pw@169.254.169.254/',
    'nonsense',
    'http://',
  ])('%s is refused before any fetch', async (url) => {
    expect(await codeOf(() => checkUrl(url, STRICT))).toBe('URL_NOT_ALLOWED');
  });

  test('a public address passes, and so does loopback where the policy does not name it', async () => {
    expect(await codeOf(() => checkUrl('https://example.com/a?b#c', STRICT))).toBe('allowed');
    expect(await codeOf(() => checkUrl('http://127.0.0.1:8080/', { refuse: ['metadata'] }))).toBe('allowed');
  });

  test('an address is allowed by name, address or network, and deny wins', async () => {
    const allow = ['169.254.169.254', '10.0.0.0/8', '*.internal'];
    const policy: AddressPolicy = { refuse: ['metadata', 'private', 'link-local'], allow, deny: ['10.9.0.0/16'] };
    expect(await codeOf(() => checkUrl('http://169.254.169.254/', policy))).toBe('allowed');
    expect(await codeOf(() => checkUrl('http://169.254.169.253/', policy))).toBe('URL_NOT_ALLOWED');
    expect(await codeOf(() => checkUrl('http://10.1.1.1/', policy))).toBe('allowed');
    expect(await codeOf(() => checkUrl('http://10.9.1.1/', policy))).toBe('URL_NOT_ALLOWED');
    expect(await codeOf(() => checkUrl('http://[::ffff:10.9.1.1]/', policy))).toBe('URL_NOT_ALLOWED');
    expect(await codeOf(() => checkUrl('http://metadata.google.internal/', policy))).toBe('allowed');
    expect(await codeOf(() => resolveAllowed('a.internal', policy, answering('169.254.169.253')))).toBe('allowed');
    expect(await codeOf(() => resolveAllowed('a.internal', policy, answering('10.9.0.1')))).toBe('URL_NOT_ALLOWED');
  });
});

describe('names', () => {
  test('one forbidden answer among several refuses the name', async () => {
    const answers = answering('93.184.216.34', '169.254.169.254');
    expect(await codeOf(() => resolveAllowed('rebind.example', STRICT, answers))).toBe('URL_NOT_ALLOWED');
  });

  test('the answers come back as the addresses to connect to, in their order', async () => {
    const answers = answering('93.184.216.34', '2606:2800:220:1::1');
    expect(await resolveAllowed('Example.COM.', STRICT, answers)).toEqual([
      { address: '93.184.216.34', family: 4 },
      { address: '2606:2800:220:1:0:0:0:1', family: 6 },
    ]);
  });

  test('an address given as a host is checked without asking anyone', async () => {
    const never: Resolver = () => Promise.reject(new Error('asked'));
    expect(await codeOf(() => resolveAllowed('fe80::1%eth0', STRICT, never))).toBe('URL_NOT_ALLOWED');
    expect(await resolveAllowed('134744072', STRICT, never)).toEqual([{ address: '8.8.8.8', family: 4 }]);
  });

  test('localhost is what the system says it is', async () => {
    expect(await codeOf(() => resolveAllowed('localhost', STRICT))).toBe('URL_NOT_ALLOWED');
    expect(await codeOf(() => resolveAllowed('localhost', { refuse: ['metadata'] }))).toBe('allowed');
  });

  test('a name without an address is not found', async () => {
    expect(await codeOf(() => resolveAllowed('none.example', STRICT, answering()))).toContain('has no address');
  });
});
