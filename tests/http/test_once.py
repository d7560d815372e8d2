"""What one log may hold once (``tacit.tlog.once``): the log refuses the second leaf before a witness sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.lab.kit.recipes import CENSUS_ATTRIBUTES
from tacit.codec import b64url
from tacit.recipe.model import Recipe
from tacit.service.base.secret_files import write_secret
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.once import KINDS, claims_of, signers_claims_of
from tests.http.test_recipe_server import COLLECTOR, KIT, Server

CENSUS = KIT.census(slot=3)
SERIES = KIT.series(2, 2)
ROUND = KIT.round(SERIES)
RECIPE = KIT.recipe(slot=2)
FIRST = [
    KIT.directory_leaf(),
    KIT.ohttp_leaf(),
    KIT.recipe_leaf(RECIPE),
    KIT.recipe_leaf(CENSUS),
    KIT.series_leaf(SERIES),
    KIT.recipe_leaf(ROUND),
    *(KIT.opt_in_leaf(recipe, role) for recipe in (RECIPE, CENSUS) for role in ("leader", "helper")),
]
COUNTS = (400, 20, 20, 20, 20, 20)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(tmp_path / "collector.token", COLLECTOR.encode())
    running = Server(tmp_path)
    await running.start(policy=KIT.policy.model_copy(update={"attributes": dict(CENSUS_ATTRIBUTES)}))
    yield running
    await running.network.close()


def again(leaf: SignedLeaf, **members: object) -> SignedLeaf:
    """The same signer's leaf with other members."""
    key = KIT.keys[leaf.signer.partition(".")[0]]
    return sign_leaf(leaf.type, {**leaf.body, **members}, leaf.signer, key)


async def test_every_kind_of_second_leaf_is_refused_by_the_log_itself(server: Server) -> None:
    await server.publish(*FIRST)
    early = [
        ("directory-exists", KIT.directory_leaf(slots=3)),
        ("ohttp-config-exists", KIT.ohttp_leaf()),
        ("slot-taken", KIT.recipe_leaf(KIT.recipe(slot=2, name="another"))),
        ("series-round", KIT.recipe_leaf(Recipe.from_body({**ROUND.body(), "token": RECIPE.body()["token"]}))),
        ("opt-in-exists", again(KIT.opt_in_leaf(RECIPE, "leader"), seed_id="seed-2")),
    ]
    assert [await server.refused(leaf) for _, leaf in early] == [rule for rule, _ in early]
    share = KIT.census_share_leaf(CENSUS, "leader", sum(COUNTS), COUNTS)
    void = KIT.void_leaf(RECIPE, "leader")
    late = [
        ("census-share-exists", again(share, report_count=sum(COUNTS) + 1)),
        ("void-mismatch", again(void, task_id=b64url(bytes(32)))),
        ("series-end-exists", KIT.series_end_leaf(SERIES, "log")),
    ]
    end = KIT.series_end_leaf(SERIES)
    server.clock.jump(CENSUS.interval.end - server.clock.now())
    await server.publish(share, void, end)
    assert [await server.refused(leaf) for _, leaf in late] == [rule for rule, _ in late]
    held = {claim for leaf in (*FIRST, share, void, end) for claim in claims_of(leaf)}
    taken = [held & set(claims_of(leaf)) for _, leaf in (*early, *late)]
    assert all(taken)
    assert {claim.split(" ")[0] for claims in taken for claim in claims} == KINDS


def test_a_claim_is_made_of_names_and_numbers_alone() -> None:
    leaf = KIT.directory_leaf()
    assert claims_of(leaf) == signers_claims_of(leaf) == (f"directory issuer.example {leaf.body['epoch']}",)
    assert claims_of(KIT.series_leaf(SERIES)) == ()
    assert signers_claims_of(KIT.recipe_leaf(RECIPE)) == ()
    key = KIT.keys["issuer"]
    for spoilt in (None, True, 1.5, [1], "two words", "", "x" * 2000):
        body = {"issuer": "issuer.example", "epoch": spoilt}
        assert claims_of(SignedLeaf(LeafType.ISSUER_DIRECTORY, body, "issuer.example", key.public)) == ()
