"""Images to build on, for tests: those that the environment names, or small Debian ones that Podman keeps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.tools.images.building import has_image
from tests.conftest import skip_or_fail

RELEASES = {(3, 11): "bookworm", (3, 13): "trixie"}
"""Of Debian, by the version of Python that they have."""
MIRROR = "http://deb.debian.org/debian"
BASE, DATABASE = "localhost/tacit-test-base:{}", "localhost/tacit-test-postgres:{}"
NO_SERVERS = "#!/bin/sh\nexit 101\n"
INSTALL = (
    "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql"
)
CACHES = ("./var/cache/apt/archives", "./var/lib/apt/lists")


def base_images() -> tuple[str, str]:
    """The image with Python, and the one with PostgreSQL. Skips the test where there can be none."""
    if os.geteuid() != 0 or shutil.which("podman") is None:
        skip_or_fail("podman", "containers need root and Podman (apt-get install podman netavark iptables debootstrap)")
    release = RELEASES.get(sys.version_info[:2], "")
    base = os.environ.get("TACIT_BASE_IMAGE") or BASE.format(release)
    database = os.environ.get("TACIT_DATABASE_IMAGE") or DATABASE.format(release)
    if not (has_image(base) and has_image(database)):
        if not release or shutil.which("debootstrap") is None:
            skip_or_fail("podman", "no base images: install debootstrap, or set TACIT_BASE_IMAGE, TACIT_DATABASE_IMAGE")
        with _debian(release) as root:
            _import(root, base)
            (root / "usr/sbin/policy-rc.d").write_text(NO_SERVERS)
            (root / "usr/sbin/policy-rc.d").chmod(0o755)
            shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
            _run("chroot", str(root), "sh", "-c", INSTALL)
            _import(root, database)
    return base, database


@contextmanager
def _debian(release: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tacit-base-") as folder:
        root = Path(folder) / "root"
        packages = "--include=python3,ca-certificates"
        mirror = os.environ.get("TACIT_DEBIAN_MIRROR", MIRROR)
        _run("debootstrap", "--variant=minbase", packages, release, str(root), mirror)
        yield root


def _import(root: Path, name: str) -> None:
    archive = root.with_suffix(".tar")
    _run("tar", "-C", str(root), *(f"--exclude={one}" for one in CACHES), "-cf", str(archive), ".")
    _run("podman", "import", "--quiet", str(archive), name)
    archive.unlink()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        skip_or_fail("podman", f"no base images: {command[0]}: {(done.stderr or done.stdout).strip()[-300:]}")
