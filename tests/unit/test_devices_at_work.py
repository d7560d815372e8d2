"""How many agents of a stack are at work is known before anything is charged, and so is whether they are enough."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
import typer

from client_agent.config import LOCK
from infra.authoring import publishing_time
from infra.authoring.devices_at_work import Crowd, crowd_of
from infra.authoring.publishing_time import (
    crowd_words,
    is_asked_here,
    over_words,
    ready_recipe,
    require_open,
    tell_crowd,
    too_few,
)
from infra.authoring.recipe_options import Insisted
from infra.authoring.slot_reservations import HELD_SECONDS, reservations
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import EPOCH, NOW, RecipeKit
from infra.stacks.agents import provision_agents
from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.disk.folder_lock import alone_in
from tacit.errors import UsageError
from tacit.extras import LABORATORY
from tacit.logview.live import LiveLog
from tacit.recipe.model import Interval, Recipe

KIT = RecipeKit()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    options = StackOptions(epoch_seconds=3_600, batch_floor=20)
    made = create_layout(tmp_path / "stack", options, SeededEntropy(1), float(NOW))
    provision_agents(made, 3, SeededEntropy(2), float(NOW))
    return made


def asking(population: int, rate: str = "1", floor: int = 48) -> Recipe:
    return KIT.recipe(population=population, rate=Decimal(rate), min_batch_size=floor)


def test_agents_at_work_are_counted_by_the_locks_that_they_hold(layout: Layout) -> None:
    crowd = crowd_of(layout)
    assert (crowd.there, crowd.working, crowd.check_in_seconds) == (3, 0, 60.0)
    with alone_in(layout.state_dir / "agents" / "1", LOCK, "at work"):
        assert crowd_of(layout).working == 1
    assert crowd_of(layout).working == 0


def test_where_the_kernel_lists_no_locks_nobody_claims_to_know(layout: Layout, tmp_path: Path) -> None:
    found = crowd_of(layout, tmp_path / "none")
    assert found.working is None
    assert too_few(asking(3), found) is None
    assert "an unknown number of the 3 agents" in crowd_words(asking(3), found)


def test_a_batch_that_the_agents_at_work_cannot_fill_is_known_beforehand() -> None:
    few = too_few(asking(60), Crowd(60, 37, 2.0))
    assert few is not None
    assert few.startswith(
        "37 of the 60 agents of this stack are at work, and B = 48 needs 48 of them: start them first"
    )
    assert too_few(asking(60), Crowd(60, 48, 2.0)) is None
    assert too_few(asking(60, "0.5", 24), Crowd(60, 45, 2.0)) is None, "by its coins it may still fill"
    assert "About 22 of them answer, and B is 24: it may not fill" in crowd_words(
        asking(60, "0.5", 24), Crowd(60, 45, 2.0)
    )
    halves = too_few(asking(60, "0.5", 24), Crowd(60, 30, 2.0))
    assert halves is not None
    assert "B = 24 needs 48 of them" in halves


def test_of_a_recipe_that_asks_others_too_it_is_said_that_nobody_knows() -> None:
    crowd = Crowd(60, 0, 2.0)
    assert is_asked_here(asking(60), crowd)
    assert not is_asked_here(asking(600), crowd)
    assert not is_asked_here(asking(60), Crowd(0, 0, 2.0))
    assert "The recipe asks 600 devices: whether those are at work cannot be known here" in crowd_words(
        asking(600), crowd
    )
    assert "no devices of its own" in crowd_words(asking(60), Crowd(0, 0, 2.0))


def test_what_a_fleet_lacks_is_said_before_a_question_that_needs_one_is_charged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_crowd(asking(600), Crowd(60, 0, 2.0))
    assert "needs" not in capsys.readouterr().err
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "psutil" else found(name))
    tell_crowd(asking(600), Crowd(60, 0, 2.0))
    said = " ".join(capsys.readouterr().err.split())
    assert "tacit fleet run, which simulates devices, needs psutil; install it with:" in said
    assert "[fleet]" in said
    assert said.endswith("Do so before you publish: that is charged")
    tell_crowd(asking(60), Crowd(60, 60, 2.0))
    assert "psutil" not in capsys.readouterr().err, "the stack's own devices answer"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == LABORATORY else found(name))
    tell_crowd(asking(600), Crowd(0, 0, 2.0))
    assert "needs the laboratory; install it with:" in " ".join(capsys.readouterr().err.split())


def test_what_nobody_is_asked_any_more_is_published_by_nobody_unless_he_insists(
    capsys: pytest.CaptureFixture[str],
) -> None:
    over = Interval(start=NOW - 1_000_000, duration=3_600)
    assert over_words(over, over.start + 900.0) is None
    with pytest.raises(UsageError, match=r"nobody would be asked: .* nothing was published or charged \(--now"):
        require_open(over, Insisted())
    require_open(over, Insisted(now=True))
    assert "published anyway (--now)" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("ahead", [1, 2])
def test_a_draft_that_no_epoch_of_the_log_suits_yet_is_published_once_one_does(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ahead: int
) -> None:
    """The last half minute of an epoch; the log shows the token keys of ``ahead`` epochs after the present one."""
    seconds, begins = 86_400, (EPOCH + 1) * 86_400
    clock = SimClock(begins - 30.0, autojump=0.0)

    async def shown(*_given: object) -> LiveLog:
        last = int(clock.now() // seconds) + ahead
        return LiveLog.from_leaves(enumerate(KIT.directory_leaf(epoch) for epoch in range(EPOCH, last + 1)))

    layout = replace(layout, options=replace(layout.options, epoch_seconds=seconds))
    monkeypatch.setattr(publishing_time, "crowd_of", lambda _layout: Crowd(60, 60, 60.0))
    monkeypatch.setattr(publishing_time, "verified_log", shown)
    monkeypatch.setattr(publishing_time, "policy_of", lambda _path: None)
    monkeypatch.setattr(publishing_time, "SystemClock", lambda: clock)
    draft = KIT.recipe(epoch=EPOCH + 1, start=begins, duration=240, population=60, rate=Decimal(1), min_batch_size=48)
    ready = ready_recipe(draft, layout, Insisted(), signed=False)
    assert (ready.token.epoch, ready.interval.start) == (EPOCH + 2, begins + seconds)
    said = " ".join(capsys.readouterr().err.split())
    assert "its time was left open: it asks " in said
    assert ("waiting until" in said, clock.now() >= begins) == (ahead == 1, ahead == 1)


@pytest.mark.parametrize("busy", [0.0, 5.0])
def test_a_stack_with_short_epochs_is_asked_as_soon_as_its_devices_can_decide(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, busy: float
) -> None:
    seconds = 60

    clock = SimClock(autojump=0.0)

    async def shown(*_given: object) -> LiveLog:
        now = int(clock.now() // seconds)
        return LiveLog.from_leaves(enumerate(KIT.directory_leaf(epoch) for epoch in (now, now + 1)))

    layout = replace(layout, options=replace(layout.options, epoch_seconds=seconds))
    crowd = Crowd(60, 60, 4.0, busy)
    monkeypatch.setattr(publishing_time, "crowd_of", lambda _layout: crowd)
    monkeypatch.setattr(publishing_time, "verified_log", shown)
    monkeypatch.setattr(publishing_time, "policy_of", lambda _path: None)
    monkeypatch.setattr(publishing_time, "SystemClock", lambda: clock)
    for began in range(EPOCH * 60, EPOCH * 60 + 60, 7):
        clock = SimClock(float(began), autojump=0.0)
        draft = KIT.recipe(
            epoch=EPOCH + 1,
            start=(EPOCH + 1) * seconds,
            duration=seconds,
            population=60,
            rate=Decimal(1),
            min_batch_size=48,
        )
        ready = ready_recipe(draft, layout, Insisted(), signed=False)
        assert crowd.pace.reaches(ready.interval, seconds, clock.now())
        assert ready.interval.start // seconds == ready.token.epoch == (ready.interval.end - 1) // seconds
        assert (
            ready.interval.start % ready.batch.time_precision
            == ready.interval.duration % ready.batch.time_precision
            == 0
        )
        assert ready.interval.end - began <= 120
        assert ready.privacy == draft.privacy


def test_a_person_at_a_terminal_is_asked_and_may_say_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing_time, "_in_terminal", lambda: True)
    answers = io.StringIO("n\ny\n")
    monkeypatch.setattr("sys.stdin", answers)
    over = Interval(start=NOW - 1_000_000, duration=3_600)
    with pytest.raises(typer.Abort):
        require_open(over, Insisted())
    require_open(over, Insisted())


def test_two_drafts_that_are_written_at_the_same_time_reserve_different_slots_until_they_are_over(
    layout: Layout,
) -> None:
    start, now = (EPOCH + 1) * 86_400, float(NOW)
    drafts = [KIT.recipe(epoch=EPOCH + 1, start=start, slot=slot) for slot in (0, 1)]
    for draft in drafts:
        with reservations(layout.state_dir, now) as held:
            assert (EPOCH + 1, draft.token.slot) not in held.slots
            held.add(draft)
    with reservations(layout.state_dir, now + 1) as held:
        assert held.slots == [(EPOCH + 1, 0), (EPOCH + 1, 1)]
    with reservations(layout.state_dir, now + HELD_SECONDS) as held:
        assert held.slots == []
    with contextlib.suppress(FileNotFoundError):
        (layout.state_dir / "slots.json").write_text("not JSON")
    with reservations(layout.state_dir, now) as held:
        assert held.slots == []
