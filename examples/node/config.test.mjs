// Where the datum comes from.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { csvRows, readValue } from './config.mjs';

/** The value of `m` in a file with this content, and what was said. */
function read(kind, content, more = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'device-'));
  try {
    writeFileSync(join(folder, 'data'), content);
    const said = [];
    const value = readValue({ values: {}, folder, source: { kind, path: 'data', ...more } }, 'm', (words) => said.push(words));
    return [value, ...said];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('rows of CSV are those of RFC 4180', () => {
  assert.deepEqual(csvRows('a,"b\r\n""c"""\r\n1,\n\n"",2,'), [['a', 'b\r\n"c"'], ['1', ''], ['', '2', '']]);
  assert.deepEqual(csvRows('t,m\na\u2028b\u0085,1\n'), [['t', 'm'], ['a\u2028b\u0085', '1']]);
  assert.throws(() => csvRows('a\n"open'), /row 2 is not CSV/);
});

test('a row is never its neighbour, whatever characters its texts hold', () => {
  const lines = [0, 1, 2].map((m) => `${JSON.stringify({ t: m ? '' : 'a\u2028[1]\u2029b\u0085' , m })}\n`).join('');
  for (const row of [0, 1, 2]) assert.deepEqual(read('jsonl', `\uFEFF${lines}`, { row }), [row]);
  assert.deepEqual(read('csv', '\uFEFFt,m\na\u2028b,1\nx,2\n', { row: 1 }), ['2']);
});

test('what leaves the cell unclear is no value, and is said', () => {
  const cases = ['id, m\n1,7\n', 'id,M\n1,7\n', 'm,m\n1,7\n', 'id,m\n1,7\n,\n', 'id,m\n1,7,\n', 'id,m\n', '', Buffer.from('m\n\xe9\n', 'latin1')];
  for (const content of cases) {
    const [value, ...said] = read('csv', content);
    assert.equal(value, null);
    assert.equal(said.length, 1);
    assert.match(said[0], /^source: /);
  }
  for (const content of ['{"M": 7}\n', '{"m": 7}\n{"m":', '']) assert.equal(read('jsonl', content).length, 2);
  assert.deepEqual(read('csv', 'id,m\n1,\n'), [null]);
  assert.deepEqual(read('csv', 'id,m\n1,NA\n', { no_value: ['NA'] }), [null]);
});
