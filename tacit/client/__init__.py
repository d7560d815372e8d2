"""A client of the admin API, for programs, notebooks and commands of the analyst's organisation (``docs/client.md``).

    from tacit.client import Operator

    with Operator("https://admin.example", key_file="analyst.key") as operator:
        draft = operator.questions.create({"name": "visits", ...})

``Operator`` blocks; ``AsyncOperator`` has the same methods for ``await``. Refusals are subclasses of ``ApiError``.
"""

from tacit.client.documents import (
    Act,
    AuditChain,
    Census,
    Change,
    Changes,
    Check,
    Checkpoint,
    Collection,
    ConsentRule,
    Design,
    Entry,
    Fleet,
    Forecast,
    Invitation,
    Job,
    Key,
    Keys,
    Ledger,
    LoggedRecipe,
    LoggedSeries,
    NewKey,
    Person,
    Proof,
    Question,
    RecipeSummary,
    Run,
    RunRound,
    SeriesRound,
    Session,
)
from tacit.client.errors import (
    ApiError,
    AwayError,
    BusyError,
    ChangedError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    NotYetError,
    OwnDraftError,
    RedirectError,
    RuleError,
    UnauthorizedError,
)
from tacit.client.events import Event
from tacit.client.operator import AsyncOperator
from tacit.client.results import Results
from tacit.client.sync import Operator

__all__ = [
    "Act",
    "ApiError",
    "AsyncOperator",
    "AuditChain",
    "AwayError",
    "BusyError",
    "Census",
    "Change",
    "ChangedError",
    "Changes",
    "Check",
    "Checkpoint",
    "Collection",
    "ConflictError",
    "ConsentRule",
    "Design",
    "Entry",
    "Event",
    "Fleet",
    "ForbiddenError",
    "Forecast",
    "InvalidError",
    "Invitation",
    "Job",
    "Key",
    "Keys",
    "Ledger",
    "LoggedRecipe",
    "LoggedSeries",
    "NewKey",
    "NotFoundError",
    "NotYetError",
    "Operator",
    "OwnDraftError",
    "Person",
    "Proof",
    "Question",
    "RecipeSummary",
    "RedirectError",
    "Results",
    "RuleError",
    "Run",
    "RunRound",
    "SeriesRound",
    "Session",
    "UnauthorizedError",
]
