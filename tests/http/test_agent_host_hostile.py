"""Folders of devices that are not what they should be: each fails alone, in one line, and the others go on."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from client_agent import host as hosting
from client_agent.config import LOCK
from client_agent.runner import DATABASE, MARK
from tests.http.test_agent_host import Hosted, folder, hosted

__all__ = ["folder", "hosted"]

Break = Callable[[Path], object]


def _instead(name: str, make: Callable[[Path], object]) -> Break:
    def broken(device: Path) -> None:
        (device / name).unlink(missing_ok=True)
        make(device / name)

    return broken


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def _garbage(path: Path) -> None:
    path.write_bytes(b"\x93no\x00device\xff" * 4096)


def _private_garbage(path: Path) -> None:
    path.touch(0o600)
    _garbage(path)


def _changed(name: str, old: str, new: str) -> Break:
    def broken(device: Path) -> None:
        text = (device / name).read_text()
        assert old in text
        (device / name).write_text(text.replace(old, new, 1))

    return broken


BROKEN: dict[str, Break] = {
    "configuration a FIFO": _instead("agent.json", os.mkfifo),
    "configuration a folder": _instead("agent.json", Path.mkdir),
    "configuration a device": _instead("agent.json", lambda path: path.symlink_to("/dev/zero")),
    "configuration sparse": _instead("agent.json", _sparse),
    "configuration deep": _instead("agent.json", lambda path: path.write_text('{"a":' * 100_000)),
    "configuration garbage": _instead("agent.json", _garbage),
    "configuration with a NUL": _changed("agent.json", '"state_dir": "', '"state_dir": "\\u0000'),
    "member twice": _changed("agent.json", "{", '{"insecure_http": true,'),
    "identity a FIFO": _instead("identity.pem", os.mkfifo),
    "identity garbage": _instead("identity.pem", _private_garbage),
    "identity missing": _instead("identity.pem", lambda _path: None),
    "identity for all": lambda device: (device / "identity.pem").chmod(0o666),
    "journal garbage": _instead(DATABASE, _garbage),
    "journal a FIFO": _instead(DATABASE, os.mkfifo),
    "journal a folder": _instead(DATABASE, Path.mkdir),
    "mark a FIFO": _instead(MARK, os.mkfifo),
    "mark garbage": _instead(MARK, _garbage),
    "mark sparse": _instead(MARK, _sparse),
    "lock a FIFO": _instead(LOCK, os.mkfifo),
    "lock a folder": _instead(LOCK, Path.mkdir),
}


async def _lived(hosted: Hosted) -> None:
    """Every device has been at work once, so that it has a journal, a mark and a lock."""
    await hosted.until(lambda one: one.working == 4)
    await hosted.host._end()
    hosted.host._agents.clear()


@pytest.mark.parametrize("how", sorted(BROKEN))
async def test_a_device_whose_files_are_hostile_fails_alone_in_one_line(how: str, folder: Path, hosted: Hosted) -> None:
    await _lived(hosted)
    BROKEN[how](folder / "2")
    counts = await hosted.until(lambda one: one.working == 3 and one.failed == 1)
    ((name, why),) = hosted.told
    assert name == "2"
    assert why
    assert why.isprintable()
    assert not why.startswith("unexpected"), why
    assert counts.devices == 4


async def test_no_more_threads_wait_than_before_where_every_folder_is_hostile(folder: Path, hosted: Hosted) -> None:
    for number in range(40):
        (folder / f"bad-{number}").mkdir()
        os.mkfifo(folder / f"bad-{number}" / "agent.json")
    before = threading.active_count()
    await hosted.until(lambda one: one.working == 4 and one.failed == 40)
    assert threading.active_count() < before + 40
    assert {why.rpartition(": ")[2] for _, why in hosted.told} == {"not a regular file"}


async def test_a_copied_device_is_no_other_device(folder: Path, hosted: Hosted) -> None:
    shutil.copy(folder / "0" / "identity.pem", folder / "1" / "identity.pem")
    shutil.copytree(folder / "2", folder / "2-copied")
    text = (folder / "2-copied" / "agent.json").read_text().replace(f"{folder / '2'}", f"{folder / '2-copied'}")
    (folder / "2-copied" / "agent.json").write_text(text)
    (folder / "link").symlink_to(folder / "3")
    counts = await hosted.until(lambda one: one.failed == 3 and one.changing == 0)
    assert (counts.devices, counts.working) == (6, 3)
    pairs = [{"0", "1"}, {"2", "2-copied"}, {"3", "link"}]
    told = dict(hosted.told)
    assert all(len(pair & told.keys()) == 1 for pair in pairs), told
    assert sum("the same identity is at work" in why for why in told.values()) >= 2


async def test_links_without_end_and_names_that_no_terminal_takes_harm_nobody(folder: Path, hosted: Hosted) -> None:
    (folder / "circle").symlink_to(folder / "circle")
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "within").mkdir()
    (folder / "within" / "agent.json").symlink_to("agent.json")
    os.mkdir(os.fsencode(folder) + b"/\xff\x1b[2J\n")
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff\x1b[2J\n")) / "agent.json").write_text("{")
    counts = await hosted.until(lambda one: one.working == 4 and one.failed == 1)
    assert counts.devices == 5


async def test_thousands_of_empty_folders_are_looked_through_and_no_device(folder: Path, hosted: Hosted) -> None:
    for number in range(3000):
        (folder / f"empty-{number}").mkdir()
    counts = await hosted.until(lambda one: one.working == 4)
    assert (counts.devices, counts.failed) == (4, 0)


async def test_devices_go_on_while_their_folder_cannot_be_read(folder: Path, hosted: Hosted) -> None:
    await hosted.until(lambda one: one.working == 4)
    away = await asyncio.to_thread(folder.rename, folder.with_name("away"))
    for _ in range(3):
        await hosted.host.scan(hosted.common)
    assert [why for _, why in hosted.told] == ["the folder of all devices: No such file or directory"]
    assert (await hosted.host.counts()).working == 4
    await asyncio.to_thread(away.rename, folder)
    await hosted.until(lambda one: one.working == 4)


async def test_two_hosts_on_one_folder_share_its_devices_out_and_none_is_at_work_twice(
    folder: Path, hosted: Hosted
) -> None:
    other = Hosted(folder)
    async with other.common:
        await asyncio.gather(hosted.host.scan(hosted.common), other.host.scan(other.common))
        first = await hosted.until(lambda one: one.changing == 0)
        second = await other.until(lambda one: one.changing == 0)
        assert first.working + second.working == 4
        assert first.failed + second.failed == 4
        await other.host._end()
    hosted.clock.jump(hosting.RETRY_SECONDS)
    await hosted.until(lambda one: one.working == 4)
