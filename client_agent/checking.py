"""Reads a device's files and data as its agent does, for the device's owner, before anything is asked or sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from client_agent.config import AgentConfig
from client_agent.data import audience
from client_agent.data.sources import Reading, open_source, read
from tacit.adapters.disk.files import read_bounded
from tacit.errors import DecodeError, UsageError
from tacit.recipe.derive import is_watched
from tacit.recipe.encoder import misread
from tacit.recipe.model import Recipe
from tacit.recipe.policy import parse_policy
from tacit.service.base.config_files import MOST_BYTES
from tacit.service.base.secret_files import read_secret
from tacit.tokens.attestation import SoftwareDevice


def check_files(config: AgentConfig) -> None:
    """Raise ``UsageError`` for an identity or a policy that no agent could use."""
    try:
        SoftwareDevice.from_pem(read_secret(config.attestation.identity))
    except DecodeError as error:
        raise UsageError(f"{config.attestation.identity}: {error}") from error
    parse_policy(read_bounded(config.policy, MOST_BYTES), config.policy.name)


async def findings(config: AgentConfig, metrics: Sequence[str], recipe: Recipe | None) -> dict[str, Reading]:
    """By metric, what this device would answer to ``recipe`` and for these ``metrics``; without either, for each metric
    that its source names. Raises ``UsageError`` where it names none, or cannot name them."""
    source = open_source(config.source)
    readings = {one: await read(partial(source.value, one)) for one in metrics}
    if recipe is not None:
        if is_watched(recipe):
            raise UsageError(f"{recipe.name} watches events, which no file holds; tacit agent state shows what is kept")
        question = recipe.question
        reading = await read(partial(audience.datum, question, config.attributes, source))
        readings[question.metric] = replace(reading, trouble=reading.trouble or misread(question, reading.value))
    return readings or {one: await read(partial(source.value, one)) for one in source.metrics()}
