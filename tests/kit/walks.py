"""The example program of docs/learning.md, as it is printed there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs" / "learning.md"


def walks_program(folder: Path) -> dict[str, Any]:
    """The names that the program defines, run from a file in ``folder``: ``Walks``, a Flower client, and ``live``."""
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    path = folder / "walks.py"
    path.write_text(program)
    return runpy.run_path(str(path))
