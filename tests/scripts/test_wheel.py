"""The wheel: what is in it, and that Tacit works from it alone, with a C compiler and without one; what a device
installs of it, and that each extra does its job without the others."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from infra.base.free_ports import free_ports
from infra.stacks.agents import provision_agents
from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit import __version__
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy
from tests.conftest import skip_or_fail
from tests.e2e import test_node_device
from tests.e2e.test_node_device import DEVICES, FLOOR, publish
from tests.e2e.test_up import Operator, Stack, collected
from tests.installed import (
    IMPORT_EVERYTHING,
    ROOT,
    SECONDS,
    SUPPORTED,
    Installed,
    build,
    interpreter,
    unpacked,
    with_compiler,
    without_compiler,
)
from tests.kit.processes import ReadyProcess

pytest.importorskip("hatchling", reason="hatchling absent; run make install")
PACKAGES = sorted(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
)
LABORATORY = ROOT / "infra" / "lab"
TRAINING = ("tacit.learning.", "tacit.operations.learning.", "infra.authoring.learning", "infra.views.learn_view")
"""Modules of the training of models, which need the extra ``learn``; no service or device loads them without it."""
stack = test_node_device.stack
MOST_BYTES = 45_000_000
"""What a device installs, Tacit included and pip and bytecode not."""
JOBS = {
    "accounting": ["python", "-c", "from tacit.accounting.accountants import require_library; require_library()"],
    "backup": ["python", "-c", "import infra.backing.sealed_files, pyrage"],
    "cli": ["tacit", "recipe", "--help"],
    "hsm": ["python", "-c", "import tacit.service.base.hsm, pkcs11"],
    "learn": ["python", "-c", "import client_agent.learning.training, tacit.learning.local, numpy"],
    "messaging": ["python", "-c", "import tacit.adapters.messaging.mqtt, tacit.adapters.messaging.redis_replay"],
    "operator": ["python", "-c", "import tacit.operations.tables, pandas, pyarrow"],
    "postgres": ["python", "-c", "import tacit.adapters.databases.postgres, asyncpg"],
}
"""What each extra is for, where that is not to run a service."""
STORES = (
    *(f"services.{name}.schema" for name in ("admin.storage", "collector", "helper", "issuer", "leader", "witness")),
    *("attester.schema", "recipe_server.schema", "services.gateway.store"),
)
EVERYWHERE = (
    "*.py",
    "*.c",
    "*.h",
    "py.typed",
    "*.html",
    "*.css",
    "*.js",
    "*.svg",
    "*.json",
    "*.yml",
    "*.yaml",
    "*.toml",
    "*.conf",
    "*.service",
    "*.timer",
    "*.path",
    "*.sql",
    "*.sh",
    "randhie.csv",
    "randhie.md",
    "README.md",
    "Containerfile",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the source distribution, in which nothing is compiled."""
    folder = tmp_path_factory.mktemp("sdist")
    return unpacked(build(ROOT, "sdist", folder / "built", without_compiler(folder)), folder / "tree")


@pytest.fixture(scope="module")
def pure_wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built where no C compiler is."""
    folder = tmp_path_factory.mktemp("pure")
    return build(source, "wheel", folder / "built", without_compiler(folder))


@pytest.fixture(scope="module")
def laboratory_wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the laboratory, from the same tree."""
    folder = tmp_path_factory.mktemp("laboratory")
    return build(source / "infra" / "lab", "wheel", folder / "built", without_compiler(folder))


@pytest.fixture(scope="module")
def pure(pure_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An installation of the wheel without native code, with all parts of a stack."""
    return Installed(tmp_path_factory.mktemp("installed"), pure_wheel, "stack")


@pytest.fixture(scope="module")
def device(pure_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An installation of the wheel without any extra, as a device has it, and without native code."""
    return Installed(tmp_path_factory.mktemp("device"), pure_wheel)


def _everything(installed: Installed, environment: dict[str, str] | None = None) -> dict[str, Any]:
    done = installed.run("python", "-c", IMPORT_EVERYTHING, json.dumps(PACKAGES), environment=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert Path(found["place"]).is_relative_to(installed.packages)
    return found


def assert_training_alone_lacks_numpy(failed: dict[str, str]) -> None:
    assert set(failed.values()) == {"numpy"}
    assert [name for name in failed if not name.startswith(TRAINING)] == []


def test_a_wheel_by_way_of_the_source_distribution_holds_our_packages_whole_and_nothing_else(pure_wheel: Path) -> None:
    with zipfile.ZipFile(pure_wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        documents = {name: archive.read(name) for name in names if name.startswith("tacit/schemas/")}
    in_tree = {
        str(file.relative_to(ROOT))
        for name in PACKAGES
        for kind in EVERYWHERE
        for file in (ROOT / name).rglob(kind)
        if not file.is_relative_to(LABORATORY)
    }
    schemas = {f"tacit/schemas/{file.name}": file.read_bytes() for file in (ROOT / "docs" / "schemas").iterdir()}
    assert pure_wheel.name == f"tacit-{__version__}-py3-none-any.whl"
    assert documents == schemas
    assert names == in_tree | set(schemas)
    assert {
        "tacit/py.typed",
        "tacit/vdaf/native/kernel.c",
        "services/leader/migrations/versions/0007_tables.py",
    } <= names


def test_the_wheel_of_the_laboratory_holds_its_package_alone(laboratory_wheel: Path) -> None:
    with zipfile.ZipFile(laboratory_wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
    in_tree = {str(file.relative_to(ROOT)) for kind in ("*.py", "*.csv", "*.md") for file in LABORATORY.rglob(kind)}
    assert laboratory_wheel.name == f"tacit_lab-{__version__}-py3-none-any.whl"
    assert names == in_tree
    assert "Private :: Do Not Upload" in metadata
    assert "Requires-Dist: tacit" not in metadata, "on the package index that is another project"


@pytest.mark.parametrize(
    "command",
    ["demo", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bench", "fleet", "figures", "vectors"))],
)
def test_a_command_of_the_laboratory_says_how_to_get_it(pure: Installed, pure_wheel: Path, command: str) -> None:
    done = pure.run("tacit", command, "--json")
    wheel = pure_wheel.with_name(pure_wheel.name.replace("tacit-", "tacit_lab-"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"tacit: tacit {command} needs the laboratory; install it with: ")
    assert done.stderr.endswith(f" -m pip install {wheel}\n")
    assert json.loads(done.stdout)["error"]["kind"] == "failed"


@pytest.mark.slow
def test_with_both_wheels_the_commands_of_the_laboratory_are_there(
    pure_wheel: Path, laboratory_wheel: Path, tmp_path: Path
) -> None:
    both = Installed(tmp_path, pure_wheel, "stack")
    both.add(laboratory_wheel)
    for command in ("demo", "bench", "fleet", "vectors"):
        done = both.run("tacit", command, "--help")
        assert (done.returncode, done.stderr) == (0, ""), command
        assert f"Usage: tacit {command}" in done.stdout


def test_an_installed_tacit_says_its_version_makes_a_key_and_has_no_stack_to_list(pure: Installed) -> None:
    version = pure.run("tacit", "--version")
    key = pure.run("tacit", "keys", "generate", "signing", "--out", "signing.key")
    recipes = pure.run("tacit", "recipe", "list")
    made = pure.folder / "home" / "signing.key"
    assert (version.returncode, version.stdout) == (0, f"tacit {__version__}\n")
    assert key.returncode == 0
    assert set(json.loads(key.stdout)) == {"kind", "public_key"}
    assert made.stat().st_mode & 0o777 == 0o600
    assert (recipes.returncode, recipes.stdout) == (1, "")
    assert "no stack here; start one with: tacit up" in recipes.stderr
    assert recipes.stderr.count("\n") == 1


@pytest.mark.slow
def test_every_module_imports_from_the_wheel_with_the_stack_and_without_a_compiler(pure: Installed) -> None:
    found = _everything(pure)
    assert found["seen"] > 300
    assert_training_alone_lacks_numpy(found["failed"])
    assert (found["level"], found["multibuffer"]) == ("off", False)


@pytest.mark.slow
def test_an_installed_tacit_writes_the_schemas_and_makes_every_database(pure: Installed) -> None:
    done = pure.run("tacit", "schemas", "--out", "schemas")
    program = (
        "import importlib, sqlalchemy\n"
        "from tacit.adapters.databases.migrate import upgrade\n"
        f"for name in {STORES!r}:\n"
        "    store = importlib.import_module(name)\n"
        "    with sqlalchemy.create_engine('sqlite://').begin() as connection:\n"
        "        upgrade(connection, store.MIGRATIONS, store.METADATA)\n"
        "print('all')\n"
    )
    migrated = pure.run("python", "-c", program)
    written = {file.name: file.read_bytes() for file in (pure.folder / "home" / "schemas").iterdir()}
    assert done.returncode == 0, done.stderr
    assert written == {file.name: file.read_bytes() for file in (ROOT / "docs" / "schemas").iterdir()}
    assert (migrated.stdout, migrated.stderr) == ("all\n", "")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_kernels_come_with_a_wheel_or_are_compiled_on_first_use(source: Path, pure_wheel: Path, tmp_path: Path) -> None:
    compiled = build(source, "wheel", tmp_path / "built", with_compiler(tmp_path))
    with_kernels = Installed(tmp_path, compiled, "stack")
    assert compiled.name.startswith(f"tacit-{__version__}-py3-none-linux_")
    came_along = _everything(with_kernels)
    (tmp_path / "later").mkdir()
    later = Installed(tmp_path / "later", pure_wheel, "stack")
    on_first_use = _everything(later, with_compiler(later.folder / "home"))
    for found in (came_along, on_first_use):
        assert found["level"] != "off"
    assert came_along["multibuffer"] == on_first_use["multibuffer"]


@pytest.mark.slow
@pytest.mark.parametrize("version", SUPPORTED)
def test_pip_installs_the_wheel_on_every_supported_python_and_every_module_imports(
    version: str, pure_wheel: Path, tmp_path: Path
) -> None:
    """Needs the package index, and skips where that or the interpreter is away."""
    program = interpreter(version)
    if program is None:
        skip_or_fail(f"python{version}", f"no python{version} on the path")
    subprocess.run([str(program), "-m", "venv", "venv"], check=True, timeout=SECONDS, cwd=tmp_path)
    pip = ["venv/bin/python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", f"{pure_wheel}[stack]"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=tmp_path)
    if done.returncode != 0:
        skip_or_fail(f"python{version}", f"pip could not install the requirements: {done.stderr.strip()[-200:]}")
    python = [str(tmp_path / "venv" / "bin" / "python"), "-c", IMPORT_EVERYTHING, json.dumps(PACKAGES)]
    imported = subprocess.run(
        python,
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
        cwd=tmp_path,
        env=without_compiler(tmp_path),
    )
    assert_training_alone_lacks_numpy(json.loads(imported.stdout)["failed"])


@pytest.fixture
def unstarted(tmp_path: Path) -> Layout:
    """The files of a stack that does not run."""
    return create_layout(tmp_path / "stack", StackOptions(epoch_seconds=60), OsEntropy(), time.time())


def test_a_device_installs_little_and_its_agent_works_without_a_stack(device: Installed, unstarted: Layout) -> None:
    (config,) = provision_agents(unstarted, 1, OsEntropy(), time.time())
    done = device.run("tacit-agent", "--config", str(config), "--once")
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert device.size() < MOST_BYTES
    assert (done.returncode, done.stdout, events) == (1, "", ["log-trouble"])
    assert (config.parent / "agent.sqlite3").exists()


def test_an_application_with_an_agent_inside_needs_no_extra(device: Installed, unstarted: Layout) -> None:
    (config,) = provision_agents(unstarted, 1, OsEntropy(), time.time())
    program = ROOT / "examples" / "embedding" / "diary.py"
    done = device.run("python", str(program), "--config", str(config), "--seconds", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "log-trouble" in done.stdout
    assert device.run("python", "-c", "import tacit.client").stderr == ""


def test_what_a_device_has_not_is_one_line(device: Installed, pure_wheel: Path, unstarted: Layout) -> None:
    (config,) = provision_agents(unstarted, 1, OsEntropy(), time.time())
    told = {"host": "127.0.0.1", "port": 9, "delay_seconds": 1, "operator": "broker", "tls": False}
    config.write_text(json.dumps({**json.loads(config.read_text()), "announcements": told}))
    for program, arguments, part in (
        ("tacit", ["--help"], "the command tacit needs typer; install it with: {}[cli]"),
        (
            "tacit-agent",
            ["--config", str(config)],
            "a device that follows announcements needs aiomqtt; install it with: {}[messaging]",
        ),
    ):
        done = device.run(program, *arguments)
        line = part.format(f"{device.python} -m pip install '{pure_wheel}").replace("]", "]'")
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{program}: {line}\n")


@pytest.mark.slow
async def test_devices_with_the_base_alone_contribute_and_are_counted(
    device: Installed, stack: Stack, tmp_path: Path
) -> None:
    configs = provision_agents(stack.layout, DEVICES, OsEntropy(), time.time())
    flags = [word for path in configs for word in ("--config", str(path))]
    output = tmp_path / "devices"
    async with HttpTransport() as http:
        operator = Operator(stack, http)
        with output.open("wb") as sink, device.started("tacit-agent", *flags, stderr=sink) as process:
            recipe = await publish(stack, http)

            def sent() -> int:
                events = [json.loads(line) for line in output.read_text().splitlines()]
                return sum(event["event"] == "sent" for event in events)

            async def enough() -> bool:
                return sent() >= FLOOR and time.time() > recipe.interval.end

            await operator.until("reports", enough, seconds=90)
            await asyncio.sleep(max(0.0, recipe.interval.end - time.time()))
            result = await collected(operator, recipe)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        assert result["report_count"] == sent()


@pytest.mark.slow
@pytest.mark.parametrize("extra", JOBS)
def test_an_extra_alone_does_its_job(extra: str, pure_wheel: Path, tmp_path: Path) -> None:
    done = Installed(tmp_path, pure_wheel, extra).run(*JOBS[extra])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(("extra", "name"), [("server", "leader"), ("admin", "admin")])
async def test_a_service_runs_with_its_extra_alone_and_without_says_which(
    extra: str, name: str, pure_wheel: Path, unstarted: Layout, tmp_path: Path
) -> None:
    config = unstarted.configs[name]
    document = json.loads(config.read_text())
    (port,) = free_ports(1)
    config.write_text(json.dumps({**document, "listen": {**document["listen"], "port": port}}))
    (tmp_path / extra).mkdir()
    (tmp_path / "less").mkdir()
    less = Installed(tmp_path / "less", pure_wheel, "cli" if extra == "server" else "server")
    done = less.run("tacit", "serve", name, "--config", str(config))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("tacit: tacit serve needs ")
    assert done.stderr.endswith(f"[{extra}]'\n")
    installed = Installed(tmp_path / extra, pure_wheel, extra)
    command = [str(installed.program("tacit")), "serve", name, "--config", str(config)]
    home = without_compiler(installed.folder / "home")
    with ReadyProcess(command, tmp_path / "log", environment=home) as process:
        url = process.ready()["url"]
        async with HttpTransport() as http:
            assert (await http.request("GET", f"{url}/healthz")).status == 200
            assert (await http.request("GET", f"{url}/readyz")).status in {200, 503}, "503 names others that do not run"
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
