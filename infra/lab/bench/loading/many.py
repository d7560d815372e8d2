"""Publishes any number of recipes at once, each on a slot of its own (``issuers``)."""

from __future__ import annotations

from collections.abc import Sequence

from infra.lab.bench.loading.contributions import Order
from infra.lab.bench.loading.issuers import SLOTS, BenchIssuer, publish_directories
from infra.lab.bench.loading.live import LiveStack, survey_of
from infra.stacks.layout import signing_key_of
from tacit.operations.calls import call
from tacit.recipe.model import Recipe
from tacit.recipe.writing.builder import propose
from tacit.tlog.leaves import LeafType, sign_leaf


async def publish_many(
    stack: LiveStack, issuers: Sequence[BenchIssuer], tasks: int, batch: int, population: int, seconds: int
) -> list[Order]:
    """Publish ``tasks`` recipes of ``BUCKETS`` buckets with batches of exactly ``batch``, whose interval of ``seconds``
    has begun, wait until all are live, and return what contributions to them are made from."""
    await publish_directories(stack.transport, stack.layout, issuers, stack.epoch())
    recipes = _recipes(stack, issuers, tasks, batch, population, seconds)
    key = signing_key_of(stack.layout)
    for recipe in recipes:
        leaf = sign_leaf(LeafType.RECIPE, recipe.body(), recipe.parties.analyst.operator, key)
        await call(stack.transport, "POST", f"{stack.layout.urls['recipe_server']}/v1/leaves", body=leaf.encode())
    await stack.until_served(recipes)
    slots = [slot for issuer in issuers for slot in issuer.slots]
    return [Order(recipe, slot, stack.layout.gateway_key_config) for recipe, slot in zip(recipes, slots, strict=True)]


def _recipes(
    stack: LiveStack, issuers: Sequence[BenchIssuer], tasks: int, batch: int, population: int, seconds: int
) -> list[Recipe]:
    """Make the first recipe from a survey; the others differ from it in name and token only, and so not in their
    claim."""
    survey = survey_of(
        "soak-0",
        seconds // 60 * 60,
        population=population,
        min_batch_size=batch,
        epoch=stack.epoch(),
        slot=0,
        close="at_B",
    )
    parties = [stack.layout.parties.model_copy(update={"issuer": one.party}) for one in issuers]
    body = propose(survey, parties[0]).body()
    made = []
    for number in range(tasks):
        issuer, slot = divmod(number, SLOTS)
        token = {**body["token"], "issuer": issuers[issuer].name, "slot": slot}
        named = {**body["parties"], "issuer": issuers[issuer].party.model_dump(mode="json")}
        made.append(Recipe.from_body({**body, "name": f"soak-{number}", "token": token, "parties": named}))
    return made
