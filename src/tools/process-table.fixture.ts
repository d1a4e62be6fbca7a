import { execFileSync } from 'node:child_process';

/** The processes whose command line contains the text. */
export function processesWith(text: string): string[] {
  const table = execFileSync('ps', ['-A', '-o', 'pid=,stat=,args='], { encoding: 'utf8' });
  return table
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.includes(text) && !/^\d+\s+Z/.test(line));
}

/** Waits until no process has the text in its command line; the ones that are left otherwise. */
export async function untilGone(text: string, withinMs = 3000): Promise<string[]> {
  const deadline = performance.now() + withinMs;
  let left = processesWith(text);
  while (left.length > 0 && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    left = processesWith(text);
  }
  return left;
}
