// Adds to package-lock.json what npm leaves out when it cannot ask about packages of other platforms. Without an entry
// for each of them `npm ci` refuses the lock file, also on the platform whose packages are all there.
import { readFileSync, writeFileSync } from 'node:fs';

const SYSTEMS = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32'];
const PROCESSORS = ['arm64', 'arm', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64'];

const file = new URL('../package-lock.json', import.meta.url);
const lock = JSON.parse(readFileSync(file, 'utf8'));
const { packages } = lock;
let added = 0;
for (const [place, entry] of Object.entries(packages)) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    if (!/^\d/.test(version) || isFound(place, name)) continue;
    const words = name.slice(name.lastIndexOf('/') + 1).split(/[-_]/);
    const cpu = PROCESSORS.find((word) => words.includes(word));
    const os = SYSTEMS.find((word) => words.includes(word));
    const libc = os === 'linux' ? words.map((word) => /^(musl|gnu|glibc)/.exec(word)?.[1]).find(Boolean) : undefined;
    packages[`node_modules/${name}`] = {
      version,
      ...(cpu ? { cpu: [cpu] } : {}),
      ...(entry.dev ? { dev: true } : {}),
      ...(entry.devOptional ? { devOptional: true } : {}),
      ...(libc ? { libc: [libc === 'musl' ? 'musl' : 'glibc'] } : {}),
      optional: true,
      ...(os ? { os: [os] } : {}),
    };
    added++;
  }
}
lock.packages = Object.fromEntries(Object.entries(packages).sort(([a], [b]) => (a < b ? -1 : 1)));
if (added > 0) writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
console.log(added === 0 ? 'The lock file is complete.' : `Added ${added} packages of other platforms.`);

/** As Node looks for a package: beside the one that asks, or in a folder above it. */
function isFound(place, name) {
  for (let at = place; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
    if (`${at === '' ? '' : `${at}/`}node_modules/${name}` in packages) return true;
    if (at === '') return false;
  }
}
