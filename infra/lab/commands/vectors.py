"""``tacit vectors``: test vectors for other implementations, as files."""

from __future__ import annotations

from pathlib import Path

from infra.commands.schemas import Out, write_and_show
from infra.stacks.command_options import AsJson


def vectors(out: Out = Path("vectors"), as_json: AsJson = False) -> None:
    """Write test vectors for other implementations: from a recipe to a report and to a result, byte by byte.

    They are the same wherever and whenever they are made; their keys are public.

    Example: tacit vectors --out docs/vectors
    """
    from infra.lab.vectors.documents import DOCUMENTS, vector_files

    about = {name: what for name, (_, what) in DOCUMENTS.items()}
    write_and_show(out, vector_files(), about | {"README.md": "how to read them"}, as_json=as_json)
