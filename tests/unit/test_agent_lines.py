"""What agents say in a terminal: few lines, of what matters, and nothing that could steer the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from client_agent.journal import Fact
from client_agent.runner import OVER
from infra.lab.kit.clock import SimClock
from infra.views.agent_lines import AgentLines


def lines_of(agents: int) -> tuple[AgentLines, io.StringIO]:
    file = io.StringIO()
    return AgentLines(agents, Console(file=file, soft_wrap=True, highlight=False), SimClock(0.0)), file


def test_what_sixty_agents_do_alike_is_one_line_and_their_routine_is_none() -> None:
    lines, file = lines_of(60)
    lines.started()
    for agent in range(60):
        lines.tell(agent, "log-read", {"entries": 9})
        for held in range(5):
            lines.tell(agent, "slots", {"held": held, "known": 5})
        state = "scheduled" if agent < 2 else "not-sampled"
        lines.tell(agent, state, {"recipe": "visits", "attempts": 0})
    lines.stopped()
    assert file.getvalue().splitlines() == [
        "00:00:00 60 agents are at work; Ctrl-C stops them",
        "00:00:00 the log can be read: 9 entries",
        "00:00:00 visits: scheduled  agents 0, 1",
        "00:00:00 visits: not sampled  58 of 60 agents",
        "00:00:00 stopped",
    ]


def test_refusals_and_troubles_are_told_with_their_reason_and_their_end() -> None:
    lines, file = lines_of(1)
    lines.tell(0, "refused", {"recipe": "visits", "attempts": 0, "detail": "batch-floor: \x1b[2Jtoo\nsmall"})
    lines.tell(0, Fact.LOG_TROUBLE.value, {"detail": "the relay answered 502"})
    lines.tell(0, Fact.LOG_TROUBLE.value, {"detail": OVER})
    lines.tell(0, "sent", {"recipe": "steps", "attempts": 3})
    lines.flush()
    lines.flush()
    assert [line[9:] for line in file.getvalue().splitlines()] == [
        "visits: refused (batch-floor:  [2Jtoo small)",
        "the log is not read: the relay answered 502",
        "the log is again without trouble",
        "steps: sent after 3 tries",
    ]
