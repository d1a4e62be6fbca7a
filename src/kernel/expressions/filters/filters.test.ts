import { describe, expect, test } from 'vitest';
import { AppError } from '../../../contracts/errors.ts';
import { compileTemplate } from '../compile-template.ts';

const scope = {
  text: 'Hello World',
  json: '{"b": [1, 2], "a": null}',
  rows: [
    { id: 1, kind: 'b' },
    { id: 2, kind: 'A' },
    { id: 3, kind: 'b' },
  ],
  a: { x: 1, n: { p: 1, q: 2 } },
  b: { y: 2, n: { q: 3 } },
  when: '2024-02-29T23:59:58.123456+02:00',
};

function evaluate(template: string): unknown {
  return compileTemplate(template).evaluate(scope);
}

function codeOf(template: string): string {
  try {
    evaluate(template);
  } catch (error) {
    if (error instanceof AppError) return error.code;
    throw error;
  }
  return 'none';
}

/** Filters that Jinja2 does not have; the others are in the corpus. */
describe('filters beyond Jinja', () => {
  test.each([
    ['{{ json | fromjson }}', { b: [1, 2], a: null }],
    ['{{ json | from_json | to_json }}', '{"a": null, "b": [1, 2]}'],
    ["{{ {'b': '<', 'a': 'ü'} | tojson }}", '{"a": "ü", "b": "<"}'],
    ["{{ 'größe 😀' | b64encode }}", 'Z3LDtsOfZSDwn5iA'],
    ["{{ 'Z3LDtsOfZSDwn5iA' | b64decode }}", 'größe 😀'],
    ["{{ 'w7w_' | b64decode }}", 'ü?'],
    ["{{ 'YQ' | b64decode }}", 'a'],
    ["{{ 'YQ==\n' | b64decode }}", 'a'],
    ["{{ 'abc' | hash('sha256') }}", 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    [
      "{{ 'abc' | hash('sha512') }}",
      'ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f',
    ],
    ["{{ 'ü' | hash }}", '607474ca475a9724d7360aba71a56d5df77e61350e3f724cfa1f46e857e2d85f'],
    ["{{ 'a, b' | split(', ') }}", ['a', 'b']],
    ["{{ ['yes', 'OFF', 1, 0, none, '1'] | map('bool') | list }}", [true, false, true, false, false, true]],
    ['{{ a | combine(b) }}', { x: 1, y: 2, n: { q: 3 } }],
    ['{{ a | combine(b, recursive=true) }}', { x: 1, y: 2, n: { p: 1, q: 3 } }],
    ['{{ a | keys }}', ['n', 'x']],
    ['{{ b | values }}', [{ q: 3 }, 2]],
    ["{{ [['k', 1], ['l', 2]] | dict }}", { k: 1, l: 2 }],
    ['{{ [[1, [2, [3]]], 4] | flatten }}', [1, 2, 3, 4]],
    ['{{ [[1, [2, [3]]], 4] | flatten(1) }}', [1, [2, [3]], 4]],
    [
      "{{ rows | groupby('kind') }}",
      [
        { grouper: 'A', list: [{ id: 2, kind: 'A' }] },
        {
          grouper: 'b',
          list: [
            { id: 1, kind: 'b' },
            { id: 3, kind: 'b' },
          ],
        },
      ],
    ],
    ["{% for kind, found in rows | groupby('kind') %}{{ kind }}{{ found | length }} {% endfor %}", 'A1 b2 '],
    ["{{ rows | groupby('kind') | map(attribute=0) | join }}", 'Ab'],
    ["{{ (rows | groupby('kind'))[0][1][0].id }}", 2],
  ])('%s', (template, expected) => {
    expect(evaluate(template)).toEqual(expected);
  });

  test.each([
    ["{{ text | regex_replace('o', '0') }}", 'Hell0 W0rld'],
    ["{{ text | regex_replace('o', '0', count=1) }}", 'Hell0 World'],
    ["{{ text | regex_replace('(\\w+) (\\w+)', '\\2, \\1') }}", 'World, Hello'],
    ["{{ text | regex_replace('(?P<a>\\w+) .*', '\\g<a>') }}", 'Hello'],
    ["{{ text | regex_replace('HELLO', 'x', ignorecase=true) }}", 'x World'],
    ["{{ 'a\nb' | regex_replace('^', '> ', multiline=true) }}", '> a\n> b'],
    ["{{ 'abc' | regex_replace('', '-') }}", '-a-b-c-'],
    ["{{ 'a.b' | regex_escape }}", 'a\\.b'],
    ["{{ text | regex_search('W\\w+') }}", 'World'],
    ["{{ text | regex_search('(H)(x)?') }}", ['H', null]],
    ["{{ text | regex_search('zzz') }}", null],
    ["{{ text | regex_match('World') }}", null],
    ["{{ text | regex_match('Hel+') }}", 'Hell'],
    ["{{ text | regex_findall('o') }}", ['o', 'o']],
    [
      "{{ text | regex_findall('(\\w)(o)') }}",
      [
        ['l', 'o'],
        ['W', 'o'],
      ],
    ],
    ["{{ text is match('Hello') and text is not match('World') and text is search('World') }}", true],
    ["{{ 'größe' | regex_replace('\\p{L}', 'x') }}", 'xxxxx'],
  ])('%s', (template, expected) => {
    expect(evaluate(template)).toEqual(expected);
  });

  test.each([
    ['{{ when | to_datetime }}', '2024-02-29T23:59:58.123456+02:00'],
    ["{{ '2024-01-02' | to_datetime }}", '2024-01-02T00:00:00'],
    ["{{ '2024-01-02 03:04:05' | to_datetime }}", '2024-01-02T03:04:05'],
    ["{{ '2024-01-02T03:04Z' | to_datetime }}", '2024-01-02T03:04:00+00:00'],
    ['{{ 0 | to_datetime }}', '1970-01-01T00:00:00+00:00'],
    ['{{ -1.5 | to_datetime }}', '1969-12-31T23:59:58.500000+00:00'],
    ['{{ 253402300799 | to_datetime }}', '9999-12-31T23:59:59+00:00'],
    ["{{ '29/02/2024 01:05 PM' | to_datetime('%d/%m/%Y %I:%M %p') }}", '2024-02-29T13:05:00'],
    ["{{ 'Mon Jan 05 2024' | to_datetime('%a %b %d %Y') }}", '2024-01-05T00:00:00'],
    [
      "{{ when | strftime('%Y-%m-%d %H:%M:%S.%f %z %j %a %A %b %B %p %I %y %-d %% %U %W %u %w') }}",
      '2024-02-29 23:59:58.123456 +0200 060 Thu Thursday Feb February PM 11 24 29 % 08 09 4 4',
    ],
    ["{{ 1700000000 | strftime('%F %T') }}", '2023-11-14 22:13:20'],
    ['{{ (when | to_datetime).year }}', 2024],
    ['{{ (when | to_datetime).timestamp() }}', 1709243998.123456],
    ["{{ (when | to_datetime).strftime('%H') }}", '23'],
    ['{{ (when | to_datetime).isoformat() }}', '2024-02-29T23:59:58.123456+02:00'],
    ["{{ '2024-01-01' | to_datetime < '2024-01-01T00:00:01Z' | to_datetime }}", true],
    ["{{ '2024-01-01T01:00:00+01:00' | to_datetime == '2024-01-01' | to_datetime }}", true],
    ["{{ [{'t': when | to_datetime}] }}", [{ t: '2024-02-29T23:59:58.123456+02:00' }]],
    ["at {{ '2024-01-02' | to_datetime }}", 'at 2024-01-02T00:00:00'],
    ["{{ {'t': '2024-01-02' | to_datetime} | tojson }}", '{"t": "2024-01-02T00:00:00"}'],
    ["{{ ['2024-02-01', '2024-01-01'] | map('to_datetime') | sort | first }}", '2024-01-01T00:00:00'],
  ])('%s', (template, expected) => {
    expect(evaluate(template)).toEqual(expected);
  });

  test.each([
    "{{ '2023-02-29' | to_datetime }}",
    "{{ '2024-13-01' | to_datetime }}",
    "{{ 'tomorrow' | to_datetime }}",
    "{{ '2024-01-01' | to_datetime('%Y') }}",
    "{{ '2024' | to_datetime('%Q') }}",
    "{{ '2024-01-01' | strftime('%Q') }}",
    '{{ 1e15 | to_datetime }}',
    '{{ none | to_datetime }}',
    "{{ '!' | b64decode }}",
    "{{ '/w==' | b64decode }}",
    "{{ '{' | fromjson }}",
    "{{ 'maybe' | bool }}",
    "{{ 'x' | hash('crc32') }}",
    "{{ 'x' | regex_replace('(', '') }}",
    "{{ 'x' | regex_replace('a(?=b)', '') }}",
    "{{ 'x' | regex_replace('(x)', '\\2') }}",
    "{{ 'x' | regex_replace('x', '\\g<n>') }}",
    '{{ 5 | combine({}) }}',
    '{{ [1] | dict }}',
  ])('%s is TEMPLATE_TYPE', (template) => {
    expect(codeOf(template)).toBe('TEMPLATE_TYPE');
  });

  test('weak hashes are refused', () => {
    expect(codeOf("{{ 'x' | hash('md5') }}")).toBe('TEMPLATE_FORBIDDEN');
  });
});
