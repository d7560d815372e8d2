"""Reports to the one server of a model: encoding, opening, and what does not count."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.one_server import SLOT, AnalyzerKit, Reporter
from infra.lab.kit.recipes import NOW
from infra.lab.kit.reports import issuer_key, token_source
from tacit import bhttp
from tacit.dap_errors import ReportRejected
from tacit.errors import DecodeError, Refusal
from tacit.messages import HpkeCiphertext
from tacit.messages.one_server import MAX_ONE_SERVER_REPORT, OneServerReport
from tacit.models.devices import device_side
from tacit.models.interfaces.device import Fate
from tacit.models.pan_private_single.device import PanPrivateSingleDevice
from tacit.models.pan_private_single.task import one_server_task
from tacit.models.servers import server_side
from tacit.panprivate.elgamal import Ciphertext
from tacit.panprivate.ristretto import RISTRETTO255
from tacit.roles.aggregator import Rejection
from tacit.roles.analyzer import AnalyzerParty, Counted, add_up, open_reports
from tacit.task.one_server import Contents
from tacit.tokens.binding import Preimages
from tacit.tokens.slots import Slot, TokenVerifier

KIT = AnalyzerKit()


@lru_cache(maxsize=4)
def reporter(statistic: str = "count") -> Reporter:
    return Reporter(KIT.single_recipe(statistic), SeededEntropy(statistic.encode()), KIT)


@lru_cache(maxsize=4)
def party(statistic: str = "count") -> AnalyzerParty:
    recipe, spki = reporter(statistic).recipe, issuer_key().token_key.spki
    task = one_server_task(recipe, spki)
    verifier = TokenVerifier(spki, task.slot)
    reading = server_side(recipe.model).reading(recipe, KIT.state_key)
    return AnalyzerParty(task, KIT.hpke_key.key_pair, verifier, reading, float("inf"))


def opened(body: bytes, statistic: str = "count") -> Counted | Rejection:
    seat = party(statistic)
    (found,) = open_reports(seat, [seat.task.report_in(body)])
    return found


def cause(body: bytes, statistic: str = "count") -> tuple[str, bool]:
    """Why it does not count, and whether its token is spent."""
    found = opened(body, statistic)
    assert isinstance(found, Rejection)
    return found.cause, found.nullifier is not None


@given(
    report_id=st.binary(min_size=16, max_size=16),
    config_id=st.integers(0, 255),
    enc=st.binary(min_size=1, max_size=64),
    payload=st.binary(min_size=1, max_size=2_000),
)
def test_a_report_goes_round_and_nothing_may_follow_it(
    report_id: bytes, config_id: int, enc: bytes, payload: bytes
) -> None:
    report = OneServerReport(report_id, HpkeCiphertext(config_id, enc, payload))
    encoded = report.encode()
    assert OneServerReport.decode(encoded) == report
    assert "enc=" not in repr(report)
    assert "payload=" not in repr(report)
    with pytest.raises(DecodeError):
        OneServerReport.decode(encoded + b"\0")
    with pytest.raises(DecodeError):
        OneServerReport.decode(encoded[:-1])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_report_or_a_decode_error(data: bytes) -> None:
    try:
        assert OneServerReport.decode(data).encode() == data
    except DecodeError:
        return


def test_a_report_longer_than_any_is_refused_unread() -> None:
    longest = OneServerReport(bytes(16), HpkeCiphertext(1, b"e", bytes(MAX_ONE_SERVER_REPORT)))
    with pytest.raises(DecodeError, match="at most 260096 bytes"):
        OneServerReport.decode(longest.encode())
    largest = KIT.single_recipe("histogram", most=256)
    task = one_server_task(largest, issuer_key().token_key.spki)
    assert task.report_size == 16_937 < MAX_ONE_SERVER_REPORT


@pytest.mark.parametrize(("statistic", "cells"), [("count", 1), ("histogram", 4), ("mean", 1)])
def test_what_a_device_sends_is_what_the_analyzer_reads(statistic: str, cells: int) -> None:
    devices = reporter(statistic)
    body = devices.report(devices.cells(2))
    assert len(body) == party(statistic).task.report_size
    found = opened(body, statistic)
    assert isinstance(found, Counted)
    assert len(found.numbers) == cells
    numbers = (5,) if statistic == "mean" else (1, 0, 1, 1)[:cells]
    exact = opened(devices.report(devices.exact(*numbers)), statistic)
    assert isinstance(exact, Counted)
    assert exact.numbers == numbers
    assert add_up(cells, [found.numbers, exact.numbers]) == tuple(
        one + other for one, other in zip(found.numbers, exact.numbers, strict=True)
    )


def test_what_is_no_ciphertext_or_holds_no_bit_does_not_count_and_keeps_its_token_spent() -> None:
    devices, identity = reporter(), RISTRETTO255.identity
    (cell,) = devices.exact(1)
    assert cause(devices.report((Ciphertext(identity, cell.masked),))) == ("state-ciphertext", True)
    assert cause(devices.report((Ciphertext(cell.ephemeral, b"\xff" * 32),))) == ("state-no-bit", True)
    assert cause(devices.report((Ciphertext(b"\xed" + b"\xff" * 31, cell.masked),))) == ("state-ciphertext", True)
    assert cause(devices.report((Ciphertext(cell.ephemeral, identity),))) == ("state-no-bit", True)
    assert cause(devices.report(devices.exact(2))) == ("state-no-bit", True)
    histogram = reporter("histogram")
    assert cause(histogram.report(histogram.exact(0, 1, 2, 0)), "histogram") == ("state-no-bit", True)


def test_a_number_beyond_what_noise_and_counter_can_give_does_not_count() -> None:
    devices = reporter("mean")
    seat = party("mean")
    most = devices.recipe.randomizer.scale * 3 + devices.recipe.randomizer.flips  # type: ignore[operator]
    top = opened(devices.report(devices.exact(most)), "mean")
    assert isinstance(top, Counted)
    assert top.numbers == (most,)
    assert cause(devices.report(devices.exact(most + 1)), "mean") == ("state-no-number", True)
    identity = (Ciphertext(RISTRETTO255.identity, RISTRETTO255.generator),)
    assert cause(devices.report(identity), "mean") == ("state-ciphertext", True)
    assert "scalar" not in repr(seat)


def test_a_report_is_bound_to_its_recipe_its_id_and_its_token() -> None:
    devices = reporter()
    task = party().task
    token, other = devices.token(), devices.token()
    (cell,) = devices.cells(0)
    body = devices.report((cell,), token)
    assert isinstance(opened(body), Counted)
    assert cause(bytes((body[0] ^ 1, *body[1:]))) == ("hpke-decrypt", False)
    assert cause(body[:-1] + bytes((body[-1] ^ 1,))) == ("hpke-decrypt", False)
    assert cause(body[:16] + bytes((body[16] ^ 1,)) + body[17:]) == ("hpke-config", False)

    def sealed(contents: Contents) -> bytes:
        return task.seal(bytes(16), contents, devices.entropy).encode()

    moved = Contents(token.token, other.preimages, cell.encode())
    assert cause(sealed(moved)) == ("token-binding", False)
    swapped = Preimages(token.preimages.r_helper, token.preimages.r_leader)
    assert cause(sealed(Contents(token.token, swapped, cell.encode()))) == ("token-binding", False)
    forged = token.token[:-1] + bytes((token.token[-1] ^ 1,))
    assert cause(sealed(Contents(forged, token.preimages, cell.encode()))) == ("token-signature", False)
    stranger = token_source(issuer_key(1), devices.entropy)(SLOT)
    assert cause(sealed(Contents(stranger.token, stranger.preimages, cell.encode()))) == ("token-key", False)
    elsewhere = token_source(issuer_key(), devices.entropy)(Slot("issuer.example", SLOT.epoch, 1))
    challenged = Contents(elsewhere.token, elsewhere.preimages, cell.encode())
    assert cause(sealed(challenged)) == ("token-challenge", False)


def test_reports_of_another_size_are_refused_before_anything_is_opened() -> None:
    histogram = reporter("histogram")
    with pytest.raises(DecodeError, match="must have 553 bytes"):
        party().task.report_in(histogram.report(histogram.cells(1)))


def test_a_device_cannot_make_a_report_of_other_cells_or_with_another_token() -> None:
    devices, token = reporter(), reporter().token()
    with pytest.raises(ValueError, match="must have 1 cells"):
        devices.report(devices.exact(0, 1))
    with pytest.raises(ValueError, match="another nonce"):
        devices.channel.submission(devices.cells(0), token.token, devices.token().preimages, devices.entropy)
    with pytest.raises(ValueError, match="does not belong to the recipe's slot"):
        devices.channel.submission(devices.cells(0), bytes(354), token.preimages, devices.entropy)


def test_the_interval_bounds_when_reports_count() -> None:
    seat = party()
    seat.check_time(float(seat.task.start_seconds - 300), 60.0)
    seat.check_time(float(seat.task.end_seconds + 59), 60.0)
    for now, words in ((seat.task.start_seconds - 301, "too-early"), (seat.task.end_seconds + 60, "after-interval")):
        with pytest.raises(ReportRejected, match=words):
            seat.check_time(float(now), 60.0)
    assert seat.task.start_seconds == NOW // 60 * 60


def test_a_recipe_of_another_model_has_no_one_server() -> None:
    recipe, spki = KIT.recipe(), issuer_key().token_key.spki
    for ask in (lambda: one_server_task(recipe, spki), lambda: server_side(recipe.model)):
        with pytest.raises(Refusal, match="model-unsupported"):
            ask()
    weak = replace(KIT.hpke_key.config, aead_id=0xFFFF)
    with pytest.raises(Refusal, match="task-hpke"):
        replace(party().task, hpke_config=weak)


def test_what_an_answer_means_for_a_report() -> None:
    model = device_side(PanPrivateSingleDevice.name)

    def fate(status: int, problem: str = "") -> tuple[Fate, str]:
        content = f'{{"type": "{problem}"}}'.encode() if problem else b""
        verdict = model.verdict(bhttp.Response(status, (), content))
        return verdict.fate, verdict.detail

    assert fate(201) == (Fate.STORED, "durably stored")
    for rule in ("report-invalid", "report-replayed", "recipe-over"):
        assert fate(422, f"urn:tacit:refusal:{rule}") == (Fate.REFUSED, f"the analyzer answered 422, {rule}")
    assert fate(422, "urn:tacit:refusal:report-too-early")[0] is Fate.LATER
    assert fate(404) == (Fate.LATER, "the analyzer answered 404")
    assert fate(403, "urn:tacit:problem:target-not-allowed") == (Fate.LATER, "the gateway answered 403")
