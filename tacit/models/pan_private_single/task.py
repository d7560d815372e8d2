"""The task of a recipe of model ``pan-private-single``, as devices, the analyzer and the collector derive it."""

from __future__ import annotations

from tacit.models.pan_private_single.form import ANALYZER, analyzer_of
from tacit.panprivate.elgamal import ciphertext_size
from tacit.recipe.derive import hpke_config, labels, slot_of
from tacit.recipe.model import Recipe
from tacit.task.one_server import OneServerTask


def one_server_task(recipe: Recipe, token_key_spki: bytes) -> OneServerTask:
    """The recipe's task; ``token_key_spki`` is the slot's key from the issuer's directory leaf. Raises refusal
    ``model-unsupported`` for a model with another kind of task, ``hpke-key-invalid`` or ``task-hpke``."""
    analyzer = analyzer_of(recipe.parties)
    cells = len(labels(recipe))
    return OneServerTask(
        recipe_hash=recipe.hash,
        role=ANALYZER,
        server_url=analyzer.url,
        hpke_config=hpke_config(analyzer.hpke_config),
        cells=cells,
        payload_size=cells * ciphertext_size(),
        start_seconds=recipe.interval.start,
        end_seconds=recipe.interval.end,
        min_batch_size=recipe.batch.min_batch_size,
        expected_contributions=recipe.batch.expected_contributions,
        slot=slot_of(recipe),
        token_key_spki=token_key_spki,
    )
