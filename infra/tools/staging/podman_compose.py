"""Runs podman-compose on the compose file of a stack."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.backing.child import last_words
from infra.tools.images.building import podman_environment, require_podman
from infra.tools.staging.compose import FILE
from tacit.adapters.disk.files import replace_file
from tacit.errors import UsageError
from tacit.extras import require_extra

LOG = "compose.log"


def require_containers() -> None:
    """Raise ``UsageError`` if a stack cannot be run in containers here."""
    require_podman()
    require_extra("--mode containers", "containers", "podman_compose", "yaml", "grimp", "cyclonedx")


@dataclass(frozen=True)
class Compose:
    """The containers of the stack in ``folder``."""

    folder: Path

    def write(self, document: dict[str, Any]) -> None:
        """Write the compose file, in place of an earlier one."""
        import yaml  # type: ignore[import-untyped]

        replace_file(self.folder / FILE, yaml.safe_dump(document, sort_keys=False, width=200).encode())

    async def up(self, names: Sequence[str]) -> None:
        """Create and start the named services. Raises ``UsageError`` with the last line of podman-compose."""
        await self._do("up", "--detach", *names)

    async def run_once(self, name: str, container: str, command: Sequence[str]) -> None:
        """Start a container called ``container`` that equals that of a service except for its ``command``, and is not
        restarted when it ends. Raises ``UsageError`` as ``up``."""
        await self._do("run", "--detach", "--rm", "-T", "--no-deps", "--name", container, name, *command)

    async def _do(self, *arguments: str) -> None:
        with self._log() as sink:
            process = await asyncio.create_subprocess_exec(
                *self._command(*arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env=podman_environment(),
                cwd=self.folder,
                start_new_session=True,
            )
            try:
                status = await process.wait()
            except asyncio.CancelledError:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
                raise
        if status:
            words = last_words(self.folder / LOG)
            raise UsageError(f"podman-compose {arguments[0]}: {words}; see {self.folder / LOG}")

    def down(self) -> None:
        """Stop and remove all containers and networks of the stack."""
        if (self.folder / FILE).exists():
            with self._log() as sink:
                subprocess.run(  # noqa: S603 - our own arguments
                    self._command("down", "--remove-orphans", "--timeout", "15"),
                    stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, check=False,
                    env=podman_environment(), cwd=self.folder, start_new_session=True,
                )  # fmt: skip

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "podman_compose", "--file", str(self.folder / FILE), *arguments]

    def _log(self) -> Any:
        return (self.folder / LOG).open("ab")
