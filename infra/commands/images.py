"""``tacit staging images``: builds one container image for each trust domain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infra.base.flags import AsJson
from infra.tools.images.building import Image, built, describe_image
from infra.tools.images.context import DEFAULT_BASE, Context, is_pinned
from infra.tools.images.domains import DOMAINS, domain_called
from infra.views.terminal import answers, notes, plain_table, print_json
from tacit.errors import UsageError

DEFAULT_OUT = Path(".tacit-images")
Base = Annotated[
    str, typer.Option("--base", help="The image to build on: with this version of Python, and root's certificates.")
]


def images(
    base: Base = DEFAULT_BASE,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Only this image; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where to write the build folders.")] = DEFAULT_OUT,
    build: Annotated[
        bool, typer.Option("--build/--no-build", help="Build the images, or only write the folders for a builder.")
    ] = True,
    release: Annotated[
        bool,
        typer.Option("--release", help="Refuse a base that is named by a tag, not by its digest."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build one image for each trust domain, with its own code, what that imports, and an SBOM, but no other's code.

    The files come from this installation; only a missing base is fetched. An existing image is not built again. Needs
    root and Podman, except with --no-build. Example:
    tacit staging images --base docker.io/library/python:3.11-slim
    """
    if release and not is_pinned(base):
        raise UsageError(
            f"{base} is a tag, which may name another image tomorrow; look at what it names now (podman image inspect "
            "--format '{{index .RepoDigests 0}}'), check it, and give that: --base NAME@sha256:..."
        )
    domains = [domain_called(name) for name in only or ()] or list(DOMAINS)
    folder = out.absolute()
    if build:
        found = built(base, folder, notes().print, domains)
    else:
        contexts = [Context.of(domain) for domain in domains]
        found = {
            one.selection.domain.name: Image(one.selection.domain, one.image(base), one.write(folder))
            for one in contexts
        }
    if as_json:
        print_json({"base": base, "images": [describe_image(image) for image in found.values()]})
        return
    table = plain_table("domain", "image", "holds")
    for image in found.values():
        table.add_row(image.domain.name, image.name, ", ".join(image.domain.packages))
    answers(160).print(table)
