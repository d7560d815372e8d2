"""Opens the stack in a folder, or makes one there with the options that a person asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.base.machine_load import how_busy
from infra.stacks.layout import INDEX, Layout, claim_folder, load_layout
from infra.stacks.options import StackOptions
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import DecodeError, UsageError

DEFAULT_SLOTS = 4
"""Recipes per epoch; every device fetches a token for each."""
DEFAULT_BATCH_FLOOR = 20
DEFAULT_MIN_AUDIENCE = 20
WITNESSES = 2
"""Witnesses of a new stack; its policies require both."""
STAGING_EPSILON, STAGING_DELTA = "100", "0.0001"
"""Budget of a stack on one machine, whose devices hold made-up data: enough for a hundred recipes a year with epsilon 1
at delta 1e-6. Real devices have a budget of their own (``client_agent.config.Budget``)."""


def open_stack(
    state_dir: Path,
    epoch_seconds: int | None,
    batch_floor: int | None = None,
    account: tuple[str | None, str | None] = (None, None),
    min_audience: int | None = None,
    unbounded_local: bool | None = None,
    release_cap: str | None = None,
    *,
    max_upload: int | None = None,
    tls: bool | None = None,
    network: str | None = None,
    slots: int | None = None,
    containers: bool = False,
    agents: int = 0,
) -> Layout:
    """Return the stack in ``state_dir``, which is created if there is none. An option that is ``None`` accepts what the
    stack has, or takes the default of a new one, whose epochs are long enough for ``agents`` devices. ``network`` and
    ``containers`` are as in ``StackOptions``. Raises ``UsageError`` if an existing stack has other options, and
    as ``claim_folder`` does."""
    epsilon, delta = account
    if not (state_dir / INDEX).exists():
        options = StackOptions(
            epoch_seconds=epoch_seconds or _usual_epoch_seconds(agents),
            slots_per_epoch=slots or DEFAULT_SLOTS,
            batch_floor=batch_floor or DEFAULT_BATCH_FLOOR,
            unbounded_local=bool(unbounded_local),
            release_cap=release_cap or "",
            max_upload=max_upload or 0,
            account_epsilon=epsilon or STAGING_EPSILON,
            account_delta=delta or STAGING_DELTA,
            min_audience=min_audience or DEFAULT_MIN_AUDIENCE,
            witnesses=WITNESSES,
            tls=bool(tls),
            network=network or "",
            containers=containers,
        )
        return _new_stack(state_dir, options)
    wanted = {
        "epoch_seconds": epoch_seconds, "slots_per_epoch": slots, "batch_floor": batch_floor,
        "account_epsilon": epsilon, "account_delta": delta, "min_audience": min_audience,
        "unbounded_local": unbounded_local, "release_cap": release_cap, "max_upload": max_upload,
        "tls": tls, "containers": containers, "network": network,
    }  # fmt: skip
    return _with_options(_upgrade(state_dir), wanted)


def _usual_epoch_seconds(agents: int) -> int:
    from tacit.operations.pace import default_epoch_seconds

    return default_epoch_seconds(agents, how_busy())


def _new_stack(state_dir: Path, options: StackOptions) -> Layout:
    from infra.stacks.new_layout import create_layout

    _check_numbers(options)
    claim_folder(state_dir)
    return create_layout(state_dir, options, OsEntropy(), SystemClock().now())


def _upgrade(state_dir: Path) -> Layout:
    from infra.stacks.upgrades import with_admin, with_operators

    return with_operators(with_admin(load_layout(state_dir), OsEntropy()), OsEntropy())


def _with_options(layout: Layout, wanted: Mapping[str, object]) -> Layout:
    """The stack. Raises ``UsageError`` if it has another value than ``wanted`` for an option that is not None."""
    has = layout.options
    account = f"has an account of epsilon {has.account_epsilon} at delta {has.account_delta}"
    words = {
        "epoch_seconds": f"has epochs of {has.epoch_seconds} s",
        "slots_per_epoch": f"has tokens for {has.slots_per_epoch} recipes in an epoch",
        "batch_floor": f"accepts B of {has.batch_floor} and more",
        "account_epsilon": account,
        "account_delta": account,
        "min_audience": f"wants audiences of {has.min_audience} devices",
        "unbounded_local": "does not accept noise shares",
        "release_cap": f"lets a batch tell {f'epsilon {has.release_cap}' if has.release_cap else 'the usual epsilon'}",
        "max_upload": f"takes reports of {f'{has.max_upload} bytes' if has.max_upload else 'the usual sizes'}",
        "tls": "speaks plain HTTP on loopback",
        "containers": f"{'has' if has.containers else 'does not have'} its services in containers",
        "network": f"has its services {'in networks of their own' if has.network else 'on loopback'}",
    }
    for name, one in wanted.items():
        if one not in {None, getattr(has, name)}:
            raise UsageError(
                f"{layout.state_dir}: this stack {words[name]}; choose another --state-dir for a different one"
            )
    return layout


def _check_numbers(options: StackOptions) -> None:
    from tacit.recipe.policy import AccountLimit, Policy
    from tacit.tlog.canonical import validate

    limit = {
        "epsilon": options.account_epsilon,
        "delta": options.account_delta,
        "window_seconds": options.account_seconds,
    }
    caps = {"max_epsilon_aggregator": options.release_cap} if options.release_cap else {}
    try:
        validate(AccountLimit, limit, "account")
        validate(Policy, caps, "--release-cap")
        validate(Policy, {"max_upload": options.max_upload} if options.max_upload else {}, "--max-upload")
    except DecodeError as error:
        raise UsageError(str(error)) from error
