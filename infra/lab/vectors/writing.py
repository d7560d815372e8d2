"""The test vectors as files."""

from __future__ import annotations

import json

from infra.lab.vectors.documents import DOCUMENTS, vectors_readme


def vector_files() -> dict[str, bytes]:
    """Return the test vectors and their README, by file name."""
    files = {name: make() for name, (make, _) in DOCUMENTS.items()}
    texts = {name: json.dumps(found, indent=1, ensure_ascii=False) + "\n" for name, found in files.items()}
    return {name: text.encode() for name, text in {**texts, "README.md": vectors_readme()}.items()}
