"""What every party derives from a recipe, with the same result: task configuration, task, VDAF, randomizer, slot.

Nothing here checks a recipe against a policy (``tacit.rules.table`` does); a recipe from which nothing can be derived
raises a ``Refusal`` with the rule's name.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tacit import hpke
from tacit.codec import unb64url
from tacit.curve25519 import checked_public_key
from tacit.errors import DecodeError, Refusal
from tacit.extension_points import PAN_PRIVACY
from tacit.messages import (
    BatchMode,
    HpkeConfig,
    Interval,
    TaskConfiguration,
    TaskExtension,
)
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import Method
from tacit.methods.base.proof import NORM_PROOF, NormProof
from tacit.methods.base.statistics import STATISTICS, Shape
from tacit.methods.registry import method_named
from tacit.models.forms import form_of
from tacit.models.parties import Aggregator
from tacit.models.secure_aggregation.form import aggregators_of
from tacit.recipe.encoder_specs import Attributes, Buckets, Categories, Occurrences, Prefixes, Range, Strings, Vector
from tacit.recipe.model import Question, Recipe
from tacit.recipe.quantity import exact
from tacit.recipe.randomised import RandomizerSpec, Sampling, VdafSpec
from tacit.task import MODE_OF_CLOSE, BatchClose, Task, task_id_of
from tacit.tokens.slots import Slot
from tacit.vdaf.prio3 import Prio3
from tacit.vdaf.registry import prio3_named, vdaf_configuration


def mode_of_close(close: str) -> str:
    """The ``mode`` of a recipe's batch that belongs to its ``close`` (P13)."""
    return MODE_OF_CLOSE[BatchClose(close)].name.lower()


def vdaf_spec(recipe: Recipe) -> VdafSpec:
    """The VDAF that the recipe names. Raises refusal ``vdaf-parameters`` where its model has none."""
    if recipe.vdaf is None:
        raise Refusal("vdaf-parameters", f"a recipe of model {recipe.model} names no VDAF")
    return recipe.vdaf


def vdaf_of(recipe: Recipe) -> Prio3[Any]:
    """The recipe's VDAF for two aggregators. Raises refusal ``vdaf-parameters`` for impossible parameters."""
    spec = vdaf_spec(recipe)
    try:
        bounds = (spec.max_weight, spec.max_measurement, spec.vector_members)
        return prio3_named(spec.name, spec.length, spec.chunk_length, *bounds)
    except ValueError as error:
        raise Refusal("vdaf-parameters", f"{spec.name} cannot be made: {error}") from error


def task_configuration(recipe: Recipe) -> TaskConfiguration:
    """The DAP task configuration; ``task_info`` is the recipe's hash. Raises refusal ``interval-unaligned`` or
    ``vdaf-parameters``."""
    vdaf, parties = vdaf_of(recipe), aggregators_of(recipe.parties)
    precision = recipe.batch.time_precision
    if recipe.interval.start % precision or recipe.interval.duration % precision:
        raise Refusal("interval-unaligned", f"start and duration must be multiples of {precision} seconds")
    interval = Interval(recipe.interval.start // precision, recipe.interval.duration // precision)
    return TaskConfiguration(
        task_info=recipe.hash,
        leader_aggregator_endpoint=parties.leader.url,
        helper_aggregator_endpoint=parties.helper.url,
        time_precision=precision,
        min_batch_size=recipe.batch.min_batch_size,
        batch_mode=BatchMode[recipe.batch.mode.upper()],
        batch_config=b"",
        vdaf_type=vdaf.ID,
        vdaf_configuration=vdaf_configuration(vdaf),
        extensions=(TaskExtension.task_interval(interval),),
    )


def task_id(recipe: Recipe) -> bytes:
    """The task id (32 bytes) that taskprov derives from the configuration; for a model without a DAP task the recipe's
    hash. Raises refusal ``model-unsupported``, and those of ``task_configuration``."""
    if not form_of(recipe.model).proves:
        return recipe.hash
    found: bytes | None = recipe.derived.get("task id")
    if found is None:
        found = recipe.derived["task id"] = task_id_of(task_configuration(recipe))
    return found


def task_id_at(recipe: Recipe, role: str) -> bytes:
    """The id under which the server in this ``role`` knows the recipe: the task id, or, for a shuffler, which has no
    part in the DAP task, the recipe's hash. Raises as ``task_id``."""
    return task_id(recipe) if confirms(recipe, role) else recipe.hash


def confirms(recipe: Recipe, role: str) -> bool:
    """Whether the opt-in of this ``role`` confirms a verify key: that of leader and helper does."""
    form = form_of(recipe.model)
    return form.proves and role in form.opts_in


def task_of(recipe: Recipe, token_key_spki: bytes) -> Task:
    """The recipe's task; ``token_key_spki`` is the slot's key from the issuer's directory leaf. Raises a refusal where
    it cannot be derived."""
    parties = aggregators_of(recipe.parties)
    task = Task.from_configuration(
        task_configuration(recipe),
        leader_hpke_config=hpke_config(parties.leader.hpke_config),
        helper_hpke_config=hpke_config(parties.helper.hpke_config),
        collector_hpke_config=hpke_config(parties.collector.hpke_config),
        slot=slot_of(recipe),
        token_key_spki=token_key_spki,
        batch_close=BatchClose(recipe.batch.close),
        expected_contributions=recipe.batch.expected_contributions,
        version=recipe.dap,
        aggregator_flips=recipe.aggregator_flips,
        publishes_share=recipe.is_census,
        leader_state_key=state_key(parties.leader),
        helper_state_key=state_key(parties.helper),
    )
    return replace(task, is_mixed=True) if form_of(recipe.model).is_mixed(parties) else task


@lru_cache(maxsize=64)
def hpke_config(text: str) -> HpkeConfig:
    """Decode an embedded HPKE configuration; a key for X25519 must be usable for sealing. Raises refusal
    ``hpke-key-invalid``."""
    try:
        config = HpkeConfig.decode(unb64url(text))
        if config.kem_id == hpke.KEM_X25519:
            checked_public_key(config.public_key)
    except DecodeError as error:
        raise Refusal("hpke-key-invalid", str(error)) from error
    return config


def state_key(party: Aggregator) -> bytes | None:
    """The key (32 bytes) to which devices encrypt their state for this aggregator; ``None`` in models without one.
    Raises refusal ``state-key-invalid`` for bytes that are not a key, or a key that would hide nothing."""
    if party.state_key_text is None:
        return None
    try:
        key = unb64url(party.state_key_text)
        PAN_PRIVACY["check-public-key"](key)
    except DecodeError as error:
        raise Refusal("state-key-invalid", str(error)) from error
    return key


def randomizer_of(recipe: Recipe) -> Method:
    """The method that the recipe names, for its proof. Raises refusal ``randomizer-parameters``."""
    found = recipe.derived.get("randomizer")
    if found is None:
        found = recipe.derived["randomizer"] = _randomizer_of(recipe)
    method: Method = found
    return method


def _randomizer_of(recipe: Recipe) -> Method:
    spec, members = recipe.randomizer, members_of(recipe.randomizer)
    try:
        method = method_named(spec.name)
    except ValueError as error:
        raise Refusal("randomizer-parameters", str(error)) from error
    wrong = method.stated_wrongly(members)
    if wrong is not None:
        raise Refusal("randomizer-parameters", wrong)
    try:
        made = method.of(shape_of(recipe.question), members, recipe.aggregator_flips)
        proved = norm_proof_of(recipe)
        return made if proved is None else made.proving_norm(proved)
    except ValueError as error:
        stated = ", ".join(f"{name} {members[name]}" for name in method.MEMBERS)
        raise Refusal("randomizer-parameters", f"{spec.name} with {stated}: {error}") from error


def norm_proof_of(recipe: Recipe) -> NormProof | None:
    """Of which vector the recipe's VDAF proves the length, by whether it has noise of its own; None: of none."""
    if recipe.vdaf is None or recipe.vdaf.name != NORM_PROOF:
        return None
    vector = recipe.vdaf.vector
    return NormProof.VALUES if vector is not None and vector.flips else NormProof.SUM


def members_of(spec: RandomizerSpec) -> dict[str, int | Decimal]:
    """The members beside the name, as numbers."""
    stated = spec.model_dump(exclude={"name"}, exclude_none=True)
    return {name: Decimal(value) if isinstance(value, str) else value for name, value in stated.items()}


def shape_of(question: Question) -> Shape:
    """The question in the form that methods take. The labels of a vector, of which there may be a million, are not
    generated."""
    statistic, encoder = STATISTICS[question.statistic], question.encoder
    if isinstance(encoder, Occurrences) and statistic.is_ratio:
        return Shape(statistic, 1, 0, encoder.most)
    if isinstance(encoder, Strings):
        return Shape(statistic, 0, item_bits=encoder.bits)
    if isinstance(encoder, Prefixes):
        return Shape(statistic, encoder.cells)
    if not isinstance(encoder, Range):
        return Shape(statistic, _cells_of(question))
    if statistic.is_one_hot:
        return Shape(statistic, encoder.maximum + 1)
    cells, norm = (encoder.length, exact(encoder.norm)) if isinstance(encoder, Vector) else (1, None)
    return Shape(statistic, cells, encoder.least, encoder.most, encoder.step, norm)


def _cells_of(question: Question) -> int:
    """How many numbers the answer to a question about categories or events has: the labels of its encoder."""
    encoder = question.encoder
    if isinstance(encoder, Buckets | Categories):
        named = len(encoder.edges) if isinstance(encoder, Buckets) else len(encoder.categories)
        return named + (encoder.other is not None) + (encoder.missing is not None)
    if isinstance(encoder, Attributes):
        return math.prod(map(len, encoder.attributes.values())) + (encoder.missing is not None)
    one_hot = isinstance(encoder, Occurrences) and STATISTICS[question.statistic].is_one_hot
    return encoder.most + 1 if isinstance(encoder, Occurrences) and one_hot else 1


def is_watched(recipe: Recipe) -> bool:
    """Whether devices watch an event for the recipe, and answer from the state that they kept."""
    return bool(form_of(recipe.model).watched)


def design_of(recipe: Recipe) -> SampleDesign:
    """The probabilities with which devices send. Raises refusal ``sampling-rate``."""
    try:
        return sample_design(recipe.sampling)
    except ValueError as error:
        raise Refusal("sampling-rate", str(error)) from error


def sample_design(sampling: Sampling) -> SampleDesign:
    """The probabilities as numbers. ``ValueError`` for invalid ones."""
    importance = sampling.importance
    return SampleDesign(
        float(sampling.rate),
        None if importance is None else importance.default,
        None if importance is None else float(importance.default_rate),
        float(sampling.dummy_rate),
    )


def slot_of(recipe: Recipe) -> Slot:
    """The slot whose tokens the recipe spends, as challenges and directories name it."""
    return Slot(recipe.token.issuer, recipe.token.epoch, recipe.token.slot)
