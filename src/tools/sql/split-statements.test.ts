import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { bindParams } from './bind-params.ts';
import { splitStatements } from './split-statements.ts';
import { statementsOf } from './sql-input.ts';

const texts = (sql: string): string[] => splitStatements(sql).map(({ text }) => text.trim());
const codeOf = (run: () => unknown): string => {
  try {
    run();
    return 'accepted';
  } catch (error) {
    return error instanceof AppError ? error.code : String(error);
  }
};

describe('splitting', () => {
  test.each([
    ['select 1; select 2;', ['select 1', 'select 2']],
    [';;  ; select 1', ['select 1']],
    ["select ';'; select 2", ["select ';'", 'select 2']],
    ["select 'it''s; fine'; select 2", ["select 'it''s; fine'", 'select 2']],
    ["select 'back\\'; select 2", ["select 'back\\'", 'select 2']],
    ["select E'it\\'s; x'; select 2", ["select E'it\\'s; x'", 'select 2']],
    ["select e'\\\\'; select 2", ["select e'\\\\'", 'select 2']],
    ['select ";"; select 2', ['select ";"', 'select 2']],
    ['select $$;$$; select 2', ['select $$;$$', 'select 2']],
    ['select $a$;$$;$b$;$a$; select 2', ['select $a$;$$;$b$;$a$', 'select 2']],
    ['select a$b$c; select d$b$', ['select a$b$c', 'select d$b$']],
    ['select 1 -- ; not here\n; select 2', ['select 1 -- ; not here', 'select 2']],
    ['select /* ; /* ; */ ; */ 1; select 2', ['select /* ; /* ; */ ; */ 1', 'select 2']],
    [
      'create rule r as on insert to t do also (delete from a; delete from b); select 1',
      ['create rule r as on insert to t do also (delete from a; delete from b)', 'select 1'],
    ],
    [
      'create function f() returns int language sql begin atomic select 1; select case when true then 2 end; end; select 3',
      [
        'create function f() returns int language sql begin atomic select 1; select case when true then 2 end; end',
        'select 3',
      ],
    ],
    [
      'create or replace procedure p() begin atomic delete from t; end; select 1',
      ['create or replace procedure p() begin atomic delete from t; end', 'select 1'],
    ],
    ['-- only a comment', []],
    ['/* only */ ; -- comments', []],
    ['', []],
  ])('%s', (sql, expected) => {
    expect(texts(sql)).toEqual(expected);
  });

  test.each(["select 'open", 'select "open', 'select $x$ open', 'select /* open', 'select /* /* */'])(
    '%s is refused, because its end cannot be known',
    (sql) => {
      expect(codeOf(() => splitStatements(sql))).toBe('INVALID_STEP_SCHEMA');
    },
  );

  test.each([
    'BEGIN',
    'begin; select 1; commit',
    'START TRANSACTION',
    'end',
    'rollback to a',
    'savepoint a',
    '/* x */ COMMIT',
    "prepare transaction 'x'",
    'set transaction read write',
    'set session characteristics as transaction read write',
  ])("%s is refused: the transaction is the tool's", (command) => {
    expect(codeOf(() => statementsOf('postgres', { command }))).toBe('INVALID_STEP_SCHEMA');
  });

  test('the first words ignore comments, case and opening parentheses', () => {
    expect(splitStatements('/* a */ -- b\n ((SELECT 1))')[0]?.words[0]).toBe('select');
    expect(splitStatements('WITH x AS (Delete FROM t RETURNING 1) SELECT 1')[0]?.mentionsWrite).toBe(true);
    expect(splitStatements("WITH x AS (SELECT 'delete') SELECT 1")[0]?.mentionsWrite).toBe(false);
  });

  test('any statements of quoted pieces, joined by semicolons, come apart as they were', () => {
    const piece = fc.oneof(
      fc.string().map((text) => `'${text.replaceAll("'", "''")}'`),
      fc.string().map((text) => `"${text.replaceAll('"', '""')}"`),
      fc.string().map((text) => `$q$${text.replaceAll('$', '')}$q$`),
      fc.string().map((text) => `/*${text.replace(/[/*]/g, '')}*/`),
      fc.string().map((text) => `--${text.replace(/[\r\n]/g, '')}\n`),
      fc.constantFrom('a', '1', '+', '(', ')', '[', ']', '$1', ':n', '::int', '\\', '.'),
    );
    const statement = fc.array(piece, { maxLength: 6 }).map((parts) => {
      const open = parts.filter((part) => part === '(').length - parts.filter((part) => part === ')').length;
      return `select ${parts.join(' ')}${' )'.repeat(Math.max(open, 0))}`;
    });
    fc.assert(
      fc.property(fc.array(statement, { minLength: 1, maxLength: 5 }), (statements) => {
        // A closing parenthesis too many is the server's to refuse; it must not join two statements.
        expect(splitStatements(statements.join(';')).map(({ text }) => text)).toEqual(statements);
      }),
    );
  });

  test('a text of a megabyte is read in one pass', () => {
    expect(splitStatements(`select ${'$'.repeat(300_000)}${':'.repeat(300_001)}${'/'.repeat(300_000)}`)).toHaveLength(
      1,
    );
    expect(splitStatements(`select '${"''".repeat(500_000)}'`)).toHaveLength(1);
    expect(splitStatements(`/*${'/*'.repeat(200_000)}${'*/'.repeat(200_001)} select 1`)).toHaveLength(1);
  });
});

describe('parameters', () => {
  const bound = (sql: string, params: unknown) => bindParams(splitStatements(sql), params as unknown[]);

  test('each statement gets the values that it uses, numbered from 1', () => {
    expect(bound('select $2, $1, $2; select $3', ['a', 'b', 'c'])).toEqual([
      { text: 'select $1, $2, $1', values: ['b', 'a'] },
      { text: ' select $1', values: ['c'] },
    ]);
  });

  test('names come from a mapping; casts, assignments, quotes and slices are left alone', () => {
    expect(bound("select :a::text, f(x := 1), ':a', xs[1:n], :a", { a: 1 })).toEqual([
      { text: "select $1::text, f(x := 1), ':a', xs[1:n], $1", values: [1] },
    ]);
    expect(bound('select a::b, c[d:e]', undefined)).toEqual([{ text: 'select a::b, c[d:e]', values: [] }]);
  });

  test('a value that is cast to json is sent as JSON, whatever it is', () => {
    expect(bound('select $1::jsonb, $1, $2 :: JSON, $3::jsonb[]', [[1, 'a'], null, ['b']])).toEqual([
      { text: 'select $1::jsonb, $2, $3 :: JSON, $4::jsonb[]', values: ['[1,"a"]', [1, 'a'], null, ['b']] },
    ]);
  });

  test.each([
    ['select $1', undefined],
    ['select $2', ['a']],
    ['select $0', ['a']],
    ['select 1', ['a']],
    ['select $1', { a: 1 }],
    ['select :b', { a: 1 }],
    ['select :toString', {}],
  ])('%s with %j is refused', (sql, params) => {
    expect(codeOf(() => bound(sql, params))).toBe('INVALID_STEP_SCHEMA');
  });
});
