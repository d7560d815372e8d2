"""Whether the servers behind services answer: databases, Redis, the broker, each contacted as the services would.

The client of a kind of server is imported when a service uses such a server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import TacitError, UsageError

ANSWER_SECONDS = 30.0
"""Patience with one server. On a machine that is busy a connection takes seconds, while every service is at work."""
ANNOUNCED_SECONDS = 10.0
"""Seconds for a broker to deliver what it retains."""
AT_ONCE = 2
"""How many services' access to one kind of server is tried at a time, so that the checks are no load by themselves."""


@dataclass(frozen=True)
class ServerStatus:
    """The status of a kind of server: the services that use it, whether it answers, and what is wrong or notable."""

    name: str
    used_by: list[str]
    up: bool
    detail: str = ""


async def server_status(configs: Mapping[str, Path]) -> list[ServerStatus]:
    """Check every server that a configuration names; ``configs`` are the services' files by name."""
    checks = [
        _check(configs, "postgres", ("database_file",), _database),
        _check(configs, "redis", ("replay_window",), _redis),
        _check(configs, "mosquitto", ("announcer",), _broker),
    ]
    return [found for found in await asyncio.gather(*checks) if found is not None]


async def _check(
    configs: Mapping[str, Path], name: str, members: tuple[str, ...], check: Callable[[Path, Any], Awaitable[str]]
) -> ServerStatus | None:
    """Run ``check`` for every service whose configuration has one of ``members``, with the configuration's folder and
    the member's value; None if no service has one."""
    used: dict[str, tuple[Path, Any]] = {}
    for service, config in configs.items():
        body = json.loads(config.read_text("utf-8"))
        for member in members:
            if member in body:
                used[service] = config.parent, body[member]
    if not used:
        return None
    turns, errors = asyncio.Semaphore(AT_ONCE), list[str]()

    async def tried(folder: Path, value: Any) -> str:
        async with turns:
            if errors:  # one service is enough to say that the server is down
                return ""
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await check(folder, value)
            except TimeoutError:
                errors.append(f"no answer in {ANSWER_SECONDS:.0f} s")
            except TacitError as error:
                errors.append(str(error))
            return ""

    answers = await asyncio.gather(*(tried(*one) for one in used.values()))
    return ServerStatus(name, sorted(used), not errors, errors[0] if errors else answers[0])


async def _database(folder: Path, name: str) -> str:
    from sqlalchemy.engine import make_url

    from tacit.adapters.databases.postgres import administer
    from tacit.service.base.secret_files import read_database_url

    url = make_url(read_database_url(folder / name))
    while True:
        try:
            await administer(url, ["SELECT 1"])
        except UsageError as error:
            if not _is_slow(error):
                raise
        else:
            return ""


def _is_slow(error: BaseException | None) -> bool:
    """Whether an attempt ended because its own time was over, which says nothing about the server yet."""
    while error is not None and not isinstance(error, TimeoutError):
        error = error.__cause__
    return error is not None


async def _redis(folder: Path, settings: dict[str, str]) -> str:
    from tacit.adapters.messaging.redis_replay import RedisSeen
    from tacit.service.base.backends import RedisConfig
    from tacit.service.base.config_files import parse_config

    config = parse_config(settings, RedisConfig, base=folder)
    seen = RedisSeen(config.url(insecure=True), "status")
    await seen.open()
    await seen.close()
    return ""


async def _broker(folder: Path, settings: dict[str, str]) -> str:
    """Read the recipe server's announcement that the broker retains, which shows that both work. Returns the log's size
    in words."""
    from tacit.adapters.messaging.topics import LOG, parse_size
    from tacit.adapters.system import OsEntropy, SystemClock
    from tacit.adapters.waiting import first_of
    from tacit.service.base.backends import AnnouncerConfig, make_announcer
    from tacit.service.base.config_files import parse_config

    failed = asyncio.Event()
    announcer = make_announcer(
        parse_config(settings, AnnouncerConfig, base=folder),
        "status",
        SystemClock(),
        OsEntropy(),
        insecure=True,
        report=lambda error: failed.set() if error is not None else None,
    )
    await announcer.open()
    heard = asyncio.ensure_future(anext(announcer.subscribe(LOG)))
    try:
        await asyncio.wait_for(first_of(asyncio.shield(heard), failed.wait()), ANNOUNCED_SECONDS)
    except TimeoutError as error:
        raise UsageError("there is no announcement of the log") from error
    finally:
        await announcer.close()
        await asyncio.gather(heard, return_exceptions=True)
    if heard.exception() is not None:
        raise UsageError("no connection")
    return f"the log has {parse_size(heard.result().payload)} entries"
