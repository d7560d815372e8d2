"""The aggregators' secret files, configuration and small tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.aggregators import COLLECTOR_TOKEN, OPERATOR_TOKEN, PEER_TOKEN, party_of, settings_of
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.lab.kit.reports import make_task_kit
from services.helper.app import create_app as create_helper
from services.helper.config import HelperConfig
from services.leader.app import create_app as create_leader
from services.leader.config import LeaderConfig
from tacit.aggregator.credentials import read_credentials
from tacit.aggregator.keys import (
    PeerSecrets,
    find_key,
    generate_hpke_key,
    generate_peer_secrets,
    read_hpke_key,
    read_hpke_keys,
    read_peer_file,
    write_hpke_key,
    write_peer_file,
)
from tacit.aggregator.parties import Parties
from tacit.aggregator.work import resource_id, resource_url
from tacit.dap_errors import DapAbort
from tacit.errors import UsageError
from tacit.messages import Role
from tacit.service.app import ServiceEnv
from tacit.service.base.config_files import parse_config
from tacit.service.base.keys import read_signing_key, write_signing_key
from tacit.service.base.random_order import shuffle
from tacit.service.base.secret_files import write_secret
from tacit.service.http.auth import token_digest
from tacit.signing import generate_signing_key

ENTROPY = SeededEntropy(1)
KIT = make_task_kit()


def test_secret_files_come_back_as_they_were_written(tmp_path: Path) -> None:
    key = generate_hpke_key(7, ENTROPY)
    write_hpke_key(tmp_path / "hpke", key)
    assert read_hpke_key(tmp_path / "hpke") == key
    assert find_key([key], key.config) == key
    assert find_key([key], generate_hpke_key(7, ENTROPY).config) is None
    peer = generate_peer_secrets("seed-1", ENTROPY)
    write_peer_file(tmp_path / "peer", peer)
    assert read_peer_file(tmp_path / "peer") == peer
    signing = generate_signing_key(ENTROPY)
    write_signing_key(tmp_path / "signing", signing)
    assert read_signing_key(tmp_path / "signing") == signing
    for name in ("hpke", "peer", "signing"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"config": "AA", "private_key": "AA"}',
        b'{"config": "AA", "private_key": 1}',
        b'{"seed_id": "s", "verify_key_seed": "AA", "credentials": "t"}',
        b'{"seed_id": "", "verify_key_seed": "AA", "credentials": "t"}',
    ],
)
def test_malformed_secret_file_is_one_line_to_the_operator(tmp_path: Path, content: bytes) -> None:
    write_secret(tmp_path / "file", content)
    for read in (read_hpke_key, read_peer_file):
        with pytest.raises(UsageError) as caught:
            read(tmp_path / "file")
        assert "\n" not in str(caught.value)
        assert "file" in str(caught.value)


def test_secret_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    write_peer_file(tmp_path / "peer", generate_peer_secrets("seed-1", ENTROPY))
    (tmp_path / "peer").chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        read_peer_file(tmp_path / "peer")


def test_hpke_keys_need_distinct_ids(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_hpke_key(tmp_path / name, generate_hpke_key(7, ENTROPY))
    with pytest.raises(UsageError, match="distinct ids"):
        read_hpke_keys([tmp_path / "one", tmp_path / "two"])
    with pytest.raises(UsageError, match="at least one"):
        read_hpke_keys([])


def test_secrets_do_not_show_in_a_repr() -> None:
    peer = PeerSecrets("seed-1", bytes(range(32)), "the-token")
    key = generate_hpke_key(7, ENTROPY)
    assert "the-token" not in repr(peer)
    assert "x01" not in repr(peer)
    assert repr(key.key_pair.private)[2:-1] not in repr(key)
    assert repr(KIT.verify_key)[2:-1] not in repr(party_of(KIT, Role.HELPER))


def settings(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return {**settings_of(tmp_path, KIT, Role.LEADER), **changes}


def at_helper(config: dict[str, Any]) -> HelperConfig:
    """The same files at a helper, who takes no uploads."""
    return HelperConfig.model_validate({name: value for name, value in config.items() if name != "gateway_tokens"})


def test_configuration_names_its_mistakes(tmp_path: Path) -> None:
    good = settings(tmp_path)
    parse_config(good, LeaderConfig)
    for changes, field in (
        ({"unknown": 1}, "unknown"),
        ({"hpke_keys": []}, "hpke_keys"),
        ({"prefix": "no-slash"}, "prefix"),
        ({"limits": {"job_size": 0}}, "limits.job_size"),
    ):
        with pytest.raises(UsageError, match=field):
            parse_config({**good, **changes}, LeaderConfig)
    with pytest.raises(UsageError, match="max_job"):
        parse_config({**good, "max_job": 0}, HelperConfig)
    bad_log = LeaderConfig.model_validate({**good, "log": {"url": "http://127.0.0.1:1", "key": "nonsense"}})
    with pytest.raises(UsageError, match=r"log\.key"):
        bad_log.log.note_key()


def test_credentials_are_read_once_and_kept_as_digests(tmp_path: Path) -> None:
    found = read_credentials(LeaderConfig.model_validate(settings(tmp_path)), Role.LEADER)
    digests = {role: tokens.digests() for role, tokens in found.tokens.items() if tokens is not None}
    assert digests == {"collector": (token_digest(COLLECTOR_TOKEN),), "operator": (token_digest(OPERATOR_TOKEN),)}
    assert found.identity.role_name == "leader"
    assert found.identity.seed("seed-1") == KIT.verify_key_seed
    assert found.identity.seed("seed-9") is None
    alone = LeaderConfig.model_validate(settings(tmp_path, operator_token=None))
    assert set(read_credentials(alone, Role.LEADER).tokens) == {"collector"}
    doubled = settings(tmp_path, old_peer_files=[str(tmp_path / "peer.json")])
    with pytest.raises(UsageError, match="the same seed_id"):
        read_credentials(LeaderConfig.model_validate(doubled), Role.LEADER)
    for shown in (repr(found), repr(found.identity)):
        assert PEER_TOKEN not in shown


def test_aggregator_without_its_secrets_does_not_start(tmp_path: Path) -> None:
    deps = ServiceEnv(SimClock(), ENTROPY, InProcessTransport(), background=False)
    missing = str(tmp_path / "nothing")
    for name in ("signing_key", "peer_file", "collector_token", "operator_token"):
        config = settings(tmp_path, **{name: missing})
        with pytest.raises(UsageError, match="nothing"):
            create_leader(LeaderConfig.model_validate(config), deps)
        with pytest.raises(UsageError, match="nothing"):
            create_helper(at_helper(config), deps)


def test_whoever_holds_a_credential_must_say_to_which_aggregators_it_may_go(tmp_path: Path) -> None:
    """Without pins any recipe that is accepted names the address that gets the credential."""
    deps = ServiceEnv(SimClock(), ENTROPY, InProcessTransport(), background=False)
    policies: list[dict[str, object]] = [{}, {"analysts": {}}]
    for policy in policies:
        config = settings(tmp_path, policy=policy)
        with pytest.raises(
            UsageError, match=r"policy\.aggregators is missing: add .*signing_key.*these addresses only"
        ):
            create_leader(LeaderConfig.model_validate(config), deps)
        with pytest.raises(UsageError, match=r"policy\.aggregators is missing"):
            create_helper(at_helper(config), deps)


async def test_parties_are_found_by_the_id_in_a_url() -> None:
    party = party_of(KIT, Role.LEADER)
    parties = Parties([party])
    assert await parties.demand(KIT.task.task_id_text) is party
    for text in ("", "x", KIT.task.task_id_text + "=", KIT.task.task_id_text[:-1]):
        with pytest.raises(DapAbort):
            await parties.demand(text)


def test_shuffling_is_a_permutation_without_favourites() -> None:
    items = list(range(4))
    first = [0] * 4
    for _ in range(2000):
        found = shuffle(items, ENTROPY)
        assert sorted(found) == items
        first[found[0]] += 1
    # Binomial(2000, 1/4): 6 standard deviations are 116; a fair shuffle fails once in 10^8 runs.
    assert all(abs(count - 500) < 116 for count in first)


def test_resource_ids_differ_by_kind_task_body_and_generation() -> None:
    base = (b"kind", bytes(32), b"body", 0)
    others = [(b"other", bytes(32), b"body", 0), (b"kind", b"\x01" * 32, b"body", 0)]
    others += [(b"kind", bytes(32), b"bodies", 0), (b"kind", bytes(32), b"body", 1)]
    ids = {resource_id(*arguments) for arguments in (base, *others)}
    assert len(ids) == 5
    assert resource_id(*base) == resource_id(*base)
    assert {len(found) for found in ids} == {16}


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/tasks/t/jobs/abc?step=0", "https://helper.example/tasks/t/jobs/abc?step=0"),
        ("jobs/abc", "https://helper.example/tasks/t/jobs/abc"),
        ("https://helper.example/tasks/t/jobs/abc", "https://helper.example/tasks/t/jobs/abc"),
        ("", ""),
        ("/tasks/t/jobs", ""),
        ("/tasks/t/jobs/../../x", ""),
        ("/tasks/other/jobs/abc", ""),
        ("https://elsewhere.example/tasks/t/jobs/abc", ""),
        ("http://helper.example/tasks/t/jobs/abc", ""),
    ],
)
def test_location_is_followed_only_below_the_collection(location: str, expected: str) -> None:
    assert resource_url("https://helper.example/tasks/t/jobs", location) == expected
