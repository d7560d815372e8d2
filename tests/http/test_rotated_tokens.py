"""Bearer tokens replaced while services run: old and new beside each other at the called, then the caller's, then the
old one goes. Nobody who follows that order is refused, and the old token opens nothing afterwards."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.lab.kit.aggregators import COLLECTOR_TOKEN, GATEWAY_TOKEN, OPERATOR_TOKEN, PEER_TOKEN
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from relay.app import create_app as create_relay
from relay.config import RelayConfig
from tacit import ohttp
from tacit.aggregator.keys import PeerSecrets, read_peer_file, write_peer_file
from tacit.media_types import OHTTP_REQ
from tacit.messages import Role
from tacit.ports import HttpResponse
from tacit.service.app import READY_PATH, ServiceEnv, make_app
from tacit.service.base.config import Listen
from tacit.service.metrics_listener import metrics_site
from tacit.service.operated import let_operate
from tests.http import attester_stage, collector_stage
from tests.http.admin_collector import COLLECTOR_URL, CollectorStub
from tests.http.admin_stage import Stage as AdminStage
from tests.http.gateway_stage import GATEWAY_URL, RELAY_URL, TARGET, Running, entropy, opened, starting
from tests.http.test_leader import KIT, pair_of
from tests.kit.tokens import put_tokens

NEW = "tacit-the-new-one"
NOT_USED = "bearer tokens: the new content of a file cannot be used, the old one stays in use: "


async def health(network: InProcessTransport, url: str) -> tuple[int, str]:
    """Status of the readiness page, and the trouble that it tells."""
    answer = await network.request("GET", url + READY_PATH)
    return answer.status, json.loads(answer.body).get("trouble", "")


async def through_relay(gateway: Running) -> HttpResponse:
    message, context = ohttp.padded_request(gateway.config, gateway.request(), entropy)
    answer = await gateway.network.request("POST", RELAY_URL + "/", headers={"Content-Type": OHTTP_REQ}, body=message)
    if answer.status == 200:
        assert opened(context, answer).status == 201
    return answer


async def test_relay_gateway_and_targets_go_on_while_their_tokens_are_replaced(tmp_path: Path) -> None:
    at_relay, at_gateway, at_target = (tmp_path / name for name in ("relay.token", "bearer", "target.token"))
    put_tokens(at_relay, "relay-credential")
    put_tokens(at_target, "target-credential")
    rules = [{"origin": TARGET, "path_prefix": "/tasks", "methods": ["POST"], "bearer": str(at_target)}]
    async with starting(tmp_path) as start:
        gateway = await start(targets=rules)
        config = RelayConfig(state_dir=tmp_path / "relay", gateway_url=GATEWAY_URL, gateway_bearer=at_relay)
        deps = ServiceEnv(gateway.clock, entropy, gateway.network, gateway.observed, background=False)
        await gateway.network.mount(RELAY_URL, create_relay(config, deps))

        async def passes() -> str:
            assert (await through_relay(gateway)).status == 200
            return gateway.targets.sent[-1][2]["Authorization"]

        assert await passes() == "Bearer target-credential"
        put_tokens(at_gateway, "relay-credential", NEW)
        assert await passes() == "Bearer target-credential"
        put_tokens(at_relay, NEW)
        put_tokens(at_target, "of-the-target")
        assert await passes() == "Bearer of-the-target"
        put_tokens(at_gateway, NEW)
        assert await passes() == "Bearer of-the-target"
        assert (await gateway.post(b"x")).status == 401, "with what the relay showed at first"
        put_tokens(at_relay, "relay-credential")
        assert (await through_relay(gateway)).status == 502
        for url, file in ((RELAY_URL, at_relay), (GATEWAY_URL, at_target), (GATEWAY_URL, at_gateway)):
            assert await health(gateway.network, url) == (200, "")
            file.chmod(0o644)
            status, trouble = await health(gateway.network, url)
            assert (status, trouble) == (503, f"{NOT_USED}{file}: readable by others; run: chmod 600 {file}")
            file.chmod(0o600)


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[attester_stage.Stage]:
    async with attester_stage.staged(tmp_path, monkeypatch) as running:
        yield running


async def test_an_issuer_takes_both_tokens_and_a_file_that_is_gone_changes_nothing(
    stage: attester_stage.Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    own, issuers = stage.folder / "own.credential", stage.folder / "attester.credential"
    put_tokens(own, "credential")
    await stage.restart(issuer_credential=own)

    async def issued(name: str) -> int:
        return (await stage.ask(stage.device(name), stage.pending().request)).status

    assert await issued("a") == 200
    put_tokens(issuers, "credential", NEW)
    assert await issued("b") == 200
    put_tokens(own, NEW, "credential")
    assert await issued("c") == 200
    put_tokens(issuers, NEW)
    assert await issued("d") == 200
    issuers.unlink()
    own.write_bytes(b"")
    assert await issued("e") == 200
    pages = [await health(stage.network, url) for url in (attester_stage.ISSUER, attester_stage.ATTESTER)]
    assert [status for status, _ in pages] == [503, 503]
    assert "No such file" in pages[0][1]
    assert "empty" in pages[1][1]
    put_tokens(issuers, NEW)
    put_tokens(own, "credential")
    assert await issued("f") == 502
    told = capsys.readouterr().err + str(pages)
    assert "bearer tokens" in told
    assert NEW not in told


async def test_leader_and_helper_take_new_tokens_of_everybody_between_upload_and_collection(tmp_path: Path) -> None:
    reports = KIT.reports(1)
    async with pair_of(tmp_path, storage="file") as pair:
        assert await pair.upload(reports.valid(value % 4) for value in range(12)) is None
        leader, helper = tmp_path / "leader", tmp_path / "helper"

        async def statuses(**tokens: str) -> list[int]:
            at_leader, at_helper = Role.LEADER, Role.HELPER
            path = f"/v1/tasks/{pair.task.task_id_text}/status"
            return [
                (await pair.post_reports(b"", tokens["gateway"])).status,
                (await pair.get(at_leader, path, tokens["operator"])).status,
                (await pair.send(at_leader, "GET", "/yield", token=tokens["collector"])).status,
                (await pair.get(at_helper, path, tokens["operator"])).status,
                (await pair.send(at_helper, "DELETE", "/aggregation_jobs/none", token=tokens["peer"])).status,
            ]

        old = {"gateway": GATEWAY_TOKEN, "operator": OPERATOR_TOKEN, "collector": COLLECTOR_TOKEN, "peer": PEER_TOKEN}
        new = {name: f"{NEW}-{name}" for name in old}
        first = await statuses(**old)
        assert 401 not in first
        files = [(leader, "gateway"), (leader, "operator"), (leader, "collector"), (helper, "operator")]
        kept = read_peer_file(helper / "peer.json")

        def put_peer(folder: Path, *tokens: str) -> None:
            secrets = PeerSecrets(kept.seed_id, kept.verify_key_seed, tokens[0], tokens[1:])
            write_peer_file(folder / "peer.json", secrets)

        for folder, name in files:
            put_tokens(folder / name, old[name], new[name])
        put_peer(helper, PEER_TOKEN, new["peer"])
        assert await statuses(**old) == await statuses(**new) == first
        put_peer(leader, new["peer"])
        for folder, name in files:
            if name != "collector":
                put_tokens(folder / name, new[name])
        put_peer(helper, new["peer"])
        await pair.end_interval()
        answer = await pair.collect()
        assert answer.status == 200
        assert pair.opened(answer).report_count == 12
        put_tokens(leader / "collector", new["collector"])
        assert await statuses(**old) == [401] * 5
        assert 401 not in await statuses(**new)


async def test_a_collector_shows_its_new_tokens_and_takes_those_of_its_callers(tmp_path: Path) -> None:
    collector_stage.write_secrets(tmp_path)
    put_tokens(tmp_path / "admin.token", "admin-secret")
    stage = collector_stage.Stage(tmp_path, collector_stage.KIT.recipe(), admin_token=tmp_path / "admin.token")
    await stage.start()
    collector_stage.publish_recipe(stage, stage.recipe)
    for _ in range(2):
        await stage.driver("Recipes").step()
    stage.clock.jump(stage.recipe.interval.end - stage.clock.now())
    asked = await stage.ask()
    assert await stage.step() == 1
    stage.leader.token, stage.log.token, stage.leader.ready = "of-the-leader", "of-the-log", True
    put_tokens(tmp_path / "leader.token", "of-the-leader", "leader-secret")
    put_tokens(tmp_path / "publish.token", "of-the-log")
    put_tokens(tmp_path / "operator.token", NEW)
    put_tokens(tmp_path / "admin.token", "admin-secret", "of-the-admin")
    statuses = {
        token: (await stage.call("GET", "/v1/results", headers={"Authorization": f"Bearer {token}"}))[0].status
        for token in ("operator-secret", NEW, "admin-secret", "of-the-admin", "leader-secret", "of-the-leader")
    }
    assert [token for token, status in statuses.items() if status == 200] == [NEW, "admin-secret", "of-the-admin"]
    assert set(statuses.values()) == {200, 401}
    stage.clock.jump(30)
    while await stage.step():
        stage.clock.jump(30)
    assert await stage.driver("PublishDriver").step() == 1
    headers = {"Authorization": f"Bearer {NEW}"}
    document = (await stage.call("GET", f"/v1/collections/{asked['id']}", headers=headers))[1]
    assert (document["state"], len(stage.log.results)) == ("released", 1)
    await stage.inner.close()


async def test_an_admin_service_shows_its_collector_the_token_of_the_moment(tmp_path: Path) -> None:
    stage, collector = AdminStage(tmp_path), CollectorStub()
    token = tmp_path / "collections.token"
    put_tokens(token, collector.token)
    await stage.prepare()
    await stage.inner.mount(COLLECTOR_URL, collector.app())
    await stage.start(collector={"url": COLLECTOR_URL, "token": token})
    assert (await stage.call("GET", "/v1/results", status=200))[1] == {"results": [], "next": None}
    collector.token = NEW
    put_tokens(token, NEW)
    assert (await stage.call("GET", "/v1/results", status=200))[1] == {"results": [], "next": None}
    await stage.inner.close()


async def test_the_operators_listener_takes_the_tokens_of_the_moment_and_both_pages_tell_of_a_bad_file(
    tmp_path: Path,
) -> None:
    token, site_url, url = tmp_path / "operator.token", "http://127.0.0.1:8021", "http://127.0.0.1:8022"
    put_tokens(token, "operator-secret")
    async with InProcessTransport() as network:
        app = make_app("probe", ServiceEnv(SimClock(0.0), SeededEntropy(1), network, background=False))
        let_operate(app, token)
        await network.mount(url, app)
        await network.mount(site_url, metrics_site(app, Listen()))

        async def status(shown: str) -> int:
            answer = await network.request("GET", f"{site_url}/v1/keys", headers={"Authorization": f"Bearer {shown}"})
            return answer.status

        put_tokens(token, "operator-secret", NEW)
        assert [await status("operator-secret"), await status(NEW)] == [200, 200]
        put_tokens(token, NEW)
        assert [await status("operator-secret"), await status(NEW)] == [401, 200]
        put_tokens(token, "two words")
        assert [await status("two words"), await status("two"), await status(NEW)] == [401, 401, 200]
        trouble = f"{NOT_USED}{token}: a bearer token must be ASCII text without spaces, one per line"
        assert [await health(network, page) for page in (url, site_url)] == [(503, trouble)] * 2
