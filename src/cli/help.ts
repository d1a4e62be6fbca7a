import { COMMANDS, COMMON_FLAGS, type CommandRow, EXIT_CODES, type Flag } from './command-table.ts';

export function generalHelp(): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length)) + 2;
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(width)}${summary}`);
  return `Runledger runs governed workflows and can prove what they did.

Usage: runledger COMMAND [ARGUMENTS] [FLAGS]

${lines.join('\n')}

A RUN is the beginning of its id, as long as no other run begins so, or \`latest\`.
Every command takes --json, and --help with an example.

Try it: runledger run examples/hello.yaml
`;
}

function usageLine(name: string, row: CommandRow): string {
  return ['runledger', name, ...row.positionals, '[FLAGS]'].join(' ');
}

export function commandHelp(name: string, row: CommandRow): string {
  const sections = [`${row.summary}.`, `Usage: ${usageLine(name, row)}`];
  if (row.notes) sections.push(row.notes);
  const own = Object.entries(row.flags);
  if (own.length > 0) sections.push(`Flags:\n${flagLines(own)}`);
  sections.push(`Flags of every command:\n${flagLines(Object.entries(COMMON_FLAGS))}`);
  sections.push(`Examples:\n${row.examples.map((example) => `  ${example}`).join('\n')}`);
  return `${sections.join('\n\n')}\n`;
}

function flagName(name: string, flag: Flag): string {
  const short = flag.short === undefined ? '' : `-${flag.short}, `;
  return `${short}--${name}${flag.value === undefined ? '' : ` ${flag.value}`}`;
}

function flagLines(flags: readonly (readonly [string, Flag])[]): string {
  const names = flags.map(([name, flag]) => flagName(name, flag));
  const width = Math.max(...names.map((name) => name.length)) + 2;
  return flags
    .map(([, flag], i) => `  ${names[i]!.padEnd(width)}${flag.summary}${flag.many ? ' (may be repeated)' : ''}`)
    .join('\n');
}

/** docs/cli.md. */
export function documentation(): string {
  const commands = Object.entries(COMMANDS).map(([name, row]) => {
    const flags = Object.entries(row.flags).map(
      ([flag, facts]) => `| \`${flagName(flag, facts).replaceAll('|', '\\|')}\` | ${facts.summary} |`,
    );
    const table = flags.length === 0 ? '' : `\n| flag | |\n|---|---|\n${flags.join('\n')}\n`;
    const notes = row.notes ? `\n${row.notes}\n` : '';
    return `## ${name}\n\n${row.summary}.\n\n\`\`\`sh\n${row.examples.join('\n')}\n\`\`\`\n${notes}${table}`;
  });
  const common = Object.entries(COMMON_FLAGS).map(
    ([flag, facts]) => `| \`${flagName(flag, facts)}\` | ${facts.summary} |`,
  );
  const exits = Object.entries(EXIT_CODES).map(([code, meaning]) => `| ${code} | ${meaning} |`);
  return `# The command line

A run is named by the beginning of its id, as long as no other run begins so, or by \`latest\`. Errors go to stderr with a
code, what is wrong, and the next step; the codes are in [errors.md](errors.md).

| flag of every command | |
|---|---|
${common.join('\n')}

| exit code | meaning |
|---|---|
${exits.join('\n')}

${commands.join('\n')}`;
}
