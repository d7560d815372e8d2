"""Leaves, bundles and the reader's view of the log."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.recipes import EPOCH, NOW, RecipeKit, changed
from tacit.codec import b64url, unb64url
from tacit.errors import CryptoError, DecodeError, Refusal
from tacit.logview.live import LiveLog
from tacit.logview.signers import LeafSigners
from tacit.logview.view import Bundle, LogState, LogView
from tacit.recipe.context import Stage
from tacit.recipe.policy import Policy
from tacit.rules.table import check
from tacit.signing import signing_key_from_private
from tacit.tlog.canonical import canonical_bytes, parse_json
from tacit.tlog.checkpoint import Checkpoint, LogPolicy, sign_checkpoint
from tacit.tlog.entries import BundleEntry
from tacit.tlog.hashes import Hashes
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.log import MemoryTree
from tacit.tlog.merkle import prove_consistency, prove_inclusion
from tacit.tlog.once import claims_of
from tacit.tlog.pages import Head, decode_page
from tacit.tlog.statements import OptIn, SeriesEnd
from tacit.tlog.token_directories import IssuerDirectory

KIT = RecipeKit()
RECIPE = KIT.recipe()
KEY = signing_key_from_private(bytes(32))
LEAVES = [
    KIT.directory_leaf(),
    KIT.ohttp_leaf(),
    KIT.recipe_leaf(RECIPE),
    KIT.opt_in_leaf(RECIPE, "leader"),
    KIT.opt_in_leaf(RECIPE, "helper"),
]


class Everyone:
    """A lookup that gives the same key for every leaf."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    def keys_of(self, leaves: Sequence[SignedLeaf]) -> list[bytes | None]:
        return [self._key] * len(leaves)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(texts, values, max_size=4), st.sampled_from(LeafType), texts)
def test_the_body_of_a_decoded_entry_is_its_canonical_form(body: dict[str, Any], kind: LeafType, name: str) -> None:
    leaf = sign_leaf(kind, body | {name: '"signature":"'}, "analyst.example", KEY)
    again = SignedLeaf.decode(leaf.encode())
    assert again == leaf
    assert again.body_bytes() == canonical_bytes(again.body) == leaf.body_bytes()
    again.verify(KEY.public)


HASHES = st.binary(min_size=32, max_size=32).map(b64url)


@given(HASHES, st.sampled_from(["analyst", "log"]), st.dictionaries(st.sampled_from(["round", "until"]), values))
def test_the_end_of_a_series_is_read_as_it_was_written_and_has_no_other_members(
    text: str, role: Literal["analyst", "log"], more: dict[str, Any]
) -> None:
    body = SeriesEnd(series_hash=text, role=role)
    again = SignedLeaf.decode(sign_leaf(LeafType.SERIES_END, body, "analyst.example", KEY).encode())
    assert again.body_as(SeriesEnd) == body
    assert claims_of(again) == (f"series-end {text}",)
    strange = sign_leaf(LeafType.SERIES_END, body.canonical() | more, "analyst.example", KEY)
    if more:
        with pytest.raises(DecodeError):
            SignedLeaf.decode(strange.encode()).body_as(SeriesEnd)


def bundle_of(leaves: Sequence[bytes], since: int = 0, policy: LogPolicy = KIT.log_policy) -> Bundle:
    tree = MemoryTree(leaves)
    return Bundle(
        sign_checkpoint(Checkpoint(policy.origin, tree.size, tree.root()), KIT.keys["log"]),
        tuple(prove_consistency(tree.read, since, tree.size)),
        tuple(
            BundleEntry(index, leaf, tuple(prove_inclusion(tree.read, index, tree.size)))
            for index, leaf in enumerate(leaves)
        ),
    )


ENTRIES = [leaf.encode() for leaf in LEAVES]
BUNDLE = bundle_of(ENTRIES)


def new_view(state: LogState | None = None) -> LogView:
    return LogView(KIT.log_policy, state)


def refused(view: LogView, bundle: Bundle, policy: Policy = KIT.policy) -> str:
    with pytest.raises(Refusal) as caught:
        view.accept(bundle, LeafSigners(policy))
    return caught.value.rule


def test_a_leaf_is_the_canonical_json_of_its_members() -> None:
    leaf = sign_leaf(LeafType.OHTTP_CONFIG, {"b": 1, "a": "x"}, "someone", KEY)
    assert leaf.encode().startswith(b'{"body":{"a":"x","b":1},"signature":"')
    assert leaf.encode().endswith(b'","signer":"someone","type":"ohttp-config","version":1}')
    assert SignedLeaf.decode(leaf.encode()) == leaf
    leaf.verify(KEY.public)


def test_a_signature_is_bound_to_type_and_body() -> None:
    leaf = sign_leaf(LeafType.RECIPE, {"a": 1}, "someone", KEY)
    for wrong in (
        dataclasses.replace(leaf, type=LeafType.OPT_IN),
        dataclasses.replace(leaf, body={"a": 2}),
        dataclasses.replace(leaf, signature=bytes(64)),
    ):
        with pytest.raises(CryptoError):
            wrong.verify(KEY.public)
    with pytest.raises(CryptoError):
        leaf.verify(signing_key_from_private(b"\x01" * 32).public)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("type", "nothing"),
        ("version", 2),
        ("version", True),
        ("body", []),
        ("signer", ""),
        ("signer", "has space"),
        ("signature", "AAAA"),
        ("signature", ""),
        ("extra", 1),
    ],
)
def test_malformed_leaves_are_refused_by_member(member: str, value: Any) -> None:
    plain = parse_json(LEAVES[0].encode(), "leaf")
    with pytest.raises(DecodeError, match=r"^leaf"):
        SignedLeaf.decode(canonical_bytes({**plain, member: value}))


def test_a_leaf_that_no_entry_bundle_can_hold_is_refused() -> None:
    leaf = sign_leaf(LeafType.RECIPE, {"a": "x" * 65_536}, "someone", KEY)
    with pytest.raises(DecodeError, match="at most 65535"):
        SignedLeaf.decode(leaf.encode())


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
json_values = st.recursive(
    st.integers(-(2**53) + 1, 2**53 - 1) | names | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(names, json_values, max_size=4), st.sampled_from(LeafType))
def test_leaves_round_trip(body: dict[str, Any], leaf_type: LeafType) -> None:
    leaf = sign_leaf(leaf_type, body, "someone", KEY)
    again = SignedLeaf.decode(leaf.encode())
    assert again == leaf
    again.verify(KEY.public)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_leaf_bundle_or_state(data: bytes) -> None:
    for decode in (SignedLeaf.decode, Head.decode, decode_page, Hashes.decode, LogState.decode):
        with pytest.raises(DecodeError):
            decode(data)


def test_bodies_are_strict() -> None:
    directory = KIT.directory()
    plain = directory.canonical()
    for wrong in (
        {**plain, "keys": []},
        {**plain, "keys": list(reversed(plain["keys"]))},
        {**plain, "keys": [plain["keys"][0], {**plain["keys"][1], "token_key": plain["keys"][0]["token_key"]}]},
        {**plain, "epoch": -1},
        {**plain, "epoch_seconds": 0},
        {**plain, "other": 1},
    ):
        with pytest.raises(DecodeError, match=r"^issuer-directory"):
            sign_leaf(LeafType.ISSUER_DIRECTORY, wrong, "someone", KEY).body_as(IssuerDirectory)
    config = LEAVES[1].body_as(OhttpConfig)
    assert [config.usable(config.start + at * config.rotation_seconds) for at in (-1, 0, 1, 2)] == [0, 1, 1, 0]
    for change in ({"previous": config.active}, {"rotation_seconds": 59}, {"period": -1}, {"not_after": 1}):
        with pytest.raises(DecodeError, match=r"^ohttp-config"):
            sign_leaf(LeafType.OHTTP_CONFIG, {**config.canonical(), **change}, "someone", KEY).body_as(OhttpConfig)
    opt_in = KIT.opt_in(RECIPE, "leader").canonical()
    for wrong_part in ({"role": "no role"}, {"task_id": "AAAA"}, {"seed_id": ""}):
        with pytest.raises(DecodeError, match=r"^opt-in"):
            sign_leaf(LeafType.OPT_IN, {**opt_in, **wrong_part}, "someone", KEY).body_as(OptIn)
    assert (directory.start, directory.end) == (EPOCH * 86_400, (EPOCH + 1) * 86_400)
    assert directory.spki(99) is None


@given(st.integers(0, 2**53 - 1), st.binary(min_size=32, max_size=32), names, st.binary(max_size=40))
def test_any_state_round_trips(size: int, root: bytes, failure: str, evidence: bytes) -> None:
    state = LogState(size, root, failure, evidence)
    assert LogState.decode(state.encode()) == state


def test_a_good_bundle_is_accepted_and_its_recipe_passes_the_rules() -> None:
    view = new_view()
    live = LiveLog.from_entries(view.accept(BUNDLE, LeafSigners(KIT.policy)))
    (found,) = live.recipes
    assert found.recipe == RECIPE
    assert found.opted_in
    assert check(found.recipe, KIT.policy, live.context(found, NOW)) == []
    assert live.recipe(RECIPE.hash) is found
    assert live.recipe(bytes(32)) is None
    assert [config.gateway for config in live.ohttp_configs] == ["gateway.example"]
    assert live.directory("issuer.example", EPOCH) == KIT.directory()
    assert view.state.size == len(ENTRIES)


def test_without_pinned_keys_those_of_the_logged_recipes_count() -> None:
    live = LiveLog.from_entries(new_view().accept(BUNDLE, LeafSigners(Policy())))
    assert check(live.recipes[0].recipe, Policy(), live.context(live.recipes[0], NOW)) == []
    assert live.directories
    assert live.ohttp_configs


def test_leaves_of_signers_without_a_part_are_left_out() -> None:
    alone = bundle_of([ENTRIES[0], ENTRIES[1], ENTRIES[3]])
    assert new_view().accept(alone, LeafSigners(Policy())) == []
    nobody = KIT.policy.model_copy(update={"issuers": {}, "gateways": {}})
    assert new_view().accept(alone, LeafSigners(nobody)) == []
    assert new_view().accept(BUNDLE, Everyone(None)) == []
    odd = [
        sign_leaf(leaf_type, {"a": 1}, "someone", KEY).encode()
        for leaf_type in (LeafType.RECIPE, LeafType.OPT_IN, LeafType.ISSUER_DIRECTORY, LeafType.OHTTP_CONFIG)
    ]
    assert new_view().accept(bundle_of(odd), LeafSigners(KIT.policy)) == []
    impostor = dataclasses.replace(LEAVES[2], signer="someone.example").encode()
    assert new_view().accept(bundle_of([impostor]), LeafSigners(KIT.policy)) == []


def left_out(view: LogView) -> list[tuple[int, str]]:
    return [(one.index, one.rule) for one in view.left_out]


def test_a_leaf_with_a_wrong_signature_is_left_out_and_the_others_are_read() -> None:
    for position in range(len(LEAVES)):
        leaves, view = list(ENTRIES), new_view()
        leaves[position] = dataclasses.replace(LEAVES[position], signature=bytes(64)).encode()
        found = view.accept(bundle_of(leaves), LeafSigners(KIT.policy))
        assert [entry.index for entry in found] == [at for at in range(len(LEAVES)) if at != position]
        assert left_out(view) == [(position, "leaf-signature")]


@pytest.mark.parametrize("strange", [b"{}", b"[" * 60_000, b'{"a":' * 700 + b"1" + b"}" * 700, b"\xff"])
def test_a_leaf_that_is_none_is_left_out_even_if_included(strange: bytes) -> None:
    view = new_view()
    assert len(view.accept(bundle_of([*ENTRIES, strange]), LeafSigners(KIT.policy))) == len(ENTRIES)
    assert left_out(view) == [(len(ENTRIES), "leaf-malformed")]
    again = new_view(view.state)
    again.accept(bundle_of([*ENTRIES, strange], since=len(ENTRIES) + 1), LeafSigners(KIT.policy))


@pytest.mark.parametrize("changes", [{"type": "receipt"}, {"version": 2}, {"type": "receipt", "more": True}])
def test_a_leaf_of_a_kind_that_came_later_is_left_out_and_the_others_are_read(changes: dict[str, Any]) -> None:
    """Included it must be all the same."""
    later = canonical_bytes({**json.loads(ENTRIES[0]), **changes})
    found = new_view().accept(bundle_of([*ENTRIES, later]), LeafSigners(KIT.policy))
    assert [entry.leaf for entry in found] == [
        entry.leaf for entry in new_view().accept(BUNDLE, LeafSigners(KIT.policy))
    ]
    assert len(found) == len(ENTRIES)
    bundle = bundle_of([*ENTRIES, later])
    last = dataclasses.replace(bundle.entries[-1], leaf=canonical_bytes({**json.loads(later), "signer": "x"}))
    swapped = dataclasses.replace(bundle, entries=(*bundle.entries[:-1], last))
    assert refused(new_view(), swapped) == "log-inclusion"


@pytest.mark.parametrize("changes", [{"type": 3}, {"version": "2"}, {"version": True}, {"version": 0}])
def test_a_leaf_that_only_looks_as_if_it_came_later_is_malformed(changes: dict[str, Any]) -> None:
    odd = canonical_bytes({**json.loads(ENTRIES[0]), **changes})
    view = new_view()
    assert view.accept(bundle_of([odd]), LeafSigners(KIT.policy)) == []
    assert left_out(view) == [(0, "leaf-malformed")]


def test_leaves_that_this_version_cannot_read_are_set_aside() -> None:
    key = KIT.keys["log"].public
    strange = sign_leaf(LeafType.RECIPE, {"version": 9}, "someone", KIT.keys["log"])
    live = LiveLog.from_entries(new_view().accept(bundle_of([strange.encode()]), Everyone(key)))
    assert live.recipes == ()
    assert live.unreadable[0][0] == 0


def test_the_first_leaf_has_the_place() -> None:
    later = KIT.recipe(name="later")
    entries = [*ENTRIES, KIT.recipe_leaf(later).encode(), ENTRIES[2]]
    live = LiveLog.from_entries(new_view().accept(bundle_of(entries), LeafSigners(KIT.policy)))
    assert [item.recipe.name for item in live.recipes] == ["doctor-visits", "later"]
    assert live.directory("issuer.example", EPOCH) == KIT.directory()
    taken = check(later, KIT.policy, live.context(live.recipes[1], NOW, Stage.LOGGED))
    assert [refusal.rule for refusal in taken] == ["slot-taken"]


@pytest.mark.parametrize("second", [KIT.directory_leaf(slots=2), KIT.ohttp_leaf()], ids=["directory", "key set"])
def test_a_second_leaf_in_one_place_ends_the_trust_in_a_log_and_is_kept_as_evidence(second: SignedLeaf) -> None:
    """In one answer, or in another one than the first."""
    whole = bundle_of([*ENTRIES, second.encode()])
    for bundle, known in ((whole, ()), (dataclasses.replace(whole, entries=whole.entries[-1:]), LEAVES)):
        view = new_view()
        with pytest.raises(Refusal, match="log-second-leaf"):
            view.accept(bundle, LeafSigners(KIT.policy), known)
        evidence = json.loads(view.state.evidence)
        assert evidence["checkpoint"].encode() == whole.checkpoint
        assert unb64url(evidence["leaves"][1]) == second.encode()
        again = new_view(LogState.decode(view.state.encode()))
        assert refused(again, bundle_of(ENTRIES)) == "log-second-leaf"


def test_the_same_leaf_shown_twice_and_one_that_nobody_known_signed_are_no_evidence() -> None:
    forged = dataclasses.replace(KIT.ohttp_leaf(), signature=bytes(64))
    nobodys = sign_leaf(LeafType.OHTTP_CONFIG, {**LEAVES[1].body, "gateway": "other.example"}, "other.example", KEY)
    bundle = bundle_of([*ENTRIES, ENTRIES[1], nobodys.encode()])
    assert len(new_view().accept(bundle, LeafSigners(KIT.policy), LEAVES)) == len(ENTRIES) + 1
    view = new_view()
    view.accept(bundle_of([*ENTRIES, forged.encode()]), LeafSigners(KIT.policy), LEAVES)
    assert left_out(view) == [(len(ENTRIES), "leaf-signature")]
    assert not view.state.failure


def test_an_entry_without_its_proof_is_refused() -> None:
    first = BUNDLE.entries[0]
    for wrong in (
        dataclasses.replace(first, inclusion=first.inclusion[:-1]),
        dataclasses.replace(first, leaf=ENTRIES[1]),
        dataclasses.replace(first, index=len(ENTRIES)),
    ):
        assert refused(new_view(), dataclasses.replace(BUNDLE, entries=(wrong,))) == "log-inclusion"


def test_a_checkpoint_of_another_key_is_refused_and_leaves_the_view_as_it_was() -> None:
    view = new_view()
    forged = sign_checkpoint(Checkpoint(KIT.log_policy.origin, 1, bytes(32)), KEY)
    assert refused(view, dataclasses.replace(BUNDLE, checkpoint=forged)) == "log-checkpoint"
    assert refused(view, dataclasses.replace(BUNDLE, checkpoint=b"nonsense")) == "log-checkpoint"
    assert view.state == LogState()
    view.accept(BUNDLE, LeafSigners(KIT.policy))


def test_a_view_follows_a_growing_log_and_survives_a_restart() -> None:
    view = new_view()
    view.accept(bundle_of(ENTRIES[:3]), LeafSigners(KIT.policy))
    again = new_view(LogState.decode(view.state.encode()))
    again.accept(bundle_of(ENTRIES, since=3), LeafSigners(KIT.policy))
    again.accept(bundle_of(ENTRIES, since=5), LeafSigners(KIT.policy))
    assert again.state.size == 5


def test_rollback_is_refused_and_not_sticky() -> None:
    view = new_view()
    view.accept(BUNDLE, LeafSigners(KIT.policy))
    assert refused(view, bundle_of(ENTRIES[:3])) == "log-rollback"
    view.accept(bundle_of(ENTRIES, since=5), LeafSigners(KIT.policy))


def test_two_roots_for_one_size_are_a_split_view_for_ever() -> None:
    view = new_view()
    view.accept(BUNDLE, LeafSigners(KIT.policy))
    other = bundle_of([*ENTRIES[:4], ENTRIES[0]], since=5)
    assert refused(view, other) == "log-split-view"
    assert refused(view, bundle_of(ENTRIES, since=5)) == "log-split-view"
    again = new_view(LogState.decode(view.state.encode()))
    assert refused(again, bundle_of(ENTRIES, since=5)) == "log-split-view"
    assert again.state.evidence == other.checkpoint
    assert again.state.size == 5


def test_what_a_neighbour_in_the_process_accepted_counts_for_nobody_else() -> None:
    fork = bundle_of([*ENTRIES[:4], ENTRIES[0]])
    for first, second in ((BUNDLE, fork), (fork, BUNDLE)):
        neighbour, view = new_view(), new_view()
        neighbour.accept(first, LeafSigners(KIT.policy))
        view.accept(second, LeafSigners(KIT.policy))
        mixed = dataclasses.replace(first, checkpoint=second.checkpoint)
        assert refused(new_view(), mixed) == "log-inclusion", "proofs lead to the root of another tree"
        again = new_view(LogState.decode(view.state.encode()))
        assert refused(again, first) == "log-split-view"
        assert not neighbour.state.failure


def test_a_longer_history_that_does_not_extend_ours_is_refused_and_not_sticky() -> None:
    view = new_view()
    view.accept(BUNDLE, LeafSigners(KIT.policy))
    other = bundle_of([ENTRIES[1], *ENTRIES], since=5)
    assert refused(view, other) == "log-consistency"
    assert view.state.size == 5
    view.accept(bundle_of([*ENTRIES, ENTRIES[0]], since=5), LeafSigners(KIT.policy))


def test_a_state_with_unknown_members_is_refused() -> None:
    plain = parse_json(LogState().encode(), "state")
    with pytest.raises(DecodeError, match="surprise"):
        LogState.decode(canonical_bytes({**plain, "surprise": 1}))


def test_an_opt_in_of_a_recipe_outside_the_bundle_has_no_key() -> None:
    other = changed(RECIPE, "name", "not-there")
    leaf = KIT.opt_in_leaf(other, "leader")
    assert LeafSigners(KIT.policy).keys_of([leaf]) == [None]
