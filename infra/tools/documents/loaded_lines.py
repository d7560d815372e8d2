"""What each process loads of this project: the limits, how they are measured, and their table in the documents.

Whoever audits a party reads what its process loads. The lines are counted in a fresh process, with every module of this
project that is in ``sys.modules``, whatever imported it. Code and docstrings count; blank lines and lines that hold
only a comment do not, so that a limit that only goes down never speaks against a comment.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from infra.base.service_names import MODULES
from infra.tools.documents.words import table
from tacit.adapters.disk.files import replace_file
from tacit.lines import lines_of

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("tacit", "services", "relay", "attester", "recipe_server", "client_agent")
FROM, TO = "<!-- loaded lines: made by `make documents` -->", "<!-- end of loaded lines -->"
PROCESS_SECONDS = 120


@dataclass(frozen=True)
class Limit:
    """Most lines of this project that a process may load: with the module from which it starts, and once it serves."""

    module: str
    imported: int
    serving: int | None = None


LIMITS: Mapping[str, Limit] = {
    "relay": Limit("relay.app", 6_800, 7_900),
    "attester": Limit("attester.app", 7_900, 9_100),
    "issuer": Limit("services.issuer.app", 8_100, 9_200),
    "gateway": Limit("services.gateway.app", 9_900, 11_100),
    "witness": Limit("services.witness.app", 8_200, 9_500),
    "helper": Limit("services.helper.app", 25_900, 27_500),
    "leader": Limit("services.leader.app", 28_900, 30_400),
    "collector": Limit("services.collector.app", 24_700, 25_900),
    "recipe_server": Limit("recipe_server.app", 23_400, 24_600),
    "agent": Limit("client_agent.agent", 19_100),
    "admin": Limit("services.admin.app", 39_900, 40_400),
}
"""By process. A limit only goes down: lower it after a change that loads less."""

_CHILD = """
import asyncio, importlib, json, sys
from pathlib import Path

def show():
    print(json.dumps({name: getattr(one, "__file__", None) for name, one in sys.modules.items()}))

app_module = importlib.import_module(sys.argv[1])
show()
if len(sys.argv) > 2:
    from aiohttp import web
    from tacit.adapters.system import OsEntropy, SystemClock
    from tacit.service.app import ServiceEnv
    from tacit.service.base.config_files import load_config
    import tacit.service.run
    config_module = importlib.import_module(sys.argv[1].removesuffix("app") + "config")
    config = load_config(Path(sys.argv[3]), getattr(config_module, sys.argv[2]))

    async def serve():
        async with app_module.make_transport(config) as transport:
            app = app_module.create_app(config, ServiceEnv(SystemClock(), OsEntropy(), transport, background=False))
            runner = web.AppRunner(app)
            await runner.setup()
            await runner.cleanup()

    asyncio.run(serve())
    show()
"""
"""Shows what is loaded after the import, and with a configuration also once stores are open and resources are there."""


@dataclass(frozen=True)
class Loaded:
    """Modules of this project with their lines: those that the import loads, and those of a service at work."""

    imported: Mapping[str, int]
    serving: Mapping[str, int] | None = None


def loaded(process: str, config: Path | None = None) -> Loaded:
    """What a fresh process of this name loads. ``config``: the service's configuration; without it, it is only
    imported."""
    arguments = [LIMITS[process].module]
    if config is not None:
        arguments += [MODULES[process][1], str(config)]
    command = [sys.executable, "-c", _CHILD, *arguments]
    told = subprocess.run(  # noqa: S603 - this interpreter and our own arguments
        command, cwd=ROOT, check=True, capture_output=True, text=True, encoding="utf-8", timeout=PROCESS_SECONDS
    )
    imported, *serving = [_lines(json.loads(line)) for line in lines_of(told.stdout)]
    return Loaded(imported, *serving)


@cache
def counted_lines(file: Path) -> int:
    """The lines of a Python file, without those that are blank or hold only a comment."""
    with tokenize.open(file) as opened:
        lines = opened.readlines()
    comments = [one.start for one in tokenize.generate_tokens(iter(lines).__next__) if one.type == tokenize.COMMENT]
    alone = sum(1 for row, column in comments if not lines[row - 1][:column].strip())
    return sum(1 for line in lines if line.strip()) - alone


def _lines(files: Mapping[str, str | None]) -> dict[str, int]:
    return {
        name: counted_lines(Path(file))
        for name, file in files.items()
        if file is not None and name.partition(".")[0] in PACKAGES
    }


def loaded_table(found: Mapping[str, Loaded]) -> str:
    """The table of ``docs/architecture.md``, from the modules that each process loads."""
    rows = []
    for process, limit in LIMITS.items():
        parts = {
            name.split(".")[1] for name in found[process].imported if name.startswith("tacit.") and name.count(".") > 1
        }
        serving = "" if limit.serving is None else f"{limit.serving:,}"
        rows.append(
            (f"`{limit.module}`", f"{limit.imported:,}", serving, ", ".join(f"`{one}`" for one in sorted(parts)))
        )
    return table(("process", "lines, at most", "once it serves", "packages of `tacit` that it loads"), rows)


def with_table(page: str, made: str) -> str:
    """``page`` with ``made`` in place of what stands between ``FROM`` and ``TO``, of which it must have both."""
    before, _, rest = page.partition(FROM)
    _, _, after = rest.partition(TO)
    return f"{before}{FROM}\n\n{made.strip()}\n\n{TO}{after}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    made = loaded_table({process: loaded(process) for process in LIMITS})
    replace_file(page, with_table(page.read_text("utf-8"), made).encode())
