"""Rules on lists of extensions, shared by every message that carries one.

The codec accepts report, aggregation-job and collection-job extensions in any order: which error an ill-formed list
causes (one report's rejection, ``invalidMessage`` or ``invalidExtension``) depends on the reader.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from tacit.dap_errors import ReportError, ReportRejected
from tacit.messages.basic import Extension


def strictly_increasing(extensions: Sequence[Extension]) -> bool:
    """Whether the types are strictly increasing, so each occurs at most once."""
    return all(one.extension_type < other.extension_type for one, other in pairwise(extensions))


def unknown_types(extensions: Sequence[Extension], known: Collection[int]) -> list[int]:
    """Types that are not in ``known``, in the order in which they occur."""
    return [extension.extension_type for extension in extensions if extension.extension_type not in known]


def check_report_extensions(public: Sequence[Extension], private: Sequence[Extension], known: Collection[int]) -> None:
    """Input share validation, rules 5 to 7 (DAP-18): every type known, in order, at most once over both lists. Raises
    ``ReportRejected``: ``UNSUPPORTED_EXTENSION`` (DAP-18 says ``INVALID_MESSAGE`` for it) or ``INVALID_MESSAGE``."""
    if unknown_types(public, known) or unknown_types(private, known):
        raise ReportRejected(ReportError.UNSUPPORTED_EXTENSION, "extension-unknown")
    types = [extension.extension_type for extension in (*public, *private)]
    if len(set(types)) != len(types):
        raise ReportRejected(ReportError.INVALID_MESSAGE, "extension-repeated")
    if not strictly_increasing(public) or not strictly_increasing(private):
        raise ReportRejected(ReportError.INVALID_MESSAGE, "extension-order")
