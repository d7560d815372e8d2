"""Names of the files in which a device keeps the states of watched events."""

from __future__ import annotations

import re

from tacit.errors import UsageError

FOLDER = "watched"
"""Folder of the states, below the agent's own."""
SUFFIX = ".state"
ASIDE = ".aside"
"""Suffix of the name of a file that was put aside because it holds no valid state."""
FILE = re.compile(rf"\.?([0-9a-f]{{64}}){re.escape(SUFFIX)}(\{ASIDE}|\.new)?")
"""Names of all files of a state; the group is its recipe's hash in hex."""


class DamagedStateError(UsageError):
    """A file with the name of a state that holds no valid state; it was put aside."""
