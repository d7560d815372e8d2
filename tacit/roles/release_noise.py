"""Noise that an aggregator adds to its own aggregate share, once, before the share is sealed.

Each of the two aggregators adds centred coin flips to every number. An adversary that sees the sum and knows one
aggregator's noise still faces the other's, on top of the devices' (``tacit.dp.binomial_noise``). Callers store the
sealed share in the transaction that ends the batch, so a retry gives the same bytes and never a second draw.
"""

from __future__ import annotations

from tacit.methods.base.draws import fair_flips
from tacit.ports import Entropy
from tacit.task import Task


def noisy_share(task: Task, agg_share: bytes, entropy: Entropy) -> bytes:
    """The encoded aggregate share with ``Bin(flips, 1/2) - flips/2`` added to every number, in the field of the task's
    VDAF; unchanged where the task has no such noise."""
    flips = task.aggregator_flips
    if flips == 0:
        return agg_share
    share = task.vdaf.decode_agg_share(agg_share)
    modulus = task.vdaf.field.MODULUS
    # the method refuses an odd number of flips, so the middle is whole; a sum below 0 is read back as one by `added_up`
    noise = [(fair_flips(flips, entropy) - flips // 2) % modulus for _ in share]
    return task.vdaf.encode_agg_share(task.vdaf.field.add_vec(share, noise))
