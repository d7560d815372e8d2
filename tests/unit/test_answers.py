"""What an answer that is no success means: one list for all senders, and one reading of ``Retry-After``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_agent.resting import RestingTransport
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from tacit.answers import is_final, may_pass
from tacit.backoff import Backoff
from tacit.dap_errors import DapProblem
from tacit.errors import DAP_ERROR_PREFIX, REFUSAL_PREFIX
from tacit.ports import Clock, HttpResponse, TransportError
from tacit.retry_after import LONGEST_RETRY_AFTER, make_unanswered, retry_after

NOW = 1_790_000_000.0
PAGES = [b"", b"<html><title>429 Too Many Requests</title></html>", b"{", b'{"title": "Not Found"}', b"[" * 10_000]


def document(kind: str) -> bytes:
    return json.dumps({"type": kind, "detail": "why"}).encode()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("status", range(200, 600))
def test_a_page_of_a_proxy_is_never_final(status: int, page: bytes) -> None:
    assert not is_final(status, page)


@pytest.mark.parametrize("status", [408, 421, 425, 429, 500, 502, 503, 504, 507, 520, 599])
@pytest.mark.parametrize("kind", [DAP_ERROR_PREFIX + "invalidMessage", REFUSAL_PREFIX + "void-exists"])
def test_a_status_about_the_moment_is_never_final_whatever_its_body(status: int, kind: str) -> None:
    assert may_pass(status)
    assert not is_final(status, document(kind))


@pytest.mark.parametrize(
    ("kind", "final"),
    [
        *((DAP_ERROR_PREFIX + one.value, one is not DapProblem.UNRECOGNIZED_TASK) for one in DapProblem),
        *((REFUSAL_PREFIX + rule, True) for rule in ("claim-understated", "void-exists", "opt-in-late", "model-hash")),
        *((REFUSAL_PREFIX + rule, False) for rule in ("void-early", "log-room", "census-room", "slot-key-missing")),
        *((REFUSAL_PREFIX + rule, False) for rule in ("series-missing", "opt-in-missing", "report-too-early")),
        ("urn:tacit:problem:busy", False),
        ("about:blank", False),
        ("", False),
    ],
)
def test_only_an_error_of_dap_or_a_rule_ends_a_request_and_never_what_passes(kind: str, final: bool) -> None:
    assert is_final(400, document(kind)) is is_final(422, document(kind)) is final


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 422, 501, 505])
def test_the_same_request_again_does_not_help_where_it_is_the_request(status: int) -> None:
    assert not may_pass(status)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("999999999999999999999999", LONGEST_RETRY_AFTER),
        (formatdate(NOW + 90, usegmt=True), 90.0),
        (formatdate(NOW - 90, usegmt=True), 0.0),
        (formatdate(NOW + 1e6, usegmt=True), LONGEST_RETRY_AFTER),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("-5", 0.0),
        ("1.5", 0.0),
        ("١٢", 0.0),
        ("soon", 0.0),
        ("", 0.0),
    ],
)
def test_retry_after_is_read_in_seconds_and_as_a_date_up_to_a_bound(said: str, seconds: float) -> None:
    assert retry_after({"retry-after": said}, NOW) == seconds


def test_a_date_counts_from_that_of_the_answer_and_not_from_a_wrong_clock() -> None:
    headers = {"retry-after": formatdate(NOW + 60, usegmt=True), "date": formatdate(NOW, usegmt=True)}
    assert retry_after(headers, NOW + 70 * 86400) == retry_after(headers, 0.0) == retry_after(headers) == 60.0
    assert retry_after({"retry-after": headers["retry-after"]}) == 0.0
    assert make_unanswered("busy", headers).retry_after == 60.0


@given(st.text(), st.text())
def test_nothing_that_a_peer_writes_breaks_the_reader(said: str, date: str) -> None:
    assert 0.0 <= retry_after({"retry-after": said, "date": date}, NOW) <= LONGEST_RETRY_AFTER


@given(st.integers(0, 80), st.floats(0, LONGEST_RETRY_AFTER), st.integers(0, 2**32))
def test_a_pause_is_at_least_what_is_asked_for_and_at_most_a_quarter_more(
    earlier: int, asked: float, seed: int
) -> None:
    backoff = Backoff(5.0, 60.0)
    pause = backoff.pause(earlier, SeededEntropy(seed), asked)
    assert asked <= pause <= max(1.25 * asked, backoff.most)


class Recorded:
    """A transport with one answer, which counts its requests."""

    def __init__(self, answer: HttpResponse) -> None:
        self.answer = answer
        self.asked = list[str]()

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        self.asked.append(url)
        return self.answer


def resting(answer: HttpResponse, clock: Clock) -> tuple[Recorded, RestingTransport]:
    recorded = Recorded(answer)
    return recorded, RestingTransport(recorded, clock, SeededEntropy(1))


async def test_an_origin_that_asks_for_it_is_left_alone_and_others_are_not() -> None:
    clock = SimClock(NOW)
    recorded, transport = resting(HttpResponse(503, {"retry-after": "120"}, b""), clock)
    await transport.request("POST", "https://relay.example/")
    for seconds in (0, 60, 119):
        clock.jump(NOW + seconds - clock.now())
        with pytest.raises(TransportError, match="left alone") as caught:
            await transport.request("GET", "https://relay.example/key-sets")
        assert 120 - seconds <= caught.value.retry_after <= 150 - seconds
    assert len(recorded.asked) == 1
    await transport.request("GET", "https://attester.example/")
    clock.jump(NOW + 151 - clock.now())
    await transport.request("POST", "https://relay.example/")
    assert len(recorded.asked) == 3


async def test_a_rest_ends_when_the_clock_goes_back_before_it() -> None:
    recorded, transport = resting(HttpResponse(429, {"retry-after": "120"}, b""), SimClock(NOW))
    await transport.request("POST", "https://relay.example/")
    transport._clock = SimClock(NOW - 3600)
    await transport.request("POST", "https://relay.example/")
    assert len(recorded.asked) == 2


@pytest.mark.parametrize("status", [200, 301, 400, 404])
async def test_other_answers_ask_for_no_rest(status: int) -> None:
    recorded, transport = resting(HttpResponse(status, {"retry-after": "120"}, b""), SimClock(NOW))
    for _ in range(2):
        await transport.request("POST", "https://relay.example/")
    assert len(recorded.asked) == 2
