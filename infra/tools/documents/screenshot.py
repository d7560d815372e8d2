"""Draws the picture of the dashboard in ``docs/pictures``: a draft of a question, with its cost and its accuracy.

``python -m infra.tools.documents.screenshot URL KEY_FILE OUT`` requests the page from a running admin service (of
``tacit up``) as if somebody had pressed "What would it cost?", and lets a headless Chromium draw it. Playwright adds
the key to the browser's requests: no cookie is made, and nothing is stored. Pillow makes the picture small.
"""

from __future__ import annotations

import asyncio
import io
import shutil
import sys
from pathlib import Path
from urllib.parse import urlencode, urlsplit

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
FLAGS = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars")


def main() -> None:
    """Draw the picture that the command line names. Raises ``UsageError``."""
    if len(sys.argv) != 4:
        raise UsageError("python -m infra.tools.documents.screenshot URL KEY_FILE OUT")
    url, key, out = sys.argv[1].rstrip("/"), Path(sys.argv[2]).read_text("utf-8").strip(), Path(sys.argv[3])
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise UsageError(f"none of {', '.join(BROWSERS)} is installed")
    require_extra("the picture", "demo,pages", "PIL", "playwright")
    _shrink(asyncio.run(_draw(browser, url, key)), out)


async def _draw(browser: str, url: str, key: str) -> bytes:
    """The page as a PNG file."""
    from playwright.async_api import Route, async_playwright

    shown = {"Authorization": f"Bearer {key}"}

    async def give(route: Route) -> None:
        path = urlsplit(route.request.url).path
        if path == PAGE:
            await route.continue_(method="POST", headers=shown | {"Content-Type": FORM_TYPE}, post_data=urlencode(FORM))
        elif path.startswith("/assets/"):
            await route.continue_(headers=shown)
        else:
            await route.abort()

    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=browser, args=FLAGS)
        page = await chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        await page.route("**/*", give)
        await page.goto(url + PAGE)
        drawn = await page.screenshot()
        await chromium.close()
        return drawn


def _shrink(drawn: bytes, out: Path) -> None:
    """Save the picture with few colours."""
    from PIL import Image

    with Image.open(io.BytesIO(drawn)) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(out, optimize=True)


if __name__ == "__main__":
    main()
