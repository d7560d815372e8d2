"""CPU seconds of a local stack's processes: services, their workers, and the brokers and databases under its folder."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tacit.extras import missing_extra

FOLDER_NAMES = {"postgres": "database", "redis": "redis", "mosquitto": "mosquitto"}


class CpuMeter:
    """Reads the CPU time of the processes whose command line names a file of ``state_dir``, and of their children."""

    def __init__(self, state_dir: Path) -> None:
        """Raises ``UsageError`` if psutil is not installed."""
        try:
            import psutil
        except ImportError as error:
            raise missing_extra("a fleet's report", "fleet", "psutil") from error
        self._psutil = psutil
        self._state_dir = str(state_dir.absolute())
        self._start = self._read()

    def spent(self) -> dict[str, float]:
        """CPU seconds by service since this meter was made."""
        found: dict[str, float] = {}
        for (pid, name), seconds in self._read().items():
            found[name] = found.get(name, 0.0) + seconds - self._start.get((pid, name), 0.0)
        return found

    def _read(self) -> dict[tuple[int, str], float]:
        """CPU seconds by (process id, service)."""
        found: dict[tuple[int, str], float] = {}
        for process in self._psutil.process_iter():
            with contextlib.suppress(self._psutil.Error):
                name = self._name(process.cmdline())
                if name is None:
                    continue
                for member in (process, *process.children(recursive=True)):
                    times = member.cpu_times()
                    found.setdefault((member.pid, name), times.user + times.system)
        return found

    def _name(self, command: list[str]) -> str | None:
        """The service that a command line runs for the stack."""
        if "serve" in command and any(part.startswith(f"{self._state_dir}/") for part in command):
            return command[command.index("serve") + 1]
        for folder, name in FOLDER_NAMES.items():
            if any(part.startswith(f"{self._state_dir}/{folder}") for part in command):
                return name
        return None
