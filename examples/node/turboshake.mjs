// TurboSHAKE128 (RFC 9861): Keccak-p[1600] with 12 rounds, rate 168 bytes.
const RATE = 168;
const MASK = (1n << 64n) - 1n;
const ROUNDS = [ // round constants 12 to 23 of Keccak-f[1600]
  0x000000008000808bn, 0x800000000000008bn, 0x8000000000008089n, 0x8000000000008003n, 0x8000000000008002n,
  0x8000000000000080n, 0x000000000000800an, 0x800000008000000an, 0x8000000080008081n, 0x8000000000008080n,
  0x0000000080000001n, 0x8000000080008008n,
];
const ROTATE = [ // by lane x + 5 y
  0n, 1n, 62n, 28n, 27n, 36n, 44n, 6n, 55n, 20n, 3n, 10n, 43n, 25n, 39n, 41n, 45n, 15n, 21n, 8n, 18n, 2n, 61n, 56n, 14n,
];

const rotl = (x, n) => ((x << n) | (x >> (64n - n))) & MASK;

function permute(a) {
  for (const constant of ROUNDS) {
    const c = [0, 1, 2, 3, 4].map((x) => a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20]);
    const d = [0, 1, 2, 3, 4].map((x) => c[(x + 4) % 5] ^ rotl(c[(x + 1) % 5], 1n));
    const b = new Array(25);
    for (let x = 0; x < 5; x++) {
      for (let y = 0; y < 5; y++) b[y + 5 * ((2 * x + 3 * y) % 5)] = rotl(a[x + 5 * y] ^ d[x], ROTATE[x + 5 * y]);
    }
    for (let i = 0; i < 25; i++) {
      const row = i - (i % 5);
      a[i] = b[i] ^ (~b[row + ((i + 1) % 5)] & MASK & b[row + ((i + 2) % 5)]);
    }
    a[0] ^= constant;
  }
}

/** Returns a reader: called with n, it returns the next n bytes of the output stream. */
export function turboshake128(message, domain) {
  const padded = Buffer.alloc((Math.floor(message.length / RATE) + 1) * RATE);
  message.copy(padded);
  padded[message.length] = domain;
  padded[padded.length - 1] ^= 0x80;
  const state = new Array(25).fill(0n);
  for (let at = 0; at < padded.length; at += RATE) {
    for (let lane = 0; lane < RATE / 8; lane++) state[lane] ^= padded.readBigUInt64LE(at + 8 * lane);
    permute(state);
  }
  const block = Buffer.alloc(RATE);
  const squeeze = () => { for (let lane = 0; lane < RATE / 8; lane++) block.writeBigUInt64LE(state[lane], 8 * lane); };
  let at = 0;
  squeeze();
  return (size) => {
    const out = Buffer.alloc(size);
    for (let i = 0; i < size; i++) {
      if (at === RATE) {
        permute(state);
        squeeze();
        at = 0;
      }
      out[i] = block[at++];
    }
    return out;
  };
}
