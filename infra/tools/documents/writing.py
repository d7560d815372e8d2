"""Files that are generated from the code, by name, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.tools.documents.configuration import configuration_page
from infra.tools.documents.metrics import metrics_page
from infra.tools.documents.problems import problems_page
from infra.tools.documents.resources import resources_page
from infra.tools.documents.schemas import SCHEMAS, encoded, schema_of
from infra.tools.documents.states import states_page
from infra.tools.documents.stored import tables_page
from infra.tools.documents.tables import findings_page, members_page, methods_page, readme, rules_page
from tacit.errors import UsageError


def schema_files() -> dict[str, bytes]:
    """The schemas and the pages that accompany them."""
    files = {f"{name}.json": encoded(schema_of(name)) for name in SCHEMAS}
    pages = {
        "README.md": readme(),
        "configuration.md": configuration_page(),
        "findings.md": findings_page(),
        "members.md": members_page(),
        "methods.md": methods_page(),
        "metrics.md": metrics_page(),
        "problems.md": problems_page(),
        "resources.md": resources_page(),
        "rules.md": rules_page(),
        "states.md": states_page(),
        "tables.md": tables_page(),
    }
    return files | {name: text.encode() for name, text in pages.items()}


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write the files into ``folder``, which is made if needed; returns those whose content changed. Raises
    ``UsageError``."""
    changed = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = folder / name
            if not path.is_file() or path.read_bytes() != content:
                path.write_bytes(content)
                changed.append(path)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or 'cannot be written'}") from error
    return changed
