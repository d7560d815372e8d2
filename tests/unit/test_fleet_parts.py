"""The fleet's own measurements, its rude transports, its worker processes and its way onto Ray."""

from __future__ import annotations

import asyncio
import io
import math
import multiprocessing
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from client_agent.journal import State
from infra.lab.devices import faulty_transports, pool
from infra.lab.devices.destination import Destination, require_local
from infra.lab.devices.faults import Fault
from infra.lab.devices.faulty_transports import AbortingTransport, SlowTransport
from infra.lab.devices.metrics import BINS, SHORTEST, Snapshot, bin_of, edge_of, merged
from infra.lab.devices.pool import Workers, run_in_processes, run_on_ray
from infra.lab.devices.population import parse_population
from infra.lab.devices.sealing import AHEAD, RequestSenders
from infra.lab.devices.shard import ShardPlan, ShardResult
from infra.lab.fleet.oracle import Estimated, Verdict, estimated
from infra.lab.fleet.origin import population_of
from infra.lab.fleet.progress import FleetView, showing
from infra.lab.fleet.report import show
from infra.lab.fleet.result import FleetResult
from infra.lab.fleet.run import Load
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit
from tacit import bhttp, ohttp
from tacit.adapters.system import OsEntropy
from tacit.errors import Fatal, UsageError
from tacit.ports import TransportError
from tacit.recipe.encoder import encoder_of
from tacit.recipe.encoder_specs import Categories
from tacit.recipe.model import Question
from tacit.tlog.token_directories import IssuerDirectory
from tacit.tokens.software_root import SoftwareRoot

LATENCIES = st.floats(0, 5000, allow_nan=False)


@given(st.lists(LATENCIES, min_size=1, max_size=300), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_at_most_a_bin_above_the_exact_one(latencies: list[float], share: float) -> None:
    snapshot = Snapshot(latencies=Counter(map(bin_of, latencies)))
    exact = float(np.quantile(latencies, share, method="inverted_cdf"))
    found = snapshot.percentile(share)
    if exact < edge_of(BINS - 2):
        assert exact <= found * 1.0001
        assert found <= max(exact * 1.07, SHORTEST)
    else:
        assert found == edge_of(BINS - 1)


def test_snapshots_of_workers_add_up() -> None:
    one = Snapshot(due=3, acknowledged=2, stage="send", causes=Counter(a=1), seconds=Counter({10: 2}))
    two = Snapshot(due=4, acknowledged=6, stage="send", causes=Counter(a=1, b=5), seconds=Counter({10: 1, 13: 5}))
    whole = merged([one, two])
    assert (whole.due, whole.acknowledged, whole.causes, whole.stage) == (7, 8, Counter(a=2, b=5), "send")
    assert whole.throughput == 2.0
    assert Snapshot().throughput == Snapshot().percentile(0.5) == 0.0


def test_shards_results_add_up_and_stages_last_as_long_as_the_slowest() -> None:
    shards = [ShardResult(devices=5, sampled=2, timings={"send": seconds}, cpu={"send": 1.0}) for seconds in (2.0, 3.0)]
    shards[0].deliveries.states[Fault.LATE, State.FAILED] = 2
    shards[1].deliveries.states[Fault.NONE, State.SENT] = 2
    whole = FleetResult.of(shards)
    assert (whole.devices, whole.sampled, whole.timings, whole.cpu) == (10, 4, {"send": 3.0}, {"send": 2.0})
    assert whole.injected == {Fault.LATE: 2}
    assert whole.document()["ended"] == {"honest": {"sent": 2}, "late": {"failed": 2}}
    assert math.isclose(whole.document()["cpu_us_per_contribution"]["simulator: send"], 5e5)


def test_the_released_answers_are_shown_beside_what_the_devices_know() -> None:
    result = FleetResult.of(
        [ShardResult(devices=3, sampled=3, dummies=2, known=[2.0]), ShardResult(devices=5, known=[30.0])]
    )
    assert (result.dummies, result.known) == (2, [32.0])
    rows = [{"label": "mean", "estimate": 4.25, "stderr": 0.1}, {"label": "no", "estimate": 9.0, "stderr": 0.1}]
    found = estimated({"statistic": "mean", "buckets": rows[:1]}, result)
    assert found == [Estimated("mean", 4.25, 0.1, 4.0)]
    assert found[0].inside is None, "it gives no numbers for all devices"
    whole = estimated(
        {"statistic": "mean", "buckets": [{**rows[0], "population_low": 3.5, "population_high": 4.5}]}, result
    )
    assert whole == [Estimated("mean", 4.25, 0.1, 4.0, low=3.5, high=4.5)]
    assert whole[0].inside
    assert estimated({"statistic": "sum", "buckets": rows}, FleetResult()) == []
    verdict = Verdict(
        answers=[*whole, *(Estimated(f"a{number}", 5.0, 1.0, 4.0, low=4.5, high=6.0) for number in range(30))],
        warnings=["3 are silent"],
    )
    console = Console(width=120, record=True, file=io.StringIO())
    show(result, verdict, Load(devices=8), console)
    text = console.export_text()
    for words in (
        "  dummies",
        "4.25",
        "warning: 3 are silent",
        "a22",
        "7 more answers are not shown; 1 of 31 intervals of all devices hold the truth",
    ):
        assert words in text, words
    assert "a23" not in text


def test_the_live_view_shows_rate_latency_and_problems() -> None:
    view = FleetView(None)
    console = Console(width=120, record=True, file=sys.stderr)
    view.render(Snapshot(due=100, stage="send"), 1.0)
    at = Snapshot(due=100, acknowledged=50, in_flight=7, stage="send", causes=Counter({"the relay answered 503": 4}))
    at.latencies[bin_of(0.02)] = 50
    console.print(view.render(at, 2.0))
    text = console.export_text()
    for word in ("contributions through the relay", "50", "per second", "the relay answered 503", "in flight"):
        assert word in text


def test_without_a_terminal_each_stage_and_each_wait_is_a_line() -> None:
    console = Console(width=120, file=io.StringIO())
    with showing(console) as view:
        view.say("waiting until the log shows recipe visits")
        for stage in ("", "decide", "decide", "wait", "wait", "send"):
            view.look([Snapshot(stage=stage)])
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "waiting until the log shows recipe visits",
        "coins, randomised answers, journal",
        "waiting for the recipe's interval",
        "contributions through the relay",
    ]


class Server:
    """Reads requests byte by byte and answers as it is told."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.received = b""
        self.pieces = 0
        self.ended = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(self.received) < size and (piece := await reader.read(1 << 16)):
            self.received += piece
            self.pieces += 1
        if len(self.received) == size:
            writer.write(self.answer)
        writer.close()
        self.ended.set()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[bytes], Any]]:
    servers: list[asyncio.Server] = []

    async def start(answer: bytes) -> tuple[Server, str]:
        server = Server(answer)
        servers.append(await asyncio.start_server(server.handle, "127.0.0.1", 0))
        return server, f"http://127.0.0.1:{servers[-1].sockets[0].getsockname()[1]}/gateway"

    yield start
    for one in servers:
        one.close()
        await one.wait_closed()


async def test_a_slow_sender_sends_everything_in_pieces(
    serve: Callable[[bytes], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faulty_transports, "PAUSE_SECONDS", 0.001)
    server, url = await serve(b"HTTP/1.1 200 OK\r\nContent-Type: message/ohttp-res\r\nContent-Length: 4\r\n\r\ndone")
    answer = await SlowTransport().request("POST", url, headers={"content-type": "x/y"}, body=bytes(1000))
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, "message/ohttp-res", b"done")
    assert server.received == bytes(1000)
    assert server.pieces > 1


async def test_an_aborting_sender_breaks_off_in_the_middle(serve: Callable[[bytes], Any]) -> None:
    server, url = await serve(b"HTTP/1.1 200 OK\r\n\r\n")
    with pytest.raises(TransportError, match="broken off"):
        await AbortingTransport().request("POST", url, body=bytes(1000))
    await server.ended.wait()
    assert server.received == bytes(500)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut"])
async def test_an_answer_that_is_none_is_a_transport_error(
    serve: Callable[[bytes], Any], answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faulty_transports, "PAUSE_SECONDS", 0.0)
    _, url = await serve(answer)
    with pytest.raises(TransportError):
        await SlowTransport().request("POST", url, body=b"x")
    with pytest.raises(TransportError):
        await SlowTransport().request("POST", "http://127.0.0.1:1/", body=b"x")
    with pytest.raises(UsageError, match="loopback"):
        await SlowTransport().request("POST", "http://relay.example/", body=b"x")


@pytest.mark.parametrize("native", ["", "off"])
def test_requests_sealed_ahead_are_each_under_a_key_of_their_own(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_NATIVE", native)
    config, pair = ohttp.generate_key_config(3, SeededEntropy(1))
    senders, gateway = RequestSenders(SeededEntropy(2)), ohttp.Decapsulator([(config, pair)])
    request = bhttp.Request("POST", "https", "leader.example", "/reports", content=b"report")
    seen: set[bytes] = set()
    for _ in range(AHEAD + 3):
        message, client = ohttp.padded_request(config, request, SeededEntropy(3), senders(config))
        opened, server = gateway.decapsulate_request(message)
        assert bhttp.decode_request(opened) == request
        answer = ohttp.padded_response(server, bhttp.Response(200), SeededEntropy(4))
        assert ohttp.open_response(client, answer).status == 200
        seen.add(server.enc)
    assert len(seen) == AHEAD + 3


def plan_of(folder: Path) -> ShardPlan:
    """A hundred devices of which none is sampled, so that no service is needed."""
    kit = RecipeKit()
    recipe = kit.recipe()
    directory = kit.directory(recipe.token.epoch)
    assert isinstance(directory, IssuerDirectory)
    spki = directory.spki(recipe.token.slot)
    assert spki is not None
    body = recipe.body()
    body["sampling"] = {"rate": "0.000000000000000001"}
    target = Destination(
        "http://127.0.0.1:1", "http://127.0.0.1:1", (), type(recipe).from_body(body).encode(), spki, 0.0
    )
    population = parse_population("uniform", recipe.randomizer.categories)
    return ShardPlan(0, 1, target, 0, 100, population, folder / "journal", slot_key=b"no key")


def test_a_plan_shows_no_secret() -> None:
    plan = replace(plan_of(Path()), slot_key=b"secret key", authority=b"secret authority")
    assert "secret" not in repr(plan)


def test_what_a_worker_refuses_is_told_by_its_parent_and_nobody_is_left_behind(tmp_path: Path) -> None:
    looks: list[Sequence[Snapshot]] = []
    with pytest.raises(Fatal, match="slot key does not load"):
        run_in_processes([plan_of(tmp_path)], looks.append, 60.0)
    with pytest.raises(UsageError, match="--workers"):
        run_in_processes([], looks.append, 60.0)


def test_workers_are_stopped_when_their_time_is_over(tmp_path: Path) -> None:
    with pytest.raises(Fatal, match="time is over"):
        run_in_processes([plan_of(tmp_path)], lambda _progress: None, 0.0)


def test_standing_workers_carry_out_one_plan_after_another_in_the_same_processes(tmp_path: Path) -> None:
    authority = SoftwareRoot.create(OsEntropy(), 0.0).to_pem()
    before = set(multiprocessing.active_children())
    with Workers(2) as workers:
        mine = set(multiprocessing.active_children()) - before
        for name, number in (("first", 2), ("second", 1)):
            plan = replace(plan_of(tmp_path), slot_key=b"", authority=authority)
            files = [tmp_path / f"{name}-{at}" for at in range(number)]
            plans = [replace(plan, journal=file, prepare=file.with_suffix(".part")) for file in files]
            assert [found.devices for found in workers.run(plans, lambda _progress: None, 60.0)] == [100] * number
            assert set(multiprocessing.active_children()) - before == mine
            assert len(mine) == 2
    assert set(multiprocessing.active_children()) == before


def test_ray_is_asked_for_by_name_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"\[ray\]"):
        run_on_ray([plan_of(tmp_path)], "ray://head:10001", 60.0)


class RayTask:
    """``ray.remote`` of a function, in this process."""

    def __init__(self, function: Callable[[ShardPlan], Any]) -> None:
        self._function = function

    def remote(self, plan: ShardPlan) -> Any:
        return self._function(plan)


@pytest.fixture
def ray_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of Ray that are used; returns what ``init`` was told, and ``shutdown``."""
    ray, calls = ModuleType("ray"), list[Any]()
    members = {
        "init": lambda **options: calls.append(options),
        "remote": RayTask,
        "get": lambda results, timeout: results,
        "shutdown": lambda: calls.append("shutdown"),
        "exceptions": SimpleNamespace(RayError=LookupError),
    }
    for name, member in members.items():
        setattr(ray, name, member)
    monkeypatch.setitem(sys.modules, "ray", ray)
    return calls


def test_every_shard_is_one_ray_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_calls: list[Any]) -> None:
    async def ran(plan: ShardPlan, _tell: Callable[[Snapshot], None]) -> ShardResult:
        await asyncio.sleep(0)
        return ShardResult(devices=plan.devices)

    monkeypatch.setattr(pool, "run_shard", ran)
    plan = plan_of(tmp_path)
    assert [result.devices for result in run_on_ray([plan, replace(plan, devices=7)], "auto", 60.0)] == [100, 7]
    assert ray_calls[0]["address"] == "auto"
    assert ray_calls[-1] == "shutdown"


@pytest.mark.false_alarm(0, "refused before anything is decided")
def test_what_a_ray_task_refuses_is_told_and_ray_is_left(tmp_path: Path, ray_calls: list[Any]) -> None:
    with pytest.raises(Fatal, match="slot key does not load"):
        run_on_ray([plan_of(tmp_path)], "local", 60.0)
    assert ray_calls[-1] == "shutdown"


def test_another_machine_is_loaded_on_purpose_only() -> None:
    require_local("http://127.0.0.1:1", "http://[::1]:2", "http://localhost:3")
    with pytest.raises(UsageError, match=r"relay\.example is not this machine"):
        require_local("http://127.0.0.1:1", "https://relay.example")


AGES = Question.model_validate(
    {"text": "?", "metric": "age", "encoder": {"kind": "number", "low": 0, "high": 60}, "statistic": "sum"}
)


def test_a_files_rows_are_encoded_as_the_recipes_devices_encode_them(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("mdvis,age\n0,12.4\n3,-5\n400,99\n")
    kit, generator = RecipeKit(), np.random.default_rng(1)
    visits, ages = kit.recipe(), kit.recipe(question=AGES, population=300, randomizer="flips", epsilon=Decimal(2))
    listed = population_of(visits, None, file, "mdvis")
    encoder = encoder_of(visits.question)
    assert listed.answers(listed.of(0, 3, generator)) == [encoder.encode(text) for text in ("0", "3", "400")]
    listed = population_of(ages, None, file, None)
    assert listed.answers(listed.of(1, 4, generator)) == [0, 60, 12, 0]
    assert population_of(visits, None, None, None).label == "zipf"
    assert population_of(ages, None, None, None).label == "uniform"


def test_an_empty_cell_is_no_value_rather_than_another_text(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("id;colour\n1;red\n2;\n3;pink\n")
    encoder = Categories(kind="categories", categories=("red", "blue"), other="other", missing="none")
    question = Question(text="Which colour?", metric="colour", encoder=encoder, statistic="histogram")
    listed = population_of(RecipeKit().recipe(question=question), None, file, None)
    assert listed.answers(listed.of(0, 3, np.random.default_rng(1))) == [0, 3, 2]
    bare = Question(
        text="?",
        metric="colour",
        encoder=Categories(kind="categories", categories=("red", "pink")),
        statistic="histogram",
    )
    listed = population_of(RecipeKit().recipe(question=bare), None, file, None)
    assert listed.answers(listed.of(0, 3, np.random.default_rng(1))) == [0, None, 1]


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("age\n\nold\n", None, "people.csv: holds no device with a value"),
        ("age\n4\n", "weight", "column weight is not among: age"),
        ("age\n", None, "holds no device"),
    ],
)
def test_a_file_that_the_recipe_cannot_be_asked_of_is_refused_with_its_place(
    tmp_path: Path, text: str, column: str | None, words: str
) -> None:
    file = tmp_path / "people.csv"
    file.write_text(text)
    recipe = RecipeKit().recipe(question=AGES, population=300, randomizer="flips", epsilon=Decimal(2))
    with pytest.raises(UsageError, match=words):
        population_of(recipe, None, file, column)
