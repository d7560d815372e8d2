"""Reports that must not count, in the models of local pan-privacy, each made and uploaded as a client could."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from client_agent.panprivate.recipes import watched_side
from infra.lab.demo.attacks.common import SPENT, Attempt, upload
from infra.lab.kit import spoiled
from infra.lab.kit.reports import BoundToken
from tacit.messages import REPORT_ID_SIZE, Extension, PlaintextInputShare, Report, ReportMetadata, Role
from tacit.messages.one_server import OneServerReport
from tacit.methods.flips import Flips
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.models.interfaces.one_server import AnalyzerChannel
from tacit.models.interfaces.watched import RandomisedCells
from tacit.models.pan_private.device import PanPrivateChannel
from tacit.panprivate.elgamal import Ciphertext
from tacit.panprivate.embedding import embed
from tacit.panprivate.ristretto import RISTRETTO255
from tacit.panprivate.state import encrypt_publicly
from tacit.panprivate.stored import TwoServers
from tacit.panprivate.two_servers import SharedCell, sealed_shares
from tacit.ports import Entropy
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.roles.client import seal_report
from tacit.task.one_server import Contents
from tacit.tokens.binding import PREIMAGE_SIZE, TOKEN_EXTENSION_TYPE, Preimages
from tacit.vdaf.count_vec import Prio3CountVec
from tacit.vdaf.field import Field64

AGGREGATORS = (Role.LEADER, Role.HELPER)
NO_BIT = "a report that decrypts to a 2 where a bit belongs"


def honest_cells(recipe: Recipe, entropy: Entropy) -> RandomisedCells:
    """What a device sends on which nothing happened."""
    side = watched_side(recipe)
    return side.randomised(recipe, side.stored(recipe).initial(entropy), entropy)


@dataclass(frozen=True)
class SharedThief:
    """Makes the attacks on the pan-private model with two servers."""

    recipe: Recipe
    channel: PanPrivateChannel
    entropy: Entropy

    @property
    def url(self) -> str:
        return self.channel.url

    def attempts(self, spent: BoundToken, unspent: Sequence[BoundToken]) -> list[Attempt]:
        """As ``Thief.attempts``; takes five of ``unspent``."""
        proof = "the Prio3 proof does not verify"
        stolen, no_bit, mixed, moved, other = unspent[:5]
        bound = "the token is bound to another report"
        return [
            Attempt(SPENT, "token-spent", "the token's nullifier is bound to another report", self._valid(spent)),
            Attempt("a stolen token in the thief's own report", "token-binding", bound, self._stolen(stolen)),
            Attempt(NO_BIT, "proof", proof, upload(self._report(self._no_bit(), no_bit))),
            Attempt("a cell put together from two devices' cells", "proof", proof, self._mixed(mixed)),
            Attempt(
                "a sealed share moved into another report",
                "hpke-decrypt",
                "it is sealed for the report in which it was made",
                self._moved(moved, other),
            ),
        ]

    def _cells(self) -> list[SharedCell]:
        return [cell for cell in honest_cells(self.recipe, self.entropy) if isinstance(cell, SharedCell)]

    def _valid(self, token: BoundToken) -> bytes:
        return self.channel.submission(self._cells(), token.token, token.preimages, self.entropy).body

    def _report(self, cells: Sequence[SharedCell], token: BoundToken, thief: bool = False) -> Report:
        """The report of any cells; a ``thief`` knows the leader's secret of the token alone."""
        guess = spoiled.stolen(token.preimages, self.entropy) if thief else token.preimages
        shares = {}
        for role, payload in zip(AGGREGATORS, sealed_shares(cells), strict=True):
            kept = token.preimages if role is Role.LEADER else guess
            extension = Extension(TOKEN_EXTENSION_TYPE, kept.extension(token.token, role))
            shares[role] = PlaintextInputShare((extension,), payload)
        task = self.channel.task
        metadata = ReportMetadata(self.entropy(REPORT_ID_SIZE), task.interval.start)
        return seal_report(task, metadata, b"", shares, self.entropy)

    def _stolen(self, token: BoundToken) -> bytes:
        return upload(self._report(self._cells(), token, thief=True))

    def _no_bit(self) -> list[SharedCell]:
        """The first cell holds 2: the Leader's share of a 1 with one more, and the proof of the 1."""
        stored, vdaf = watched_side(self.recipe).stored(self.recipe), Prio3CountVec(2, 1)
        if not isinstance(stored, TwoServers):
            raise TypeError("the recipe has one server")
        sharing = stored.machine.sharing
        chunk, seed = vdaf.shard_cell(sharing.context, 1, self.entropy(vdaf.CELL_RAND_SIZE))
        first, *proof = Field64.decode_vec(chunk)
        chunk = Field64.encode_vec([(first + 1) % Field64.MODULUS, *proof])
        cell = SharedCell(tuple(map(encrypt_publicly, embed(chunk))), tuple(map(encrypt_publicly, embed(seed))))
        return [sharing.rerandomised(cell, self.entropy), *self._cells()[1:]]

    def _mixed(self, token: BoundToken) -> bytes:
        """The Leader's part of one device's cell, the Helper's of another's."""
        ours, theirs = self._cells(), self._cells()
        return upload(self._report([SharedCell(ours[0].leader, theirs[0].helper), *ours[1:]], token))

    def _moved(self, token: BoundToken, other: BoundToken) -> bytes:
        ours, theirs = (self._report(self._cells(), one) for one in (token, other))
        share = theirs.leader_encrypted_input_share
        return upload(Report(ours.report_metadata, ours.public_share, share, ours.helper_encrypted_input_share))


@dataclass(frozen=True)
class OneServerThief(ABC):
    """The attacks that every model with one server withstands; a model adds those on its own answers."""

    recipe: Recipe
    channel: AnalyzerChannel
    entropy: Entropy

    @property
    def url(self) -> str:
        return self.channel.url

    def attempts(self, spent: BoundToken, unspent: Sequence[BoundToken]) -> list[Attempt]:
        """As ``Thief.attempts``; takes two of ``unspent``, and those that the model's own attacks need."""
        stolen, moved, *others = unspent
        guess = Preimages(self.entropy(PREIMAGE_SIZE), self.entropy(PREIMAGE_SIZE))
        payload = self._payload()
        return [
            Attempt(SPENT, "token-spent", "its nullifier is another report's", self._sealed(spent, payload).encode()),
            Attempt(
                "a stolen token without its secrets",
                "token-binding",
                "the token's nonce is of other secrets",
                self._sealed(BoundToken(stolen.token, guess), payload).encode(),
            ),
            *self._invalid(others),
            Attempt(
                "a sealed answer moved into another report",
                "hpke-decrypt",
                "it is sealed for the report in which it was made",
                OneServerReport(self.entropy(REPORT_ID_SIZE), self._sealed(moved, payload).sealed).encode(),
            ),
        ]

    @abstractmethod
    def _payload(self) -> bytes:
        """What an honest device sends."""

    @abstractmethod
    def _invalid(self, tokens: Sequence[BoundToken]) -> list[Attempt]:
        """Reports whose payloads no honest device makes."""

    def _sealed(self, token: BoundToken, payload: bytes) -> OneServerReport:
        contents = Contents(token.token, token.preimages, payload)
        return self.channel.task.seal(self.entropy(REPORT_ID_SIZE), contents, self.entropy)


class LocalThief(OneServerThief):
    """The attacks on a model with one server, and an answer that no randomiser gives."""

    def _payload(self) -> bytes:
        return self.channel.payload(device_randomiser_of(randomizer_of(self.recipe)).dummy(self.entropy), self.entropy)

    def _invalid(self, tokens: Sequence[BoundToken]) -> list[Attempt]:
        body = self._sealed(tokens[0], bytes([255] * len(self._payload()))).encode()
        return [Attempt("an answer out of range", "answer-range", "no device can make it", body)]


class SingleThief(OneServerThief):
    """Makes the attacks on the pan-private model with one server."""

    def _invalid(self, tokens: Sequence[BoundToken]) -> list[Attempt]:
        beyond, empty = tokens[:2]
        body = self._sealed(empty, bytes(len(self._payload()))).encode()
        what = "a report of ciphertexts without randomness"
        return [
            self._beyond(beyond),
            Attempt(what, "state-ciphertext", "its ephemeral element is the identity", body),
        ]

    def _beyond(self, token: BoundToken) -> Attempt:
        """A number that no honest device could have chosen."""
        method, payload = randomizer_of(self.recipe), self._payload()
        (key,) = watched_side(self.recipe).stored(self.recipe).keys
        number = method.largest + 1 if isinstance(method, Flips) else 2
        cell = key.rerandomise(
            encrypt_publicly(RISTRETTO255.times_base(RISTRETTO255.scalar(number))), self.entropy
        ).encode()
        body = self._sealed(token, cell + payload[len(cell) :]).encode()
        if isinstance(method, Flips):
            what = f"a report that decrypts to {number:,}, beyond every answer"
            return Attempt(what, "state-no-number", "it decrypts to no number in the range", body)
        return Attempt(NO_BIT, "state-no-bit", "it decrypts to no bit", body)

    def _payload(self) -> bytes:
        cells = honest_cells(self.recipe, self.entropy)
        return b"".join(cell.encode() for cell in cells if isinstance(cell, Ciphertext))
