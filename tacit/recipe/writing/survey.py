"""What an analyst wants to know, in one document that flags, a file, Python code or a web form can fill.

A *survey* is the term of statistics, used for randomised response since its first paper (Warner 1965): a question, whom
it is put to, how the sample is drawn, how privately and when. A survey becomes a recipe
(``tacit.recipe.writing.builder.propose``), which adds the noise, the proof and the claim that meet the survey's target,
and the parties. Members that both have carry the same names, and a census is the survey of the devices' attributes.

Every member may be left out until it is needed: ways to ask are compared before the question has a name
(``tacit.operations.design``), and ``lacking`` says what a recipe still needs. Numbers are integers or decimal text,
never floats, as in every document here. An invalid member raises a ``FieldError`` with its path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from tacit.errors import DecodeError, FieldError, UsageError
from tacit.methods.base.method import Method, plain
from tacit.methods.base.statistics import COUNT, HISTOGRAM, STATISTICS, Shape, Statistic, StatisticName
from tacit.methods.flips import Flips
from tacit.methods.registry import METHODS, methods_of
from tacit.models.form import Form
from tacit.models.forms import FORMS, form_of
from tacit.models.parties import SHUFFLER, Operator, Part
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.recipe.candidates import OUTSIDE_LABEL, asked_prefixes
from tacit.recipe.derive import shape_of
from tacit.recipe.encoder_specs import (
    AnyEncoder,
    Attributes,
    Boolean,
    Buckets,
    Categories,
    Cells,
    PrefixSearch,
    Strings,
    Watched,
)
from tacit.recipe.fields import parse_fields, parse_file, wrong
from tacit.recipe.member_types import EVENT_PATTERN, AttributeName, AttributeValue, Label, Natural, Positive, Text
from tacit.recipe.model import Question
from tacit.validation_words import quote_value
from tacit.version import DAP_18

AUTO: Final = "auto"
Missing = Literal["category", "ignore"]
MISSING: Final = get_args(Missing)
Close = Literal["interval_end", "at_B"]
Through = Literal["gateway", "shuffler"]
Proven = Literal["range", "norm"]
Dap = Literal["dap-18", "dap-19"]
CATEGORY: Final = "category"
NO: Final = "no"
NO_VALUE: Final = "no value"
"""Default name of the category for devices without a value; put in brackets where an answer has the same name."""
LOCAL: Final = "local"
MECHANISMS: Final = (LOCAL, Flips.NAME)
"""Either each device hides itself, or only the sum hides a device."""
ATTRIBUTES: Final = "attributes"
"""The ``metric`` of a census."""
_DIGITS, _PLACES = 9, 18
"""Most digits of a decimal before the point, and after it."""
_DECIMAL = rf"(0|[1-9][0-9]{{0,{_DIGITS - 1}}})(\.[0-9]{{1,{_PLACES}}})?"


def _amount(value: Any) -> Decimal:
    is_text = isinstance(value, str) and re.fullmatch(_DECIMAL, value)
    is_number = isinstance(value, Decimal | int) and not isinstance(value, bool)
    if not (is_text or is_number) or not 0 < (number := Decimal(value)) < Decimal("Infinity"):
        raise ValueError(f"takes a number above 0 such as 1 or '0.5', not {quote_value(repr(value))[:20]}")
    if number.adjusted() >= _DIGITS or number != round(number, _PLACES):
        raise ValueError(f"takes at most {_DIGITS} digits before the point and {_PLACES} after it")
    return number


def _at_most_one(number: Decimal) -> Decimal:
    if number > 1:
        raise ValueError("must be above 0 and at most 1")
    return number


def _below_one(number: Decimal) -> Decimal:
    if number >= 1:
        raise ValueError("must be above 0 and below 1")
    return number


def _auto_or_amount(value: Any) -> Decimal | Literal["auto"]:
    return AUTO if value == AUTO else _amount(value)


def _either(names: Iterable[str]) -> str:
    """Choices as a reason names them."""
    return " or ".join(f"`{one}`" for one in names)


def _mechanism(said: str) -> str:
    if said not in MECHANISMS:
        raise ValueError(f"must be {' or '.join(MECHANISMS)}")
    return said


def _model(said: str) -> str:
    if said not in FORMS:
        raise ValueError(f"must be one of {', '.join(FORMS)}")
    return said


ModelName = Annotated[str, AfterValidator(_model), WithJsonSchema({"type": "string", "enum": list(FORMS)})]
Mechanism = Annotated[str, AfterValidator(_mechanism), WithJsonSchema({"type": "string", "enum": list(MECHANISMS)})]
_AMOUNT_SCHEMA: Final = [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": f"^{_DECIMAL}$"}]
Amount = Annotated[
    Decimal,
    PlainValidator(_amount),
    PlainSerializer(plain, return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": _AMOUNT_SCHEMA}),
]
"""A decimal number above 0, as text."""
Probability = Annotated[Amount, AfterValidator(_at_most_one)]
Fraction = Annotated[Amount, AfterValidator(_below_one)]
AutoOrAmount = Annotated[
    Decimal | Literal["auto"],
    PlainValidator(_auto_or_amount),
    PlainSerializer(lambda said: said if said == AUTO else plain(said), return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "string", "const": AUTO}, *_AMOUNT_SCHEMA]}),
]


class ImportancePlan(Part):
    """Importance sampling: devices with the usual answer are asked less often."""

    default: Annotated[Label, Field(description="The usual answer: its devices are asked less often.")]
    default_rate: Annotated[
        Probability, Field(description="Probability with which a device with that answer takes part.")
    ]
    non_default_share: Annotated[Probability, Field(description="Share of devices with another answer, as expected.")]
    devices: Annotated[
        Positive | None, Field(description="With importance: least number of devices that a census has counted.")
    ] = None


class Survey(Part):
    """A question, whom it is put to, how privately and when; the recipe is charged to ``account``. ``epsilon`` is
    against an aggregator with the relay (no sampling counted); with importance sampling, and where ways to ask are
    compared, against one aggregator; with one server against the analyzer, which sees single reports.
    ``min_batch_size`` is B."""

    model: Annotated[ModelName, Field(description=f"One of {', '.join(FORMS)}.")] = SecureAggregation.name
    name: Annotated[
        str | None, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", description="Short name: a-z, 0-9 and -.")
    ] = None
    text: Annotated[Text | None, Field(description="The question, as a person reads it.")] = None
    metric: Annotated[Label | None, Field(description="Field of the device's data.")] = None
    encoder: Annotated[
        AnyEncoder | None,
        Field(discriminator="kind"),
    ] = None
    statistic: Annotated[StatisticName | None, Field(description=f"One of {', '.join(STATISTICS)}.")] = None
    missing: Annotated[
        Missing,
        Field(description="Devices without a value: a category (in a count: no), or ignored, which biases results."),
    ] = CATEGORY
    population: Annotated[Positive | None, Field(description="How many devices are asked.")] = None
    criteria: Annotated[
        dict[AttributeName, AttributeValue] | None,
        Field(min_length=1, max_length=4, description="Ask only devices with this attribute; repeat for more."),
    ] = None
    rate: Annotated[Probability, Field(description="Probability with which a device takes part.")] = Decimal("0.5")
    importance: ImportancePlan | None = None
    dummies: Annotated[
        AutoOrAmount | None, Field(description="Expected number of dummy reports, or auto: the fewest that suffice.")
    ] = None
    dummy_epsilon: Annotated[
        Amount | None, Field(description="With auto: epsilon for whether a device sent (default: 1).")
    ] = None
    epsilon: Annotated[Amount, Field(description="Largest epsilon against an aggregator with the relay.")] = Decimal(1)
    delta: Annotated[Fraction, Field(description="Delta of the claim.")] = Decimal("0.000001")
    max_epsilon0: Annotated[
        Amount | None, Field(description="Largest local epsilon of one report (default: the policy's, or 8).")
    ] = None
    min_batch_size: Annotated[Positive | None, Field(description="B (default: 0.8 x rate x population).")] = None
    randomizer: Annotated[
        str | None, Field(description=f"One of {', '.join(METHODS)} (default: the first that fits the question).")
    ] = None
    mechanism: Annotated[
        Mechanism | None,
        Field(description="local: each device hides itself; flips: only the sum hides a device."),
    ] = None
    aggregator_flips: Annotated[Natural, Field(multiple_of=2, description="Coin flips that each aggregator adds.")] = 0
    proof: Annotated[Proven, Field(description="Proved of vectors: range of entries, or norm too.")] = "range"
    accuracy: Annotated[
        Fraction | None, Field(description="Wanted standard error, as a share of the population or range.")
    ] = None
    start: Annotated[Natural | None, Field(description="POSIX second in which reports begin.")] = None
    duration: Annotated[Positive | None, Field(description="Seconds during which reports are made.")] = None
    epoch: Annotated[Natural | None, Field(description="Token epoch (default: the next one).")] = None
    slot: Annotated[int | None, Field(ge=0, le=2**32 - 1, description="Token slot (default: the first free one).")] = (
        None
    )
    close: Annotated[Close, Field(description="interval_end or at_B.")] = "interval_end"
    through: Annotated[Through, Field(description="What reports pass last: gateway, or shuffler.")] = "gateway"
    time_precision: Annotated[
        Positive | None,
        Field(description="Seconds to which report times are rounded down (default: 60, or less to fit)."),
    ] = None
    dap_version: Annotated[Dap, Field(description="dap-18, or dap-19, which two implementations speak so far.")] = (
        "dap-18"
    )
    account: Operator = "default"

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Survey:
        """The survey that ``body`` holds. Raises FieldError."""
        return parse_fields(cls, body, tagged="encoder")

    def having(self, **members: Any) -> Survey:
        """This survey with these members changed. Raises FieldError."""
        return self.from_body({**dict(self), **members})

    def model_post_init(self, context: Any, /) -> None:
        """Refuse members that exclude each other."""
        if self.dummy_epsilon is not None and self.dummies != AUTO:
            raise wrong("dummy_epsilon", f"belongs to `dummies` {AUTO}")
        if self.mechanism is not None and self.randomizer is not None:
            raise wrong("mechanism", "give either it or `randomizer`")
        self._check_watched()
        self._check_one_server()
        self._check_way()
        if self.encoder is not None:
            self._check_statistic(self.encoder.kind)
            self._check_method()

    def _check_watched(self) -> None:
        """Refuse an event in a model that watches none; in a model that does, refuse everything it does not support."""
        watched, model = self.form.watched, self.model
        if not watched:
            if isinstance(self.encoder, Watched):
                models = " or ".join(name for name, form in FORMS.items() if form.watched)
                raise wrong("model", f"must be {models}, whose devices watch events")
            return
        if self.encoder is not None and not isinstance(self.encoder, Watched):
            raise wrong("encoder", f"model {model} asks how often an event happened: `occurrences`")
        for name in ("importance", "dummies", "aggregator_flips"):
            if getattr(self, name):
                raise wrong(name, f"must be left out in model {model}")
        if self.close not in self.form.closes:
            raise wrong("close", f"must be {_either(self.form.closes)} in model {model}")
        if self.metric is not None and not re.fullmatch(EVENT_PATTERN, self.metric):
            raise wrong("metric", "must name an event: 1 to 64 of a-z, 0-9, '.', '_' and '-', a letter or digit first")
        if isinstance(self.encoder, Watched):
            self._check_most(self.encoder)

    def _check_one_server(self) -> None:
        """Refuse what a server that sees single reports makes useless."""
        if self.form.proves or self.form.watched:
            return
        for name in ("importance", "dummies", "aggregator_flips"):
            if getattr(self, name):
                raise wrong(name, f"must be left out in model {self.model}")
        if self.close not in self.form.closes:
            raise wrong("close", f"must be {_either(self.form.closes)} in model {self.model}")

    def _check_way(self) -> None:
        """Refuse a shuffler or a version of DAP where no leader is there, and a batch that closes before the shuffler
        sends."""
        if self.dap_version != DAP_18.name and not self.form.proves:
            raise wrong("dap_version", f"must be {DAP_18.name} in model {self.model}, which has no DAP task")
        if self.through == SHUFFLER and not self.form.may_mix:
            raise wrong("through", f"must be `gateway` in model {self.model}, which has no leader")
        if self.through == SHUFFLER and self.close != "interval_end":
            raise wrong("close", "must be `interval_end` where reports pass a shuffler, which sends after the end")

    def _check_most(self, encoder: Watched) -> None:
        if self.kind.name not in self.form.watched:
            has = ", ".join(self.form.watched)
            raise wrong("statistic", f"model {self.model} has {has}, and no {self.kind.name}")
        if self.kind is COUNT and encoder.most not in (None, 1):
            raise wrong("encoder.most", "does not belong to a count, which asks whether the event happened at all")
        if self.kind is not COUNT and encoder.most is None:
            raise wrong("encoder.most", f"is needed: the largest number counted in a {self.kind.name}")

    def _check_statistic(self, kind: str) -> None:
        if self.statistic is None and kind == "number":
            raise wrong("statistic", "is needed: numbers are for a sum, a mean or a histogram")
        stated = self.statistic and STATISTICS[self.statistic]
        if kind == "occurrences":
            return
        if stated and kind not in stated.encoders and not (kind == "cells" and stated.is_one_hot):
            wanted = " or ".join(f"`{one}`" for one in stated.encoders)
            raise wrong("encoder", f"a {stated.name} needs {wanted}, not `{kind}`")

    def _check_method(self) -> None:
        fitting = self.methods
        if self.randomizer is not None and self.randomizer not in METHODS:
            raise wrong(
                "randomizer", f"{quote_value(self.randomizer)!r} is not known; choose one of {', '.join(METHODS)}"
            )
        if not any(map(self.wants, fitting)):
            if not fitting:
                models = [name for name, form in FORMS.items() if any(map(form.answers_by, methods_of(self.kind)))]
                raise wrong("model", f"must be {' or '.join(models)} for {self.kind.name}")
            names = " or ".join(one.NAME for one in fitting)
            wished = "mechanism" if self.randomizer is None else "randomizer"
            raise wrong(wished, f"a {self.kind.name} needs {names}, not {self.randomizer or self.mechanism}")
        if self.aggregator_flips and self.method.IS_LOCAL:
            raise wrong("aggregator_flips", f"needs `mechanism` {Flips.NAME}")

    def wants(self, method: type[Method]) -> bool:
        """Whether devices may randomise by ``method``, as far as the survey says."""
        if self.mechanism is not None:
            return (self.mechanism == LOCAL) == method.IS_LOCAL
        return self.randomizer in {None, method.NAME}

    @property
    def kind(self) -> Statistic:
        """The statistic that is asked for: a count for a yes or no, a histogram for everything else that is not
        stated."""
        if isinstance(self.encoder, Watched) and self.statistic is None:
            return COUNT if self.encoder.most in (None, 1) else HISTOGRAM
        kind = self.encoder.kind if self.encoder is not None else "cells"
        usual = next((one for one in STATISTICS.values() if kind in one.encoders), STATISTICS["histogram"])
        return usual if self.statistic is None else STATISTICS[self.statistic]

    @property
    def method(self) -> type[Method]:
        """How devices randomise: the requested method, or the default for such questions."""
        return next(filter(self.wants, self.methods))

    @property
    def form(self) -> Form:
        """The form of questions that the survey's model takes."""
        return form_of(self.model)

    @property
    def methods(self) -> tuple[type[Method], ...]:
        """The methods that answer such questions in the model."""
        watched = self.form.watched
        if not watched:
            return tuple(filter(self.form.answers_by, methods_of(self.kind)))
        return tuple(METHODS[name] for name in (watched.get(self.kind.name),) if name is not None)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Members that a recipe needs, apart from the time and the tokens, and that are not filled yet."""
        unnamed = self.encoder is None or isinstance(self.encoder, Cells)
        lacking = [name for name in ("name", "metric", "population") if self._found(name) is None]
        return (*lacking, *(["encoder"] if unnamed else []))

    def given(self, name: str) -> Any:
        """The member ``name``, which a recipe needs. Raises FieldError where it is not filled."""
        found = self._found(name)
        if found is None:
            raise FieldError(name, "is needed to make a recipe")
        return found

    def _found(self, name: str) -> Any:
        """The member ``name``; a census needs no field of the device's data."""
        found = getattr(self, name)
        return ATTRIBUTES if found is None and name == "metric" and isinstance(self.encoder, Attributes) else found

    def question(self) -> Question:
        """The recipe's member ``question``. Raises FieldError where part of it is missing."""
        if isinstance(self.encoder, Cells):
            raise FieldError("encoder", "needs the names of its answers: `buckets`, `categories` or `boolean`")
        return self._question(self.given("metric"))

    def _question(self, metric: str) -> Question:
        encoder = self.given("encoder")
        watched = isinstance(encoder, Watched)
        text = self.text or (f"How often did {metric} happen?" if watched else f"What is {metric}?")[:500]
        encoder = encoder.asked() if isinstance(encoder, Watched) else self._telling_missing(encoder)
        return Question(text=text, metric=metric, encoder=encoder, statistic=self.kind.name)

    def _telling_missing(self, encoder: Any) -> Any:
        """The encoder that gives devices without a value an answer, unless they are to be ignored (P34): a category of
        their own in a histogram, no in a count."""
        if isinstance(encoder, PrefixSearch):
            return asked_prefixes(encoder, NO_VALUE if self.missing == CATEGORY else None)
        if isinstance(encoder, Strings):
            return encoder if encoder.outside else encoder.model_copy(update={"outside": OUTSIDE_LABEL})
        if isinstance(encoder, Boolean) and self.missing == CATEGORY:
            return encoder.model_copy(update={"missing": NO})
        tells = isinstance(encoder, Buckets | Categories) and self.kind.is_one_hot and self.missing == CATEGORY
        if not tells or encoder.missing is not None:
            return encoder
        taken = {*getattr(encoder, "categories", ()), encoder.other}
        label = NO_VALUE
        while label in taken:
            label = f"({label})"
        return encoder.model_copy(update={"missing": label})

    @property
    def shape(self) -> Shape:
        """The question in the form that methods take. Raises FieldError where there is no encoder."""
        if isinstance(self.encoder, Cells):
            return Shape(self.kind, self.encoder.cells)
        if isinstance(self.encoder, Watched):
            return shape_of(self.having(encoder=self.encoder.from_now(0))._question("event"))
        return shape_of(self._question(self.metric or "metric"))


def read_survey(data: bytes, name: str) -> Survey:
    """The survey in a file; ``name`` ends in .toml, or the file holds JSON. Raises UsageError."""
    try:
        body = parse_file(data, name)
        if not isinstance(body, dict):
            raise UsageError(f"{name}: not a JSON object")
        return Survey.from_body(body)
    except DecodeError as error:
        raise UsageError(str(error)) from error
    except FieldError as error:
        raise UsageError(f"{name}: {error}") from error
