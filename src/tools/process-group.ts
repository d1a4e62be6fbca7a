/** Sends a signal to a whole group. False where nobody is left: on macOS a group of zombies answers EPERM. */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  // Zero and one would be our own group and every process of the machine.
  if (!Number.isSafeInteger(group) || group <= 1) return false;
  try {
    return process.kill(-group, signal);
  } catch {
    return false;
  }
}

const POLL_MS = 20;

/** Asks a group to end, waits for its last member, and after the grace kills what ignored it. */
export async function endGroup(group: number, graceMs: number): Promise<void> {
  if (!signalGroup(group, 'SIGTERM')) return;
  const deadline = performance.now() + graceMs;
  while (performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (!signalGroup(group, 0)) return;
  }
  signalGroup(group, 'SIGKILL');
}
