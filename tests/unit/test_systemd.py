"""The units for systemd: what systemd itself says of them, that they hand a service the files that its configuration
names and no other, and that our code runs in the sandbox that they make, as far as a test can make it."""

from __future__ import annotations

import gc
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from infra.cli import run
from tacit.multibuffer.library import kernels
from tacit.service.run import GRACE_SECONDS
from tacit.vdaf.native import level
from tests.conftest import ROOT, skip_or_fail
from tests.unit.test_kubernetes import EVERY_SERVICE, SERVICES, files_of, filled_in, place_of, shipped

UNITS = ROOT / "infra" / "systemd"
MOST_EXPOSURE = "15"
"""Tenths, as ``systemd-analyze security`` wants its threshold; 1.1 is reached, of which 1.0 is being on a network."""
BACKED_UP = [service for service in SERVICES if service != "relay"]
GUARDED = """
import ctypes, json, mmap
assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0, "PR_SET_MDWE"
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)
except PermissionError:
    pass
else:
    raise AssertionError("not guarded")
import asyncio, sqlite3, ssl, uvloop
from infra.stacks.deployables import deployable
from tacit.multibuffer.library import kernels
from tacit.vdaf.native import level
for kind in ("leader", "admin"):
    deployable(kind)
uvloop.run(asyncio.sleep(0))
print(json.dumps([level(), kernels() is not None]))
"""


def told(unit: str, section: str) -> Mapping[str, list[str]]:
    """What a unit says in a section: name -> values, in order."""
    found: dict[str, list[str]] = {}
    within = ""
    for line in (UNITS / unit).read_text().splitlines():
        if line.startswith("["):
            within = line.strip("[]")
        elif within == section and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def handed(unit: str) -> list[str]:
    """The files that the drop-in of a unit hands to it, each under its own name."""
    service = unit.partition("@")[2].partition(".")[0]
    names = []
    for line in told(f"{unit}.d/files.conf", "Service")["LoadCredential"]:
        name, _, path = line.partition(":")
        assert path == f"/etc/tacit/{service}/{name}"
        names.append(name)
    assert len(names) == len(set(names))
    return names


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The units in a folder of their own, with a program where the document puts it."""
    if shutil.which("systemd-analyze") is None:
        skip_or_fail("systemd", "no systemd-analyze on PATH (apt-get install systemd)")
    folder = tmp_path_factory.mktemp("systemd") / "units"
    shutil.copytree(UNITS, folder)
    for path in folder.glob("*.service"):
        path.write_text(path.read_text().replace("/opt/tacit/bin/tacit", str(Path(sys.executable).with_name("tacit"))))
    return folder


def analyzed(units: Path, *words: str) -> str:
    done = subprocess.run(
        ["systemd-analyze", *words],  # noqa: S607 - wherever the system has it
        env={"SYSTEMD_UNIT_PATH": f"{units}:", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_COLORS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout + done.stderr


def test_systemd_finds_nothing_wrong_with_any_unit(units: Path) -> None:
    names = [f"tacit@{service}.service" for service in SERVICES]
    names += [f"tacit-backup@{service}.{kind}" for service in BACKED_UP for kind in ("service", "timer")]
    names += ["tacit-renew@leader.path", "tacit-renew@leader.service"]
    said = analyzed(units, "verify", "--man=no", "--generators=no", *names)
    assert "tacit" not in said, said


@pytest.mark.parametrize("unit", ["tacit@leader.service", "tacit-backup@leader.service"])
def test_systemd_counts_little_that_a_unit_leaves_open(units: Path, unit: str) -> None:
    said = analyzed(units, "security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSURE}", unit)
    assert "OK" in said.splitlines()[-1]
    assert "✗ PrivateNetwork=" in said, "what is left open is the network"


@EVERY_SERVICE
def test_a_unit_hands_its_service_what_its_configuration_names(service: str) -> None:
    database = {"database-ca.pem"} if shipped(service).database_file else set()
    assert set(handed(f"tacit@{service}.service")) == {f"{service}.toml", *files_of(shipped(service)), *database}
    if service in BACKED_UP:
        own = {"database.url"} if database else set()
        assert set(handed(f"tacit-backup@{service}.service")) == {f"{service}.toml", *own, *database}, "and no key"


def test_every_service_has_a_user_of_its_own() -> None:
    if (program := shutil.which("systemd-sysusers")) is None:
        skip_or_fail("systemd", "no systemd-sysusers on PATH (apt-get install systemd)")
    text = (UNITS / "tacit.sysusers.conf").read_text()
    made = subprocess.run([str(program), "--dry-run", "-"], input=text, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert not [line for line in made.stderr.splitlines() if line.startswith("-:")], made.stderr
    lines = [line.split()[:2] for line in text.splitlines() if line[:1] == "u"]
    assert lines == [["u", f"tacit-{service}"] for service in sorted(SERVICES)]
    for unit in ("tacit@.service", "tacit-backup@.service"):
        assert told(unit, "Service")["User"] == ["tacit-%i"]
        assert told(unit, "Service")["StateDirectoryMode"] == ["0700"]


def test_the_programs_that_units_start_take_what_they_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words of ExecStart, credentials in a folder: the configuration is read, and the first missing file named."""
    text = filled_in((place_of("witness") / "witness.toml").read_text())
    (tmp_path / "witness.toml").write_text(text.replace("/var/lib", f"{tmp_path}/var"))
    for unit in ("tacit@.service", "tacit-backup@.service"):
        (line,) = told(unit, "Service")["ExecStart"]
        line = line.replace("%i", "witness").replace("${CREDENTIALS_DIRECTORY}", str(tmp_path))
        program, *words = shlex.split(line.replace("/var/lib", f"{tmp_path}/var"))
        assert program == "/opt/tacit/bin/tacit"
        assert run(words) == 1
        missing = {"serve": "ca.pem", "backup": "witness.sqlite3"}[words[0]]
        assert missing in capsys.readouterr().err
    gc.collect()  # its TLS context would make every later service of this process not ready


def test_a_service_has_time_to_end_and_a_certificate_a_way_in() -> None:
    seconds = int(told("tacit@.service", "Service")["TimeoutStopSec"][0])
    assert all(seconds > shipped(service).drain_seconds + 2 * GRACE_SECONDS for service in SERVICES)
    assert told("tacit@.service", "Service")["Restart"] == ["on-failure"]
    (watched,) = told("tacit-renew@.path", "Path")["PathChanged"]
    for service in SERVICES:
        files = told(f"tacit@{service}.service.d/files.conf", "Service")["LoadCredential"]
        assert f"tls.pem:{watched.replace('%i', service)}" in files


def test_native_code_loads_where_no_memory_is_both_written_and_run() -> None:
    done = subprocess.run([sys.executable, "-c", GUARDED], cwd=ROOT, capture_output=True, text=True, check=False)
    if "PR_SET_MDWE" in done.stderr:
        skip_or_fail("mdwe", "this kernel has no PR_SET_MDWE (Linux 6.3)")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [level(), kernels() is not None], "the same kernels as without the guard"
