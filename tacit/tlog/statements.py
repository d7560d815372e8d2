"""What parties state in the log about a recipe or series: that they take part, have closed it, or what they counted."""

from __future__ import annotations

from typing import Any, Literal

from tacit.tlog.fields import Blob, Body, Hash, Name, Positive, Role


class OptIn(Body):
    """The statement that a party required by the recipe's model, such as leader and helper, takes part (P5). Two
    aggregators of one task confirm its verify key by ``seed_id`` and ``verify_key_confirmation``."""

    recipe_hash: Hash
    task_id: Hash
    role: Role
    seed_id: Name | None = None
    verify_key_confirmation: Hash | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Refuse ``seed_id`` without ``verify_key_confirmation``, and the reverse."""
        if (self.seed_id is None) != (self.verify_key_confirmation is None):
            raise ValueError("seed_id and verify_key_confirmation must be given together")


class Void(Body):
    """The statement that an aggregator has closed a recipe's task for good without a release (P22). A recipe is void
    once leader and helper have both published one."""

    recipe_hash: Hash
    task_id: Hash
    role: Role


class CensusShare(Body):
    """An aggregator's share of a census, in the clear, once its one batch was released: exactly the bytes that were
    sealed to the collector. The two shares add up to the randomised counts of ``report_count`` devices."""

    recipe_hash: Hash
    task_id: Hash
    role: Role
    report_count: Positive
    aggregate_share: Blob


class SeriesEnd(Body):
    """The statement that no further round of a series is asked (P38): by its analyst, or by the operator of the log,
    whose policy names who may ask. A round whose leaf comes later in the log is none. Rounds before it go on."""

    series_hash: Hash
    role: Literal["analyst", "log"]
