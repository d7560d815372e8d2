"""A training run in the dashboard in a real browser: from the plan's file to the page that shows its rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from infra.lab.kit.recipes import RecipeKit
from tacit.recipe.series import Series
from tests.e2e import test_dashboard
from tests.e2e.test_dashboard import Site, visiting
from tests.e2e.test_dashboard_models import NARROW, WIDE, assert_fits, back
from tests.http.admin_collector import access, beside
from tests.http.admin_stage import key_of, prepared
from tests.http.test_admin_runs import PLAN, RELAXED, Collector, World

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
browser = test_dashboard.browser


async def test_a_plan_is_chosen_as_a_file_and_its_rounds_are_shown_in_every_window(
    tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecipeKit, "policy", RELAXED)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(PLAN))
    async with prepared(tmp_path) as stage:
        collector = Collector()
        await beside(stage, collector)
        world = World(stage, collector)
        await world.start()
        site = Site(stage, policy=RELAXED, **access(stage))
        await site.start()
        async with visiting(browser, site.url, key_of("analyst"), "/plans/new") as page:
            await assert_fits(page, NARROW, WIDE)
            await page.get_by_label("Plan file").set_input_files(plan)
            await expect(page.get_by_label("Plan", exact=True)).to_have_value(plan.read_text())
            await page.get_by_role("button", name="What would it cost?").click()
            await expect(page.get_by_role("heading", name="What it would cost")).to_be_visible()
            await page.get_by_role("button", name="Save as a draft").click()
            await page.get_by_role("button", name="Submit for approval").click()
            await expect(page.get_by_text("the approval covers all of them")).to_be_visible()
            await assert_fits(page, NARROW, WIDE)
            question = f"/v1{page.url.removeprefix(site.url)}"
            await stage.call("POST", f"{question}/approve", {}, role="approver", status=200)
            _, found = await stage.call("POST", f"{question}/publish", {}, status=200)
            series = Series.from_body(found["recipe"])
            await world.look()
            (first,) = await world.rounds(series)
            world.release(first)
            await world.until(first.interval.end + 5)
            await world.look()
            await back(page, f"{site.url}/series/{series.hash_text}", "analyst")
            await expect(page.get_by_role("link", name="model file")).to_be_visible()
            await expect(page.get_by_role("columnheader", name="ε so far")).to_be_visible()
            await assert_fits(page, NARROW, WIDE)
        await site.stop()
