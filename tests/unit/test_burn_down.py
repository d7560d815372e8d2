"""How accounts burn down: by day, and when they would be used up at the pace of late."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from infra.lab.kit.recipes import NOW, RecipeKit
from tacit.ledger.account import Account, Charge, ChargeState, Cost
from tacit.ledger.balance import computed_epsilon
from tacit.ledger.budget import fits
from tacit.ledger.budget import spent_epsilon as spent_of
from tacit.logview.live import LiveLog
from tacit.operations.burn_down import DAY, MOST_POINTS, burn_down, burn_downs
from tacit.recipe.policy import AccountLimit

KIT = RecipeKit()
YEAR = 365 * DAY
WEEK = 7 * DAY
TODAY = NOW // DAY * DAY


def account(epsilon: str = "10", window: int = YEAR, with_relay: str | None = None) -> Account:
    limit = AccountLimit(epsilon=epsilon, delta="0.0001", window_seconds=window, epsilon_with_relay=with_relay)
    found = KIT.policy.model_copy(update={"accounts": {"default": limit}}).account("default")
    assert found is not None
    return found


def charge(day: float, epsilon: str = "1", *, name: str = "default", state: ChargeState = ChargeState.ACTIVE) -> Charge:
    """A recipe of an hour, so many days from now."""
    start = int(NOW + day * DAY)
    cost = Cost(Decimal(epsilon), Decimal("0.000001"))
    return Charge(name, repr(day).encode(), "recipe", start, start + 3600, cost, state, Decimal(epsilon) * 2)


def test_days_show_what_was_spent_and_give_back_what_leaves_the_period() -> None:
    charges = [charge(-9.5), charge(-9.4), charge(-2.5), charge(0.5), charge(-1, name="other")]
    charges.append(charge(-1, state=ChargeState.VOID))
    found = burn_down(charges, account(window=WEEK), NOW)
    assert [one.at % DAY for one in found.days[:-1]] == [0] * (len(found.days) - 1)
    assert found.days[-1].at == NOW
    whole = burn_down(charges, account(), NOW)
    spent = [one.spent for one in whole.days]
    assert spent == sorted(spent)
    assert spent[0] == pytest.approx(2, rel=1e-3)
    assert spent[-1] == spent_of([one.cost for one in charges[:4]], account())
    assert [one.left for one in whole.days] == [10 - one for one in spent]
    short = [one.spent for one in found.days]
    assert max(short) <= 2.0
    assert short[-1] == pytest.approx(2, rel=1e-3), (
        "what was asked before the period is back, what is logged ahead is not"
    )
    assert len(burn_down([charge(-900), charge(-1)], account(window=1000 * DAY), NOW).days) <= MOST_POINTS
    document = json.loads(json.dumps(whole.document()))
    assert document["days"][-1] == {
        "at": NOW,
        "spent": computed_epsilon(spent[-1]),
        "left": computed_epsilon(10 - spent[-1]),
    }
    assert document["window_seconds"] == YEAR


def test_a_forecast_is_when_the_next_recipe_of_the_pace_fits_no_more() -> None:
    charges = [charge(-day) for day in range(1, 11)]
    found = burn_down(charges, account("30"), NOW)
    assert found.pace is not None
    assert (found.pace.recipes, found.pace.epsilon, found.pace.seconds) == (10, Decimal(1), 10 * DAY)
    assert found.used_up_at is not None
    more = round((found.used_up_at - NOW) / DAY)
    costs = [one.cost for one in charges]
    assert fits([*costs, *[costs[0]] * (more - 1)], account("30"))
    assert not fits([*costs, *[costs[0]] * more], account("30"))
    assert found.earliest is not None
    assert found.latest is not None
    assert NOW < found.earliest < found.used_up_at < found.latest
    relay = burn_down(charges, account("30", with_relay="30"), NOW)
    assert relay.used_up_at is not None
    assert relay.used_up_at < found.used_up_at, "whichever balance is used up first"


def test_an_account_whose_period_gives_back_as_much_as_is_asked_lasts() -> None:
    weekly = [charge(-day) for day in range(1, 29)]
    found = burn_down(weekly, account("7.5", window=WEEK), NOW)
    assert (found.used_up_at, found.latest) == (None, None)
    assert found.earliest is not None, "half as much again would not fit"
    assert burn_down(weekly, account("6.5", window=WEEK), NOW).used_up_at is not None


def test_nothing_charged_is_no_pace_and_a_pace_of_minutes_is_not_one_of_years() -> None:
    (empty,) = burn_downs(LiveLog(), KIT.policy.model_copy(update={"accounts": {"default": account_limit()}}), NOW)
    assert (empty.pace, empty.used_up_at, [one.spent for one in empty.days]) == (None, None, [Decimal(0)])
    assert burn_down([charge(-100)], account(), NOW).pace is None
    minutes = burn_down([charge(-0.001), charge(-0.002)], account(), NOW)
    assert minutes.pace is not None
    assert minutes.pace.seconds == 173, "the time that has passed"
    assert (minutes.has_forecast, minutes.used_up_at, minutes.earliest) == (False, None, None)
    ahead = burn_down([charge(0.01)], account(), NOW + 0.7)
    assert ahead.pace is not None
    assert (ahead.pace.recipes, ahead.pace.seconds) == (1, 0)
    just = burn_down([charge(0)], account(), NOW + 0.7)
    assert just.pace is not None
    assert just.pace.recipes == 1, "a fraction of a second loses none"
    over = burn_down([charge(-1, "20")], account(), NOW)
    assert over.days[-1].left == 0.0
    assert over.used_up_at is not None


def account_limit() -> AccountLimit:
    return AccountLimit(epsilon="10", delta="0.0001", window_seconds=YEAR)
