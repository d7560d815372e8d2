"""What the test API opens is open there alone: no configuration, recipe or party of a service leads to it."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest

from infra.cli import run
from infra.lab.kit.aggregators import party_of, settings_of
from infra.lab.kit.reports import make_task_kit
from infra.tools.interop.tasks import ALWAYS, BareParty, Credentials, bare_task
from services.helper.config import HelperConfig
from services.leader.config import LeaderConfig
from tacit.dap_errors import ReportError
from tacit.errors import Refusal, UsageError
from tacit.messages import Interval, Role, TaskExtension
from tacit.roles.aggregator import Party, Rejection
from tacit.roles.jobs import prepare_leader
from tacit.service.base.config_files import parse_config
from tacit.task import BatchClose, Task
from tacit.version import DAP_18, JANUS_MAIN
from tests.kit.oracles import helper, leader

KIT = make_task_kit()
NOW = float(KIT.task.start_seconds)
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("member", ["interop", "profile", "version", "dap", "tokens", "without_tokens", "admission"])
@pytest.mark.parametrize(("model", "role"), [(LeaderConfig, Role.LEADER), (HelperConfig, Role.HELPER)])
def test_no_configuration_of_a_service_names_a_profile_or_does_without_tokens(
    tmp_path: Path, model: Any, role: Role, member: str
) -> None:
    settings = settings_of(tmp_path, KIT, role)
    parse_config(settings, model)
    with pytest.raises(UsageError, match=member):
        parse_config({**settings, member: "janus-main"}, model)


def test_a_party_without_the_means_to_check_tokens_takes_nothing() -> None:
    lame = dataclasses.replace(party_of(KIT, Role.LEADER), verifier=None)
    good = KIT.reports(1).valid(1)
    reports = [good, KIT.reports(2).without_token(1)]
    encoded = [one.encode() for one in reports]
    job, rejections = prepare_leader(lame, encoded, NOW)
    assert (len(job), [one.cause for one in rejections]) == (0, ["internal", "internal"])


def test_the_party_of_the_test_api_takes_reports_without_tokens_and_no_others() -> None:
    service = party_of(KIT, Role.LEADER)
    bare = BareParty(KIT.task, Role.LEADER, KIT.verify_key, service.key_pair, None, service.closes)
    plain, token = KIT.reports(1).without_token(1), KIT.reports(2).valid(1)
    encoded = [one.encode() for one in (plain, token)]
    job, rejections = prepare_leader(bare, encoded, NOW)
    assert job.report_ids == [plain.report_metadata.report_id]
    assert [(one.code, one.cause) for one in rejections] == [(ReportError.UNSUPPORTED_EXTENSION, "extension-unknown")]
    one_by_one = leader.prepare_report(bare, plain, NOW)
    assert not isinstance(one_by_one, Rejection)
    assert one_by_one.nullifier == job.rows.nullifiers[0]
    refused = leader.prepare_report(service, plain, NOW)
    assert isinstance(refused, Rejection)
    assert refused.cause == "token-missing"


def test_no_task_of_a_recipe_is_released_on_query_or_framed_otherwise() -> None:
    task = KIT.task
    parts: dict[str, Any] = {
        "leader_hpke_config": task.hpke_config(Role.LEADER),
        "helper_hpke_config": task.hpke_config(Role.HELPER),
        "collector_hpke_config": task.hpke_config(Role.COLLECTOR),
        "slot": task.slot,
        "token_key_spki": task.token_key_spki,
        "expected_contributions": 1,
    }
    with pytest.raises(Refusal, match="task-batch"):
        Task.from_configuration(task.configuration, batch_close=BatchClose.ON_QUERY, **parts)
    made = Task.from_configuration(task.configuration, batch_close=BatchClose.INTERVAL_END, **parts)
    assert made.version is DAP_18


def test_a_task_without_a_recipe_is_checked_too() -> None:
    configuration = dataclasses.replace(KIT.task.configuration, extensions=())
    task = bare_task(bytes(32), configuration, JANUS_MAIN, {})
    assert (task.interval, task.batch_close, task.task_id) == (ALWAYS, BatchClose.ON_QUERY, bytes(32))
    with pytest.raises(KeyError):
        task.hpke_config(Role.HELPER)
    long = TaskExtension.task_interval(Interval(0, 1 << 62))
    for changes, rule in (
        ({"extensions": (TaskExtension(7, b""),)}, "task-extension"),
        ({"extensions": (long,)}, "task-interval"),
        ({"batch_config": b"x"}, "task-batch"),
        ({"min_batch_size": 0}, "task-batch"),
        ({"vdaf_type": 77}, "task-vdaf"),
    ):
        with pytest.raises(Refusal) as refused:
            bare_task(bytes(32), dataclasses.replace(configuration, **changes), DAP_18, {})
        assert refused.value.rule == rule


def test_urls_are_sealed_as_they_are_and_asked_with_one_slash() -> None:
    for ending in ("", "/"):
        url = f"http://127.0.0.1:1/below{ending}"
        configuration = dataclasses.replace(KIT.task.configuration, helper_aggregator_endpoint=url)
        task = bare_task(KIT.task.task_id, configuration, DAP_18, {})
        assert url.encode() in task.aad_prefix
        assert task.url(Role.HELPER, "reports") == f"http://127.0.0.1:1/below/tasks/{task.task_id_text}/reports"


def test_a_token_goes_to_the_resources_of_its_task_alone() -> None:
    credentials = Credentials()
    credentials.add(KIT.task, {}, "two words")
    other = bare_task(bytes(32), KIT.task.configuration, DAP_18, {})
    credentials.add(other, {}, "bearer-token")
    assert credentials.headers(KIT.task.url(Role.HELPER, "aggregation_jobs")) == {"DAP-Auth-Token": "two words"}
    shown = credentials.headers(other.url(Role.LEADER, "collection_jobs/x"))
    assert shown == {"DAP-Auth-Token": "bearer-token"}, "beside a bearer token Janus answers 403"
    for url in ("http://a.example/hpke_config", "http://a.example/tasks/AAAA/reports", "http://a.example/tasks/"):
        assert credentials.headers(url) == {}


def test_nothing_but_its_command_and_its_load_imports_the_test_api() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (wall,) = [one for one in contracts if one.get("protected_modules") == ["infra.tools.interop"]]
    assert wall["allowed_importers"] == ["infra.commands.serve", "infra.lab.bench.dap", "tests"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["leader", "--profile", "janus-main"], "--profile is only for interop"),
        (["helper", "--role", "helper"], "--role is only for interop"),
        (["leader", "--insecure-http", "--config", "x"], "--insecure-http is only for interop"),
        (["leader"], "--config is missing"),
        (["interop"], "--role must be one of client, leader, helper, collector"),
        (["interop", "--role", "leader", "--profile", "dap-09"], "--profile must be one of dap-18, dap-19, janus-main"),
        (["interop", "--role", "leader", "--config", "x"], "interop takes no configuration"),
        (["interop", "--role", "leader", "--accept-rollback"], "interop takes no configuration"),
        (["interop", "--role", "leader", "--host", "0.0.0.0"], "only loopback without --insecure-http"),  # noqa: S104
    ],
)
def test_options_that_do_not_go_together_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["serve", *arguments]) in {1, 2}
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""


def test_a_helper_s_view_of_one_report_is_that_of_a_job() -> None:
    service = party_of(KIT, Role.HELPER)
    bare = BareParty(KIT.task, Role.HELPER, KIT.verify_key, service.key_pair, None, service.closes)
    lead = BareParty(KIT.task, Role.LEADER, KIT.verify_key, KIT.key_pairs[Role.LEADER], None, service.closes)
    begun = leader.prepare_report(lead, KIT.reports(3).without_token(1), NOW)
    assert isinstance(begun, leader.Prepared)
    found = helper.prepare_report(bare, begun.verify_init, NOW)
    assert isinstance(found, helper.Verified)
    assert found.accepted.nullifier == begun.nullifier
    assert isinstance(helper.prepare_report(service, begun.verify_init, NOW), Rejection)
    assert Party.EXTENSION_TYPE is not None
