/** What kind of place an address is. `metadata` are the addresses where clouds hand out credentials. */
export type AddressClass = 'public' | 'loopback' | 'private' | 'link-local' | 'metadata' | 'reserved';

/** 4 or 16 bytes. */
export type IpAddress = Uint8Array;

interface Network {
  readonly bytes: IpAddress;
  readonly bits: number;
}

/**
 * Every spelling of an address that some resolver takes: dotted, short (`127.1`), one number, octal and hex parts, IPv6 with
 * brackets, a zone or a dotted tail. Undefined for anything else, which is then a name.
 */
export function parseIp(text: string): IpAddress | undefined {
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  if (bare.includes(':')) return parseIpv6(bare.replace(/%.*$/s, ''));
  return parseIpv4(bare.endsWith('.') ? bare.slice(0, -1) : bare);
}

function parseIpv4(text: string): IpAddress | undefined {
  const parts = text.split('.');
  if (parts.length > 4) return undefined;
  const numbers = parts.map(parsePart);
  const last = numbers.pop();
  if (last === undefined) return undefined;
  let value = 0;
  for (const part of numbers) {
    if (part === undefined || part > 255) return undefined;
    value = value * 256 + part;
  }
  const free = 4 - numbers.length;
  if (last >= 256 ** free) return undefined;
  value = value * 256 ** free + last;
  return Uint8Array.of(value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255);
}

function parsePart(text: string): number | undefined {
  if (/^0x[0-9a-f]*$/i.test(text)) return text.length === 2 ? 0 : Number.parseInt(text, 16);
  if (/^0[0-7]*$/.test(text)) return Number.parseInt(text, 8);
  return /^[1-9]\d*$/.test(text) ? Number(text) : undefined;
}

function parseIpv6(text: string): IpAddress | undefined {
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const [head, tail] = halves.map(parseGroups);
  if (!head || (halves.length === 2 && !tail)) return undefined;
  const zeros = 8 - head.length - (tail?.length ?? 0);
  if (halves.length === 2 ? zeros < 1 : zeros !== 0) return undefined;
  const groups = [...head, ...new Array<number>(zeros).fill(0), ...(tail ?? [])];
  return Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 255]));
}

function parseGroups(text: string): number[] | undefined {
  if (text === '') return [];
  const parts = text.split(':');
  const groups: number[] = [];
  for (const [i, part] of parts.entries()) {
    if (i === parts.length - 1 && part.includes('.')) {
      if (!/^\d{1,3}(\.\d{1,3}){3}$/.test(part)) return undefined;
      const bytes = part.split('.').map(Number);
      if (bytes.some((byte) => byte > 255)) return undefined;
      groups.push(bytes[0]! * 256 + bytes[1]!, bytes[2]! * 256 + bytes[3]!);
    } else if (/^[0-9a-f]{1,4}$/i.test(part)) groups.push(Number.parseInt(part, 16));
    else return undefined;
  }
  return groups;
}

/** A network such as `10.0.0.0/8`, or an address alone. */
export function parseNetwork(text: string): Network | undefined {
  const [address, bits, ...rest] = text.split('/');
  const bytes = parseIp(address ?? '');
  if (!bytes || rest.length > 0 || (bits !== undefined && !/^\d{1,3}$/.test(bits))) return undefined;
  const length = bits === undefined ? bytes.length * 8 : Number(bits);
  return length <= bytes.length * 8 ? { bytes, bits: length } : undefined;
}

export function isInside(address: IpAddress, network: Network): boolean {
  if (address.length !== network.bytes.length) return false;
  for (let bit = 0; bit < network.bits; bit += 8) {
    const mask = network.bits - bit >= 8 ? 255 : (255 << (8 - (network.bits - bit))) & 255;
    if (((address[bit / 8]! ^ network.bytes[bit / 8]!) & mask) !== 0) return false;
  }
  return true;
}

/** The first network that matches decides. 0.0.0.0 is this machine, as every kernel connects it. */
const CLASSES: readonly (readonly [AddressClass, readonly string[]])[] = [
  [
    'metadata',
    [
      '169.254.169.254',
      '169.254.169.253',
      '169.254.170.2',
      '169.254.170.23',
      '100.100.100.200',
      '168.63.129.16',
      '192.0.0.192',
      'fd00:ec2::254',
      'fd00:ec2::253',
      'fd00:ec2::23',
      'fd20:ce::254',
    ],
  ],
  ['loopback', ['127.0.0.0/8', '0.0.0.0/8', '::1', '::']],
  ['link-local', ['169.254.0.0/16', 'fe80::/10']],
  [
    'private',
    ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '198.18.0.0/15', 'fc00::/7', 'fec0::/10'],
  ],
  ['reserved', ['192.0.0.0/24', '224.0.0.0/4', '240.0.0.0/4', 'ff00::/8', '100::/64']],
];

const TABLE = CLASSES.flatMap(([name, texts]) => texts.map((text) => ({ name, network: parseNetwork(text)! })));

/** Networks of IPv6 whose addresses lead to the IPv4 address at that byte. */
const EMBEDDED: readonly { readonly network: Network; readonly at: number; readonly flipped?: boolean }[] = [
  { network: parseNetwork('::ffff:0:0/96')!, at: 12 },
  { network: parseNetwork('::ffff:0:0:0/96')!, at: 12 },
  { network: parseNetwork('64:ff9b::/96')!, at: 12 },
  { network: parseNetwork('64:ff9b:1::/48')!, at: 12 },
  { network: parseNetwork('2002::/16')!, at: 2 },
  { network: parseNetwork('2001::/32')!, at: 12, flipped: true },
  { network: parseNetwork('::/96')!, at: 12 },
];

export function classifyIp(address: IpAddress): AddressClass {
  const row = TABLE.find(({ network }) => isInside(address, network));
  if (row) return row.name;
  const inner = embeddedIpv4(address);
  return inner ? classifyIp(inner) : 'public';
}

/** The IPv4 address that an IPv6 address stands for: mapped, translated or tunnelled. */
export function embeddedIpv4(address: IpAddress): IpAddress | undefined {
  if (address.length !== 16) return undefined;
  const form = EMBEDDED.find(({ network }) => isInside(address, network));
  if (form) return address.slice(form.at, form.at + 4).map((byte) => (form.flipped ? byte ^ 255 : byte));
  // ISATAP: any prefix, then 0:5efe or 200:5efe.
  const isIsatap = (address[8]! & 0xfd) === 0 && address[9] === 0 && address[10] === 0x5e && address[11] === 0xfe;
  return isIsatap ? address.slice(12) : undefined;
}

/** As `net.connect` takes it. */
export function formatIp(address: IpAddress): string {
  if (address.length === 4) return address.join('.');
  const groups: string[] = [];
  for (let i = 0; i < 16; i += 2) groups.push(((address[i]! << 8) | address[i + 1]!).toString(16));
  return groups.join(':');
}
