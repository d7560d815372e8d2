"""What an answer that is no success means for whoever sent the request: over for good, or to be sent again, and when.

Every sender asks here. Between two parties stand proxies and load balancers, whose pages say nothing about a request:
they limit its rate, are out of turns, lost their server, or do not know its path. So only the peer's own word ends a
request (``is_final``): a problem document of DAP or of a rule of Tacit, with a status that is about the request.
Anything else is sent again, the same bytes (P11, P14). ``tacit.retry_after`` says when.
"""

from __future__ import annotations

from typing import Final

from tacit.errors import DAP_ERROR_PREFIX, REFUSAL_PREFIX
from tacit.problem import problem_type

PASSING_STATUSES: Final = frozenset({408, 421, 425, 429})
"""Those of 400 to 499 that are about the moment or the connection, not about the request."""
PERMANENT_STATUSES: Final = frozenset({501, 505})
"""Those from 500 on after which the same request gets the same answer."""
PASSING_RULE_ENDS: Final = ("-early", "-room", "-missing")
"""How the names of rules end that refuse a request for now: a clock that is behind, a place that is full, a leaf that
others still have to send."""
REDIRECTED: Final = "the address answers with a redirect, which is not followed; give the URL that it leads to"
_UNRECOGNIZED_TASK = DAP_ERROR_PREFIX + "unrecognizedTask"


def may_pass(status: int) -> bool:
    """Whether the same request may get another answer later, by the status alone: what a person's program repeats."""
    return status in PASSING_STATUSES or (status >= 500 and status not in PERMANENT_STATUSES)


def is_final(status: int, body: bytes) -> bool:
    """Whether the peer itself refuses the request for good: true for an error of DAP, except for a task that it does
    not know yet, and for a refusal by a rule, except for those that pass. Never for what a proxy says."""
    if not 400 <= status < 500 or status in PASSING_STATUSES:
        return False
    kind = problem_type(body)
    if kind.startswith(DAP_ERROR_PREFIX):
        return kind != _UNRECOGNIZED_TASK
    return kind.startswith(REFUSAL_PREFIX) and not kind.endswith(PASSING_RULE_ENDS)
