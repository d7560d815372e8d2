"""Attacks on tokens, reports and batches, each tried against the real services.

The attacker holds what the named party holds in reality: a leader knows its own key, the leader's half of every
token's secrets and the bearer token for the helper, and may send the helper whatever it likes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin

import pytest

from client_agent.journal import State
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import LOSE_REQUEST, LOSE_RESPONSE
from infra.lab.kit.reports import BoundToken, ReportFactory
from tacit import media_types
from tacit.aggregator.keys import read_peer_file
from tacit.aggregator.parties import PARTIES
from tacit.messages import (
    AggregateShareReq,
    AggregationJobResp,
    BatchSelector,
    Extension,
    PlaintextInputShare,
    Report,
    ReportMetadata,
    Role,
    UploadErrors,
    UploadRequest,
    VerifyRespType,
)
from tacit.ports import HttpResponse
from tacit.recipe.model import Recipe
from tacit.roles.aggregator import checksum_of
from tacit.roles.client import seal_report, shard
from tacit.roles.collector import collection_request
from tacit.service.base.secret_files import read_secret
from tacit.tokens.attestation import attestation_binding, challenge_of, token_request_body
from tacit.tokens.binding import PREIMAGE_SIZE, TOKEN_EXTENSION_TYPE, Preimages
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.issuance import PendingToken, request_token
from tacit.tokens.slots import slot_challenge
from tacit.tokens.structures import TokenResponse
from tests.kit.device import Device
from tests.kit.oracles import leader as leader_role
from tests.kit.oracles.leader import Prepared
from tests.kit.simulation import Simulation

NewSimulation = Callable[..., Simulation]
B = 6


def verdicts_of(answer: HttpResponse) -> list[VerifyRespType]:
    """A helper's verdict on each report of a job."""
    return [resp.verify_resp_type for resp in AggregationJobResp.decode(answer.body).verify_resps]


@dataclass
class Stage:
    """A simulation where every device holds its tokens, shortly before the interval of ``recipe`` (slot 0)."""

    simulation: Simulation
    recipe: Recipe
    devices: Sequence[Device]

    async def token(self, device: Device, slot: int = 0) -> BoundToken:
        """A token that a device holds or held."""
        rows = await device.store.prefetches()
        row = next(row for row in rows if (row.slot.epoch, row.slot.slot) == (self.recipe.token.epoch, slot))
        return BoundToken(row.token, Preimages(row.preimages[:PREIMAGE_SIZE], row.preimages[PREIMAGE_SIZE:]))

    def forger(self, recipe: Recipe | None = None) -> ReportFactory:
        """Makes reports for tokens that it is given."""

        def none(_slot: object) -> BoundToken:
            raise AssertionError("a forger has no tokens of its own")

        return ReportFactory(self.simulation.task(recipe or self.recipe), none, SeededEntropy(b"forger"))

    def begin(self) -> None:
        """Jump to the last minute of the interval, when every report may be sent."""
        self.simulation.clock.jump(max(0.0, self.recipe.interval.end - 30 - self.simulation.clock.now()))

    def end(self) -> None:
        """Move the clock past the end of the recipe's interval."""
        self.simulation.clock.jump(max(0.0, self.recipe.interval.end + 1 - self.simulation.clock.now()))

    async def upload(self, *reports: Report, recipe: Recipe | None = None) -> UploadErrors:
        """Upload to the leader, as the gateway that it knows."""
        task = self.simulation.task(recipe or self.recipe)
        token = read_secret(self.simulation.layout.credentials["gateway_uploads"]).decode().strip()
        answer = await self.simulation.network.request(
            "POST",
            f"{self.simulation.layout.urls['leader']}/tasks/{task.task_id_text}/reports",
            headers={"content-type": media_types.dap("upload-req"), "authorization": f"Bearer {token}"},
            body=UploadRequest(reports).encode(),
        )
        assert answer.status == 200
        return UploadErrors.decode(answer.body) if answer.body else UploadErrors(())

    async def as_leader(self, path: str, message: str, body: bytes) -> HttpResponse:
        """A request to the helper with the leader's credential."""
        secrets = read_peer_file(self.simulation.layout.configs["leader"].parent / "peer.json")
        return await self.simulation.network.request(
            "POST",
            f"{self.simulation.layout.urls['helper']}/tasks/{self.simulation.task(self.recipe).task_id_text}/{path}",
            headers={"authorization": f"Bearer {secrets.token}", "content-type": media_types.dap(message)},
            body=body,
        )

    def prepared(self, report: Report) -> Prepared:
        """What a leader gets out of a report, whose helper's half it cannot read."""
        party = self.simulation.party("leader", self.recipe)
        found = leader_role.prepare_report(party, report, self.simulation.clock.now())
        assert isinstance(found, Prepared), found
        return found

    async def job(self, *prepared: Prepared) -> list[VerifyRespType]:
        """Send the helper a job of one's own making; its verdict on each report."""
        request = leader_role.init_request(self.simulation.task(self.recipe), prepared, None)
        answer = await self.as_leader("aggregation_jobs", "aggregation-job-init-req", request.encode())
        assert answer.status in (200, 201), answer.body
        return verdicts_of(answer)

    async def ask_for_share(self, *reports: Report) -> HttpResponse:
        """Ask the helper for the aggregate share of a batch that consists of these reports."""
        task = self.simulation.task(self.recipe)
        request = AggregateShareReq(
            collection_request(task),
            BatchSelector.time_interval(task.interval),
            len(reports),
            checksum_of(report.report_metadata.report_id for report in reports),
        )
        return await self.as_leader("aggregate_shares", "aggregate-share-req", request.encode())

    async def accepted(self, recipe: Recipe | None = None) -> tuple[int, int]:
        """How many reports leader and helper have counted."""
        counts = [await self.simulation.status(name, recipe or self.recipe) for name in ("leader", "helper")]
        return counts[0]["distinct_nullifiers"], counts[1]["distinct_nullifiers"]

    async def causes(self, name: str) -> dict[str, int]:
        """An aggregator's rejections by cause."""
        found: dict[str, int] = (await self.simulation.status(name, self.recipe))["rejected_by_cause"]
        return found


@asynccontextmanager
async def stage(
    simulation: Simulation, devices: int, *, tokens: bool = True, recipes: Sequence[dict[str, Any]] = ({},)
) -> AsyncIterator[Stage]:
    """Active recipes, the first of which may be active already, and provisioned devices, by default with tokens."""
    async with simulation.running():
        made = [simulation.recipe(**options) for options in recipes]
        for recipe in made:
            if not simulation.serves(recipe):
                await simulation.publish(recipe)
        simulation.provision([{"four": "a"} for _ in range(devices)])
        await simulation.step_agents()
        if tokens:
            simulation.clock.jump(made[0].interval.start - 1 - simulation.clock.now())
            for device in simulation.devices:
                await device.agent.prefetch()
        await simulation.ask_time()
        yield Stage(simulation, made[0], simulation.devices)


async def decide(found: Stage) -> list[Report]:
    """Every device decides; the reports that they made."""
    for device in found.devices:
        await device.agent.consider()
    reports = [device.report(found.recipe) for device in found.devices]
    return [report for report in reports if report is not None]


async def ask_for_token(found: Stage, device: Device, seed: int) -> BoundToken | None:
    """One more token request of a device, with a fresh blinded message."""
    simulation = found.simulation
    entropy = SeededEntropy(b"sybil %d" % seed)
    key = TokenKey.from_spki(simulation.task(found.recipe).token_key_spki)
    preimages = Preimages.draw(entropy)
    pending = request_token(key, slot_challenge(simulation.task(found.recipe).slot), preimages.nonce, entropy)
    answer = await send_token_request(simulation, device, pending)
    if answer.status != 200:
        return None
    return BoundToken(pending.finalize(key, TokenResponse.decode(answer.body)).encode(), preimages)


async def send_token_request(simulation: Simulation, device: Device, pending: PendingToken) -> HttpResponse:
    """Attest and ask, as the agent does."""
    url = simulation.layout.urls["attester"]
    challenge = challenge_of((await simulation.network.request("POST", f"{url}/v1/challenge")).body)
    evidence = device.identity.attest(attestation_binding(challenge, pending.request))
    return await simulation.network.request(
        "POST",
        f"{url}/v1/token-requests",
        headers={"content-type": media_types.JSON},
        body=token_request_body(evidence, challenge, pending.request),
    )


# R1: one token per attested device and slot


@pytest.mark.slow
async def test_devices_that_ask_for_many_tokens_at_once_and_across_crashes_count_once_each(
    simulation: Simulation,
) -> None:
    async with stage(simulation, 3, tokens=False) as found:
        got: list[BoundToken | None] = []
        for number, device in enumerate(found.devices):
            if number == 0:
                simulation.break_next("attester", "issuer", LOSE_REQUEST, "token-request")
            if number == 1:
                simulation.break_next("attester", "issuer", LOSE_RESPONSE, "token-request")
            seeds = range(100 * number, 100 * number + 12)
            got += await asyncio.gather(*(ask_for_token(found, device, seed) for seed in seeds))
            await simulation.crash("attester")
            got += [await ask_for_token(found, device, 100 * number + 50)]
            await simulation.crash("issuer")
            got += [await ask_for_token(found, device, 100 * number + 51)]
        tokens = [token for token in got if token is not None]
        assert len(tokens) == 1, "two devices lost their answer and hold nothing, the third has exactly one"
        found.begin()
        forger = found.forger()
        await found.upload(*(forger.valid(0, token=token) for token in tokens for _ in range(5)))
        await simulation.work()
        assert await found.accepted() == (1, 1)


async def test_a_device_gets_its_one_token_again_with_the_same_request_only(simulation: Simulation) -> None:
    async with stage(simulation, 1, tokens=False) as found:
        (device,) = found.devices
        key = TokenKey.from_spki(simulation.task(found.recipe).token_key_spki)
        entropy = SeededEntropy(b"again")
        secrets = Preimages.draw(entropy)
        pending = request_token(key, slot_challenge(simulation.task(found.recipe).slot), secrets.nonce, entropy)
        answers = []
        for _ in range(3):
            answers.append(await send_token_request(simulation, device, pending))
            await simulation.crash("attester")
            await simulation.crash("issuer")
        assert [answer.status for answer in answers] == [200, 200, 200]
        assert len({answer.body for answer in answers}) == 1
        assert await ask_for_token(found, device, 1) is None


# R2: a token is bound to its report


@pytest.mark.parametrize(("thief", "who"), [(Role.LEADER, "helper"), (Role.HELPER, "leader")])
async def test_a_token_that_an_aggregator_stole_is_refused_by_the_other(
    simulation: Simulation, thief: Role, who: str
) -> None:
    async with stage(simulation, 2) as found:
        found.begin()
        forger = found.forger()
        stolen = await found.token(found.devices[0])
        await found.upload(forger.moved_token(1, stolen, thief=thief))
        await found.simulation.work()
        assert await found.accepted() == (0, 0)
        assert await found.causes(who) == {"token-binding": 1}


async def test_a_stolen_token_cannot_be_shown_with_the_secrets_of_another_one(simulation: Simulation) -> None:
    async with stage(simulation, 2) as found:
        found.begin()
        stolen, own = [await found.token(device) for device in found.devices]
        task, entropy = found.simulation.task(found.recipe), SeededEntropy(b"mixed")
        metadata = ReportMetadata(bytes(16), task.interval.start)
        public_share, payloads = shard(task, 0, metadata.report_id, entropy)
        shares = {
            role: PlaintextInputShare(
                (Extension(TOKEN_EXTENSION_TYPE, own.preimages.extension(stolen.token, role)),), payload
            )
            for role, payload in payloads.items()
        }
        await found.upload(seal_report(task, metadata, public_share, shares, entropy))
        await found.simulation.work()
        assert await found.accepted() == (0, 0)
        assert await found.causes("leader") == {"token-binding": 1}


async def test_a_leader_cannot_move_an_honest_share_under_another_report_id_or_time(
    simulation: Simulation,
) -> None:
    async with stage(simulation, 1) as found:
        (report,) = await decide(found)
        found.begin()
        good = found.prepared(report)
        for metadata in (
            ReportMetadata(bytes(16), report.report_metadata.time),
            ReportMetadata(report.report_metadata.report_id, found.simulation.task(found.recipe).interval.start),
        ):
            if metadata == report.report_metadata:
                continue
            share = replace(good.verify_init.report_share, report_metadata=metadata)
            moved = replace(good, verify_init=replace(good.verify_init, report_share=share))
            assert await found.job(moved) == [VerifyRespType.REJECT]
        assert (await found.accepted())[1] == 0


async def test_a_token_of_another_slot_is_refused_by_both(simulation: Simulation) -> None:
    async with stage(simulation, 1) as found:
        found.begin()
        other = await found.token(found.devices[0], slot=1)
        await found.upload(found.forger().valid(0, token=other))
        await found.simulation.work()
        assert await found.accepted() == (0, 0)
        assert await found.causes("leader") == {"token-key": 1}


# R3: a batch needs B distinct tokens by the helper's own count


async def test_a_leader_that_drops_all_but_one_and_fills_up_with_stolen_tokens_gets_no_share(
    simulation: Simulation,
) -> None:
    async with stage(simulation, B) as found:
        reports = await decide(found)
        found.begin()
        forger = found.forger()
        target, victims = reports[0], found.devices[1:]
        forged = [forger.moved_token(0, await found.token(device), thief=Role.LEADER) for device in victims]
        verdicts = await found.job(*(found.prepared(report) for report in (target, *forged)))
        assert verdicts == [VerifyRespType.CONTINUE] + [VerifyRespType.REJECT] * (B - 1)
        again = await found.job(found.prepared(target))
        assert again == [VerifyRespType.REJECT]
        found.end()
        for claimed in ([target], [target, *forged], [target] * B):
            answer = await found.ask_for_share(*claimed)
            assert answer.status == 400
            assert b"invalidBatchSize" in answer.body
        assert (await found.simulation.status("helper", found.recipe))["released"] == 0


# R4: a token is spent once


async def test_one_token_in_many_reports_at_once_and_after_a_crash_counts_once(simulation: Simulation) -> None:
    async with stage(simulation, 1) as found:
        found.begin()
        simulation, forger = found.simulation, found.forger()
        token = await found.token(found.devices[0])
        reports = [forger.valid(0, token=token) for _ in range(20)]
        await asyncio.gather(*(found.upload(report) for report in reports))
        await simulation.work()
        assert await found.accepted() == (1, 1)
        await simulation.crash("leader")
        await simulation.crash("helper")
        await found.upload(forger.valid(0, token=token))
        await simulation.work()
        assert await found.accepted() == (1, 1)
        assert await found.causes("leader") == {"token-spent": 20}


async def test_the_same_report_again_is_success_and_counts_once(simulation: Simulation) -> None:
    async with stage(simulation, 1) as found:
        found.begin()
        report = found.forger().valid(0, token=await found.token(found.devices[0]))
        for _ in range(3):
            assert await found.upload(report) == UploadErrors(())
            await found.simulation.work()
            await found.simulation.crash("leader")
        assert await found.accepted() == (1, 1)


async def test_shares_of_two_reports_with_one_token_do_not_go_together(simulation: Simulation) -> None:
    async with stage(simulation, 1) as found:
        found.begin()
        forger, token = found.forger(), await found.token(found.devices[0])
        first, second = (forger.valid(0, token=token, report_id=bytes(15) + bytes([n])) for n in range(2))
        crossed = replace(first, helper_encrypted_input_share=second.helper_encrypted_input_share)
        await found.upload(crossed)
        await found.simulation.work()
        assert await found.accepted() == (0, 0)


async def test_a_token_whose_report_failed_its_proof_stays_spent(simulation: Simulation) -> None:
    async with stage(simulation, 1) as found:
        found.begin()
        forger, token = found.forger(), await found.token(found.devices[0])
        await found.upload(forger.bad_proof(0, token=token))
        await found.simulation.work()
        await found.upload(forger.valid(0, token=token))
        await found.simulation.work()
        assert await found.accepted() == (0, 0)
        assert await found.causes("leader") == {"helper-vdaf-verify-error": 1, "token-spent": 1}


# R5: all parties agree on the recipe, or nothing opens


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"min_batch_size": 1}, {"task_info": bytes(32)}], ids=["B", "recipe hash"])
@pytest.mark.parametrize("who", ["leader", "helper"])
async def test_nothing_opens_at_an_aggregator_that_runs_another_recipe(
    simulation: Simulation, who: str, changes: dict[str, Any]
) -> None:
    async with stage(simulation, 2) as found:
        reports = await decide(found)
        party = found.simulation.party(who, found.recipe)
        wrong = replace(party.task, configuration=replace(party.task.configuration, **changes))
        found.simulation.apps[who][PARTIES].add(replace(party, task=wrong))
        found.begin()
        await found.upload(*reports)
        await found.simulation.work()
        assert await found.accepted() == (0, 0)
        assert await found.causes(who) == {"hpke-decrypt": 2}


# R9: the rate bound


async def test_more_than_twice_the_expected_contributions_are_refused_by_both_independently(
    new_simulation: NewSimulation,
) -> None:
    small = {"population": 2, "min_batch_size": 2}
    async with stage(new_simulation(), 5, recipes=[small]) as found:
        reports = await decide(found)
        found.begin()
        await found.upload(*reports)
        await found.simulation.work()
        assert await found.accepted() == (5, 5)
        found.end()
        collection = await found.simulation.collect(found.recipe)
        assert collection["state"] == "refused"
        assert "twice the expected" in collection["detail"]
        answer = await found.ask_for_share(*reports)
        assert answer.status == 403
        assert b"twice the expected" in answer.body


async def test_twice_the_expected_contributions_are_released(new_simulation: NewSimulation) -> None:
    small = {"population": 2, "min_batch_size": 2}
    async with stage(new_simulation(), 4, recipes=[small]) as found:
        await found.upload(*await reports_in_time(found))
        found.end()
        assert (await found.simulation.collect(found.recipe))["state"] == "released"


async def reports_in_time(found: Stage) -> list[Report]:
    """The devices' reports, at a time when all of them may be sent."""
    reports = await decide(found)
    found.begin()
    return reports


# R10: replays at every hop


@pytest.mark.slow
async def test_captured_bytes_are_refused_or_change_nothing_at_every_hop(new_simulation: NewSimulation) -> None:
    simulation = new_simulation()  # whose transcript has the recipe's way into the log, too
    async with stage(simulation, B) as found:
        await decide(found)
        await simulation.live(found.recipe.interval.end - 1)
        assert await found.accepted() == (B, B)
        captured = [c for c in simulation.wire if c.method == "POST"]
        passed = len(simulation.wire.between("gateway", "leader"))
        tokens = simulation.rows("attester", "select count(*) from quotas")

        async def replay_all() -> None:
            deleted = {crossing.url for crossing in simulation.wire if crossing.method == "DELETE"}
            for crossing in captured:
                answer = await simulation.network.request(
                    "POST", crossing.url, headers=crossing.headers, body=crossing.body
                )
                assert answer.status < 500, crossing
                if crossing.callee == "attester" and crossing.url.endswith("token-requests"):
                    assert answer.status == 403
                if crossing.callee in ("issuer", "helper"):
                    assert crossing.response is not None
                    job = urljoin(crossing.url, crossing.response.headers.get("location", ""))
                    if crossing.callee == "helper" and job in deleted:
                        assert set(verdicts_of(answer)) == {VerifyRespType.REJECT}
                    else:
                        assert answer.body == crossing.response.body
            await simulation.work()

        await replay_all()
        for name in ("gateway", "attester", "issuer", "leader", "helper"):
            await simulation.crash(name)
        await replay_all()
        assert len(simulation.wire.between("gateway", "leader")) == passed, "a replay passed the gateway"
        assert simulation.rows("attester", "select count(*) from quotas") == tokens
        assert await found.accepted() == (B, B)
        assert await found.causes("leader") == {}
        found.end()
        collection = await simulation.collect(found.recipe)
        assert collection["state"] == "released"
        assert (await simulation.results(found.recipe))[0]["report_count"] == B


async def test_a_report_in_a_second_job_is_a_replay_also_after_a_crash(simulation: Simulation) -> None:
    async with stage(simulation, 2) as found:
        first, second = [found.prepared(report) for report in await reports_in_time(found)]
        assert await found.job(first, second) == [VerifyRespType.CONTINUE] * 2
        assert await found.job(second, first) == [VerifyRespType.REJECT] * 2
        await found.simulation.crash("helper")
        assert await found.job(first) == [VerifyRespType.REJECT]
        assert (await found.accepted())[1] == 2


# R11: a batch is released once, whole, and then closed


async def test_a_batch_of_b_minus_one_waits_for_one_more_and_is_then_closed_for_good(
    simulation: Simulation,
) -> None:
    async with stage(simulation, B + 1) as found:
        reports = await reports_in_time(found)
        await found.upload(*reports[: B - 1])
        found.end()
        early = await simulation.collect(found.recipe)
        assert (early["state"], "invalidBatchSize" in early["rule"]) == ("refused", True)
        assert not simulation.wire.between("leader", "helper", "aggregate_shares")
        refused = await found.ask_for_share(*reports[: B - 1])
        assert b"invalidBatchSize" in refused.body
        assert await found.upload(reports[B - 1]) == UploadErrors(())
        released = await simulation.collect(found.recipe)
        assert released["state"] == "released"
        (late,) = (await found.upload(reports[B])).status
        assert late.error.name == "BATCH_COLLECTED"
        again = await simulation.collect(found.recipe)
        assert again == released
        (result,) = await simulation.results(found.recipe)
        assert result["report_count"] == B


async def test_a_leader_gets_no_second_share_for_one_report_more_or_another_interval(
    simulation: Simulation,
) -> None:
    async with stage(simulation, B + 1) as found:
        reports = await reports_in_time(found)
        await found.job(*(found.prepared(report) for report in reports[:B]))
        found.end()
        first = await found.ask_for_share(*reports[:B])
        assert first.status in (200, 201)
        assert (await found.ask_for_share(*reports[:B])).body == first.body
        assert await found.job(found.prepared(reports[B])) == [VerifyRespType.REJECT]
        for other in (reports, reports[: B - 1], reports[1 : B + 1]):
            answer = await found.ask_for_share(*other)
            assert answer.status == 400
        assert (await found.simulation.status("helper", found.recipe))["released"] == 1


async def test_reports_and_tokens_of_one_recipe_do_not_count_in_another(simulation: Simulation) -> None:
    recipes = [{}, {"name": "second", "token": simulation.slot(1)}]
    async with stage(simulation, 2, recipes=recipes) as found:
        second = simulation.recipe(**recipes[1])
        reports = await reports_in_time(found)
        await found.upload(*reports, recipe=second)
        stolen = await found.token(found.devices[0])
        await found.upload(found.forger(second).valid(0, token=stolen), recipe=second)
        await simulation.work()
        assert await found.accepted(second) == (0, 0)


# R12: one slot, one recipe


async def test_a_second_recipe_on_a_slot_is_refused_by_the_log(simulation: Simulation) -> None:
    async with stage(simulation, 1) as found:
        other = found.simulation.recipe(name="overlapping", population=9)
        answer = await found.simulation.post_recipe(other)
        assert answer.status >= 400
        assert b"slot-taken" in answer.body


async def test_recipes_on_two_slots_are_both_charged_to_the_devices_ledger(simulation: Simulation) -> None:
    recipes = [{}, {"name": "second", "token": simulation.slot(1)}]
    async with stage(simulation, 1, recipes=recipes) as found:
        await decide(found)
        entries = await found.devices[0].store.entries()
        assert [entry.state for entry in entries] == [State.SCHEDULED] * 2
        assert all(float(entry.charged_epsilon) > 0.9 for entry in entries)
