import { readFileSync } from 'node:fs';
import type { Command } from '../context.ts';

export const version: Command = async ({ terminal }) => {
  // The same distance from src/cli/commands and from dist/cli/commands.
  const file = new URL('../../../package.json', import.meta.url);
  const { version: own } = JSON.parse(readFileSync(file, 'utf8')) as { version: string };
  if (terminal.json)
    terminal.printJson({ version: own, node: process.versions.node, platform: `${process.platform}-${process.arch}` });
  else terminal.print(`runledger ${own} (node ${process.versions.node}, ${process.platform}-${process.arch})`);
  return 0;
};
