"""Where features enter Tacit: the names by which recipes and parties find them, and where each of them lies.

A method or model is imported when it is first used under its name, so a party loads those of the recipes it serves and
no others. To add one, write its modules and its lines here; to remove one, delete both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, Final, Generic, TypeVar

from tacit.errors import Unavailable

T = TypeVar("T")


class ByName(MutableMapping[str, T], Generic[T]):
    """What lies at ``places``, texts such as ``package.module:Attribute``, by name. Each is imported when it is first
    asked for; ``made`` makes it of the attribute (default: it is the attribute)."""

    def __init__(self, places: Mapping[str, str], made: Callable[[Any], T] = lambda attribute: attribute) -> None:
        self._places: dict[str, str | None] = dict(places)
        self._made = made
        self._imported: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        """What has this name. Raises ``KeyError`` if nothing has, and ``Unavailable`` if it cannot be loaded now."""
        if name not in self._imported and (place := self._places[name]) is not None:
            module, _, attribute = place.partition(":")
            try:
                loaded = import_module(module)
            except (ImportError, OSError, MemoryError) as error:
                # a wheel that is being replaced, too many open files: nobody may decide for good because of that
                raise Unavailable(f"{module} cannot be loaded now: {error}") from error
            self._imported[name] = self._made(getattr(loaded, attribute))
        return self._imported[name]

    def __setitem__(self, name: str, value: T) -> None:
        self._places.setdefault(name, None)
        self._imported[name] = value

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._imported.pop(name, None)

    @property
    def places(self) -> Mapping[str, str]:
        """Where each of them lies, but for what was added later."""
        return {name: place for name, place in self._places.items() if place is not None}

    def __contains__(self, name: object) -> bool:
        """Whether something has this name; imports nothing."""
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        """The names in their order; imports nothing."""
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


METHODS: Final = {
    "krr": "tacit.methods.krr:Krr",
    "rappor": "tacit.methods.rappor:Rappor",
    "oue": "tacit.methods.oue:Oue",
    "rr": "tacit.methods.rr:Rr",
    "flips": "tacit.methods.flips:Flips",
    "one-bit": "tacit.methods.one_bit:OneBit",
    "affine": "tacit.methods.base.affine:AffineHashing",
    "succinct-histogram": "tacit.methods.succinct_histogram.histogram:PaperHistogram",
    "zsum": "tacit.methods.shuffled:Zsum",
    "unbiased": "tacit.methods.shuffled_few:Unbiased",
    "flipped": "tacit.methods.shuffled_few:Flipped",
}
"""Ways to randomise (``tacit.methods.base.method.Method``), ordered by preference: a question takes the first method
that fits."""

RANDOMISERS: Final = {
    "krr": "tacit.methods.randomisers.krr:KrrRandomiser",
    "rappor": "tacit.methods.randomisers.unary:RapporRandomiser",
    "oue": "tacit.methods.randomisers.unary:OueRandomiser",
    "rr": "tacit.methods.randomisers.rr:RrRandomiser",
    "flips": "tacit.methods.randomisers.flips:FlipsRandomiser",
    "one-bit": "tacit.methods.randomisers.one_bit:OneBitRandomiser",
    "affine": "tacit.methods.randomisers.affine:AffineRandomiser",
    "succinct-histogram": "tacit.methods.randomisers.succinct_histogram:SuccinctHistogramRandomiser",
    "zsum": "tacit.methods.randomisers.shuffled:ZsumRandomiser",
    "unbiased": "tacit.methods.randomisers.shuffled:UnbiasedRandomiser",
    "flipped": "tacit.methods.randomisers.shuffled:FlippedRandomiser",
}
"""How a device draws what it sends by a method (``tacit.methods.randomisers.base.Randomiser``), by the method."""

ESTIMATORS: Final = {
    "krr": "tacit.methods.estimators.krr:KrrEstimator",
    "rappor": "tacit.methods.estimators.unary:UnaryEstimator",
    "oue": "tacit.methods.estimators.unary:UnaryEstimator",
    "rr": "tacit.methods.estimators.rr:RrEstimator",
    "flips": "tacit.methods.estimators.flips:FlipsEstimator",
    "one-bit": "tacit.methods.estimators.one_bit:OneBitEstimator",
    "affine": "tacit.methods.estimators.affine:AffineEstimator",
    "succinct-histogram": "tacit.methods.estimators.succinct_histogram:SuccinctHistogramEstimator",
    "zsum": "tacit.methods.estimators.shuffled:ZsumEstimator",
    "unbiased": "tacit.methods.estimators.shuffled:ShuffledEstimator",
    "flipped": "tacit.methods.estimators.shuffled:FlippedEstimator",
}
"""How a collector estimates from a method's reports (``tacit.methods.estimators.base.Estimator``), by the method."""

PLANNERS: Final = {
    "krr": "tacit.methods.planners.krr:KrrPlanner",
    "rappor": "tacit.methods.planners.unary:RapporPlanner",
    "oue": "tacit.methods.planners.unary:OuePlanner",
    "rr": "tacit.methods.planners.rr:RrPlanner",
    "flips": "tacit.methods.planners.flips:FlipsPlanner",
    "one-bit": "tacit.methods.planners.rr:OneBitPlanner",
    "affine": "tacit.methods.planners.affine:AffinePlanner",
    "succinct-histogram": "tacit.methods.planners.succinct_histogram:SuccinctHistogramPlanner",
    "zsum": "tacit.methods.planners.shuffled:ZsumPlanner",
    "unbiased": "tacit.methods.planners.shuffled:UnbiasedPlanner",
    "flipped": "tacit.methods.planners.shuffled:UnbiasedPlanner",
}
"""How an analyst chooses a method's parameters (``tacit.methods.planners.base.Planner``), by the method."""

FORMS: Final = {
    "secure-aggregation": "tacit.models.secure_aggregation.form:SecureAggregation",
    "pan-private": "tacit.models.pan_private.form:PanPrivate",
    "pan-private-single": "tacit.models.pan_private_single.form:PanPrivateSingle",
    "local": "tacit.models.local.form:Local",
    "shuffled": "tacit.models.shuffled.form:Shuffled",
}
"""What every reader of a recipe knows about its model (``tacit.models.form.Form``)."""

DEVICE_SIDES: Final = {
    "secure-aggregation": "tacit.models.secure_aggregation.device:SecureAggregationDevice",
    "pan-private": "tacit.models.pan_private.device:PanPrivateDevice",
    "pan-private-single": "tacit.models.pan_private_single.device:PanPrivateSingleDevice",
    "local": "tacit.models.local.device:LocalDevice",
    "shuffled": "tacit.models.shuffled.device:ShuffledDevice",
    "through-shuffler": "tacit.models.interfaces.mixed:MixedDevice",
    "dap-19": "tacit.models.secure_aggregation.device:Dap19Device",
}
"""What a device sends, by the names under which devices store it: the last two are of no model of their own."""

COLLECTOR_SIDES: Final = {
    "secure-aggregation": "tacit.models.secure_aggregation.collector:SecureAggregationCollector",
    "pan-private": "tacit.models.secure_aggregation.collector:SecureAggregationCollector",
    "pan-private-single": "tacit.models.pan_private_single.collector:PanPrivateSingleCollector",
    "local": "tacit.models.local.collector:LocalCollector",
    "shuffled": "tacit.models.shuffled.collector:ShuffledCollector",
}
"""How a model's aggregate becomes a release."""

SERVER_SIDES: Final = {
    "pan-private-single": "tacit.models.pan_private_single.server:PanPrivateSingleServer",
    "local": "tacit.models.local.server:LocalServer",
    "shuffled": "tacit.models.shuffled.server:ShuffledServer",
}
"""What the analyzer does for a model with one server that opens reports."""

SHUFFLER_SIDES: Final = {
    "shuffled": "tacit.models.shuffled.server:ShufflerServer",
    "secure-aggregation": "tacit.models.secure_aggregation.server:MixingServer",
    "pan-private": "tacit.models.secure_aggregation.server:MixingServer",
}
"""What the shuffler does for a model that has one, or may have one."""

WAYS: Final = {"shuffled": "tacit.accounting.shuffled_ways:ShuffledWays"}
"""What the ways to ask of a model cost (``tacit.accounting.model_ways.ModelWays``), by the model. Those of secure
aggregation and of the local model, with which all are compared, are in ``tacit.accounting.alternatives``."""

PAN_PRIVACY: Final[ByName[Any]] = ByName(
    {
        "check-public-key": "tacit.panprivate.elgamal:PublicKey",
        "ciphertexts-of-cell": "tacit.panprivate.stored:PARTS",
        "sealed-share-size": "tacit.panprivate.two_servers:sealed_size",
    }
)
"""What readers of recipes need of local pan-privacy, once a recipe's devices watch an event."""

STATE_KEYS: Final[ByName[Any]] = ByName(
    {
        "open-share": "tacit.panprivate.two_servers:opened_share",
        "generate-state-key": "tacit.aggregator.state_keys:generate_state_key",
        "write-state-key": "tacit.aggregator.state_keys:write_state_key",
        "read-state-key": "tacit.aggregator.state_keys:read_state_key",
        "read-state-keys": "tacit.aggregator.state_keys:read_state_keys",
    }
)
"""What servers need of it that hold a key to what devices keep, and whoever makes such a key."""

WATCHED_STATE: Final[ByName[Any]] = ByName(
    {
        "watches": "client_agent.panprivate.watches:Watches",
        "folder": "client_agent.panprivate.state_files:FOLDER",
        "keep-watches": "client_agent.panprivate.listening:keep_watches",
        "plan-of": "client_agent.panprivate.recipes:plan_of",
        "side-of": "client_agent.panprivate.recipes:watched_side",
        "watch": "client_agent.panprivate.watch:EventWatch",
        "erase-file": "client_agent.panprivate.slots:erase_file",
    }
)
"""What a device needs of it: to watch, and what it needs once it watches an event or holds a file of a state."""

MODEL_TRAINING: Final[ByName[Any]] = ByName(
    {
        "model-files": "client_agent.learning.model_files:ModelFiles",
        "trainer": "client_agent.learning.training:Trainer",
    }
)
"""What a device needs to answer rounds that train a model; without it, it never has what they ask for."""

FEATURE_RULES: Final[ByName[Any]] = ByName(
    {
        "state-key-invalid": "tacit.rules.watching:state_keys",
        "watch-question": "tacit.rules.watching:watch_question",
        "watch-randomizer": "tacit.rules.watching:watch_randomizer",
        "watch-form": "tacit.rules.watching:watch_form",
        "watch-period": "tacit.rules.watching:watch_period",
        "watch-work": "tacit.rules.watching:watch_work",
        "decryption-bound": "tacit.rules.watching:decryption_bounded",
    }
)
"""Rules on the recipes of one feature (``tacit.recipe.context.Check``), by their names in ``tacit.rules.table``."""

OUTLOOKS: Final[ByName[Any]] = ByName(
    {
        "watched": "tacit.operations.watched_outlook:watched_outlook",
        "ranked": "tacit.operations.search_outlook:search_outlook",
    }
)
"""What features expect of a recipe, by the members of ``tacit.operations.outlook.Outlook``'s document: functions of a
recipe, whose result is a dataclass, or None where they say nothing of it."""

OUTLOOK_LINES: Final[ByName[Any]] = ByName(
    {
        "watched": "infra.views.watched_outlook:watched_lines",
        "ranked": "infra.views.search_outlook:search_lines",
    }
)
"""The same in sentences: functions of a recipe and its outlook, by the same names."""

ADMIN_TEXTS: Final = {"plan": "services.admin.questions.learning:PlanKind"}
"""Texts that an analyst may write beside surveys (``services.admin.questions.texts.TextKind``)."""

ADMIN_ROUTES: Final[ByName[Any]] = ByName({"learning": "services.admin.handlers.learning:ROUTES"})
"""Routes of the admin API that belong to a feature."""

ADMIN_EXAMPLES: Final[ByName[Any]] = ByName({"learning": "services.admin.api.learning_examples:EXAMPLES"})
"""Examples of the documents of these routes, by the documents' names."""

ADMIN_PAGES: Final[ByName[Any]] = ByName({"learning": "services.admin.pages.learning.plans:PAGES"})
"""Pages of the dashboard that belong to a feature."""


def tables() -> dict[str, Mapping[str, str]]:
    """Every table of this module by its name, for whoever has to know what a module that imports one may import."""
    named = {name: value for name, value in globals().items() if name.isupper()}
    return {name: value.places if isinstance(value, ByName) else value for name, value in named.items()}
