"""Batched HPKE: what it opens, seals and refuses is what ``tacit.hpke`` does."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.lab.kit.entropy import SeededEntropy
from tacit import hpke, ohttp
from tacit.errors import CryptoError, DecodeError
from tacit.hpke import RecipientContext, Suite
from tacit.multibuffer.crypto import BatchCrypto, job_crypto
from tacit.multibuffer.hpke import BatchOpener, Sealed
from tacit.multibuffer.interface import Multibuffer
from tacit.multibuffer.ohttp import decapsulate_all
from tacit.multibuffer.sealing import BatchSealer
from tests.kit.multibuffer import LEVELS, chosen_kernels

SUITES = [hpke.DEFAULT_SUITE, Suite(hpke.KEM_X25519, hpke.KDF_HKDF_SHA256, hpke.AEAD_CHACHA20POLY1305)]
PAIR = hpke.key_pair_from_private(bytes(range(32)))
INFO = b"info string"
ENTROPY = SeededEntropy(b"multibuffer")
P = 2**255 - 19
SIZES = [*range(18), 65, 130]
LOW_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
    P,
    P + 1,
]


@pytest.fixture(params=LEVELS)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Multibuffer:
    return chosen_kernels(request.param, monkeypatch)


@pytest.fixture(params=[*LEVELS, "off"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the kernels that the processor runs, and with OpenSSL alone."""
    chosen = str(request.param)
    if chosen == "off":
        monkeypatch.setenv("TACIT_NATIVE", "off")
    else:
        chosen_kernels(chosen, monkeypatch)
    return chosen


def sealed_messages(count: int, suite: Suite = hpke.DEFAULT_SUITE) -> tuple[list[Sealed], list[bytes]]:
    sealed, plaintexts = [], []
    for i in range(count):
        aad, plaintext = ENTROPY(i % 9), ENTROPY(3 * i)
        enc, ciphertext = hpke.seal(suite, PAIR.public, INFO, aad, plaintext, ENTROPY)
        sealed.append((enc, aad, ciphertext))
        plaintexts.append(plaintext)
    return sealed, plaintexts


def alone(message: Sealed, suite: Suite = hpke.DEFAULT_SUITE) -> bytes | str:
    enc, aad, ciphertext = message
    try:
        return hpke.open_(suite, PAIR, enc, INFO, aad, ciphertext)
    except CryptoError as error:
        return str(error)


def as_text(verdicts: Sequence[bytes | CryptoError]) -> list[bytes | str]:
    return [verdict if isinstance(verdict, bytes) else str(verdict) for verdict in verdicts]


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("suite", SUITES, ids=["aes-128-gcm", "chacha20-poly1305"])
@pytest.mark.parametrize("size", SIZES)
def test_every_batch_size_opens_what_was_sealed_alone(size: int, suite: Suite) -> None:
    sealed, plaintexts = sealed_messages(size, suite)
    assert BatchOpener(PAIR, suite, INFO).open_all(sealed) == plaintexts


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("suite", SUITES, ids=["aes-128-gcm", "chacha20-poly1305"])
@pytest.mark.parametrize("size", SIZES)
def test_every_batch_size_seals_what_opens_alone(size: int, suite: Suite) -> None:
    messages = [(bytes((i,)), bytes(i)) for i in range(size)]
    sealed = BatchSealer(PAIR.public, suite, INFO).seal_all(messages, ENTROPY)
    assert [alone((enc, messages[i][0], ciphertext), suite) for i, (enc, ciphertext) in enumerate(sealed)] == [
        plaintext for _, plaintext in messages
    ]
    assert len({enc for enc, _ in sealed}) == size


@pytest.mark.usefixtures("kernels")
def test_both_paths_seal_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [(b"aad", bytes((i,))) for i in range(11)]

    def seal() -> list[tuple[bytes, bytes]]:
        return BatchSealer(PAIR.public, SUITES[0], INFO).seal_all(messages, random.Random(3).randbytes)

    made = seal()
    monkeypatch.setenv("TACIT_NATIVE", "off")
    assert seal() == made


@pytest.mark.usefixtures("path")
def test_damaged_messages_are_refused_as_alone_and_their_neighbours_open() -> None:
    sealed, plaintexts = sealed_messages(40)
    damaged: dict[int, Callable[[bytes, bytes, bytes], Sealed]] = {
        3: lambda e, a, c: (e, a, c[:-1] + bytes((c[-1] ^ 1,))),
        4: lambda e, a, c: (e, a + b"x", c),
        7: lambda e, a, c: (bytes((e[0] ^ 1,)) + e[1:], a, c),
        8: lambda e, a, c: (bytes(32), a, c),
        9: lambda e, a, c: (e[:31], a, c),
        15: lambda e, a, c: (e + b"\0", a, c),
        16: lambda e, a, c: (e, a, c[:15]),
        17: lambda e, a, c: (b"", a, b""),
        33: lambda e, a, c: (P.to_bytes(32, "little"), a, c),
        39: lambda e, a, c: (e, a, b""),
    }
    for at, change in damaged.items():
        sealed[at] = change(*sealed[at])
    verdicts = as_text(BatchOpener(PAIR, SUITES[0], INFO).open_all(sealed))
    assert verdicts == [alone(message) for message in sealed]
    assert [v for i, v in enumerate(verdicts) if i not in damaged] == [
        p for i, p in enumerate(plaintexts) if i not in damaged
    ]
    assert all(isinstance(verdicts[i], str) for i in damaged)


def edge_points() -> list[bytes]:
    numbers = [*LOW_ORDER, *(P + i for i in range(19)), *(2**255 - 1 - i for i in range(4))]
    numbers += [2**i - 1 for i in range(1, 256)] + [2**255 - 2**i for i in range(0, 255, 3)] + [9, 2, P - 2, P - 9]
    numbers += [number | 1 << 255 for number in (*LOW_ORDER[:5], 9, P, P + 18)]
    return [(number % 2**256).to_bytes(32, "little") for number in numbers]


def exchanged(scalar: bytes, point: bytes) -> bytes:
    try:
        return hpke.key_pair_from_private(scalar).exchange(point)
    except CryptoError:
        return bytes(32)


@pytest.mark.parametrize("scalar", [bytes(range(32)), bytes(32), b"\xff" * 32, b"\x55" * 32], ids=lambda s: s.hex()[:4])
def test_shared_secrets_agree_with_openssl_on_edge_points(scalar: bytes, kernels: Multibuffer) -> None:
    points = edge_points()
    found, flags = kernels.x25519(scalar * len(points), b"".join(points))
    expected = [exchanged(scalar, point) for point in points]
    assert [found[32 * i : 32 * i + 32] for i in range(len(points))] == expected
    assert list(flags) == [int(not any(secret)) for secret in expected]
    assert sum(flags) >= len(LOW_ORDER)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32)), max_size=20))
def test_shared_secrets_agree_with_openssl_on_any_bytes(kernels: Multibuffer, pairs: list[tuple[bytes, bytes]]) -> None:
    found, _ = kernels.x25519(b"".join(s for s, _ in pairs), b"".join(p for _, p in pairs))
    assert found == b"".join(exchanged(*pair) for pair in pairs)


def test_shared_secrets_agree_with_openssl_on_many_random_points(kernels: Multibuffer) -> None:
    generator = random.Random(25519)
    scalars = [generator.randbytes(32) for _ in range(500)]
    points = [generator.randbytes(32) for _ in range(500)]
    found, _ = kernels.x25519(b"".join(scalars), b"".join(points))
    assert found == b"".join(map(exchanged, scalars, points))


@pytest.mark.usefixtures("path")
def test_contexts_export_and_continue_like_those_made_alone() -> None:
    senders = [hpke.setup_sender(SUITES[0], PAIR.public, INFO, ENTROPY) for _ in range(10)]
    encs = [sender.enc for sender in senders]
    encs[5:5] = [bytes(32), b"short"]
    contexts = BatchOpener(PAIR, SUITES[0], INFO).contexts(encs)
    assert [type(context) for context in contexts[5:7]] == [CryptoError, CryptoError]
    for sender, context in zip(senders, contexts[:5] + contexts[7:], strict=True):
        assert isinstance(context, RecipientContext)
        assert context.export(b"label", 40) == sender.export(b"label", 40)
        for text in (b"first", b"second"):
            assert context.open(b"aad", sender.seal(b"aad", text)) == text


@pytest.mark.usefixtures("path")
def test_requests_of_a_gateway_are_decapsulated_as_alone() -> None:
    keys = [ohttp.generate_key_config(key_id, ENTROPY) for key_id in (1, 2)]
    gateway = ohttp.Decapsulator(keys)
    clients = [ohttp.encapsulate_request(keys[i % 2][0], b"request %d" % i, ENTROPY) for i in range(20)]
    messages = [message for message, _ in clients]
    messages[4] = messages[4][:-1] + bytes((messages[4][-1] ^ 1,))
    messages[5] = b"\x09" + messages[5][1:]
    messages[6] = b"short"
    messages[7] = messages[7][:7] + bytes(32) + messages[7][39:]
    results = decapsulate_all(gateway, messages)
    for i, result in enumerate(results):
        if i in {4, 5, 6, 7}:
            with pytest.raises((CryptoError, DecodeError)) as caught:
                gateway.decapsulate_request(messages[i])
            assert (type(result), str(result)) == (caught.type, str(caught.value))
        else:
            assert isinstance(result, tuple)
            request, context = result
            assert request == b"request %d" % i
            response = context.encapsulate_response(b"response", ENTROPY)
            assert clients[i][1].decapsulate_response(response) == b"response"


@pytest.mark.usefixtures("kernels")
def test_keys_from_faulty_kernels_cost_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    sealed, plaintexts = sealed_messages(9)
    keys = [ohttp.generate_key_config(1, ENTROPY)]
    message, _ = ohttp.encapsulate_request(keys[0][0], b"request", ENTROPY)
    right = Multibuffer.hpke_open

    def wrong(self: Multibuffer, private_key: bytes, *rest: object) -> object:
        return right(self, bytes(32), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Multibuffer, "hpke_open", wrong)
    assert BatchOpener(PAIR, SUITES[0], INFO).open_all(sealed) == plaintexts
    results = decapsulate_all(ohttp.Decapsulator(keys), [message] * 3)
    assert [result[0] for result in results if isinstance(result, tuple)] == [b"request"] * 3


@pytest.mark.usefixtures("path")
def test_what_cannot_work_is_refused_before_anything_is_computed() -> None:
    unsupported = Suite(0x10, 1, 1)
    for make in (lambda: BatchOpener(PAIR, unsupported, INFO), lambda: BatchSealer(PAIR.public, unsupported, INFO)):
        with pytest.raises(CryptoError):
            make()
    with pytest.raises(CryptoError, match="32 bytes"):
        BatchSealer(b"short", SUITES[0], INFO)
    for count in (1, 3):
        with pytest.raises(CryptoError, match="low order"):
            BatchSealer(bytes(32), SUITES[0], INFO).seal_all([(b"", b"")] * count, ENTROPY)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("batch_hpke", [False, True])
def test_a_job_opens_alike_whether_batches_are_chosen_or_not(batch_hpke: bool) -> None:
    sealed, plaintexts = sealed_messages(5)
    sealed.append((bytes(32), b"", bytes(40)))
    crypto = BatchCrypto(batch_hpke=batch_hpke)
    verdicts = crypto.open_all(PAIR, SUITES[0], INFO, sealed)
    assert as_text(verdicts) == [*plaintexts, alone(sealed[-1])]
    unsupported = crypto.open_all(PAIR, Suite(0x10, 1, 1), INFO, sealed)
    assert {type(verdict) for verdict in unsupported} == {CryptoError}


def test_there_is_a_crypto_of_batches_exactly_where_the_kernels_run(path: str) -> None:
    made = job_crypto()
    assert (made is None) == (path == "off")
    if made is not None:
        sealed, plaintexts = sealed_messages(3)
        assert made.open_all(PAIR, SUITES[0], INFO, sealed) == plaintexts


def test_keys_are_overwritten_after_use_and_never_shown(kernels: Multibuffer) -> None:
    opener = BatchOpener(PAIR, SUITES[0], INFO)
    made = kernels.hpke_open(PAIR.private, opener._setup, PAIR.public * 3, True)
    assert any(made.keys)
    assert any(made.exporters)
    assert made.keys.hex() not in repr(made)
    with made:
        pass
    assert not any(made.keys + made.nonces + made.exporters)
