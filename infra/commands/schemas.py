"""``tacit schemas``: writes the files that other implementations are written from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from infra.stacks.command_options import AsJson
from infra.views.terminal import answers, plain_table, print_json
from tacit.counting_words import plural

Out = Annotated[Path, typer.Option("--out", help="Folder to write to; created if it is missing.")]


def schemas(out: Out = Path("schemas"), as_json: AsJson = False) -> None:
    """Write JSON Schemas of every document, and tables of rules, members, configurations, metrics and states.

    Files of the same names are replaced, others are left alone.

    Example: tacit schemas --out docs/schemas
    """
    from infra.tools.documents.schemas import SCHEMAS
    from infra.tools.documents.tables import PAGES
    from infra.tools.documents.writing import schema_files

    about = {f"{name}.json": entry.about for name, entry in SCHEMAS.items()}
    pages = {"README.md": "the list of pages and schemas"} | PAGES
    write_and_show(out, schema_files(), about | pages, as_json=as_json)


def write_and_show(out: Path, files: Mapping[str, bytes], about: Mapping[str, str], *, as_json: bool) -> None:
    """Write ``files`` into ``out`` and show which of them changed. ``about``: what each file is, by its name. Raises
    ``UsageError``."""
    from infra.tools.documents.writing import write_files

    changed = {path.name for path in write_files(out, files)}
    if as_json:
        print_json({"folder": str(out), "files": sorted(files), "changed": sorted(changed)})
        return
    table = plain_table("file", "what", "bytes", "")
    for name, content in files.items():
        table.add_row(name, about[name].replace("`", ""), f"{len(content):,}", "" if name in changed else "unchanged")
    answers(100).print(table)
    kept = len(files) - len(changed)
    print(f"wrote {plural(len(changed), 'file')} to {out}" + (f"; {kept} were unchanged" if kept else ""))
