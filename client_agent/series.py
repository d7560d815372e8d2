"""A device and the rounds of a series (P26): one charge and one draw, when it is first eligible for a round.

With donation the draw names the one round in which the device takes part, if it is eligible then, or none: a coin of
the recipe's rate for each slot of a window, of which the first that says yes counts. Windows are those of everybody: m
rounds from round 0, m, 2m, ... on, and a device has the first one that begins when it is first eligible or later. The
claim's proof rests on that (``tacit.dp.donation``): of devices of one window every batch is a uniform sample. Without
donation every round has a coin of its own, and the draw only remembers that the series was charged.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from client_agent.coin import coin
from client_agent.journal import SeriesDraw
from tacit.ledger.account import Cost
from tacit.ports import Entropy
from tacit.recipe.charges import cost_of, series_cost, with_relay_of
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series


@dataclass(frozen=True)
class Participation:
    """A recipe as this device may take part in it: by itself, or as round ``index`` of ``series`` after the draw
    ``drawn``."""

    recipe: Recipe
    series: Series | None = None
    drawn: SeriesDraw | None = None

    @property
    def index(self) -> int:
        """The number of the round; 0 for a recipe by itself."""
        return 0 if self.recipe.series is None else self.recipe.series.index

    @property
    def is_past(self) -> bool:
        """Whether the draw named another round, or none: then the device is not asked any more."""
        donates = self.series is not None and self.series.donation is not None
        return donates and self.drawn is not None and self.drawn.chosen_round != self.index

    def draw_words(self, draw: SeriesDraw | None) -> str:
        """What ``draw`` named, for the journal; empty if rounds have coins of their own."""
        if draw is None or self.series is None or self.series.donation is None:
            return ""
        named = "no round" if draw.chosen_round is None else f"round {draw.chosen_round}"
        return f"the draw for this series named {named}"

    @property
    def cost(self) -> Cost | None:
        """The cost that is charged before the coin; None if the series was charged before. A series is charged whole
        even where the log shows its end: a device knows no more of the rounds before it than what it was shown, and
        would take part in those that are shown later without a charge."""
        if self.series is None:
            return cost_of(self.recipe)
        return None if self.drawn is not None else series_cost(self.series)

    @property
    def with_relay(self) -> Decimal | None:
        """The claim (b) that the device charges; ``None`` if it charges nothing."""
        if self.cost is None:
            return None
        return with_relay_of(self.recipe) if self.series is None else with_relay_of(self.series)

    @property
    def charged_until(self) -> int:
        """The POSIX second from which nothing can be answered any more for the charge."""
        return (self.recipe if self.series is None else self.series).interval.end

    def choice(self, entropy: Entropy, now: float) -> tuple[bool | None, SeriesDraw | None]:
        """Whether the series' draw makes the device take part now (None: the recipe's own coin decides), and the draw,
        if it is made now and has to be stored."""
        if self.series is None:
            return None, None
        drawn, fresh = self.drawn, None
        if drawn is None:
            drawn = fresh = self._draw(self.series, entropy, now)
        return (None if self.series.donation is None else drawn.chosen_round == self.index), fresh

    def _draw(self, series: Series, entropy: Entropy, now: float) -> SeriesDraw:
        slots = 0 if series.donation is None else series.donation.slots
        begin = -(-self.index // slots) * slots if slots else self.index
        tossed = [coin(self.recipe.rate, entropy) for _ in range(slots)]
        chosen = begin + tossed.index(True) if any(tossed) else None
        if chosen is not None and chosen >= series.rounds:
            chosen = None
        return SeriesDraw(series.hash, series.name, now, self.index, chosen)
