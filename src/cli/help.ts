import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { COMMANDS, COMMON_FLAGS, type CommandRow, EXIT_CODES, type Flag } from './command-table.ts';
import { shellWord } from './next-command.ts';

export function generalHelp(columns = 100): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length)) + 2;
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(width)}${summary}`);
  return `Runledger runs governed workflows and can prove what they did.

Usage: runledger COMMAND [ARGUMENTS] [FLAGS]

${lines.join('\n')}

${wrapped('A RUN is the beginning of its id, as long as no other run begins so, or `latest`.', columns - 1)}
Every command takes --json, and --help with an example.

Try it: runledger init hello
`;
}

function usageLine(name: string, row: CommandRow): string {
  return ['runledger', name, ...row.positionals, '[FLAGS]'].join(' ');
}

/** Words in lines that are not longer than the width; a word that is stays whole. */
function wrapped(text: string, width: number): string {
  return text.replace(new RegExp(`(?!$)(.{1,${Math.max(20, width)}})( +|$)`, 'g'), '$1\n').trimEnd();
}

export function commandHelp(name: string, row: CommandRow, columns = 100): string {
  const width = Math.min(columns - 1, 100);
  const sections = [wrapped(`${row.summary}.`, width), `Usage: ${usageLine(name, row)}`];
  if (row.notes) sections.push(wrapped(row.notes, width));
  const own = Object.entries(row.flags);
  if (own.length > 0) sections.push(`Flags:\n${flagLines(own, width)}`);
  sections.push(wrapped(`With --json: ${row.json}`, width));
  sections.push(`Flags of every command:\n${flagLines(Object.entries(COMMON_FLAGS), width)}`);
  sections.push(`Examples:\n${row.examples.map((example) => `  ${typed(example)}`).join('\n')}`);
  return `${sections.join('\n\n')}\n`;
}

/** The playbooks come with the package, which is somewhere else than the person who asks. */
const PLAYBOOKS = fileURLToPath(new URL('../../examples', import.meta.url));

/** The example as it works from here. */
function typed(example: string): string {
  const near = relative(process.cwd(), PLAYBOOKS);
  const place = near.startsWith('..') ? PLAYBOOKS : near;
  // A program that was built by itself has no playbooks beside it.
  return existsSync(PLAYBOOKS)
    ? example.replace(/\bexamples\/(\S+)/, (_, file) => shellWord(join(place, file)))
    : example;
}

function flagName(name: string, flag: Flag): string {
  const short = flag.short === undefined ? '' : `-${flag.short}, `;
  return `${short}--${name}${flag.value === undefined ? '' : ` ${flag.value}`}`;
}

function flagLines(flags: readonly (readonly [string, Flag])[], columns: number): string {
  const names = flags.map(([name, flag]) => flagName(name, flag));
  const width = Math.max(...names.map((name) => name.length)) + 2;
  return flags
    .map(([, { summary, many }], i) => {
      const text = wrapped(`${summary}${many ? ' (may be repeated)' : ''}`, columns - width - 2);
      return `  ${names[i]!.padEnd(width)}${text.replaceAll('\n', `\n${' '.repeat(width + 2)}`)}`;
    })
    .join('\n');
}

/** docs/cli.md. */
export function documentation(): string {
  const commands = Object.entries(COMMANDS).map(([name, row]) => {
    const flags = Object.entries(row.flags).map(
      ([flag, facts]) => `| \`${flagName(flag, facts).replaceAll('|', '\\|')}\` | ${facts.summary} |`,
    );
    const table = flags.length === 0 ? '' : `\n| flag | |\n|---|---|\n${flags.join('\n')}\n`;
    const notes = `${row.notes ? `\n${row.notes}\n` : ''}\nWith \`--json\`: ${row.json}\n`;
    return `## ${name}\n\n${row.summary}.\n\n\`\`\`sh\n${row.examples.join('\n')}\n\`\`\`\n${notes}${table}`;
  });
  const common = Object.entries(COMMON_FLAGS).map(
    ([flag, facts]) => `| \`${flagName(flag, facts)}\` | ${facts.summary} |`,
  );
  const exits = Object.entries(EXIT_CODES).map(([code, meaning]) => `| ${code} | ${meaning} |`);
  return `# The command line

A run is named by the beginning of its id, as long as no other run begins so, or by \`latest\`. Errors go to stderr with a
code, what is wrong, and the next step; the codes are in [errors.md](errors.md).

With \`--json\` stdout holds JSON and nothing else: one object, or one object per line where that is said below (\`lines\`). Errors
are \`{"error": {code, message, next, problems?}}\` on stderr. The shapes are stable: fields may be added, none is renamed or
removed within a major version. Fields with \`?\` may be missing.

Colours follow the terminal; \`NO_COLOR\` switches them off, \`FORCE_COLOR\` on. A terminal with \`TERM=dumb\`, a pipe and \`CI\` get
plain lines instead of a tree that is painted again. Where the locale is not UTF-8, and on Windows outside of Windows Terminal,
signs are plain ASCII.

| flag of every command | |
|---|---|
${common.join('\n')}

| exit code | meaning |
|---|---|
${exits.join('\n')}

${commands.join('\n')}`;
}
