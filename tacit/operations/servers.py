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

ANSWER_SECONDS = 5.0


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
        _checked(configs, "postgres", ("database_file",), _database),
        _checked(configs, "redis", ("replay_window",), _redis),
        _checked(configs, "mosquitto", ("announcer",), _broker),
    ]
    return [found for found in await asyncio.gather(*checks) if found is not None]


async def _checked(
    configs: Mapping[str, Path], name: str, members: tuple[str, ...], check: Callable[[Path, Any], Awaitable[str]]
) -> ServerStatus | None:
    """Run ``check`` for every service whose configuration has one of ``members``, with the configuration's folder and
    the member's value; None if no service has one."""
    used: dict[str, Awaitable[str]] = {}
    for service, config in configs.items():
        body = json.loads(config.read_text("utf-8"))
        for member in members:
            if member in body:
                used[service] = check(config.parent, body[member])
    if not used:
        return None
    answers = await asyncio.gather(*used.values(), return_exceptions=True)
    errors = [error for error in answers if isinstance(error, BaseException)]
    for error in errors:
        if not isinstance(error, TacitError | TimeoutError):
            raise error
    detail = str(errors[0]) or "no answer" if errors else str(answers[0])
    return ServerStatus(name, sorted(used), not errors, detail)


async def _database(folder: Path, name: str) -> str:
    from sqlalchemy.engine import make_url

    from tacit.adapters.databases.postgres import administer
    from tacit.service.base.secret_files import read_database_url

    async with asyncio.timeout(ANSWER_SECONDS):
        await administer(make_url(read_database_url(folder / name)), ["SELECT 1"])
    return ""


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
    from tacit.adapters.system import OsEntropy, SystemClock
    from tacit.adapters.waiting import first_of
    from tacit.service.announcements import LOG, parse_size
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
        await asyncio.wait_for(first_of(asyncio.shield(heard), failed.wait()), ANSWER_SECONDS)
    except TimeoutError as error:
        raise UsageError("there is no announcement of the log") from error
    finally:
        await announcer.close()
        await asyncio.gather(heard, return_exceptions=True)
    if heard.exception() is not None:
        raise UsageError("no connection")
    return f"the log has {parse_size(heard.result().payload)} entries"
