"""State as bytes of constant length, as a device keeps it: in memory, and in a file.

A device watches one of four things: whether or how often an event happened, for one server or for two. All four have
the same interface here, so that code that stores the state need not know about ciphertexts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from tacit.errors import DecodeError
from tacit.panprivate.elgamal import Ciphertext, PublicKey, ciphertext_size, decode_ciphertext
from tacit.panprivate.embedding import elements_for
from tacit.panprivate.single_server import NonZero, Occurrences
from tacit.panprivate.two_servers import SharedCell, SharedNonZero, SharedOccurrences
from tacit.ports import Entropy
from tacit.vdaf.count_vec import Prio3CountVec

_LEADER_PARTS = elements_for(Prio3CountVec.LEADER_CELL_SIZE)
PARTS = _LEADER_PARTS + elements_for(Prio3CountVec.HELPER_CELL_SIZE)
"""Number of ciphertexts for a cell that two servers share."""


class StoredState(Protocol):
    """The state of one watched event as ``size`` bytes, before the first step and after every further one."""

    @property
    def size(self) -> int:
        """Length in bytes of every state, whatever happened and after however many steps."""
        ...

    @property
    def keys(self) -> tuple[PublicKey, ...]:
        """The public keys to which it is encrypted: the one server's, or the Leader's and then the Helper's."""
        ...

    def shape(self) -> bytes:
        """32 bytes that differ for another statistic, k, number of servers or context."""
        ...

    def checked(self, data: bytes) -> bytes:
        """Return ``data`` from outside if it is a state: of the right length, and all ciphertexts. Raises
        ``DecodeError``."""
        ...

    def initial(self, entropy: Entropy) -> bytes:
        """The state before the first step."""
        ...

    def step(self, event: int, state: bytes, entropy: Entropy) -> bytes:
        """The state after one more step, in which the event happened (1) or did not (0): the same work for both."""
        ...


@dataclass(frozen=True, slots=True)
class OneServer:
    """State whose one server holds the private key."""

    machine: NonZero | Occurrences

    @property
    def size(self) -> int:
        """Length of a state in bytes: one ciphertext per cell."""
        return self.machine.cells * ciphertext_size(self.machine.key.group)

    @property
    def keys(self) -> tuple[PublicKey, ...]:
        """The one server's public key, as a tuple of one."""
        return (self.machine.key,)

    def shape(self) -> bytes:
        """32 bytes that tell this form of state from others; see ``StoredState.shape``."""
        return _digest(b"one server", self.machine, b"")

    def checked(self, data: bytes) -> bytes:
        """Check an encoded state; see ``StoredState.checked``."""
        return _check(data, self.size, self.keys[0])

    def initial(self, entropy: Entropy) -> bytes:
        """The state before the first step; see ``StoredState.initial``."""
        return _encode(self.machine.initial(entropy))

    def step(self, event: int, state: bytes, entropy: Entropy) -> bytes:
        """See ``StoredState.step``; ``state`` is not checked."""
        return _encode(self.machine.step(event, self.cells(state), entropy))

    def cells(self, state: bytes) -> tuple[Ciphertext, ...]:
        """The ciphertexts of a valid state, cell by cell, from which an answer is made."""
        return tuple(_ciphertexts(state, self.machine.key))


@dataclass(frozen=True, slots=True)
class TwoServers:
    """State that is shared between two servers, and encrypted to both."""

    machine: SharedNonZero | SharedOccurrences

    @property
    def size(self) -> int:
        """Length of a state in bytes: two ciphertexts for the Leader and two for the Helper per cell."""
        return self.machine.cells * PARTS * ciphertext_size(self.keys[0].group)

    @property
    def keys(self) -> tuple[PublicKey, ...]:
        """The Leader's and the Helper's public keys."""
        return self.machine.sharing.leader, self.machine.sharing.helper

    def shape(self) -> bytes:
        """32 bytes that tell this form of state from others; see ``StoredState.shape``."""
        return _digest(b"two servers", self.machine, self.machine.sharing.context)

    def checked(self, data: bytes) -> bytes:
        """Check an encoded state; see ``StoredState.checked``."""
        return _check(data, self.size, self.keys[0])

    def initial(self, entropy: Entropy) -> bytes:
        """The state before the first step; see ``StoredState.initial``."""
        return _encode(_parts(self.machine.initial(entropy)))

    def step(self, event: int, state: bytes, entropy: Entropy) -> bytes:
        """See ``StoredState.step``; ``state`` is not checked."""
        return _encode(_parts(self.machine.step(event, self.cells(state), entropy)))

    def cells(self, state: bytes) -> tuple[SharedCell, ...]:
        """The shared cells of a valid state, from which an answer is made."""
        parts = tuple(_ciphertexts(state, self.keys[0]))
        return tuple(
            SharedCell(parts[at : at + _LEADER_PARTS], parts[at + _LEADER_PARTS : at + PARTS])
            for at in range(0, len(parts), PARTS)
        )


def _parts(cells: tuple[SharedCell, ...]) -> Iterator[Ciphertext]:
    for cell in cells:
        yield from cell.leader
        yield from cell.helper


def _encode(ciphertexts: Iterable[Ciphertext]) -> bytes:
    return b"".join(ciphertext.encode() for ciphertext in ciphertexts)


def _ciphertexts(state: bytes, key: PublicKey) -> Iterator[Ciphertext]:
    size = key.group.element_size
    for at in range(0, len(state), 2 * size):
        yield Ciphertext(state[at : at + size], state[at + size : at + 2 * size])


def _check(data: bytes, size: int, key: PublicKey) -> bytes:
    if len(data) != size:
        raise DecodeError(f"{len(data)} bytes are not a state, which has {size}")
    width = ciphertext_size(key.group)
    for at in range(0, size, width):
        decode_ciphertext(data[at : at + width], key.group)
    return data


def _digest(servers: bytes, machine: object, context: bytes) -> bytes:
    statistic = f"{type(machine).__name__} {getattr(machine, 'k', 0)}".encode()
    parts = (servers, statistic, context)
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()
