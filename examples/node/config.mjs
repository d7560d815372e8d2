// A device's configuration (docs/schemas/config-agent.json), its policy, and its data.
import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { readIdentity } from './token.mjs';
import { withDefaults } from './schema.mjs';

const json = (path) => JSON.parse(readFileSync(path, 'utf8'));
const TIMING = { poll_seconds: 60, retry_seconds: 5, retry_limit_seconds: 300, late_seconds: 600, resume_seconds: 300, join_late: true };
const BUDGET = { epsilon: '10', delta: '0.00001', days: 365 };

/** The fields of one line of CSV, with quotes as in RFC 4180. */
function csvRow(line) {
  return [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map((found) => (found[1] ?? found[2]).replaceAll('""', '"'));
}

function csvValue(source, path, metric) {
  const [header, ...rows] = readFileSync(path, 'utf8').replace(/^\uFEFF/, '').split(/\r?\n/).filter((line) => line).map(csvRow);
  const column = header.indexOf(source.columns?.[metric] ?? metric);
  const row = rows.at(source.row ?? -1);
  return column < 0 || row === undefined ? null : row[column] ?? null;
}

function lineValue(source, path, metric) {
  const lines = readFileSync(path, 'utf8').split('\n').filter((line) => line.trim());
  const line = lines.at(source.row ?? -1);
  return line === undefined ? null : JSON.parse(line)[metric] ?? null;
}

/** The datum of a metric: from the command line, else from the source; null if there is none. */
export function readValue(config, metric) {
  if (Object.hasOwn(config.values, metric)) return config.values[metric];
  try {
    const path = resolve(config.folder, config.source.path);
    return config.source.kind === 'csv' ? csvValue(config.source, path, metric) : lineValue(config.source, path, metric);
  } catch {
    return null; // a source that cannot be read counts as a missing answer, like any other
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
