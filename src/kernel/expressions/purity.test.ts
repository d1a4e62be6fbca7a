import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';

const folder = import.meta.dirname;
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
  (name) => name.endsWith('.ts') && !name.endsWith('.test.ts'),
);
const ALLOWED = ['@huggingface/jinja', '@noble/hashes/sha2.js', 're2js'];

describe('the expressions are pure', () => {
  test.each(files)('%s imports nothing of the host and uses no clock, chance or code from text', (name) => {
    const source = readFileSync(join(folder, name), 'utf8');
    const imports = Array.from(source.matchAll(/^(?:import|export) [^;]*? from '([^']+)';/gm), (match) => match[1]!);
    for (const path of imports) {
      const isInside =
        path.startsWith('./') || /^\.\.\/(?!\.\.)/.test(path) || /^(?:\.\.\/)+(?:contracts|lib)\//.test(path);
      expect(isInside || ALLOWED.includes(path), path).toBe(true);
    }
    const code = source.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '');
    expect(code).not.toMatch(
      /\bnew Date\b|\bDate\.|\bMath\.random\b|\beval\(|\bnew Function\b|\bprocess\.|\bimport\(|\bsetTimeout\b|\bperformance\b/,
    );
    expect(code).not.toMatch(/\bTextEncoder\b|\bTextDecoder\b|\bbtoa\b|\batob\b|\bBuffer\b|\bIntl\b|toLocale/);
  });

  test('there is something to look at', () => {
    expect(files.length).toBeGreaterThan(30);
  });
});
