"""Draws the picture of the dashboard in ``docs/pictures``: a draft of a question, with its cost and its accuracy.

``python -m infra.tools.documents.screenshot URL KEY_FILE OUT`` requests the page from a running admin service (of
``tacit up``) as if somebody had pressed "What would it cost?", and lets a headless Chromium draw it. The browser
connects only to a server of this process on loopback, which adds the key to its requests: no cookie is made, and
nothing is stored. The browser's own files lie in a folder that is removed. Pillow makes the picture small.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from aiohttp import ClientSession, web

from tacit.errors import UsageError
from tacit.extras import require_extra

PAGE, FORM_TYPE = "/questions/new", "application/x-www-form-urlencoded"
FORM = {
    "text": "How many doctor visits in the last year?", "metric": "mdvis", "encoder.kind": "buckets",
    "encoder.edges": "0, 1, 2, 4", "population": "20000", "epsilon": "1", "rate": "0.5", "delta": "0.000001",
    "model": "secure-aggregation", "close": "interval_end", "account": "default", "do": "look",
}  # fmt: skip
WIDTH, HEIGHT = 1380, 900
COLOURS = 64
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}",
)  # fmt: skip


def main() -> None:
    """Draw the picture that the command line names. Raises ``UsageError``."""
    if len(sys.argv) != 4:
        raise UsageError("python -m infra.tools.documents.screenshot URL KEY_FILE OUT")
    url, key, out = sys.argv[1].rstrip("/"), Path(sys.argv[2]).read_text("utf-8").strip(), Path(sys.argv[3])
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise UsageError(f"none of {', '.join(BROWSERS)} is installed")
    require_extra("the picture", "demo", "PIL")
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / "drawn.png"
        asyncio.run(_draw(browser, url, key, Path(folder), drawn))
        if not drawn.exists():
            raise UsageError("the browser drew nothing")
        _shrink(drawn, out)


async def _draw(browser: str, url: str, key: str, folder: Path, out: Path) -> None:
    """Write the page to ``out`` as a PNG file."""
    app = web.Application()
    async with ClientSession(headers={"Authorization": f"Bearer {key}"}) as session:

        async def give(request: web.Request) -> web.Response:
            if request.path != PAGE and not request.path.startswith("/assets/"):
                raise web.HTTPNotFound
            asked = (
                session.post(url + PAGE, data=urlencode(FORM), headers={"Content-Type": FORM_TYPE})
                if request.path == PAGE
                else session.get(url + request.path)
            )
            async with asked as answer:
                kind = answer.content_type
                return web.Response(status=answer.status, body=await answer.read(), content_type=kind, charset="utf-8")

        app.router.add_get("/{path:.*}", give)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        flags = (*FLAGS, f"--user-data-dir={folder / 'profile'}", f"--screenshot={out}")
        ran = await asyncio.create_subprocess_exec(
            browser, *flags, f"http://127.0.0.1:{port}{PAGE}",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        await ran.wait()
        await runner.cleanup()


def _shrink(drawn: Path, out: Path) -> None:
    """Save the picture with few colours."""
    from PIL import Image

    with Image.open(drawn) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(out, optimize=True)


if __name__ == "__main__":
    main()
