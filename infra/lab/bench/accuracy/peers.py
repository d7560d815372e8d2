"""The peer of heavy hitters in the local model: the prefix-extending method of the package ``pure-ldp``.

Its oracle is the Hadamard count-mean sketch with 128 hash functions of 1,024 values. The package's default, optimised
local hashing, keeps a number for each of the 2^32 items and updates all of them with every report. The first prefixes
have 12 bits, further ones four bits more each, and 48 are kept. The sketch needs NumPy before 2.3 and xxhash before 4.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np

from infra.lab.devices.vectorised import Words
from tacit.extras import install_command

NAME = "pure-ldp PEM + HCMS"
START, STEP, KEEP = 8, 4, 48
HASHES, WIDTH = 128, 1024


def why_not() -> str | None:
    """What to do so that the peer can be measured; None if it can be."""
    if importlib.util.find_spec("pure_ldp") is None:
        return f"{NAME} is not installed, and its columns are empty; install it with: {install_command('peers')}"
    try:
        most_frequent_by_peer(np.arange(16, dtype=np.uint64), 1.0, 16, 1)
    except (TypeError, ImportError) as error:
        return f"{NAME} fails with the packages that are installed ({error}); reinstall: {install_command('peers')}"
    return None


def most_frequent_by_peer(items: Words, epsilon: float, bits: int, top: int) -> list[int]:
    """The ``top`` most frequent items that the peer finds, one report from each device with one of ``items``, of
    ``bits`` bits."""
    method: Any = importlib.import_module("pure_ldp.heavy_hitters.prefix_extending")
    sketch: Any = importlib.import_module("pure_ldp.frequency_oracles.apple_cms")
    counts = sketch.CMSServer(epsilon, HASHES, WIDTH, is_hadamard=True)
    reporter = sketch.CMSClient(epsilon, counts.get_hash_funcs(), WIDTH, is_hadamard=True)
    client = method.PEMClient(epsilon, START, bits, STEP, fo_client=reporter)
    server = method.PEMServer(epsilon, START, bits, STEP, fo_server=counts)
    for item in items.tolist():
        server.aggregate(client.privatise(f"{item:0{bits}b}"))
    found, _ = server.find_heavy_hitters(k=KEEP)
    return [int(text, 2) for text in found[:top]]
