"""A recipe's measurement in a model with one server, as devices and that server hold it, and how reports are sealed
(P24)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tacit import hpke
from tacit.codec import Reader, b64url
from tacit.errors import DecodeError, Refusal
from tacit.messages import REPORT_ID_SIZE, HpkeCiphertext, HpkeConfig
from tacit.messages.one_server import OneServerReport
from tacit.ports import Entropy
from tacit.tokens.binding import PREIMAGE_SIZE, Preimages
from tacit.tokens.slots import Slot
from tacit.tokens.structures import TOKEN_SIZE

INVALID = "report-invalid"
"""Rule of a refused upload: the report does not count."""
REPLAYED = "report-replayed"
"""Rule of a refused upload: another report has its id, or its token was spent by another report."""
OVER = "recipe-over"
"""Rule of a refused upload: the recipe accepts no more reports."""

_LABEL = b"tacit one-server v1"
_TAG_SIZE = 16
_FRAME_SIZE = 1 + 2 + hpke.PUBLIC_KEY_SIZE + 4


class Contents(NamedTuple):
    """The contents of a report: the token, the two secrets behind its nonce (None where others are to check them, see
    ``OneServerTask.passes_on``), and the model's payload."""

    token: bytes
    preimages: Preimages | None
    payload: bytes


@dataclass(frozen=True)
class OneServerTask:
    """Everything public about one recipe's measurement. Times are in POSIX seconds; the recipe's hash is its task id.

    ``role``: the server's role in the recipe; ``cells``: numbers in a result, and in a report once it is opened;
    ``payload_size``: bytes of the model's payload, the same in every report. ``passes_on``: the payload is a report of
    its own, whose receivers check the token's binding; this server sees the token without the secrets behind its nonce,
    so that it cannot put the token into another report (P10).
    """

    recipe_hash: bytes
    role: str
    server_url: str
    hpke_config: HpkeConfig
    cells: int
    payload_size: int
    start_seconds: int
    end_seconds: int
    min_batch_size: int
    expected_contributions: int
    slot: Slot
    token_key_spki: bytes = field(repr=False)
    passes_on: bool = False

    def __post_init__(self) -> None:
        """Raises refusal ``task-hpke`` for a suite or key that is not supported."""
        config = self.hpke_config
        if not self.suite.supported or len(config.public_key) != hpke.PUBLIC_KEY_SIZE:
            raise Refusal("task-hpke", f"HPKE configuration {config.id} has a suite or key that is not supported")

    @property
    def task_id(self) -> bytes:
        """The recipe's hash: such a model has no DAP task."""
        return self.recipe_hash

    @cached_property
    def task_id_text(self) -> str:
        """The task id as written in URLs and problem documents."""
        return b64url(self.recipe_hash)

    @property
    def suite(self) -> hpke.Suite:
        """The HPKE suite with which reports are sealed; no task is made with one that is not supported."""
        config = self.hpke_config
        return hpke.Suite(config.kem_id, config.kdf_id, config.aead_id)

    @property
    def info(self) -> bytes:
        """HPKE info of every report: label and role."""
        return _LABEL + self.role.encode("ascii")

    @property
    def report_size(self) -> int:
        """Bytes of every encoded report."""
        secrets = 0 if self.passes_on else 2 * PREIMAGE_SIZE
        return REPORT_ID_SIZE + _FRAME_SIZE + TOKEN_SIZE + secrets + self.payload_size + _TAG_SIZE

    def aad(self, report_id: bytes) -> bytes:
        """Associated data of a report, so that it opens only for this recipe and under this id."""
        return self.recipe_hash + report_id

    def url(self, resource: str) -> str:
        """URL of one of the recipe's resources at the server, whose own URL may end with a slash."""
        return f"{self.server_url.removesuffix('/')}/recipes/{self.task_id_text}/{resource}"

    def seal(self, report_id: bytes, contents: Contents, entropy: Entropy) -> OneServerReport:
        """Device: seal one report. ``ValueError`` for a token or payload of another size, and for secrets behind a
        token that this server is not to see, or that are missing."""
        token, preimages, payload = contents
        if (len(token), len(payload)) != (TOKEN_SIZE, self.payload_size):
            raise ValueError(f"a report needs a token of {TOKEN_SIZE} bytes and a payload of {self.payload_size}")
        if (preimages is None) != self.passes_on:
            raise ValueError(
                "the secrets behind the token's nonce are for the server that checks them, and only for it"
            )
        secrets = b"" if preimages is None else preimages.r_leader + preimages.r_helper
        plaintext = token + secrets + payload
        config = self.hpke_config
        enc, sealed = hpke.seal(self.suite, config.public_key, self.info, self.aad(report_id), plaintext, entropy)
        return OneServerReport(report_id, HpkeCiphertext(config.id, enc, sealed))

    def contents(self, plaintext: bytes) -> Contents:
        """Decode the plaintext of a report. Raises ``DecodeError``."""
        reader = Reader(plaintext, "report of one server")
        token, preimages = reader.raw(TOKEN_SIZE), None
        if not self.passes_on:
            preimages = Preimages(reader.raw(PREIMAGE_SIZE), reader.raw(PREIMAGE_SIZE))
        payload = reader.raw(self.payload_size)
        reader.end()
        return Contents(token, preimages, payload)

    def report_in(self, body: bytes) -> OneServerReport:
        """Decode the report in an upload's body. Raises ``DecodeError``, also for another size."""
        if len(body) != self.report_size:
            raise DecodeError(f"a report of this recipe must have {self.report_size} bytes")
        return OneServerReport.decode(body)


def digest_of(body: bytes) -> bytes:
    """SHA-256 of an encoded report, by which duplicates are recognised."""
    return hashlib.sha256(body).digest()
