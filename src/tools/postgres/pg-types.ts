import { decimalValue, floatValue, instantValue, integerValue, timestampValue } from '../sql/values.ts';

type Parser = (text: string) => unknown;

const same: Parser = (text) => text;
const json: Parser = (text) => JSON.parse(text);
const bytes: Parser = (text) =>
  text.startsWith('\\x')
    ? Buffer.from(text.slice(2), 'hex').toString('base64')
    : Buffer.from(text, 'latin1').toString('base64');

/** By type oid of pg_type.dat, with the oid of the array type. What is not listed stays text. */
const TYPES: readonly (readonly [oid: number, array: number, parse: Parser])[] = [
  [16, 1000, (text) => text === 't'],
  [17, 1001, bytes],
  [20, 1016, integerValue],
  [21, 1005, integerValue],
  [23, 1007, integerValue],
  [26, 1028, integerValue],
  [700, 1021, floatValue],
  [701, 1022, floatValue],
  [1700, 1231, decimalValue],
  [114, 199, json],
  [3802, 3807, json],
  [1114, 1115, timestampValue],
  [1184, 1185, instantValue],
  // Only their arrays need reading: char, name, text, varchar, bpchar, date, time, timetz, interval, uuid, inet, cidr.
  [18, 1002, same],
  [19, 1003, same],
  [25, 1009, same],
  [1043, 1015, same],
  [1042, 1014, same],
  [1082, 1182, same],
  [1083, 1183, same],
  [1266, 1270, same],
  [1186, 1187, same],
  [2950, 2951, same],
  [869, 1041, same],
  [650, 651, same],
];

const PARSERS: ReadonlyMap<number, Parser> = new Map(
  TYPES.flatMap(([oid, array, parse]) => [
    [oid, parse] as const,
    [array, (text: string) => parseArray(text, parse)] as const,
  ]),
);

/** For the `types` of a client: values as JSON can hold them. */
export const PG_TYPES = {
  getTypeParser(oid: number): Parser {
    return PARSERS.get(oid) ?? same;
  },
};

/** Reads `{a,"b c",NULL,{d}}`, with the bounds `[2:3]=` that arrays not starting at 1 have in front. */
function parseArray(text: string, parse: Parser): unknown[] {
  let at = text.indexOf('{') + 1;
  const list = (): unknown[] => {
    const items: unknown[] = [];
    for (;;) {
      const char = text[at];
      if (char === undefined || char === '}') {
        at += 1;
        return items;
      }
      if (char === ',') at += 1;
      else if (char === '{') {
        at += 1;
        items.push(list());
      } else if (char === '"') items.push(parse(quoted()));
      else {
        const bare = /[^,}]*/y;
        bare.lastIndex = at;
        const word = bare.exec(text)![0];
        at += word.length;
        items.push(word.toUpperCase() === 'NULL' ? null : parse(word));
      }
    }
  };
  const quoted = (): string => {
    let value = '';
    for (at += 1; text[at] !== '"' && at < text.length; at++) {
      if (text[at] === '\\') at += 1;
      value += text[at];
    }
    at += 1;
    return value;
  };
  return list();
}
