// What a device must never forget: one JSON file (mode 0600) that is replaced as a whole and owned by one process.
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, fsyncSync, ftruncateSync, mkdirSync, openSync, readFileSync, renameSync, writeSync, constants } from 'node:fs';
import { dirname, join } from 'node:path';

export const LOCK = 'agent.lock';

const EMPTY = {
  version: 1,
  tree: null, // { size, root }: the last checkpoint that was accepted
  distrust: null, // why this log is no longer trusted
  directories: {}, // epoch: directory as first seen
  keySets: {}, // period: key set as first seen
  slots: {}, // issuer/epoch/slot: hash of the first recipe that named it
  tokens: {}, // epoch/slot: secrets, request, time of the request, token
  recipes: {}, // hash: decision, time and bytes of the report, tries
  ledger: [], // { time, epsilon }: what was charged
};

/**
 * Locks a device's folder as every agent does (docs/device.md, section 1): flock(2), exclusive, on `agent.lock`. Returns
 * the open file, which holds the lock until it is closed or the process ends. Node has no flock; the lock belongs to the
 * open file, which the program `flock` inherits and leaves locked.
 */
function lockFolder(folder) {
  const file = openSync(join(folder, LOCK), constants.O_CREAT | constants.O_RDWR, 0o600);
  const { status, error } = spawnSync('flock', ['-x', '-n', '3'], { stdio: ['ignore', 'ignore', 'ignore', file] });
  if (status === 0) {
    ftruncateSync(file, 0);
    writeSync(file, String(process.pid), 0);
    return file;
  }
  const holder = readFileSync(join(folder, LOCK), 'utf8').slice(0, 32);
  closeSync(file);
  if (error) throw new Error(`the program flock, which locks a device's folder, cannot be run (${error.code}); install util-linux`);
  throw new Error(`${folder}: another agent is at work here${/^[0-9]+$/.test(holder) ? ` (pid ${holder})` : ''}`);
}

/** The journal of one device; a second process is refused, whatever program it runs. */
export class Journal {
  constructor(folder) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.path = join(folder, 'node-journal.json');
    this.lock = lockFolder(folder);
    this.data = existsSync(this.path) ? JSON.parse(readFileSync(this.path, 'utf8')) : structuredClone(EMPTY);
    if (this.data.version !== 1) throw new Error(`${this.path} is of another version`);
  }

  /** Applies `change` and stores the result, all of it or nothing, before anything acts on it. */
  update(change) {
    const next = structuredClone(this.data);
    change(next);
    const draft = `${this.path}.new`;
    const file = openSync(draft, 'w', 0o600);
    writeSync(file, JSON.stringify(next));
    fsyncSync(file);
    closeSync(file);
    renameSync(draft, this.path);
    const folder = openSync(dirname(this.path), 'r');
    fsyncSync(folder);
    closeSync(folder);
    this.data = next;
  }

  close() {
    closeSync(this.lock);
  }
}
