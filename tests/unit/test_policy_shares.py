"""What a policy says about the shares of its analysts."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.recipes import RecipeKit
from tacit.errors import UsageError
from tacit.ledger.account import Account
from tacit.recipe.policy import AccountLimit, Policy, parse_policy

KEY = next(iter((RecipeKit().policy.analysts or {}).values()))
NAMES = st.lists(
    st.sampled_from([f"a{number}.example" for number in range(300)]), min_size=1, max_size=300, unique=True
)


@given(NAMES, st.integers(0, 1 << 40), st.data())
def test_shares_are_at_least_one_and_together_no_more_than_there_is(
    names: list[str], whole: int, data: st.DataObject
) -> None:
    weights = data.draw(st.dictionaries(st.sampled_from(names), st.integers(1, 1000)))
    policy = Policy(analysts=dict.fromkeys(names, KEY), shares=weights)
    shares = [policy.share(name, whole) for name in names]
    assert min(shares) >= min(1, whole)
    assert sum(shares) <= max(whole, len(names))
    assert policy.share("somebody.example", whole) == 0


@given(st.integers(0, 1 << 40), st.integers(1, 20))
def test_shares_are_even_unless_the_policy_says_otherwise(whole: int, count: int) -> None:
    policy = Policy(analysts={f"a{number}.example": KEY for number in range(count)})
    assert policy.share("a0.example", whole) == max(whole // count, min(1, whole))


def test_a_single_analyst_has_everything_and_so_has_anybody_where_no_analysts_are_named() -> None:
    assert Policy(analysts={"one.example": KEY}).share("one.example", 8) == 8
    assert Policy().share("anybody.example", 8) == 8


def test_a_weight_counts_beside_those_of_the_others() -> None:
    policy = Policy(analysts=dict.fromkeys(("a", "b", "c"), KEY), shares={"a": 2})
    assert [policy.share(name, 256) for name in ("a", "b", "c")] == [127, 64, 64]


@pytest.mark.parametrize("analysts", ["", f'[analysts]\n"b.example" = "{KEY}"\n'])
def test_a_policy_gives_no_share_to_an_analyst_that_it_does_not_name(analysts: str) -> None:
    with pytest.raises(UsageError, match=r"shares names a\.example, whom analysts does not name"):
        parse_policy(f'{analysts}[shares]\n"a.example" = 3\n'.encode(), "policy.toml")


def with_accounts(**accounts: AccountLimit) -> Policy:
    return Policy(analysts=dict.fromkeys(("a.example", "b.example", "c.example"), KEY), accounts=accounts)


def limit(*analysts: str) -> AccountLimit:
    return AccountLimit(
        epsilon="10", delta="0.0001", window_seconds=60, epsilon_with_relay="7", analysts=analysts or None
    )


def test_an_account_is_divided_among_the_analysts_that_may_charge_it() -> None:
    policy = with_accounts(all=limit(), two=limit("a.example", "b.example"), own=limit("c.example"))
    assert policy.account_share("two", "b.example") == Account(
        "two, share of b.example", Decimal(5), Decimal("0.00005"), 60, Decimal("3.5")
    )
    third = policy.account_share("all", "c.example")
    assert third is not None
    assert Decimal("3.3333") < third.epsilon <= Decimal(10) / 3
    assert policy.account_share("own", "c.example") == policy.account("own")
    assert policy.account_share("own", "a.example") is None
    assert not policy.may_charge("own", "a.example")
    assert policy.may_charge("absent", "a.example"), "account-unknown says that there is none"


@given(st.dictionaries(st.sampled_from(["a.example", "b.example", "c.example"]), st.integers(1, 1000)))
def test_the_parts_of_an_account_never_exceed_it(weights: dict[str, int]) -> None:
    policy = with_accounts(all=limit()).model_copy(update={"shares": weights})
    parts = [policy.account_share("all", name) for name in policy.analysts or {}]
    assert sum(part.epsilon for part in parts if part) <= 10
    assert sum(part.delta for part in parts if part) <= Decimal("0.0001")


def test_an_account_without_analysts_is_not_divided_where_the_policy_names_none() -> None:
    policy = Policy(accounts={"all": limit()})
    assert policy.account_share("all", "anybody.example") == policy.account("all")
