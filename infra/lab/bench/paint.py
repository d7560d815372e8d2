"""Measures when a browser first shows something of a dashboard page: Chromium, driven by playwright, without a cache.

A figure is the browser's own entry ``first-contentful-paint`` (Paint Timing), from the start of the navigation; it
includes the service's answer, styles and scripts, and the browser's own work.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tacit.errors import Fatal, UsageError
from tacit.extras import require_extra

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
WIDE: Final = {"width": 1280, "height": 900}
WAIT_MS: Final = 60_000
_PAINT: Final = """() => new Promise((done) => {
  new PerformanceObserver((list, watch) => {
    for (const entry of list.getEntriesByName("first-contentful-paint")) { watch.disconnect(); done(entry.startTime); }
  }).observe({type: "paint", buffered: true});
})"""


def browser() -> str:
    """Return the path of the browser. Raises ``UsageError`` if there is none, or no library to drive it."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise UsageError("--pages needs Chromium: install the system's package (Debian: chromium)")
    require_extra("--pages", "pages", "playwright")
    return program


async def first_paints(url: str, cookie: Mapping[str, str], pages: Sequence[str], times: int) -> dict[str, list[float]]:
    """Return, for each of ``pages`` (paths), the seconds until its first paint, measured ``times`` times in the session
    of ``cookie``. Raises ``Fatal`` for a page that is refused."""
    from playwright.async_api import async_playwright

    found: dict[str, list[float]] = {page: [] for page in pages}
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=browser(), args=flags)
        for _ in range(times + 1):  # the first round, in which the browser warms up, is not counted
            for page in pages:
                found[page].append(await _first_paint(chromium, url, cookie, page))
        await chromium.close()
    return {page: several[1:] for page, several in found.items()}


async def _first_paint(chromium: Any, url: str, cookie: Mapping[str, str], page: str) -> float:
    context = await chromium.new_context(viewport=WIDE)
    try:
        context.set_default_timeout(WAIT_MS)
        await context.add_cookies([{"name": name, "value": value, "url": url} for name, value in cookie.items()])
        tab = await context.new_page()
        answer = await tab.goto(f"{url}{page}")
        if answer is None or answer.status != 200 or not tab.url.endswith(page):
            raise Fatal(f"the page {page} was not shown")
        return float(await tab.evaluate(_PAINT)) / 1000
    finally:
        await context.close()
