"""Checks before a draft is published in a local stack: can devices decide in time, and are enough at work?

Publishing charges the account whatever the outcome. So problems that can be foreseen are shown first, and a person
decides. A draft whose time was left open is moved; a signed one is never changed.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable

import typer

from infra.authoring.devices_at_work import Crowd, crowd_of
from infra.authoring.recipe_options import Insisted
from infra.authoring.slot_reservations import reservations
from infra.stacks.api import verified_log
from infra.stacks.command_options import policy_of
from infra.stacks.layout import Layout
from infra.views.recipe_outlook import tell_warnings
from infra.views.terminal import notes, span
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.extras import require_fleet
from tacit.logview.live import LiveLog
from tacit.operations.drafting import Reserved, is_movable, is_tied, move, soonest, with_free_slot
from tacit.operations.pace import QUICK_EPOCH, Pace
from tacit.ports import Clock
from tacit.recipe.asking import asked_until
from tacit.recipe.derive import design_of
from tacit.recipe.model import Interval, Recipe
from tacit.recipe.series import Series
from tacit.time_format import format_utc

KEYS_SECONDS, LOOK_SECONDS = 30.0, 1.0
"""For how long the token keys of the wanted epoch are awaited, and the pause between two reads of the log."""
STILL_LOOKS = 5
"""After this many looks without a new agent, no more are expected to start."""


async def log_with_keys(layout: Layout, clock: Clock) -> LiveLog:
    """Return the stack's log, after waiting up to ``KEYS_SECONDS`` for the token keys of the next epoch."""
    seconds, issuer, began = layout.options.epoch_seconds, layout.parties.issuer.name, clock.now()

    def suits(live: LiveLog) -> bool:
        shown = live.directory(issuer, int(clock.now() // seconds) + 1) is not None
        return shown or clock.now() - began >= KEYS_SECONDS

    return await _log_that(suits, layout, clock)


async def _with_keys_for(recipe: Recipe, layout: Layout, crowd: Crowd, clock: Clock, live: LiveLog) -> LiveLog:
    """``live``, or a later state of the log that shows token keys of an epoch in which every device can decide about
    the movable ``recipe``. The wait is shown; it ends when the next epoch has begun and its issuer has published, which
    it does within seconds."""
    seconds = layout.options.epoch_seconds
    until = (clock.now() // seconds + 1) * seconds

    def suits(found: LiveLog) -> bool:
        if _place_for(recipe, found, layout, crowd, clock.now()) is not None:
            return True
        return clock.now() >= until + KEYS_SECONDS

    if suits(live):
        return live
    notes().print(f"waiting until {format_utc(until)}, when the log shows the token keys of a later epoch", style="dim")
    return await _log_that(suits, layout, clock)


async def _log_that(suits: Callable[[LiveLog], bool], layout: Layout, clock: Clock) -> LiveLog:
    policy = policy_of(layout.policy_path)
    async with layout.transport() as transport:
        while True:
            live = await verified_log(transport, layout, policy)
            if suits(live):
                return live
            await clock.sleep(LOOK_SECONDS)


def _place_for(
    recipe: Recipe, live: LiveLog, layout: Layout, crowd: Crowd, now: float, reserved: Reserved = ()
) -> Recipe | None:
    """Where to ask the movable ``recipe``: at its own time, or at an earlier one of a stack with short epochs; None
    where the log's keys allow no time at which every device can decide."""
    seconds, pace = layout.options.epoch_seconds, crowd.pace
    reaches = pace.reaches(recipe.interval, seconds, now)
    if seconds <= QUICK_EPOCH and is_asked_here(recipe, crowd):
        quick = soonest(recipe, live, seconds, now, pace, reserved)
        if quick is not None and (not reaches or quick.interval.end < recipe.interval.end):
            return quick
    if reaches:
        return recipe
    later = move(recipe, live, seconds, now, pace, reserved)
    return later if pace.reaches(later.interval, seconds, now) else None


def ready_recipe(recipe: Recipe, layout: Layout, insisted: Insisted, *, signed: bool) -> Recipe:
    """Return ``recipe`` as it is to be published: moved if its time was left open and is too early, unchanged if
    the log already has it. Raises ``UsageError`` or ``typer.Abort`` if nothing is to be published."""
    crowd, clock = crowd_of(layout), SystemClock()
    live = asyncio.run(log_with_keys(layout, clock))
    if live.recipe(recipe.hash) is not None:
        return recipe
    asked_here = is_asked_here(recipe, crowd)
    if asked_here:
        crowd = asyncio.run(_wait_for_crowd(recipe, layout, crowd, clock))
    _tell_or_ask(too_few(recipe, crowd) if asked_here else None, "--anyway", said=insisted.anyway)
    tell_crowd(recipe, crowd)
    tell_warnings(recipe)
    if not signed and is_movable(recipe, layout.options.epoch_seconds):
        live = asyncio.run(_with_keys_for(recipe, layout, crowd, clock, live))
    if signed:
        return _timely(recipe, layout, crowd, insisted)
    with reservations(layout.state_dir, clock.now()) as held:
        ready = _place(recipe, layout, live, crowd, insisted, held.slots)
        held.add(ready)  # the log shows the recipe only once witnesses have cosigned
        return ready


def ready_series(series: Series, layout: Layout, insisted: Insisted) -> None:
    """Check that the first round of ``series`` can be asked in time. Raises as ``ready_recipe`` does."""
    crowd = crowd_of(layout)
    tell_fleet(series.probe, crowd)
    _tell_or_ask(_too_near(series.window(0), layout, crowd.pace), "--now", said=insisted.now)


def require_open(interval: Interval, insisted: Insisted) -> None:
    """Raise as ``ready_recipe`` does if nobody is asked in ``interval`` any more."""
    _tell_or_ask(over_words(interval, SystemClock().now()), "--now", said=insisted.now)


def over_words(interval: Interval, now: float) -> str | None:
    """Return a sentence if the time for devices to decide is over at ``now`` (POSIX seconds), otherwise ``None``."""
    until = asked_until(interval)
    return None if now <= until else f"nobody would be asked: the time to decide ended at {format_utc(until)}"


def _place(
    recipe: Recipe,
    layout: Layout,
    live: LiveLog,
    crowd: Crowd,
    insisted: Insisted,
    reserved: Reserved,
) -> Recipe:
    seconds, now = layout.options.epoch_seconds, SystemClock().now()
    others = [one for one in reserved if one != (recipe.token.epoch, recipe.token.slot)]
    there, next_epoch_begins = None, None
    if is_movable(recipe, seconds) and not insisted.now:
        place = _place_for(recipe, live, layout, crowd, now, others)
        if place is None:
            next_epoch_begins = (now // seconds + 1) * seconds
        elif place.interval != recipe.interval:
            recipe = place
            notes().print(
                f"its time was left open: it asks {_span(recipe)}, so that every device can decide", style="dim"
            )
    elif not (crowd.pace.reaches(recipe.interval, seconds, now) or insisted.now or is_tied(recipe)):
        there = move(recipe, live, seconds, now, crowd.pace, others)
        if not crowd.pace.reaches(there.interval, seconds, now):
            there, next_epoch_begins = None, (now // seconds + 1) * seconds
    recipe = _timely(recipe, layout, crowd, insisted, there, next_epoch_begins)
    free = with_free_slot(recipe, live, others)
    if free.token != recipe.token:
        notes().print(
            f"token slot {recipe.token.slot} is taken by another recipe or series; it gets {free.token.slot}",
            style="dim",
        )
    return free


def _timely(
    recipe: Recipe,
    layout: Layout,
    crowd: Crowd,
    insisted: Insisted,
    there: Recipe | None = None,
    next_epoch_begins: float | None = None,
) -> Recipe:
    """``recipe``, or ``there`` if its own time is unsuitable and a person agrees to move it.
    ``next_epoch_begins``: when the log will show token keys of a suitable epoch, if it shows none now (POSIX)."""
    near = _too_near(recipe.interval, layout, crowd.pace)
    if near is None or (not is_asked_here(recipe, crowd) and over_words(recipe.interval, SystemClock().now()) is None):
        return recipe
    if next_epoch_begins is not None:
        near += (
            f"; publish it again after {format_utc(next_epoch_begins)}, once the log shows the token keys "
            "of a later epoch"
        )
    if there is not None:
        near += f"; the next suitable time is {_span(there)}"
        if _in_terminal() and typer.confirm(f"{near}. Move it there?", default=True, err=True):
            return there
    _tell_or_ask(near, "--now", said=insisted.now)
    return recipe


def _too_near(interval: Interval, layout: Layout, pace: Pace) -> str | None:
    """A sentence on why not every device would decide in time; ``None`` if all would."""
    seconds, now = layout.options.epoch_seconds, SystemClock().now()
    if pace.reaches(interval, seconds, now):
        return None
    until, needed = format_utc(asked_until(interval)), math.ceil(pace.lead_seconds(seconds))
    return over_words(interval, now) or (
        f"devices decide until {until}, and read the log every {pace.check_in_seconds:g} s: not all of them would "
        f"decide by then, which takes {needed} s here"
    )


def is_asked_here(recipe: Recipe, crowd: Crowd) -> bool:
    """Whether ``recipe`` asks no more devices than the stack has itself."""
    return 0 < population_of(recipe) <= crowd.there + 1


def population_of(recipe: Recipe) -> int:
    """Return about how many devices ``recipe`` asks."""
    return round(recipe.batch.expected_contributions / _sends(recipe))


def _sends(recipe: Recipe) -> float:
    design = design_of(recipe)
    return max(design.sends(design.rate), 1e-9)


def too_few(recipe: Recipe, crowd: Crowd) -> str | None:
    """Return a sentence on why the batch will not fill; ``None`` if it may fill, or if that is not known."""
    need, sends = recipe.batch.min_batch_size, _sends(recipe)
    if crowd.working is None or _most(crowd.working, sends) >= need:
        return None
    return (
        f"{_count_words(crowd)}, and B = {need} needs {math.ceil(need / sends)} of them: start them first (tacit agent "
        "host FOLDER, as tacit up shows), and check there that they are at work"
    )


def _most(devices: int, sends: float) -> float:
    """The most of ``devices`` that answer, each with probability ``sends``, except with a chance of one in forty."""
    return devices * sends + 2 * math.sqrt(devices * sends * max(0.0, 1 - sends))


def tell_crowd(recipe: Recipe, crowd: Crowd) -> None:
    """Print how many agents are at work, and what is not installed of what would simulate the others."""
    notes().print(crowd_words(recipe, crowd), style="dim")
    tell_fleet(recipe, crowd)


def tell_fleet(recipe: Recipe, crowd: Crowd) -> None:
    """Print what ``tacit fleet run`` lacks here, before the question is charged, where ``recipe`` asks more devices
    than the stack has."""
    if is_asked_here(recipe, crowd):
        return
    try:
        require_fleet("tacit fleet run, which simulates devices,")
    except UsageError as error:
        notes().print(f"{error}. Do so before you publish: that is charged", style="yellow")


def crowd_words(recipe: Recipe, crowd: Crowd) -> str:
    """Return a sentence on how many agents are at work, and a warning if they may be too few to reach B."""
    if not crowd.there:
        return "this stack has no devices of its own; how many others are at work cannot be known here"
    words = f"{_count_words(crowd)}; each reads the log every {crowd.check_in_seconds:g} s"
    if not is_asked_here(recipe, crowd):
        asked = population_of(recipe)
        return f"{words}. The recipe asks {asked:,} devices: whether those are at work cannot be known here"
    expected, need = (crowd.working or 0) * _sends(recipe), recipe.batch.min_batch_size
    few = crowd.working is not None and expected < need
    return f"{words}. About {expected:.0f} of them answer, and B is {need}: it may not fill" if few else words


def _count_words(crowd: Crowd) -> str:
    working = "an unknown number" if crowd.working is None else f"{crowd.working}"
    verb = "is" if crowd.working == 1 else "are"
    return f"{working} of the {crowd.there} agents of this stack {verb} at work"


async def _wait_for_crowd(recipe: Recipe, layout: Layout, crowd: Crowd, clock: Clock) -> Crowd:
    """Wait until enough agents are at work or no more start, and return the crowd."""
    still = 0
    while crowd.working and too_few(recipe, crowd) and still < STILL_LOOKS:
        await clock.sleep(LOOK_SECONDS)
        fresh = crowd_of(layout)
        still = 0 if (fresh.working or 0) > crowd.working else still + 1
        crowd = fresh
    return crowd


def _tell_or_ask(problem: str | None, option: str, *, said: bool) -> None:
    if problem is None:
        return
    if said:
        notes().print(f"{problem}; published anyway ({option})", style="yellow")
    elif _in_terminal():
        typer.confirm(f"{problem}. Publish it anyway?", abort=True, err=True)
    else:
        raise UsageError(f"{problem}; nothing was published or charged ({option} publishes it anyway)")


def _in_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _span(recipe: Recipe) -> str:
    return span(recipe.interval.start, recipe.interval.end)
