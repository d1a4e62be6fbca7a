import { lookup } from 'node:dns/promises';
import { AppError } from '../contracts/errors.ts';
import {
  type AddressClass,
  classifyIp,
  embeddedIpv4,
  formatIp,
  type IpAddress,
  isInside,
  parseIp,
  parseNetwork,
} from './ip-address.ts';

/** Where calls may go. Names and addresses are checked, and so is every address that a name resolves to. */
export interface AddressPolicy {
  /** Without the colon; http and https by default. */
  readonly schemes?: readonly string[];
  /** Classes of addresses that are refused. */
  readonly refuse: readonly AddressClass[];
  /** Names (`api.internal`, `*.corp.example`), addresses and networks (`10.1.0.0/16`) that pass whatever their class. */
  readonly allow?: readonly string[];
  /** The same that never pass. */
  readonly deny?: readonly string[];
}

/** An address that was checked; connecting to anything else would undo the check. */
export interface CheckedAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

export type Resolver = (hostname: string) => Promise<readonly { readonly address: string }[]>;

/** Names under which clouds serve their metadata; inside such a cloud they need not resolve to a known address. */
const METADATA_NAMES: ReadonlySet<string> = new Set([
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'metadata.azure.internal',
  'metadata.packet.net',
  'metadata.platformequinix.com',
  'metadata.tencentyun.com',
  'instance-data',
  'instance-data.ec2.internal',
]);

const systemResolver: Resolver = (hostname) => lookup(hostname, { all: true, verbatim: true });

/**
 * Checks all that a URL says by itself: scheme, host, and the address if the host is one in any spelling. What its name
 * resolves to is for `resolveAllowed`, right before connecting.
 */
export function checkUrl(text: string | URL, policy: AddressPolicy): URL {
  const url = toUrl(text);
  const schemes = policy.schemes ?? ['http', 'https'];
  const scheme = url.protocol.slice(0, -1);
  if (!schemes.includes(scheme)) throw refused(`calls to ${scheme}: are not allowed, only to ${schemes.join(', ')}`);
  if (url.hostname === '') throw refused('the URL has no host');
  const address = parseIp(url.hostname);
  if (address) checkAddress(address, normalName(url.hostname), policy);
  else checkName(normalName(url.hostname), policy);
  return url;
}

/** The addresses of a host, all of them allowed. One forbidden answer refuses the name: which one is used is not ours to choose. */
export async function resolveAllowed(
  hostname: string,
  policy: AddressPolicy,
  resolve: Resolver = systemResolver,
): Promise<CheckedAddress[]> {
  const name = normalName(hostname);
  const literal = parseIp(hostname);
  if (literal) return [checkAddress(literal, name, policy)];
  checkName(name, policy);
  const answers = await resolve(name);
  if (answers.length === 0) throw Object.assign(new Error(`${name} has no address`), { code: 'ENOTFOUND' });
  return answers.map(({ address }) => {
    const ip = parseIp(address);
    if (!ip) throw refused(`${name} resolves to '${address}', which is no address`);
    return checkAddress(ip, name, policy);
  });
}

function toUrl(text: string | URL): URL {
  if (typeof text !== 'string') return text;
  try {
    return new URL(text);
  } catch {
    throw new AppError('URL_NOT_ALLOWED', 'the URL cannot be read; it needs a scheme and a host');
  }
}

/** Lower case, without brackets and the dot of the root. */
function normalName(hostname: string): string {
  return hostname
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
}

function checkName(name: string, policy: AddressPolicy): void {
  if (matchesName(name, policy.deny)) throw refused(`calls to ${name} are denied`);
  if (matchesName(name, policy.allow)) return;
  if (METADATA_NAMES.has(name) && policy.refuse.includes('metadata')) {
    throw refused(`${name} is a metadata service, where clouds hand out credentials`);
  }
}

function checkAddress(ip: IpAddress, name: string, policy: AddressPolicy): CheckedAddress {
  const inner = embeddedIpv4(ip);
  const faces = inner ? [ip, inner] : [ip];
  const address = formatIp(ip);
  const via = parseIp(name) ? address : `${name} (${address})`;
  if (faces.some((face) => matchesNetwork(face, policy.deny))) throw refused(`calls to ${via} are denied`);
  const checked: CheckedAddress = { address, family: ip.length === 4 ? 4 : 6 };
  if (matchesName(name, policy.allow) || faces.some((face) => matchesNetwork(face, policy.allow))) return checked;
  const found = classifyIp(ip);
  if (policy.refuse.includes(found)) throw refused(`${via} is a ${found} address`);
  return checked;
}

function matchesName(name: string, patterns: readonly string[] = []): boolean {
  return patterns.some((pattern) => {
    const wanted = pattern.toLowerCase();
    return wanted.startsWith('*.') ? name.endsWith(wanted.slice(1)) : wanted === name;
  });
}

function matchesNetwork(ip: IpAddress, patterns: readonly string[] = []): boolean {
  return patterns.some((pattern) => {
    const network = parseNetwork(pattern);
    return network !== undefined && isInside(ip, network);
  });
}

function refused(message: string): AppError {
  return new AppError('URL_NOT_ALLOWED', message);
}
