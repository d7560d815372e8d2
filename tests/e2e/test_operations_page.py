"""``docs/operations.md`` followed as it stands: keys, transfers, public values, configurations and commands of nine
organisations, over TLS, each service a process. Only hosts and ports are those of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.base.certificate_files import CA_FILE
from infra.base.free_ports import free_ports
from infra.cli import run
from infra.tools.documents.configuration import configurations
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.service.base.config_files import load_config
from tacit.service.base.secret_files import write_secret
from tests.conftest import ROOT, skip_or_fail
from tests.printed import Walk

PAGE = (ROOT / "docs" / "operations.md").read_text()
ORGANISATIONS = ("analyst", "relay", "leader", "helper", "shuffler", "attester", "issuer", "witness")
POLICED = ("recipe_server", "leader", "helper", "shuffler", "collector", "admin")
SECONDS = 90.0


def blocks() -> list[list[str]]:
    """The commands of each block of commands, lines joined."""
    found = [text.replace("\\\n", " ").strip().splitlines() for text in PAGE.split("```")[1::2]]
    return [lines for lines in found if lines[0].startswith(("tacit ", "SSL_CERT_FILE="))]


def table(head: str) -> list[list[str]]:
    """The rows of the table with this head."""
    rows = PAGE.partition(f"| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


class Deployment:
    """Nine folders beside each other, and what the page puts into them."""

    def __init__(self, folder: Path) -> None:
        self.walk = Walk(folder)
        self.folder = folder
        self.hosts = sorted(set(re.findall(r"https://([a-z.]+\.example)", PAGE)))
        self.ports = dict(zip(self.hosts, free_ports(len(self.hosts)), strict=True))
        self.values: dict[str, str] = {}

    def here(self, text: str) -> str:
        """A text of the page with this machine's addresses, and every value that is known."""
        for host, port in self.ports.items():
            text = re.sub(rf"https://{re.escape(host)}(:\d+)?(?![a-z.])", f"https://localhost:{port}", text)
        return re.sub(r"<([A-Z_]+)>", lambda found: self.values[found[1]], text)

    def shown(self, command: str) -> dict[str, Any]:
        """What a command prints, as JSON."""
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()) as said:
            assert run(shlex.split(command)[1:]) == 0
        document: dict[str, Any] = json.loads(said.getvalue())
        return document

    def hold_ceremony(self) -> None:
        """Keys, transfers, public values, certificates."""
        for command in blocks()[0]:
            self.walk.require(command)
        for source, _, target in table("file | goes to | there it is"):
            (self.folder / target).parent.mkdir(exist_ok=True)
            shutil.copy(self.folder / source, self.folder / target)
        for name, _, where in table("value | whose | member of"):
            member, _, command = where.partition("` of `")
            self.values[name] = self.shown(command)[member]
        root = self.shown("tacit keys show vendor/devices.pem")["certificate"]
        (self.folder / "attester" / "devices.pem").write_text(root)
        self.make_certificates()

    def make_certificates(self) -> None:
        """The page's authority for staging, and its certificates; each is for this machine as well."""
        if shutil.which("openssl") is None:
            skip_or_fail("openssl", "openssl is not installed")
        (script,) = (text for text in PAGE.split("```sh\n")[1:] if "certify()" in text)
        here = re.sub(r"(certify (?:\$name|analyst) [^;\n]+)", r"\1 localhost", script.partition("```")[0])
        done = subprocess.run(["/bin/sh", "-ec", here], cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert all((self.folder / name / "tls.key").stat().st_mode & 0o777 == 0o600 for name in ORGANISATIONS)

    def write_files(self) -> None:
        """Policy, configurations and parties."""
        policy = self.file("policy.toml")
        for place in ("device", ""):
            (self.folder / place / "policy.toml").write_text(policy)
        for path, host in re.findall(r"`(\S+\.toml)`, for `https://([a-z.]+)`[^\n]*:\n", PAGE):
            text = re.sub(r"port = \d+", f"port = {self.ports[host]}", self.file(path))
            text = re.sub(r'host = "[0-9.]+"', 'host = "127.0.0.1"', text)
            if Path(path).stem in POLICED:
                text += "\n[policy]\n" + policy.replace("\n[", "\n[policy.")
            (self.folder / path).write_text(text)
            load_config(self.folder / path, configurations()[Path(path).stem])
        (self.folder / "analyst" / "parties.json").write_text(self.file("analyst/parties.json"))
        write_secret(self.folder / "analyst" / "people.json", self.file("analyst/people.json").encode())

    def file(self, path: str) -> str:
        """The block behind a file's name."""
        place = re.search(rf"`{re.escape(path)}`[^\n`]*(?:`[^`\n]*`)?[^\n`]*:\n\n```\n(.*?)```", PAGE, re.DOTALL)
        assert place is not None, path
        return self.here(place[1])

    def write_device(self) -> None:
        """The configuration of a device, which pins the gateway's present key."""
        ring = self.shown("tacit keys show analyst/gateway/ohttp-keys.json")
        period = str(int(time.time()) // ring["rotation_seconds"])
        self.values |= {"PERIOD": period, "GATEWAY_CONFIG": ring["periods"][period]}
        (self.folder / "device" / "agent.toml").write_text(self.file("device/agent.toml"))
        (self.folder / "device" / "data.csv").write_text("mdvis\n3\n")

    async def until_ready(self) -> None:
        """Until every service says so."""
        deadline = time.monotonic() + SECONDS
        async with HttpTransport(tls=ClientTls(self.folder / CA_FILE)) as http:
            for host in self.hosts:
                url = f"{self.here(f'https://{host}')}/readyz"
                while (answer := await http.request("GET", url)).status != 200:
                    assert time.monotonic() < deadline, (host, answer.body)
                    await asyncio.sleep(0.5)


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path / "organisations")
    try:
        yield made
    finally:
        made.walk.end()


def test_the_page_makes_configurations_that_are_accepted(deployment: Deployment) -> None:
    deployment.hold_ceremony()
    deployment.write_files()
    seals = [deployment.shown(f"tacit keys show {name}/peer.json")["sha256"] for name in ("leader", "helper")]
    assert seals[0] == seals[1]


@pytest.mark.slow
def test_nine_organisations_follow_the_page_and_a_question_is_accepted_by_all(deployment: Deployment) -> None:
    _, serve, monitor, identity, live, people, asked, ask, publish, *_ = blocks()
    deployment.hold_ceremony()
    deployment.write_files()
    for command in serve:
        deployment.walk.require(command)
    asyncio.run(deployment.until_ready())
    deployment.walk.require(identity[0])
    deployment.write_device()
    for command in [*live, *monitor, *people, *asked, *ask, *publish]:
        deployment.walk.require(deployment.here(command))
    journal = deployment.shown("tacit agent journal --config device/agent.toml --json")
    assert journal["log"]["entries"] >= 3, journal
    listed = f"{deployment.here(publish[1])} --json"
    deadline = time.monotonic() + SECONDS
    while True:
        done = subprocess.run(
            ["/bin/bash", "-c", listed],
            cwd=deployment.folder,
            env=deployment.walk.environment,
            capture_output=True,
            check=True,
        )
        recipes = json.loads(done.stdout)["recipes"]
        assert sorted(one["name"] for one in recipes) == ["visits", "weekly"]
        if all(one["state"] == "active" for one in recipes):
            break
        assert {one["state"] for one in recipes} <= {"active", "pending"}
        assert time.monotonic() < deadline, recipes
        time.sleep(0.5)
