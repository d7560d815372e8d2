"""What an operator may state about a question: one row for each member of a survey.

Flags of the command line, their help and the words of errors, and the fields of a form with their labels are made from
this table. Checks and default values are those of ``tacit.recipe.writing.survey``, and so is the help of a flag that
states none of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class Value(enum.Enum):
    """The type of a member as people state it. Flags and forms parse it in their own notations: a form has one item per
    line or commas between items."""

    TEXT = enum.auto()
    CHOICE = enum.auto()
    SWITCH = enum.auto()
    """Given or not; a flag alone has it."""
    WHOLE = enum.auto()
    MOMENT = enum.auto()
    """POSIX seconds; in a form also a time in UTC."""
    QUANTITY = enum.auto()
    """A number that may have decimals and a sign."""
    AMOUNT = enum.auto()
    """A decimal number above 0, as text."""
    FLOAT = enum.auto()
    """A decimal number above 0, which the command line takes as a float."""
    WHOLES = enum.auto()
    LABELS = enum.auto()
    QUANTITIES = enum.auto()
    PAIRS = enum.auto()
    """Names with one value each."""
    VALUES = enum.auto()
    """Names with several values each."""


@dataclass(frozen=True, slots=True)
class Option:
    """A flag that fills a member. ``name``: of its parameter; ``help``: the document's description, unless set;
    ``value``: its type where the member's differs; ``encoder``: the kind of encoder that the flag implies; ``prompt``:
    how a person at a terminal is asked for it, where a recipe needs it."""

    name: str
    help: str = ""
    value: Value | None = None
    encoder: str = ""
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class SurveyField:
    """A member at ``path`` (``encoder.low``). ``label`` and ``hint``: of its field in a form, the hint in one line;
    ``options``: the flags that fill it; ``least``: its minimum on the command line; ``kinds``: the encoders that have
    it (empty: it belongs to no encoder); ``lines``: whether its field in a form has several lines."""

    path: str
    value: Value
    label: str
    hint: str = ""
    options: tuple[Option, ...] = ()
    least: int | None = None
    kinds: tuple[str, ...] = ()
    lines: bool = False

    @property
    def numeric(self) -> bool:
        """Whether a numeric keypad is enough to fill the member's field in a form."""
        return self.value in {Value.WHOLE, Value.QUANTITY, Value.AMOUNT, Value.FLOAT}


_RANGED: Final = ("number", "vector")
OCCURRENCES: Final = ("occurrences",)
_LISTED: Final = ("categories", "buckets")
SURVEY_FIELDS: Final = (
    SurveyField("name", Value.TEXT, "Short name",
        "a-z, 0-9 and -, such as doctor-visits; if empty, it is made from the metric",
        options=(Option("name", prompt="A short name for the recipe (a-z, 0-9 and -)?"),)),
    SurveyField("text", Value.TEXT, "Question", "As people will read it",
        options=(Option("text", prompt="The question, as a person reads it?"),), lines=True),
    SurveyField("metric", Value.TEXT, "Metric",
        "Name of a field in the device's data, or of an event that devices watch",
        options=(Option("metric", prompt="Which metric of the device's data is asked for (for example mdvis)?"),
        Option("event", "Event that devices watch (pan-private models); instead of --metric.",
        prompt="Which event do the devices watch (for example visit)?"))),
    SurveyField("encoder.kind", Value.CHOICE, "Kind of answer",
        options=(Option("boolean", "A yes or no question.", value=Value.SWITCH, encoder="boolean"),)),
    SurveyField("encoder.categories", Value.LABELS, "Categories", "One per line",
        options=(Option("categories", "Exact texts: red,green,blue", encoder="categories"),), kinds=("categories",),
        lines=True),
    SurveyField("encoder.edges", Value.QUANTITIES, "Lower edges",
        "Increasing, such as 0, 1, 3, 10; the last bucket is open", options=(Option("buckets",
        "Lower bucket edges, the last one open: 0,1,2,4 or 0,0.25,0.5", encoder="buckets"),), kinds=("buckets",)),
    SurveyField("encoder.low", Value.QUANTITY, "Lowest value", "Lower values are raised to this one",
        options=(Option("low", "Least value of a sum, mean or vector entry."),), kinds=_RANGED),
    SurveyField("encoder.high", Value.QUANTITY, "Highest value", "Higher values are lowered to this one",
        options=(Option("high", "Largest value; values outside are clipped."),), kinds=_RANGED),
    SurveyField("encoder.unit", Value.QUANTITY, "Unit", "Values are rounded to multiples of the unit; if empty, 1",
        options=(Option("unit", "Round values to multiples of this, such as 0.01 (default: 1)."),), kinds=_RANGED),
    SurveyField("encoder.length", Value.WHOLE, "Length",
        "How many numbers the vector has, or characters a text at most",
        options=(Option("strings", "Frequent texts of up to so many characters (model local).", encoder="strings"),
        Option("prefixes", "Frequent texts of up to so many characters, in rounds of a series (docs/ways-to-ask.md).",
        encoder="prefixes"), Option("length", "Entries of a vector.")), least=1,
        kinds=("strings", "prefixes", "vector")),
    SurveyField("encoder.alphabet", Value.TEXT, "Characters",
        "All characters of a text; if empty, any, and the length counts bytes",
        options=(Option("alphabet", "The characters of such a text (default: any; then bytes are counted)."),),
        kinds=("strings", "prefixes")),
    SurveyField("encoder.levels", Value.WHOLES, "Bits of a round", "Bits of a text's prefix in each round, rising",
        options=(Option("prefix_levels",
        "Bits of a text's prefix in each round: 9,15,20 (default: what fits)."),), kinds=("prefixes",)),
    SurveyField("encoder.candidates", Value.WHOLE, "Candidates", "The most prefixes in a round",
        options=(Option("candidates", "Most prefixes in a round (default: 512)."),), least=1, kinds=("prefixes",)),
    SurveyField("encoder.norm", Value.QUANTITY, "Norm", "Longer vectors are scaled down to this norm",
        options=(Option("norm", "Largest Euclidean length of a vector."),), kinds=("vector",)),
    SurveyField("encoder.start", Value.MOMENT, "Watched from",
        "YYYY-MM-DD HH:MM in UTC, or POSIX seconds; if empty, the next step",
        options=(Option("watch_start", "POSIX second of the first step (default: the next step)."),), least=0,
        kinds=OCCURRENCES),
    SurveyField("encoder.step_seconds", Value.WHOLE, "Step", "Length of one step in seconds",
        options=(Option("step_seconds", "Seconds of a step.", prompt="How many seconds does a step last?"),), least=1,
        kinds=OCCURRENCES),
    SurveyField("encoder.steps", Value.WHOLE, "Steps", "How many steps are watched", options=(Option("steps",
        "Steps of an event's watched period.", encoder="occurrences", prompt="For how many steps is it watched?"),),
        least=1, kinds=OCCURRENCES),
    SurveyField("encoder.most", Value.WHOLE, "At most",
        "The most events of one device that count; not needed for a count", options=(Option("most",
        "Count occurrences of an event up to this number (histogram, mean).",
        prompt="Up to how many occurrences are counted?"),), least=1, kinds=OCCURRENCES),
    SurveyField("encoder.attributes", Value.VALUES, "Attributes",
        "One per line, with its values separated by bars: locale=de|fr",
        options=(Option("attribute", "Count devices by these values; repeat for more.", encoder="attributes"),),
        kinds=("attributes",), lines=True),
    SurveyField("encoder.cells", Value.WHOLE, "Answers",
        "How many answers there are, without names; enough to compare, not to publish", options=(Option("cells",
        "Numbers in the answer; a histogram with 1 is a yes or no question.", encoder="cells"),), least=1,
        kinds=("cells",)),
    SurveyField("encoder.other", Value.TEXT, "Name for other values", "If empty, other values are not distinguished",
        options=(Option("other_label", "A category for values outside the buckets or categories."),), kinds=_LISTED),
    SurveyField("encoder.outside", Value.TEXT, "Name for texts that do not fit", "If empty, “(does not fit)”",
        options=(Option("outside_label", "What texts outside the domain are counted as (default: (does not fit))."),),
        kinds=("strings", "prefixes")),
    SurveyField("missing", Value.CHOICE, "Devices without a value",
        "An answer of their own, or none: then they are spread over the answers", options=(Option("missing"),)),
    SurveyField("encoder.missing", Value.TEXT, "Name for no value", "If empty, “no value”",
        options=(Option("missing_label", "Name of the category for devices without a value."),),
        kinds=("categories", "buckets", "attributes")),
    SurveyField("statistic", Value.CHOICE, "Statistic",
        "If empty, the mean of a number, or the count or histogram of events", options=(Option("statistic"),),
        kinds=("number", "occurrences")),
    SurveyField("population", Value.WHOLE, "Devices", "How many devices are asked",
        options=(Option("population", prompt="How many devices will be asked?"),), least=1),
    SurveyField("rate", Value.AMOUNT, "Sampling rate q", "Probability with which a device takes part",
        options=(Option("rate"),)),
    SurveyField("min_batch_size", Value.WHOLE, "Minimum batch B", "If empty, 0.8 × q × devices",
        options=(Option("min_batch_size"),), least=1),
    SurveyField("criteria", Value.PAIRS, "Only devices with", "Attributes such as locale=de, os=linux",
        options=(Option("target"),)),
    SurveyField("epsilon", Value.AMOUNT, "Epsilon",
        "The most that an aggregator may learn about one device, even together with the relay",
        options=(Option("epsilon"),)),
    SurveyField("delta", Value.AMOUNT, "Delta", "Probability with which epsilon may fail to hold; if empty, 0.000001",
        options=(Option("delta"),)),
    SurveyField("accuracy", Value.FLOAT, "Wanted standard error",
        "As a share of the devices or of the range; the margin ± is 1.96 times this", options=(Option("accuracy"),)),
    SurveyField("account", Value.TEXT, "Account", "The account to which the recipe is charged"),
    SurveyField("model", Value.CHOICE, "Model", "Decides whom devices have to trust", options=(Option("model"),)),
    SurveyField("mechanism", Value.CHOICE, "Noise",
        "local: each device adds its own noise; flips: a device is hidden only in the sum",
        options=(Option("mechanism"),)),
    SurveyField("randomizer", Value.CHOICE, "Randomizer", "If empty, the most accurate one that is allowed",
        options=(Option("randomizer"),)),
    SurveyField("max_epsilon0", Value.FLOAT, "Local epsilon limit",
        "The most epsilon that one report may spend; if empty, the policy's", options=(Option("max_epsilon0"),)),
    SurveyField("aggregator_flips", Value.WHOLE, "Aggregator's flips", "How many coin flips each aggregator adds",
        options=(Option("aggregator_flips"),), least=0),
    SurveyField("proof", Value.CHOICE, "Proved of vectors", "Proofs of the norm are twice as large",
        options=(Option("proof"),), kinds=("vector",)),
    SurveyField("start", Value.MOMENT, "Begins",
        "YYYY-MM-DD HH:MM in UTC, or POSIX seconds; if empty, the next epoch", options=(Option("start"),), least=0),
    SurveyField("duration", Value.WHOLE, "Lasts", "Seconds; if empty, to the end of the epoch",
        options=(Option("duration"),), least=1),
    SurveyField("close", Value.CHOICE, "Closes",
        "At the end of the interval, or as soon as there are B contributions", options=(Option("close"),)),
    SurveyField("through", Value.CHOICE, "Reports pass",
        "A shuffler behind the gateway breaks the link between arrival and report", options=(Option("through"),)),
    SurveyField("dap_version", Value.CHOICE, "DAP version", "What the servers and devices of the question speak",
        options=(Option("dap_version"),)),
    SurveyField("time_precision", Value.WHOLE, "Time precision",
        "Report times are rounded down to a multiple of this many seconds"),
    SurveyField("epoch", Value.WHOLE, "Token epoch", "If empty, the next one", options=(Option("epoch"),), least=0),
    SurveyField("slot", Value.WHOLE, "Token slot", "If empty, the first free one", options=(Option("slot"),),
        least=0),
    SurveyField("importance.default", Value.TEXT, "Usual answer", "Devices with this answer are asked less often",
        options=(Option("importance_default"),)),
    SurveyField("importance.default_rate", Value.AMOUNT, "Rate of the usual answer",
        "Probability with which devices with the usual answer take part", options=(Option("importance_rate"),)),
    SurveyField("importance.non_default_share", Value.AMOUNT, "Share of other answers", "The share that is expected",
        options=(Option("non_default_share"),)),
    SurveyField("importance.devices", Value.WHOLE, "Fewest devices counted", "The lowest count from a census",
        options=(Option("attested_devices"),), least=1),
    SurveyField("dummies", Value.AMOUNT, "Dummies", "Expected number of empty reports, or auto",
        options=(Option("dummies"),)),
    SurveyField("dummy_epsilon", Value.AMOUNT, "Epsilon of sending",
        "With auto: the most that may be revealed about whether a device sent a report",
        options=(Option("dummy_epsilon"),)),
)  # fmt: skip
"""Every member that people may state."""
FIELD_AT: Final[Mapping[str, SurveyField]] = {field.path: field for field in SURVEY_FIELDS}
"""The rows by the path of their members."""
