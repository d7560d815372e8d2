"""Builds images with Podman and inspects them: each must hold the files of its own domain and nothing else of Tacit."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.tools.images.bill import FILE
from infra.tools.images.context import HOME, Context
from infra.tools.images.domains import DOMAINS, OWN, Domain
from tacit.errors import Fatal, UsageError
from tacit.lines import lines_of

SYSTEMD = Path("/run/systemd/system")
WITHOUT_SYSTEMD = {"DISABLE_HC_SYSTEMD": "true"}
"""Podman runs health checks through systemd, and starts no container if it cannot; with this setting they run only on
demand."""
ROOTS = ("0", "0:0", "root", "")
LAST_WORDS = 400


@dataclass(frozen=True)
class Image:
    """An existing image: its domain, its name, and the folder that it was built from (``None`` if it was there
    before)."""

    domain: Domain
    name: str
    folder: Path | None


def require_podman() -> None:
    """Raise ``UsageError`` if containers cannot be run here."""
    if os.geteuid() != 0 or shutil.which("podman") is None:
        raise UsageError(
            "containers need root and Podman (apt-get install podman netavark aardvark-dns iptables); "
            "--mode processes needs neither"
        )


def podman_environment() -> dict[str, str]:
    return {**os.environ, **({} if SYSTEMD.exists() else WITHOUT_SYSTEMD)}


def podman(*arguments: str) -> str:
    """The output of ``podman`` with ``arguments``. Raises ``UsageError`` with its last line."""
    done = subprocess.run(  # noqa: S603 - our own arguments
        ["podman", *arguments],  # noqa: S607 - wherever the system has it
        capture_output=True, encoding="utf-8", errors="replace", check=False, env=podman_environment(), cwd="/",
    )  # fmt: skip
    if done.returncode:
        words = (lines_of(done.stderr.strip()) or ["refused"])[-1]
        raise UsageError(f"podman {arguments[0]}: {words[-LAST_WORDS:]}")
    return done.stdout


def has_image(name: str) -> bool:
    """Whether Podman has the image ``name`` here; False also where it refuses to say."""
    with contextlib.suppress(UsageError):
        podman("image", "exists", name)
        return True
    return False


def built(base: str, folder: Path, say: Callable[[str], None], domains: Iterable[Domain] = DOMAINS) -> dict[str, Image]:
    """The images of ``domains`` on ``base``, by domain. Missing ones are built from folders below ``folder`` and
    inspected. Raises ``UsageError`` if that fails."""
    require_podman()
    found: dict[str, Image] = {}
    for domain in domains:
        context = Context.of(domain)
        name = context.image(base)
        place = None
        if not has_image(name):
            require_base(base)
            say(f"building {name}")
            place = context.write(folder)
            podman(
                "build",
                "--quiet",
                "--layers=false",
                "--pull=missing",
                "--build-arg",
                f"BASE={base}",
                "--tag",
                name,
                str(place),
            )
            try:
                check_image(name, place)
            except BaseException:
                podman("rmi", "--force", name)
                raise
        found[domain.name] = Image(domain, name, place)
    return found


def require_base(base: str) -> None:
    """Make sure that the base image is here, pulling it if needed. Raises ``UsageError``."""
    if not has_image(base):
        try:
            podman("pull", "--quiet", base)
        except UsageError as error:
            raise UsageError(f"no base image {base} ({error}); name one that this machine has: --base") from error


def check_image(name: str, folder: Path) -> None:
    """Raise ``Fatal`` unless the image holds exactly the files of ``folder``, no other code of Tacit, and does not run
    as root."""
    user = json.loads(podman("image", "inspect", name))[0]["Config"].get("User", "")
    if user in ROOTS:
        raise Fatal(f"{name} would run as root")
    with _mount(name) as root:
        for part in ("app", "lib", FILE):
            wanted, found = _list_sizes(folder / part), _list_sizes(root / HOME.lstrip("/") / part)
            if wanted != found:
                other = sorted(wanted.items() ^ found.items())[0][0]
                raise Fatal(f"{name}: {part}/{other} differs from the file that was put in")
        for place in _strays(root):
            raise Fatal(f"{name} holds {place} besides its own code; is its base one of Tacit's images?")


@contextlib.contextmanager
def _mount(name: str) -> Iterator[Path]:
    """The image's files, mounted while the block runs."""
    yield Path(podman("image", "mount", name).strip())
    podman("image", "unmount", name)


def _list_sizes(folder: Path) -> Mapping[str, int]:
    """Size in bytes of every file below ``folder`` by relative path; of a single file, its size under the empty
    path."""
    if folder.is_file():
        return {"": folder.stat().st_size}
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _strays(root: Path) -> Iterator[Path]:
    """Packages of Tacit that are where the base's Python would find them."""
    for place in root.glob("usr/**/*-packages"):
        yield from (place / name for name in OWN if (place / name).is_dir())


def describe_image(image: Image) -> dict[str, Any]:
    """The row of an image in ``tacit staging images --json``."""
    return {
        "domain": image.domain.name,
        "image": image.name,
        "packages": list(image.domain.packages),
        "context": None if image.folder is None else str(image.folder),
        "sbom": None if image.folder is None else str(image.folder / FILE),
    }
