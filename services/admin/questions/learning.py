"""From the plan of a training run to the series that it becomes, and what it costs, in the log as it is now.

NumPy may be missing: what needs it is imported when a plan comes.
"""

from __future__ import annotations

from typing import Any, Final

from services.admin.base.problems import Problem, refuse
from services.admin.questions.log import Log, blaming
from services.admin.questions.texts import TextKind
from services.admin.storage.question_store import QuestionsTx
from services.admin.storage.records import Question
from tacit.errors import FieldError, UsageError
from tacit.extras import require_extra
from tacit.learning.plan import Plan
from tacit.logview.live import LiveLog
from tacit.models.parties import Part, Parties
from tacit.operations.drafting import Drafted, directory_of, next_epoch
from tacit.operations.pace import Pace
from tacit.operations.publishing import require_model_place
from tacit.recipe.policy import Policy
from tacit.recipe.training import External, read_round_model

EXTRA: Final = "learn"
MOST_RUNS: Final = 64
"""How many runs are carried at once, the oldest first."""


class PlanKind(TextKind):
    """The plan of a training run."""

    def read(self, text: str) -> Plan:
        """The plan. Raises ``FieldError``."""
        return Plan.read(text.encode(), "plan")

    def require_packages(self) -> None:
        """Raise ``Abort`` (501) without NumPy, with which models are computed."""
        require_numbers()

    def require(self, written: Part, lacks: str) -> None:
        """As ``TextKind.require``; also for a plan whose first model this service cannot make."""
        require_numbers()
        require_own_model(_plan(written))
        if lacks:
            raise UsageError(f"{lacks}; train it where the key is, with: tacit learn run PLAN")

    async def require_room(self, tx: QuestionsTx) -> None:
        """As ``TextKind.require_room``."""
        if len(await tx.running(MOST_RUNS)) >= MOST_RUNS:
            raise UsageError(f"{MOST_RUNS} training runs go on; publish it when one of them is over, or end one")

    def drafted(
        self, written: Part, parties: Parties, live: LiveLog, policy: Policy, epoch_seconds: int, now: float, pace: Pace
    ) -> Drafted:
        """The series of the run and its first round. As ``TextKind.drafted``."""
        return drafted_run(_plan(written), parties, live, policy, epoch_seconds, now, pace)

    async def require_place(self, log: Log, written: Part, drafted: Drafted) -> None:
        """The recipe server has room for the model of the first round."""
        async with blaming("log"):
            stated = read_round_model(drafted.recipe.question.round_input or "", _plan(written).training)
            await require_model_place(log.transport, log.url, stated)

    def forecast(self, written: Part, policy: Policy) -> dict[str, Any]:
        """The plan, and what its run would cost. As ``TextKind.forecast``."""
        return forecast_document(_plan(written), policy)


def _plan(written: Part) -> Plan:
    if not isinstance(written, Plan):
        raise TypeError("the text is no plan")
    return written


def plan_of(question: Question) -> Plan:
    """The plan of a question that is a training run."""
    return PlanKind().read(question.text)


def require_numbers() -> None:
    """Raise ``Abort`` (501) where the service is installed without what computes models."""
    try:
        require_extra("a training run", EXTRA, "numpy")
    except UsageError as error:
        raise refuse(Problem.EXTRA_MISSING, str(error), extra=EXTRA) from error


def drafted_run(
    plan: Plan, parties: Parties, live: LiveLog, policy: Policy, epoch_seconds: int, now: float, pace: Pace
) -> Drafted:
    """Make the series of ``plan``, placed on free slots of the log ``live``, with the refusals of ``policy``; its
    recipe is the first round. The parameters are those of ``tacit.operations.drafting.draft_recipe``. Raises
    ``FieldError``, also for a name that a series of the log has, and ``UsageError``."""
    from tacit.operations.learning.placing import Epochs, placed_run, refusals_of
    from tacit.operations.learning.rounds import next_round, run_of

    if any(one.name == plan.name for one in live.open_series):
        raise FieldError("name", f"{plan.name} is a series of the log already; give the plan another name")
    issuer = parties.issuer.name
    epoch = next_epoch(live, issuer, epoch_seconds, now, pace)
    directory = directory_of(live, issuer, epoch, epoch_seconds, now)
    series = placed_run(plan, parties, live, Epochs(epoch_seconds, len(directory.keys)), now, pace)
    first = next_round(plan, series, run_of(plan, series, ()), now)
    if first is None:
        raise UsageError("a run needs a round")
    return Drafted(first.recipe, tuple(refusals_of(plan, series, policy, now)), series)


def require_own_model(plan: Plan) -> None:
    """Raise ``FieldError`` for a plan whose first model this service cannot make."""
    if isinstance(plan.training.architecture, External):
        raise FieldError(
            "training.architecture",
            "begins with a file that only the application has; train it with: tacit learn run PLAN --initial FILE",
        )


def forecast_document(plan: Plan, policy: Policy) -> dict[str, Any]:
    """What the plan costs and how noisy it is, as ``tacit learn plan --json`` tells it, for a device with ``policy``.
    Raises ``FieldError`` and ``UsageError`` for a plan without a series, with what would fit."""
    from tacit.operations.learning.plans import forecast

    return {
        "plan": plan.model_dump(mode="json", exclude_none=True),
        "forecast": forecast(plan, policy).document(),
    }
