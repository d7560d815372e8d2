// What a device must never forget: one JSON file (mode 0600) that is replaced as a whole and owned by one process.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';

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

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** The journal of one device; a second process is refused. */
export class Journal {
  constructor(folder) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.path = join(folder, 'node-journal.json');
    this.lock = `${this.path}.lock`;
    this.#own();
    this.data = existsSync(this.path) ? JSON.parse(readFileSync(this.path, 'utf8')) : structuredClone(EMPTY);
    if (this.data.version !== 1) throw new Error(`${this.path} is of another version`);
  }

  #own() {
    if (existsSync(this.lock)) {
      const pid = Number(readFileSync(this.lock, 'utf8'));
      if (pid && pid !== process.pid && isAlive(pid)) throw new Error(`process ${pid} uses ${this.path}`);
      rmSync(this.lock);
    }
    const file = openSync(this.lock, 'wx', 0o600);
    writeSync(file, String(process.pid));
    closeSync(file);
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
    rmSync(this.lock, { force: true });
  }
}
