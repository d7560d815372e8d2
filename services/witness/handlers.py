"""The witness's HTTP resources: ``add-checkpoint`` of C2SP tlog-witness, and its key."""

from __future__ import annotations

from aiohttp import web

from services.witness.service import SizeConflict, Witness
from tacit.service.app import read_body
from tacit.tlog.witnessing import MAX_ADD_CHECKPOINT, SIZE_MEDIA_TYPE

WITNESS = web.AppKey("witness", Witness)
TEXT = "text/plain; charset=utf-8"


async def post_add_checkpoint(request: web.Request) -> web.Response:
    """POST /add-checkpoint: 200 with the cosignature line; 409 with the tree size that this witness cosigned last; 400,
    403, 404 and 422 as problem documents."""
    data = await read_body(request, MAX_ADD_CHECKPOINT)
    try:
        line = await request.app[WITNESS].add_checkpoint(data)
    except SizeConflict as conflict:
        body = f"{conflict.size}\n".encode()
        return web.Response(status=409, body=body, headers={"Content-Type": SIZE_MEDIA_TYPE})
    return web.Response(body=line, headers={"Content-Type": TEXT})


async def get_key(request: web.Request) -> web.Response:
    """GET /key: the verifier key, for use in policies."""
    return web.Response(body=f"{request.app[WITNESS].key.encode()}\n".encode(), headers={"Content-Type": TEXT})
