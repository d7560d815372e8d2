"""Texts of other kinds than surveys that somebody may write: each belongs to a feature."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from services.admin.questions.log import Log
from services.admin.storage.question_store import QuestionsTx
from tacit.extension_points import ADMIN_TEXTS, ByName
from tacit.logview.live import LiveLog
from tacit.models.parties import Part, Parties
from tacit.operations.drafting import Drafted
from tacit.operations.pace import Pace
from tacit.recipe.policy import Policy


class TextKind(ABC):
    """A kind of text, and how such a text becomes what is published."""

    @abstractmethod
    def read(self, text: str) -> Part:
        """The text in the form that a question stores. Raises ``FieldError``."""

    @abstractmethod
    def require_packages(self) -> None:
        """Raise ``Abort`` (501) where the service is installed without what the kind needs."""

    @abstractmethod
    def require(self, written: Part, lacks: str) -> None:
        """Check that this service can carry what ``written`` asks; ``lacks``: why it can carry nothing of the kind, or
        empty. Raises ``UsageError``, and as ``require_packages``."""

    @abstractmethod
    async def require_room(self, tx: QuestionsTx) -> None:
        """Raise ``UsageError`` where so much of the kind goes on that nothing further would be carried."""

    @abstractmethod
    def drafted(
        self, written: Part, parties: Parties, live: LiveLog, policy: Policy, epoch_seconds: int, now: float, pace: Pace
    ) -> Drafted:
        """What ``written`` becomes now. The parameters are those of ``tacit.operations.drafting.draft_recipe``. Raises
        ``FieldError`` and ``UsageError``."""

    @abstractmethod
    async def require_place(self, log: Log, written: Part, drafted: Drafted) -> None:
        """Check that the log's server takes what the draft needs there. Raises ``Abort`` and ``UsageError``."""

    @abstractmethod
    def forecast(self, written: Part, policy: Policy) -> dict[str, Any]:
        """What ``written`` costs, for a device with ``policy``. Raises ``FieldError`` and ``UsageError``."""


TEXTS: ByName[TextKind] = ByName(ADMIN_TEXTS, lambda kind: kind())
PLAN = "plan"
"""The kind of the text of a question that ``trains``."""
