"""The dashboard in a real browser, for questions of the local and the shuffled model and for searches in rounds: forms
by clicks, series, and results with zeros, many answers and rankings, light and dark, wide and narrow, without
scripts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from infra.lab.kit.mixed import MixedKit
from infra.lab.kit.one_server import AnalyzerKit
from infra.lab.kit.recipes import NOW
from infra.lab.kit.shuffled import ShuffledKit
from services.admin.pages.survey_fields import FIELDS
from services.admin.questions.followed_log import BESIDE_SECONDS
from tacit.methods.figures import MOST_DRAWN
from tacit.recipe.model import Recipe
from tests.e2e import test_dashboard
from tests.e2e.test_dashboard import PATIENCE, Site, unfold, visiting
from tests.http.admin_collector import CollectorStub, access, beside
from tests.http.admin_stage import KIT, Stage, key_of
from tests.http.test_admin_rounds import released

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
browser = test_dashboard.browser
Scheme = Literal["dark", "light"]
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
WIDE, NARROW = 1280, 390
MANY = 150


LOCAL = AnalyzerKit().single_parties()
PARTIES = {
    "secure-aggregation": MixedKit().parties().model_dump(mode="json"),
    "shuffled": ShuffledKit().shuffled_parties().model_dump(mode="json"),
    "local": {**LOCAL, "analyzer": {name: one for name, one in LOCAL["analyzer"].items() if name != "state_key"}},
}


POLICY = KIT.policy.model_copy(update={"aggregators": None})
"""Any servers are trusted."""


class BesideCollector(Site):
    """A site with a collector beside it."""

    def __init__(self, stage: Stage, collector: CollectorStub) -> None:
        super().__init__(stage, **access(stage), policy=POLICY)
        self.collector = collector


@pytest_asyncio.fixture(loop_scope="module")
async def site(tmp_path: Path) -> AsyncIterator[BesideCollector]:
    stage, collector = Stage(tmp_path), CollectorStub()
    await stage.prepare()
    (tmp_path / "parties.json").write_text(json.dumps(PARTIES))
    await beside(stage, collector)
    running = BesideCollector(stage, collector)
    await running.start()
    yield running
    await running.stop()
    await stage.inner.close()


async def assert_fits(page: Page, *widths: int) -> None:
    """Nothing is wider than the page, at each of these widths of the window."""
    for width in widths:
        await page.set_viewport_size({"width": width, "height": 844})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, (page.url, width)


async def fill(page: Page, kind: str, choices: dict[str, str], fields: dict[str, str]) -> None:
    await unfold(page)
    await page.get_by_label("Kind of answer", exact=True).select_option(kind)
    for label, choice in choices.items():
        await page.get_by_label(label, exact=True).select_option(choice)
    for label, value in fields.items():
        await page.get_by_label(label, exact=True).fill(value)


async def test_each_kind_of_answer_shows_its_own_fields_and_no_others(site: Site, browser: Browser) -> None:
    of_kind = [one for one in FIELDS if one.kinds]
    async with visiting(browser, site.url, key_of("analyst"), "/questions/new") as page:
        await unfold(page)
        for kind in {kind for one in of_kind for kind in one.kinds}:
            await page.get_by_label("Kind of answer", exact=True).select_option(kind)
            for one in of_kind:
                field = page.locator(f'[name="{one.path}"]')
                await (expect(field).to_be_visible() if kind in one.kinds else expect(field).to_be_hidden())


FORMS: dict[str, tuple[str, dict[str, str], dict[str, str], str]] = {
    "zsum": (
        "categories", {"Model": "shuffled"}, {"Categories": "a\nb\nc", "Devices": "2000"},
        r"will use zsum: ± \d+ devices",
    ),
    "many answers": (
        "number", {"Model": "shuffled", "Statistic": "histogram"},
        {"Lowest value": "1", "Highest value": "6000", "Devices": "20000"}, r"will use flipped: ± \d\d devices",
    ),
    "local": (
        "strings", {"Model": "local"},
        {"Length": "6", "Characters": ALPHABET, "Devices": "20000", "Epsilon": "4"}, r"listed from about \d+ devices",
    ),
    "through a shuffler": (
        "categories", {"Reports pass": "shuffler"}, {"Categories": "a\nb", "Devices": "2000"}, r"will use \w+: ±",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
async def test_what_a_question_of_each_model_costs_is_drawn_while_it_is_written(
    site: Site, browser: Browser, form: str
) -> None:
    kind, choices, fields, told = FORMS[form]
    async with visiting(browser, site.url, key_of("analyst"), "/questions/new") as page:
        await fill(page, kind, choices, {"Metric": "m", "Sampling rate q": "1", **fields})
        await expect(page.locator("#preview .used")).to_contain_text(re.compile(told))
        await expect(page.locator("#preview")).to_contain_text("accepted by all")
        await assert_fits(page, NARROW, WIDE)
        await page.get_by_role("button", name="Save as a draft").click()
        await page.get_by_role("button", name="Submit for approval").click()
        await expect(page.get_by_text("another person has to approve it")).to_be_visible()
        await assert_fits(page, NARROW, WIDE)


async def back(page: Page, url: str, role: str) -> None:
    """Open the page again, and sign in again if the session has ended in between."""
    await page.goto(url)
    if await page.get_by_role("heading", name="Sign in", exact=True).count():
        await page.get_by_label("Key", exact=True).fill(key_of(role))
        await page.locator("#key").press("Enter")
        await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        await page.goto(url)


async def approve(page: Page, site: Site, question: str) -> None:
    await back(page, question, "approver")
    await page.get_by_role("button", name="Approve").click()
    await page.get_by_role("button", name="Publish").click()
    await expect(page.locator("h1 .state")).to_have_text("published")
    await site.stage.clock.advance(BESIDE_SECONDS)


async def test_a_search_becomes_a_series_whose_rounds_are_drafted_by_clicks_until_its_texts_are_ranked(
    site: BesideCollector, browser: Browser
) -> None:
    stage = site.stage
    await stage.start(**access(stage), policy=POLICY)
    author, approver = key_of("analyst"), key_of("approver")
    texts = {"Metric": "text", "Length": "2", "Characters": "<ab", "Bits of a round": "2, 4", "Candidates": "12"}
    asked = {"Devices": "20000", "Sampling rate q": "1", "Lasts": "600", "Short name": "texts"}
    async with (
        visiting(browser, site.url, author, "/questions/new") as page,
        visiting(browser, site.url, approver) as other,
    ):
        await fill(page, "prefixes", {}, {**texts, **asked})
        await expect(page.locator("#preview .used")).to_contain_text("listed from about")
        await page.get_by_role("button", name="Save as a draft").click()
        await page.get_by_role("button", name="Submit for approval").click()
        await expect(page.get_by_text("It becomes a series of rounds")).to_be_visible()
        await approve(other, site, page.url)
        await page.reload()
        await page.get_by_role("link", name="draft the first round").click()
        series = page.url
        for index in range(2):
            await page.get_by_role("button", name=f"Draft round {index + 1}").click()
            await page.get_by_role("button", name="Submit for approval").click()
            await expect(page.get_by_text("another person has to approve it")).to_be_visible()
            await approve(other, site, page.url)
            recipe = Recipe.from_body((await stage.shown(page.url.rpartition("/")[2]))["recipe"])
            await stage.clock.advance(recipe.interval.end + 10 - stage.clock.now())
            site.collector.released.append(released(recipe))
            await stage.clock.advance(BESIDE_SECONDS)
            await back(page, series, "analyst")
            await assert_fits(page, NARROW, WIDE)
        await expect(page.get_by_role("rowheader", name='"<')).to_have_count(0)
        await expect(page.get_by_text("every other text of the domain is below")).to_be_visible()
        assert await page.get_by_role("button", name="Draft round").count() == 0


def result(name: str, statistic: str, **answers: Any) -> dict[str, Any]:
    return {
        "name": name, "recipe_hash": f"hash-of-{name}", "batch": 0, "statistic": statistic, "report_count": 2_000,
        "released_at": NOW + 90, "interval": {"start": NOW, "duration": 60}, **answers,
    }  # fmt: skip


def row(label: str, estimate: float, stderr: float = 7.0) -> dict[str, Any]:
    return {"label": label, "estimate": estimate, "count": 0, "stderr": stderr}


ZEROS = {"below": 67.0, "probability": 0.95, "false_positive_rate": 0.0}
RANKED = {
    "items": [{"item": f"text {at}", "estimate": 900.0 - at, "stderr": 40.0} for at in range(MANY)],
    "rest": {"below": 310.0, "probability": 0.95},
    "threshold": {"estimate": 174.0, "false_positive_rate": 0.05},
}
RESULTS = [
    result("browsers", "histogram", buckets=[row("a", 815.0), row("b", 0.0, 36.0)], zeros=ZEROS),
    result("ports", "histogram", buckets=[row(str(at), 100.0 + at) for at in range(MANY)], zeros=ZEROS,
           unlisted={"answers": 4_850, "estimate": 0.0, "stderr": 36.0}),
    result("words", "heavy-hitters", ranked=RANKED),
]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
async def test_zeros_many_answers_and_rankings_are_read_in_every_window(
    site: BesideCollector, browser: Browser, scheme: Scheme, script: bool
) -> None:
    site.collector.released = RESULTS
    await site.stage.clock.advance(BESIDE_SECONDS)
    context = await browser.new_context(color_scheme=scheme, java_script_enabled=script)
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    await page.goto(f"{site.url}/results")
    await page.get_by_label("Key", exact=True).fill(key_of("viewer"))
    await page.locator("#key").press("Enter")
    await expect(page.get_by_role("heading", name="browsers")).to_be_visible()
    drawings = page.locator("figure.bars")
    await expect(drawings).to_have_count(len(RESULTS))
    for at, drawn in enumerate((2, MOST_DRAWN, MOST_DRAWN)):
        await expect(page.locator("section").filter(has=page.locator("figure.bars")).nth(at)).to_be_visible()
        counts = {await one.locator("line.interval").count() for one in await drawings.all()}
        assert drawn in counts
    assert await page.get_by_text(f"Drawn are the {MOST_DRAWN} largest of {MANY} answers").count() == len(RESULTS) - 1
    await expect(page.get_by_text("0 means: fewer than 67 devices")).to_have_count(2)
    await expect(page.get_by_text("every other text of the domain is below 310")).to_be_visible()
    zero = page.locator("section", has=page.get_by_role("heading", name="browsers")).locator("line.interval").nth(1)
    stem = page.locator("section", has=page.get_by_role("heading", name="browsers")).locator("line.stem").nth(1)
    begins = [float(await one.get_attribute("x1") or "nan") for one in (zero, stem)]
    assert math.isclose(*begins), "the interval of a count that is cut begins at 0"
    for width in (WIDE, NARROW):
        await page.set_viewport_size({"width": width, "height": 844})
        for summary in await page.get_by_text("As numbers").all():
            box = await summary.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= width
    if script:
        await assert_fits(page, NARROW, WIDE)
    await context.close()
