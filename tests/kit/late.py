"""A package that takes seconds to import, which jsonschema imports for one format that hardly any schema has: it is
imported when a text of that format is checked."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

NAME = "rfc3987_syntax"


class _Later(ModuleType):
    """Stands for the package until it is asked."""

    def is_valid_syntax(self, rule: str, value: str) -> Any:
        """What the package says."""
        if sys.modules.get(NAME) is self:
            del sys.modules[NAME]
        return importlib.import_module(NAME).is_valid_syntax(rule, value)


def put_off() -> None:
    """Let who imports the package have one that stands for it."""
    sys.modules.setdefault(NAME, _Later(NAME))
