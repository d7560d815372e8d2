"""The dashboard's forms in a real browser: nothing typed is lost, whatever becomes of the server, and states are told
without colours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Route, expect

from services.admin.questions.followed_log import BESIDE_SECONDS
from tests.e2e import test_dashboard
from tests.e2e.test_dashboard import Site, unfold, visiting
from tests.http.admin_collector import CollectorStub, beside
from tests.http.admin_stage import SURVEY, Stage, key_of
from tests.http.test_admin_pages import release

pytestmark = pytest.mark.asyncio(loop_scope="module")  # in which the browser lives
browser, site = test_dashboard.browser, test_dashboard.site
METRIC, NAME = "Metric", "Short name"


async def typed(page: Page, label: str, text: str) -> None:
    await page.get_by_label(label, exact=True).fill(text)


async def stands(page: Page, label: str, text: str) -> None:
    await expect(page.get_by_label(label, exact=True)).to_have_value(text)


def answering(status: int, body: str) -> Callable[[Route], Awaitable[None]]:
    """A proxy that answers every request itself."""

    async def answer(route: Route) -> None:
        await route.fulfill(status=status, body=body, content_type="text/html")

    return answer


async def lose(route: Route) -> None:
    """Let the request reach the server, and lose the answer on its way back."""
    await route.fetch(max_redirects=0)
    await route.abort()


async def save(page: Page) -> None:
    await page.locator("form button.primary").click()


async def test_a_draft_outlives_a_server_that_is_away_a_reload_and_a_walk_elsewhere(
    site: Site, browser: Browser
) -> None:
    async with visiting(browser, site.url, key_of("analyst"), "/questions/new") as page:
        await unfold(page)
        await typed(page, NAME, "long-thought")
        await typed(page, METRIC, "region")
        await site.stop()
        await save(page)
        await expect(page.locator("[data-told]")).to_contain_text("cannot be reached")
        await expect(page.locator("#offline")).to_contain_text("kept in this tab until the server has it")
        await stands(page, METRIC, "region")
        await stands(page, NAME, "long-thought")
        with pytest.raises(Exception, match="ERR_CONNECTION_REFUSED"):
            await page.reload()
        await site.start()
        await page.goto(f"{site.url}/questions")
        await page.goto(f"{site.url}/questions/new")
        await stands(page, METRIC, "region")
        await stands(page, NAME, "long-thought")
        await expect(page.locator("[data-restored]")).to_contain_text("is here again")
        await save(page)
        await expect(page.get_by_role("button", name="Submit for approval")).to_be_visible()
        assert page.url.startswith(f"{site.url}/questions/")
        await page.goto(f"{site.url}/questions/new")
        await stands(page, NAME, "")
        await expect(page.locator("[data-restored]")).to_be_hidden()


async def test_a_form_that_a_refusal_or_a_failure_answers_stays_as_it_is(site: Site, browser: Browser) -> None:
    async with visiting(browser, site.url, key_of("analyst"), "/questions/new") as page:
        await typed(page, METRIC, "region")
        for status, body, words in (
            (502, "<html><h1>Bad Gateway</h1></html>", "The server answered 502."),
            (200, "", "The server answered 200."),
        ):
            await page.route("**/questions/new", answering(status, body))
            await save(page)
            await expect(page.locator("[data-told]")).to_contain_text(words)
            await stands(page, METRIC, "region")
            await page.unroute("**/questions/new")
        await page.evaluate("for (const one of document.querySelectorAll('[name=csrf]')) one.value = 'x'")
        await save(page)
        await expect(page.locator("[data-told]")).to_contain_text("CSRF")
        await stands(page, METRIC, "region")
        await page.reload()
        await stands(page, METRIC, "region")
        await page.get_by_role("button", name="Discard what I typed").click()
        await stands(page, METRIC, "")
        await page.reload()
        await stands(page, METRIC, "")


async def test_an_answer_that_is_lost_on_its_way_makes_no_second_draft(site: Site, browser: Browser) -> None:
    async with visiting(browser, site.url, key_of("analyst"), "/questions/new") as page:
        await typed(page, METRIC, "region")

        await page.route("**/questions/new", lose)
        await save(page)
        await expect(page.locator("[data-told]")).to_contain_text("cannot be reached")
        await page.unroute("**/questions/new")
        await save(page)
        await expect(page.get_by_role("button", name="Submit for approval")).to_be_visible()
        await page.get_by_role("link", name="Edit", exact=True).click()
        await page.get_by_label("Question", exact=True).fill("Which?")
        await page.route("**/edit", lose)
        await save(page)
        await expect(page.locator("[data-told]")).to_contain_text("cannot be reached")
        await page.unroute("**/edit")
        await save(page)
        await expect(page.locator("p.lead")).to_have_text("Which?")
    await site.stage.start()
    _, found = await site.stage.call("GET", "/v1/questions", status=200)
    assert len(found["questions"]) == 1


async def test_a_newer_text_of_somebody_else_is_told_before_it_is_replaced(site: Site, browser: Browser) -> None:
    await site.stage.start()
    question = await site.stage.draft()
    path = f"/questions/{question}/edit"
    async with visiting(browser, site.url, key_of("analyst"), path) as page:
        await page.get_by_label("Question", exact=True).fill("Mine?")
        theirs = {**SURVEY, "text": "Theirs?"}
        await site.stage.call(
            "PUT", f"/v1/questions/{question}", theirs, role="approver", headers={"If-Match": '"1"'}, status=200
        )
        await page.goto(site.url + path)
        await stands(page, "Question", "Mine?")
        await expect(page.locator("[data-newer]")).to_be_visible()
        await page.get_by_role("button", name="Discard what I typed").click()
        await stands(page, "Question", "Theirs?")
        await page.get_by_label("Question", exact=True).fill("Mine again?")
        await site.stage.call(
            "PUT", f"/v1/questions/{question}", SURVEY, role="approver", headers={"If-Match": '"2"'}, status=200
        )
        await save(page)
        await expect(page.get_by_text("since you opened this form")).to_be_visible()
        await stands(page, "Question", "Mine again?")
        await save(page)
        await expect(page.locator("p.lead")).to_have_text("Mine again?")


async def test_a_plan_and_a_new_person_are_kept_and_no_password_is(site: Site, browser: Browser) -> None:
    async with visiting(browser, site.url, key_of("analyst"), "/plans/new") as page:
        await page.get_by_label("Plan", exact=True).fill('{"name": "a"}')
        await site.stop()
        await save(page)
        await expect(page.locator("[data-told]")).to_contain_text("cannot be reached")
        await site.start()
        await page.reload()
        await stands(page, "Plan", '{"name": "a"}')
        await save(page)
        await expect(page.locator(".alert li").first).to_be_visible()
        await stands(page, "Plan", '{"name": "a"}')
    async with visiting(browser, site.url, key_of("administrator"), "/people") as page:
        await typed(page, "Name", "carol")
        await typed(page, "Password of a local account", "correct horse")
        await site.stop()
        await save(page)
        await expect(page.locator("[data-told]")).to_contain_text("cannot be reached")
        await stands(page, "Password of a local account", "correct horse")
        assert "horse" not in await page.evaluate(
            "JSON.stringify({...sessionStorage}) + JSON.stringify({...localStorage})"
        )
        await site.start()
        await page.reload()
        await stands(page, "Name", "carol")
        await stands(page, "Password of a local account", "")
        await save(page)
        await expect(page.get_by_role("heading", name="carol")).to_be_visible()


async def test_buttons_tell_that_the_server_is_away_and_nobody_is_led_to_an_error_page(
    site: Site, browser: Browser
) -> None:
    await site.stage.start()
    question = await site.stage.draft()
    async with visiting(browser, site.url, key_of("analyst"), f"/questions/{question}") as page:
        await site.stop()
        for name in ("Submit for approval", "Sign out"):
            await page.get_by_role("button", name=name).click()
            told = page.locator("form", has=page.get_by_role("button", name=name)).locator("[data-told]")
            await expect(told).to_contain_text("cannot be reached")
        await site.start()
        await page.get_by_role("button", name="Submit for approval").click()
        await expect(page.get_by_text("another person has to approve it")).to_be_visible()
        await expect(page.locator("#offline")).to_be_hidden()
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{site.url}/sign-in")
    await site.stop()
    await typed(page, "Name", "somebody")
    await typed(page, "Password", "not the one")
    await page.get_by_label("Password", exact=True).press("Enter")
    await expect(page.locator("[data-told]")).to_contain_text("cannot be reached")
    await site.start()
    await page.get_by_label("Password", exact=True).press("Enter")
    await expect(page.get_by_text("You are not signed in.")).to_be_visible()
    await stands(page, "Name", "somebody")
    await context.close()


async def test_forms_work_where_no_script_runs(site: Site, browser: Browser) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{site.url}/sign-in?next=/questions/new")
    await page.get_by_label("Key", exact=True).fill(key_of("analyst"))
    await page.get_by_label("Key", exact=True).press("Enter")
    await save(page)
    await expect(page.get_by_text("2 fields are missing.")).to_be_visible()
    await typed(page, METRIC, "region")
    await save(page)
    await expect(page.get_by_role("button", name="Submit for approval")).to_be_visible()
    await context.close()


async def test_an_empty_form_says_what_is_missing_until_it_is_there(site: Site, browser: Browser) -> None:
    async with visiting(browser, site.url, key_of("analyst"), "/questions/new") as page:
        await save(page)
        told = page.locator(".alert")
        await expect(told).to_contain_text("2 fields are missing.")
        await expect(told.locator("li")).to_contain_text(["Metric is missing", "Devices is missing"])
        await typed(page, "Devices", "2000")
        await typed(page, METRIC, "region")
        await expect(page.locator("#preview")).to_contain_text("accepted")
        await save(page)
        await expect(page.locator("h1")).to_contain_text("region")


async def test_only_a_table_scrolls_where_a_report_is_wider_than_the_window(tmp_path: Path, browser: Browser) -> None:
    stage, collector = Stage(tmp_path), CollectorStub()
    await stage.prepare()
    reading = await beside(stage, collector)
    await stage.start(**reading)
    wide = Site(stage, **reading)
    await wide.start()
    labels = ["w" * 60, *(f"an answer of some length, {place}" for place in range(9))]
    buckets = [{"label": label, "estimate": 1234567.0, "stderr": 9.0} for label in labels]
    collector.released = [{**release("w" * 63, "A" * 43, at), "buckets": buckets} for at in range(3)]
    long = await stage.draft(name="w" * 63, metric="w" * 60, text="w" * 90)
    await stage.clock.advance(BESIDE_SECONDS)
    async with visiting(browser, wide.url, key_of("approver"), "/results") as page:
        for path in ("/results", f"/questions/{long}", f"/questions/{long}/edit", "/questions", "/audit"):
            await page.goto(wide.url + path)
            await page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
            for width in (320, 390, 800, 1300):
                await page.set_viewport_size({"width": width, "height": 844})
                assert await page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
        await page.goto(f"{wide.url}/results")
        await page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
        assert await page.evaluate(
            "Array.from(document.querySelectorAll('.scroll')).some((one) => one.scrollWidth > one.clientWidth)"
        )
    await wide.stop()
    await stage.inner.close()


@pytest.mark.parametrize("width", [390, 1300])
async def test_done_and_open_steps_differ_where_the_reader_chose_all_colours(
    site: Site, browser: Browser, width: int
) -> None:
    await site.stage.start()
    question = await site.stage.draft()
    context = await browser.new_context(viewport={"width": width, "height": 844}, forced_colors="active")
    page = await context.new_page()
    await page.goto(f"{site.url}/sign-in?next=/questions/{question}")
    await page.get_by_label("Key", exact=True).fill(key_of("viewer"))
    await page.get_by_label("Key", exact=True).press("Enter")
    await expect(page.locator(".steps")).to_be_visible()
    looks = await page.evaluate(
        """['done', 'open'].map((state) => {
          const step = document.querySelector('.steps .' + state);
          const mark = getComputedStyle(step, '::before');
          const line = getComputedStyle(step);
          return [mark.content, mark.backgroundColor, line.borderTopStyle + line.borderLeftStyle];
        })"""
    )
    done, still_open = looks
    assert "✓" in done[0]
    assert all(one != other for one, other in zip(done, still_open, strict=True)), looks
    current = page.locator("nav a[aria-current]").first
    outline = await current.evaluate("(one) => getComputedStyle(one).outlineStyle")
    assert outline == "solid"
    await context.close()
