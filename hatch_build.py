"""Build hook: compiles the native libraries when the package is installed, and puts the JSON Schemas into the wheel.
Failing to compile never fails the installation."""

from __future__ import annotations

import runpy
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARIES = (
    (Path("tacit") / "vdaf" / "native", "the library of Prio3 kernels"),
    (Path("tacit") / "multibuffer", "the library of multi-buffer cryptography"),
    (Path("tacit") / "succinct" / "native", "the kernel of local hashing"),
)


class NativeHook(BuildHookInterface[Any]):
    """In the source tree for an editable installation, inside the wheel for any other."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files."""
        if version != "editable":
            build_data["force_include"][str(Path(self.root) / "docs" / "schemas")] = "tacit/schemas"
        sys.path.insert(0, self.root)  # the build modules import tacit.native_build of this very tree
        try:
            for folder, what in LIBRARIES:
                self._add(folder, what, version, build_data)
        finally:
            sys.path.remove(self.root)

    def _add(self, folder: Path, what: str, version: str, build_data: dict[str, Any]) -> None:
        build = runpy.run_path(str(Path(self.root) / folder / "build.py"))
        name = build["library_name"]()
        built = Path(self.root) / folder / name
        if not built.is_file():
            if version != "editable":
                built = self._scratch_folder() / name
            try:
                build["compile_library"](built)
            except build["BuildError"] as error:
                self.app.display_warning(f"{what} is left out ({error}); Tacit runs without")
                return
        if version != "editable":
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["force_include"][str(built)] = str(folder / name)
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"

    def _scratch_folder(self) -> Path:
        if not hasattr(self, "_scratch"):
            self._scratch = tempfile.TemporaryDirectory()
        return Path(self._scratch.name)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling once the wheel is written."""
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            scratch.cleanup()
