"""Certificates and HPKE keys replaced in a whole deployment while its devices answer. Nothing starts again but the
admin service, which takes the parties of new questions, and every answer that was sent is counted once."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from infra.commands.up import open_stack
from infra.layout import INDEX, Layout
from infra.new_layout import renew_certificates
from infra.processes import read_pids
from infra.remembered_servers import amend_config
from tacit.adapters.system import OsEntropy
from tacit.aggregator.keys import generate_hpke_key, read_hpke_key, write_hpke_key
from tacit.codec import b64url
from tests.e2e.staged import all_at_work, published, row_of, staging
from tests.e2e.test_staging_operations import Site, until

pytestmark = pytest.mark.slow
DEVICES, EPOCH, DURATION, LEAST = 24, 120, 110, 10
HOLDERS = ("leader", "helper", "collector")
NEW_ID = 100


def served(layout: Layout) -> dict[str, str]:
    """The certificate that each service shows to a new connection."""
    found = {}
    for name, url in layout.urls.items():
        host, port = url.removeprefix("https://").split(":")
        found[name] = ssl.get_server_certificate((host, int(port)), timeout=60)
    return found


def key_folders(layout: Layout) -> None:
    """Have each holder take its HPKE keys from a folder, before it starts."""
    for name in HOLDERS:
        config = layout.configs[name]
        (config.parent / "hpke").mkdir(mode=0o700)
        (config.parent / "hpke.key").rename(config.parent / "hpke" / "1.key")
        amend_config(config, hpke_keys=["hpke"])


def replace_hpke_keys(layout: Layout) -> dict[str, str]:
    """A new key beside the old one of each holder, and in what new questions name. The new ones as text, by holder."""
    new = {}
    paths = [layout.state_dir / INDEX, layout.configs["admin"].parent / "parties.json"]
    for number, name in enumerate(HOLDERS):
        folder = layout.configs[name].parent / "hpke"
        key = generate_hpke_key(NEW_ID + number, OsEntropy())
        write_hpke_key(folder / "2.key", key)
        old, new[name] = b64url(read_hpke_key(folder / "1.key").config.encode()), b64url(key.config.encode())
        for path in paths:
            text = path.read_text()
            assert old in text
            path.write_text(text.replace(old, new[name]))
    return new


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "stack"
    key_folders(open_stack(folder, EPOCH, LEAST, tls=True))
    with ExitStack() as stack:
        stack.enter_context(staging(folder, "processes", "--single", "1", devices=DEVICES))
        yield Site(folder)


def test_certificates_and_hpke_keys_are_replaced_while_devices_answer(site: Site) -> None:
    layout = site.layout
    begins = site.publish("before")
    site.until("both opted in", lambda: site.json("recipe", "show", "before")["state"] == "active")
    until(begins + DURATION / 4)
    before, started = served(layout), read_pids(layout.state_dir)
    renew_certificates(layout, time.time())
    new = replace_hpke_keys(layout)
    after = served(layout)
    assert [name for name in layout.services if before[name] == after[name]] == []
    site.json("staging", "restart", "admin")
    until(begins + DURATION)
    row = site.counted("before")
    assert row["released"] > LEAST
    left = EPOCH - time.time() % EPOCH
    time.sleep(left if left < 45 else 0)
    recipe = published(site, "after", DEVICES, LEAST, DURATION)
    asked = site.json("recipe", "show", "after")["recipe"]["parties"]
    assert {name: asked[name]["hpke_config"] for name in HOLDERS} == new
    site.json("collect", "after", "--wait", str(2 * EPOCH + DURATION))
    assert row_of(site.json("staging", "report"), recipe)["released"] >= LEAST
    assert all_at_work(site, DEVICES)
    again = read_pids(layout.state_dir)
    assert [name for name in layout.services if started[name] != again[name]] == ["admin"]
    assert site.json("status")["ok"]
