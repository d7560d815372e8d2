"""Vectors of messages: reports, an oblivious exchange, aggregate shares."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

from infra.lab.kit.reports import token_source
from infra.lab.vectors.cast import Cast, cast
from tacit import bhttp, ohttp
from tacit.bhttp import Request, Response
from tacit.media_types import dap
from tacit.messages import CollectionJobReq, PlaintextInputShare, Query, Report, ReportMetadata, Role, UploadRequest
from tacit.methods.estimators.registry import estimator_of
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder import labels
from tacit.roles import client
from tacit.task import Task, input_share_aad, seal_aggregate_share, verify_key_of
from tacit.vdaf.release import added_up

MEASUREMENTS: dict[str, Any] = {
    "doctor-visits": 3,
    "crashed": 1,
    "languages": [0, 1, 0, 0, 1, 0],
    "spent": 41,
    "update": [30, 12, 25],
    "update-proved": [225, 196, 231],
}
BATCH = (3, 3, 0, 15, 7, 3)
_SIDES = {Role.LEADER: "leader", Role.HELPER: "helper"}


def reports() -> dict[str, Any]:
    """Return one report for each VDAF, step by step."""
    people = cast()
    return {"reports": [_report(people, name, measurement) for name, measurement in MEASUREMENTS.items()]}


def _report(people: Cast, name: str, measurement: Any) -> dict[str, Any]:
    task, draw = people.task(name), people.draws(f"report {name}")
    bound = token_source(people.issuer, draw.entropy.child("token"))(people.slot(name))
    report_id = draw(16)
    metadata = ReportMetadata(report_id, task.interval.start)
    draw.hex()
    public_share, payloads = client.shard(task, measurement, report_id, draw)
    (vdaf_rand,) = draw.hex()
    plain = {
        role: PlaintextInputShare((client.token_extension(bound.token, bound.preimages, role),), payload)
        for role, payload in payloads.items()
    }
    report = client.seal_report(task, metadata, public_share, plain, draw)
    ephemeral = dict(zip(_SIDES, draw.hex(), strict=True))
    sealed = {Role.LEADER: report.leader_encrypted_input_share, Role.HELPER: report.helper_encrypted_input_share}
    return {
        "recipe": name,
        "measurement": measurement,
        "report_id": report_id.hex(),
        "time": metadata.time,
        "token": bound.token.hex(),
        "r_leader": bound.preimages.r_leader.hex(),
        "r_helper": bound.preimages.r_helper.hex(),
        "vdaf_rand": vdaf_rand,
        "public_share": public_share.hex(),
        "aad": input_share_aad(task, metadata, public_share).hex(),
        **{
            side: {
                "input_share": payloads[role].hex(),
                "plaintext": plain[role].encode().hex(),
                "hpke_info": task.version.input_share_info(role).hex(),
                "ephemeral_private": ephemeral[role],
                "enc": sealed[role].enc.hex(),
                "ciphertext": sealed[role].payload.hex(),
            }
            for role, side in _SIDES.items()
        },
        "report": report.encode().hex(),
        "url": f"{task.configuration.leader_aggregator_endpoint}/tasks/{task.task_id_text}/reports",
    }


def ohttp_exchange() -> dict[str, Any]:
    """Return an upload of the first report, and the answer to a stored report."""
    people = cast()
    draw, (config, pair) = people.draws("ohttp"), people.gateway
    first = _report(people, "doctor-visits", MEASUREMENTS["doctor-visits"])
    content = UploadRequest((Report.decode(bytes.fromhex(first["report"])),)).encode()
    scheme, _, rest = first["url"].partition("://")
    authority, _, path = rest.partition("/")
    fields = (("date", formatdate(people.now // 60 * 60, usegmt=True)), ("content-type", dap("upload-req")))
    request = Request("POST", scheme, authority, f"/{path}", fields, content)
    message, client_side = ohttp.padded_request(config, request, draw)
    (ephemeral,) = draw.hex()
    _, server_side = ohttp.Decapsulator([(config, pair)]).decapsulate_request(message)
    response = Response(200)
    answer = ohttp.padded_response(server_side, response, draw)
    (nonce,) = draw.hex()
    if ohttp.open_response(client_side, answer) != response:
        raise ValueError("the answer does not open")
    return {
        "key_config": config.encode().hex(),
        "method": request.method,
        "scheme": scheme,
        "authority": authority,
        "path": request.path,
        "fields": [list(field) for field in fields],
        "content": content.hex(),
        "binary_http_request": bhttp.encode_request(request).hex(),
        "hpke_info": ohttp.request_info(config).hex(),
        "ephemeral_private": ephemeral,
        "encapsulated_request": message.hex(),
        "binary_http_response": bhttp.encode_response(response).hex(),
        "response_nonce": nonce,
        "encapsulated_response": answer.hex(),
    }


def aggregate() -> dict[str, Any]:
    """Return the steps from a batch of the first recipe (smaller than its B, so not released in practice) to its
    estimate."""
    people = cast()
    name = "doctor-visits"
    recipe, task, draw = people.recipes[name], people.task(name), people.draws("aggregate")
    verify_key = verify_key_of(people.kit.verify_key_seed, task.task_id)
    shares: list[list[int]] = [task.vdaf.agg_init(None), task.vdaf.agg_init(None)]
    rows = []
    for measurement in BATCH:
        nonce, rand = draw(16), draw(task.vdaf.RAND_SIZE)
        row, outs = _verified(task, verify_key, measurement, nonce, rand)
        shares = [task.vdaf.agg_update(None, share, out) for share, out in zip(shares, outs, strict=True)]
        rows.append({"measurement": measurement, "report_id": nonce.hex(), "vdaf_rand": rand.hex(), **row})
    draw.hex()
    request = CollectionJobReq(Query.time_interval(task.interval)).encode()
    encoded = [task.vdaf.encode_agg_share(share) for share in shares]
    sealed = [seal_aggregate_share(task, role, request, one, draw) for role, one in zip(_SIDES, encoded, strict=True)]
    ephemeral = draw.hex()
    counts = added_up(task.vdaf, shares, len(BATCH))
    estimate = estimator_of(randomizer_of(recipe)).estimate(counts, len(BATCH), design_of(recipe))
    return {
        "recipe": name,
        "verify_key": verify_key.hex(),
        "reports": rows,
        "collection_job_req": request.hex(),
        "aad": (task.aad_prefix + request).hex(),
        **{
            side: {
                "aggregate_share": encoded[place].hex(),
                "hpke_info": task.version.aggregate_share_info(role).hex(),
                "ephemeral_private": ephemeral[place],
                "enc": sealed[place].enc.hex(),
                "ciphertext": sealed[place].payload.hex(),
            }
            for place, (role, side) in enumerate(_SIDES.items())
        },
        "report_count": len(BATCH),
        "counts": list(counts),
        "labels": list(labels(recipe)),
        "estimates": [round(value, 6) for value in estimate.values],
        "standard_errors": [round(value, 6) for value in estimate.stderrs],
    }


def _verified(
    task: Task, verify_key: bytes, measurement: Any, nonce: bytes, rand: bytes
) -> tuple[dict[str, Any], list[list[int]]]:
    """Verify a report's shares as both aggregators do; returns the messages they exchange, and both output shares."""
    vdaf = task.vdaf
    public_share, input_shares = vdaf.shard(task.ctx, measurement, nonce, rand)
    states, sent = zip(
        *(
            vdaf.verify_init(verify_key, task.ctx, number, None, nonce, public_share, share)
            for number, share in enumerate(input_shares)
        ),
        strict=True,
    )
    verifier_message = vdaf.verifier_shares_to_message(task.ctx, None, list(sent))
    row = {
        "public_share": vdaf.encode_public_share(public_share).hex(),
        "input_shares": [vdaf.encode_input_share(share).hex() for share in input_shares],
        "verifier_shares": [vdaf.encode_verifier_share(one).hex() for one in sent],
        "verifier_message": (verifier_message or b"").hex(),
    }
    return row, [vdaf.verify_next(task.ctx, state, verifier_message) for state in states]
