"""Model pan-private: its tasks, its channel, and what aggregators need to take part."""

from __future__ import annotations

import dataclasses
import stat
from pathlib import Path

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import changed
from infra.lab.kit.reports import BOTH, issuer_key, token_source
from infra.lab.kit.watched import MOST, TWO, WatchingKit
from infra.stacks.layout import load_layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from services.helper.config import HelperConfig
from services.leader.config import LeaderConfig
from tacit.aggregator.credentials import Identity
from tacit.aggregator.keys import HpkeKey, PeerSecrets, state_key_text
from tacit.aggregator.participant import AggregatorParticipant
from tacit.aggregator.records import TaskRow, TaskState
from tacit.aggregator.state_keys import generate_state_key, read_state_key
from tacit.codec import b64url
from tacit.errors import Fatal, Refusal, UsageError
from tacit.messages import Role, UploadRequest
from tacit.models.devices import device_side
from tacit.models.pan_private.device import PanPrivateDevice
from tacit.models.pan_private.form import PanPrivateParties
from tacit.models.secure_aggregation.device import DapChannel
from tacit.panprivate.two_servers import SharedOccurrences, Sharing
from tacit.recipe import derive
from tacit.recipe.writing.builder import propose
from tacit.roles.jobs import prepare_leader
from tacit.service.base.config_files import load_config
from tacit.tlog.leaves import LeafType, sign_leaf
from tacit.tlog.statements import OptIn

DRAW = SeededEntropy(b"pan_private_model")
KIT = WatchingKit()
KEYS = {role: KIT.state_keys[role.name.lower()] for role in BOTH}
RECIPE = KIT.watched_recipe(TWO, "histogram")
LEADER, HELPER = (KEYS[role].public_key() for role in BOTH)
SPKI = issuer_key().token_key.spki
IDENTITY = Identity(
    Role.LEADER,
    "leader.example",
    KIT.keys["leader"],
    (HpkeKey(KIT.hpke_config(Role.LEADER), KIT.key_pairs[Role.LEADER]),),
    (PeerSecrets("seed-1", KIT.verify_key_seed, "token"),),
    (generate_state_key(DRAW), KEYS[Role.LEADER]),
)


def test_a_recipes_task_names_both_state_keys_and_other_models_none() -> None:
    task = derive.task_of(RECIPE, SPKI)
    for role in BOTH:
        assert task.state_key(role) == KEYS[role].public_key().element
    assert task.state_key(Role.COLLECTOR) is None
    assert derive.task_of(KIT.recipe(), SPKI).state_key(Role.LEADER) is None


@pytest.mark.parametrize("key", [bytes(32), b"\1" + bytes(31), b"\xff" * 32])
def test_a_state_key_that_would_hide_nothing_is_refused(key: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        derive.task_of(changed(RECIPE, "parties.leader.state_key", b64url(key)), SPKI)
    assert caught.value.rule == "state-key-invalid"


def test_a_submission_is_a_report_that_the_leader_opens() -> None:
    channel = PanPrivateDevice().channel(RECIPE, SPKI)
    assert isinstance(channel, DapChannel)
    machine = SharedOccurrences(Sharing(LEADER, HELPER, channel.task.ctx), MOST)
    cells = machine.answer(machine.initial(DRAW), RECIPE.epsilon0, DRAW)
    bound = token_source(issuer_key(), DRAW)(channel.task.slot)
    sent = channel.submission(cells, bound.token, bound.preimages, DRAW)
    assert (sent.url, sent.media_type) == (channel.url, device_side("secure-aggregation").media_type)
    (report,) = UploadRequest.decode(sent.body).reports
    party = AggregatorParticipant(IDENTITY).party(RECIPE, row(), 0.0)
    job, rejections = prepare_leader(party, [report.encode()], float(RECIPE.interval.start))
    assert (len(job), rejections) == (1, [])
    for wrong in (
        cells[:-1],
        (*cells, cells[0]),
        (*cells[:-1], 1),
        (*cells[:-1], dataclasses.replace(cells[0], leader=())),
    ):
        with pytest.raises(ValueError, match="cell"):
            channel.submission(wrong, bound.token, bound.preimages, DRAW)


def test_a_channel_of_aggregators_without_state_keys_is_refused() -> None:
    with pytest.raises(Refusal, match="no state keys"):
        PanPrivateDevice().channel(KIT.recipe(), SPKI)


def row() -> TaskRow:
    task_id = b64url(derive.task_id(RECIPE))
    body = OptIn(
        recipe_hash=RECIPE.hash_text,
        task_id=task_id,
        role="leader",
        seed_id="seed-1",
        verify_key_confirmation=b64url(bytes(32)),
    )
    opt_in = sign_leaf(LeafType.OPT_IN, body, "leader.example", KIT.keys["leader"])
    return TaskRow(RECIPE.hash, TaskState.ACTIVE, RECIPE.encode(), token_key_spki=SPKI, opt_in=opt_in.encode())


def test_an_aggregator_refuses_a_recipe_whose_state_key_it_does_not_hold_before_it_opts_in() -> None:
    own = RECIPE.parties.servers()["leader"]
    AggregatorParticipant(IDENTITY).check_keys(own)
    for keys in ((), (generate_state_key(DRAW),), (KEYS[Role.HELPER],)):
        seat = AggregatorParticipant(dataclasses.replace(IDENTITY, state_keys=keys))
        with pytest.raises(Refusal) as caught:
            seat.check_keys(own)
        assert caught.value.rule == "own-state-key"
        with pytest.raises(Fatal, match="a key of the active recipe"):
            seat.party(RECIPE, row(), 0.0)
        seat.check_keys(KIT.recipe().parties.servers()["leader"])


def test_an_aggregators_identity_shows_no_key() -> None:
    party = AggregatorParticipant(IDENTITY).party(RECIPE, row(), 0.0)
    shown = repr(IDENTITY) + repr(party) + repr(AggregatorParticipant(IDENTITY))
    assert "state_key=" not in shown.replace("leader_state_key=", "").replace("helper_state_key=", "")
    assert b64url(KEYS[Role.LEADER].scalar) not in shown


def test_a_stack_has_state_keys_for_pan_private_recipes_and_for_no_others(tmp_path: Path) -> None:
    made = create_layout(tmp_path, StackOptions(), SeededEntropy(1), 1_800_000_000.0)
    layout = load_layout(tmp_path)
    assert layout.all_parties == made.all_parties
    parties = layout.parties_of("pan-private")
    assert isinstance(parties, PanPrivateParties)
    for name, kind in (("leader", LeaderConfig), ("helper", HelperConfig)):
        (path,) = load_config(layout.configs[name], kind).state_keys
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert getattr(parties, name).state_key == state_key_text(read_state_key(path))
    body, plain = parties.model_dump(mode="json"), layout.parties_of("secure-aggregation").model_dump(mode="json")
    assert "state_key" not in plain["leader"]
    assert {name: {key: value for key, value in body[name].items() if key != "state_key"} for name in body} == plain
    recipe = propose(KIT.watched_survey(TWO, "count"), parties)
    assert derive.task_of(recipe, SPKI).leader_state_key == derive.state_key(parties.leader)
    with pytest.raises(UsageError, match="no parties of model else"):
        layout.parties_of("else")
