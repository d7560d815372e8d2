"""Build hook: compiles the Prio3 kernels when the package is installed. Failing to never fails the installation."""

from __future__ import annotations

import runpy
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("tacit") / "vdaf" / "native"


class KernelsHook(BuildHookInterface[Any]):
    """In the source tree for an editable installation, inside the wheel for any other."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files."""
        folder = Path(self.root) / NATIVE
        build = runpy.run_path(str(folder / "build.py"))
        name = build["library_name"]()
        built = folder / name
        if not built.is_file():
            if version != "editable":
                self._scratch = tempfile.TemporaryDirectory()
                built = Path(self._scratch.name) / name
            try:
                build["compile_library"](built)
            except build["BuildError"] as error:
                self.app.display_warning(f"the Prio3 kernels are left out ({error}); Tacit runs without them")
                return
        if version != "editable":
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["force_include"][str(built)] = str(NATIVE / name)
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling once the wheel is written."""
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            scratch.cleanup()
