// A device's configuration (docs/schemas/config-agent.json), its policy, and its data.
import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { readIdentity } from './token.mjs';
import { withDefaults } from './schema.mjs';

const json = (path) => JSON.parse(readFileSync(path, 'utf8'));
const TIMING = { poll_seconds: 60, retry_seconds: 5, retry_limit_seconds: 300, late_seconds: 600, resume_seconds: 300, join_late: true };
const BUDGET = { epsilon: '10', delta: '0.00001', days: 365 };

const CELL = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|$)/y; // RFC 4180; a quoted cell may span lines

function wrong(why) {
  throw new Error(why);
}

/** The rows of a CSV file, without blank lines. Throws where it is none: a cell is never guessed. */
export function csvRows(text) {
  const rows = [];
  let row = [];
  CELL.lastIndex = 0;
  while (CELL.lastIndex < text.length) {
    const found = CELL.exec(text) ?? wrong(`row ${rows.length + 1} is not CSV with commas`);
    row.push(found[1].startsWith('"') ? found[1].slice(1, -1).replaceAll('""', '"') : found[1]);
    if (found[2] === ',' && CELL.lastIndex < text.length) continue;
    if (found[2] === ',') row.push('');
    if (row.length > 1 || row[0] || found[1]) rows.push(row);
    row = [];
  }
  return rows;
}

function csvValue(source, text, metric) {
  const [header = [], ...rows] = csvRows(text);
  const name = source.columns?.[metric] ?? metric;
  const column = header.indexOf(name);
  if (column < 0 || header.lastIndexOf(name) !== column) wrong(`column '${name}' is ${column < 0 ? 'not there' : 'there more than once'}`);
  const row = rows.at(source.row ?? -1) ?? wrong('the row is not there');
  if (row.length !== header.length) wrong(`${row.length} cells where the header has ${header.length}`);
  if (row.length > 1 && row.every((cell) => !cell.trim())) wrong('a row of empty cells');
  return row[column].trim() ? row[column] : null;
}

function lineValue(source, text, metric) {
  const lines = text.split('\n').filter((line) => line.trim());
  const members = JSON.parse(lines.at(source.row ?? -1) ?? wrong('the line is not there'));
  return Object.hasOwn(members, metric) ? members[metric] : wrong(`member '${metric}' is not there`);
}

/** The datum of a metric: from the command line, else from the source; null if there is none, and `say` says why. */
export function readValue(config, metric, say) {
  if (Object.hasOwn(config.values, metric)) return config.values[metric];
  const { source } = config;
  try {
    const bytes = readFileSync(resolve(config.folder, source.path));
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes); // which drops a byte-order mark
    const value = source.kind === 'csv' ? csvValue(source, text, metric) : lineValue(source, text, metric);
    return (source.no_value ?? []).includes(String(value).trim()) ? null : value;
  } catch (error) {
    say(`source: ${error.message}`);
    return null; // it counts as a missing answer, like any other
  }
}

/** Reads everything that configures a device; throws with the name of the file that is wrong. */
export function readConfig(path, values) {
  const folder = dirname(resolve(path));
  const config = withDefaults('config-agent', json(path));
  if (!['csv', 'jsonl'].includes(config.source.kind)) throw new Error('the source must be csv or jsonl; or use --value METRIC=VALUE');
  const identity = resolve(folder, config.attestation.identity);
  if (statSync(identity).mode & 0o077) throw new Error(`${identity} can be read by others: chmod 600`);
  const ca = config.tls_ca ? readFileSync(resolve(folder, config.tls_ca)) : undefined;
  return {
    ...config,
    folder,
    values,
    state: resolve(folder, config.state_dir),
    policy: withDefaults('policy', json(resolve(folder, config.policy))),
    identity: readIdentity(readFileSync(identity, 'utf8')),
    timing: { ...TIMING, ...config.timing },
    budget: { ...BUDGET, ...config.budget },
    attributes: config.attributes ?? {},
    http: { ca, insecure: config.insecure_http },
  };
}
