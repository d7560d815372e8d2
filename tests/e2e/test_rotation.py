"""Certificates, their authority, HPKE keys and bearer tokens replaced in a whole deployment while its devices answer.
Nothing starts again but the admin service, which takes the parties of new questions, and every answer that was sent is
counted once."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from infra.base.certificate_files import CA_FILE
from infra.base.certificates import LIFETIME, CertificateAuthority
from infra.base.remembered_servers import amend_config
from infra.stacks.certificates import authority_of
from infra.stacks.layout import INDEX, Layout
from infra.stacks.new_layout import renew_certificates
from infra.stacks.opening import open_stack
from infra.stacks.options import OPERATORS, PEOPLE, bearer_token, credentials_of
from infra.stacks.processes import read_pids
from infra.stacks.tls import AUTHORITY, OPERATOR, party_name
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy
from tacit.aggregator.keys import generate_hpke_key, read_hpke_key, read_peer_tokens, write_hpke_key
from tacit.codec import b64url
from tacit.service.base.secret_files import write_secret
from tacit.service.http.token_files import first_token
from tests.e2e.staged import all_at_work, published, row_of, staging
from tests.e2e.test_staging_operations import Site, until
from tests.e2e.test_up import GUARDED
from tests.e2e.test_up_tls import shown
from tests.kit.tokens import put_tokens

pytestmark = pytest.mark.slow
DEVICES, EPOCH, DURATION, LEAST = 24, 120, 110, 10
UNDER_WAY_SECONDS = 10
"""For which what was sent may be on its way."""
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


def put_peer_tokens(path: Path, *tokens: str) -> None:
    """Have a peer file hold ``tokens``, and otherwise what it held."""
    write_secret(path, json.dumps({**json.loads(path.read_bytes()), "credentials": list(tokens)}).encode())


def replace_tokens(layout: Layout) -> tuple[dict[str, str], dict[str, str]]:
    """A new token of every caller at every service, the leader's at the helper too, each beside the old one first. The
    old ones by name, and the new ones."""
    folder, legs = layout.state_dir, credentials_of(layout.services)
    files = {name: (folder / caller / f"{name}.token", folder / called / f"{name}.token", put_tokens)
             for name, (caller, called) in legs.items()}  # fmt: skip
    files["peer"] = (folder / "leader" / "peer.json", folder / "helper" / "peer.json", put_peer_tokens)
    old = {name: read_peer_tokens(at)[0] if name == "peer" else first_token(at) for name, (at, _, _) in files.items()}
    new = {name: bearer_token(OsEntropy()).decode() for name in files}
    for name, (_, called, put) in files.items():
        put(called, old[name], new[name])
    for name, (caller, _, put) in files.items():
        put(caller, new[name])
    time.sleep(UNDER_WAY_SECONDS)
    for name, (_, called, put) in files.items():
        put(called, new[name])
    return old, new


async def opened(layout: Layout, tokens: Mapping[str, str]) -> set[str]:
    """Those of ``tokens``, by name, that open what they are for, to whoever shows the caller's certificate."""
    legs, found = {**credentials_of(layout.services), "peer": ("leader", "helper")}, set()
    for service, method, path, media_type, name in GUARDED:
        if name in legs:
            content = {"Content-Type": media_type} if media_type else {}
            async with HttpTransport(tls=shown(layout, legs[name][0])) as http:
                headers = {**content, "Authorization": f"Bearer {tokens[name]}"}
                if (await http.request(method, layout.urls[service] + path, headers=headers)).status != 401:
                    found.add(name)
    return found


def replace_authority(layout: Layout) -> None:
    """Another authority, which everybody trusts beside the old one before there are certificates of it."""
    folder, now = layout.state_dir, time.time()
    old, new = authority_of(folder, now), CertificateAuthority.create("the next authority", now, LIFETIME)
    trusted = sorted(folder.rglob(CA_FILE))
    for path in trusted:
        write_secret(path, old.pem + new.pem)
    for name in (*layout.services, OPERATOR):
        new.issue(folder / name, [party_name(name, OPERATORS), "localhost"], now, LIFETIME)
    time.sleep(UNDER_WAY_SECONDS)
    for path in trusted:
        write_secret(path, new.pem)
    new.save(folder / AUTHORITY)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "stack"
    key_folders(open_stack(folder, EPOCH, LEAST, tls=True))
    with ExitStack() as stack:
        stack.enter_context(staging(folder, "processes", "--single", "1", devices=DEVICES))
        yield Site(folder)


def test_certificates_keys_and_tokens_are_replaced_while_devices_answer(site: Site) -> None:
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
    old_tokens, new_tokens = replace_tokens(layout)
    replace_authority(layout)
    renewed = served(layout)
    assert [name for name in layout.services if after[name] == renewed[name]] == []
    guarded = {name for *_, name in GUARDED} - set(PEOPLE)
    assert asyncio.run(opened(layout, old_tokens)) == set()
    assert asyncio.run(opened(layout, new_tokens)) == guarded
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
