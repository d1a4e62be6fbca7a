import { AppError } from '../../contracts/errors.ts';
import { COMMANDS, COMMON_FLAGS } from '../command-table.ts';
import type { Command } from '../context.ts';

const SHELLS: Readonly<Record<string, () => string>> = { bash, zsh, fish };

export const completion: Command = async ({ args, terminal }) => {
  const shell = args.positionals[0]!;
  const make = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
  if (!make) throw new AppError('USAGE', `There is completion for ${Object.keys(SHELLS).join(', ')}, not '${shell}'.`);
  if (terminal.json) terminal.printJson({ shell, script: make() });
  else terminal.write(make());
  return 0;
};

const names = (): string => Object.keys(COMMANDS).join(' ');
const flagsOf = (flags: object): string =>
  [...Object.keys(flags), ...Object.keys(COMMON_FLAGS)].map((flag) => `--${flag}`).join(' ');

function bash(): string {
  const cases = Object.entries(COMMANDS).map(([name, row]) => `    ${name}) words="${flagsOf(row.flags)}" ;;`);
  return `_runledger() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=( $(compgen -W "${names()}" -- "$current") ); return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join('\n')}
  esac
  case "$current" in
    -*) COMPREPLY=( $(compgen -W "$words" -- "$current") ) ;;
    *) COMPREPLY=( $(compgen -f -- "$current") ) ;;
  esac
}
complete -o filenames -F _runledger runledger
`;
}

function zsh(): string {
  return `#compdef runledger
autoload -U +X bashcompinit && bashcompinit
${bash()}`;
}

function fish(): string {
  const lines = Object.entries(COMMANDS).flatMap(([name, row]) => [
    `complete -c runledger -n __fish_use_subcommand -a ${name} -d '${row.summary.replaceAll("'", "\\'")}'`,
    ...Object.entries({ ...row.flags, ...COMMON_FLAGS }).map(
      ([flag, { summary }]) =>
        `complete -c runledger -n '__fish_seen_subcommand_from ${name}' -l ${flag} -d '${summary.replaceAll("'", "\\'")}'`,
    ),
  ]);
  return `${lines.join('\n')}\n`;
}
