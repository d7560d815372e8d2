"""The dashboard in a real browser: headless Chromium before an admin service on loopback."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from infra.base.free_ports import free_ports
from infra.lab.kit.entropy import SeededEntropy
from infra.stacks.agents import provision_agents
from services.admin.app import create_app
from tacit.adapters.system import OsEntropy
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.http.listener import listening_sockets
from tacit.service.run import Runner, started
from tests.conftest import skip_or_fail
from tests.e2e import test_node_device
from tests.e2e.test_agent_host import hosting
from tests.e2e.test_node_device import DEVICES, DURATION, FLOOR, LEAST_LEFT
from tests.e2e.test_up import Stack
from tests.http.admin_pair import pair
from tests.http.admin_stage import Stage, key_of
from tests.http.openid_provider import admitting, providing

pytestmark = pytest.mark.asyncio(loop_scope="module")  # in which the browser lives
stack = test_node_device.stack
HOSTILE = "<img src=x onerror=alert(1)>\"'<script>alert(2)</script>"
PATIENCE = 30_000
"""Milliseconds that anything may take on a machine that is busy."""
expect.set_options(timeout=PATIENCE)


class Site:
    """An admin service that listens on loopback, beside the stage's log and on the stage's database; ``changes`` of its
    configuration."""

    def __init__(self, stage: Stage, **changes: object) -> None:
        self.stage = stage
        self.changes = changes
        self.port = 0
        self._runner: Runner | None = None
        self._starts = 100

    async def start(self) -> None:
        self._starts += 1
        deps = ServiceEnv(self.stage.clock, SeededEntropy(self._starts), self.stage.network, background=False)
        self._runner = Runner(create_app(self.stage.config(**self.changes), deps), grace_seconds=0.1)
        await self._runner.setup()
        await self._runner.listen(await listening_sockets("127.0.0.1", self.port, backlog=100, reuse_port=False))
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest_asyncio.fixture(loop_scope="module")
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    stage = Stage(tmp_path)
    await stage.prepare()
    running = Site(stage)
    await running.start()
    yield running
    await running.stop()
    await stage.inner.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        skip_or_fail("chromium", "chromium is not installed")
    # the path of its socket has a limit of some hundred bytes, which the tests' own folder may exceed
    with tempfile.TemporaryDirectory(prefix="tacit-", dir="/tmp") as folder:
        async with async_playwright() as playwright:
            flags = ["--no-sandbox"] if os.geteuid() == 0 else []
            environment: dict[str, str | float | bool] = {**os.environ, "TMPDIR": folder}
            found = await playwright.chromium.launch(executable_path=program, args=flags, env=environment)
            yield found
            await found.close()


@asynccontextmanager
async def visiting(browser: Browser, url: str, key: str, target: str = "/") -> AsyncIterator[Page]:
    """A page of somebody who has signed in; no dialog opens, and the policy for content is never broken."""
    context = await browser.new_context(viewport={"width": 390, "height": 844})
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    told: list[str] = []
    page.on("dialog", lambda dialog: told.append(dialog.message))
    page.on("console", lambda message: told.append(message.text) if "Content Security" in message.text else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    await page.goto(url + target)
    await page.get_by_label("Key", exact=True).fill(key)
    await page.locator("#key").press("Enter")
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    yield page
    assert told == []
    await context.close()


async def unfold(page: Page) -> None:
    """Open every folded group of fields."""
    folded = page.locator("form details:not([open]) > summary:visible")
    while await folded.count():
        await folded.first.click()


async def test_a_question_is_written_while_its_price_is_drawn(site: Site, browser: Browser) -> None:
    async with visiting(browser, site.url, key_of("analyst"), "/questions/new") as page:
        await page.get_by_label("Question", exact=True).fill(HOSTILE)
        await page.get_by_label("Kind of answer", exact=True).select_option("categories")
        await page.get_by_label("Categories", exact=True).fill("north\n" + HOSTILE[:40])
        await expect(page.get_by_label("Lowest value", exact=True)).to_be_hidden()
        await page.get_by_label("Metric", exact=True).fill("region")
        await page.get_by_label("Devices", exact=True).fill("2000")
        await unfold(page)
        await page.get_by_label("Short name", exact=True).fill("regions")
        await expect(page.locator("#preview svg")).to_be_visible()
        await expect(page.locator("#preview")).to_contain_text("accepted")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        await page.get_by_role("button", name="Save as a draft").click()
        await page.get_by_role("button", name="Submit for approval").click()
        await expect(page.get_by_text("another person has to approve it")).to_be_visible()
        assert await page.get_by_role("button", name="Approve").count() == 0
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390


async def test_what_was_said_of_a_field_goes_once_it_is_right(site: Site, browser: Browser) -> None:
    async with visiting(browser, site.url, key_of("analyst"), "/questions/new") as page:
        await page.get_by_label("Metric", exact=True).fill("region")
        await page.get_by_label("Devices", exact=True).fill("many")
        await page.get_by_label("Epsilon", exact=True).fill("-1")
        await page.get_by_role("button", name="Save as a draft").click()
        await expect(page.get_by_text("2 fields are wrong.")).to_be_visible()
        await page.get_by_label("Devices", exact=True).fill("2000")
        await expect(page.locator("#f-population-h")).to_be_hidden()
        await expect(page.locator("#f-epsilon-h")).to_be_visible()
        await expect(page.locator(".alert li")).to_have_count(1)
        await page.get_by_label("Epsilon", exact=True).fill("1")
        await expect(page.locator("#f-epsilon-h")).to_be_hidden()
        await expect(page.locator(".alert")).to_have_count(0)


async def test_a_change_that_waits_is_read_without_broken_words(tmp_path: Path, browser: Browser) -> None:
    stage = await pair(tmp_path)
    carol = {"name": "carol", "role": "approver", "key_sha256": "ab" * 32}
    await stage.call("POST", "/v1/people", carol, role="administrator", status=202)
    (port,) = free_ports(1)
    deps = ServiceEnv(stage.clock, SeededEntropy(port), stage.network, background=False)
    app = create_app(stage.config(persons=2), deps)
    async with (
        started(app, Listen(port=port), grace_seconds=2),
        visiting(browser, f"http://127.0.0.1:{port}", key_of("second")) as page,
    ):
        for width in (1300, 390):
            await page.set_viewport_size({"width": width, "height": 844})
            for name in ("Consent", "Refuse"):
                box = await page.get_by_role("button", name=name).bounding_box()
                assert box is not None
                assert box["height"] < 45, (width, name)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
        box = await page.locator("td[data-name=State] time").bounding_box()
        assert box is not None
        assert box["x"] > 100
    await stage.inner.close()


async def test_another_person_approves_and_publishes_while_its_author_looks_on(site: Site, browser: Browser) -> None:
    await site.stage.start()
    question = await site.stage.draft()
    await site.stage.call("POST", f"/v1/questions/{question}/submit", status=200)
    async with (
        visiting(browser, site.url, key_of("analyst"), f"/questions/{question}") as author,
        visiting(browser, site.url, key_of("approver")) as page,
    ):
        await expect(author.get_by_text("another person has to approve it")).to_be_visible()
        await page.get_by_role("link", name="visits").click()
        await page.get_by_role("button", name="Approve").click()
        await expect(author.get_by_role("button", name="Publish")).to_be_visible()
        await page.get_by_role("button", name="Publish").click()
        await expect(page.get_by_role("heading", name="The batch so far")).to_be_visible()
        (recipe,) = await site.stage.recipes()
        await expect(page.get_by_text(recipe, exact=True)).to_be_visible()
        await expect(author.get_by_role("heading", name="The batch so far")).to_be_visible()
        await expect(author.locator("h1")).to_have_text("visits published")
        await author.get_by_text("Canonical bytes").click()
        assert await author.evaluate("refresh().then(() => document.querySelector('#live-recipe details').open)")


async def test_a_role_that_may_not_is_told_so(site: Site, browser: Browser) -> None:
    async with visiting(browser, site.url, key_of("viewer")) as page:
        assert await page.get_by_role("link", name="New question").count() == 0
        answer = await page.goto(f"{site.url}/questions/new")
        assert answer is not None
        assert answer.status == 403
        await expect(page.get_by_role("heading", name="Your role may not do this.")).to_be_visible()


async def test_what_was_typed_outlives_a_session(site: Site, browser: Browser) -> None:
    async with visiting(browser, site.url, key_of("analyst"), "/questions/new") as page:
        await unfold(page)
        await page.get_by_label("Short name", exact=True).fill("long-thought")
        await page.get_by_label("Metric", exact=True).fill("region")
        await site.stage.clock.advance(2 * 86400)
        await page.get_by_role("button", name="Save as a draft").click()
        await page.get_by_label("Key", exact=True).fill(key_of("analyst"))
        await page.locator("#key").press("Enter")
        await expect(page.get_by_label("Short name", exact=True)).to_have_value("long-thought")
        await page.get_by_role("button", name="Save as a draft").click()
        await expect(page.get_by_role("button", name="Submit for approval")).to_be_visible()
        await page.goto(f"{site.url}/questions/new")
        await expect(page.get_by_label("Short name", exact=True)).to_have_value("")


async def test_an_account_of_a_provider_is_bound_by_an_invitation_and_opens(tmp_path: Path, browser: Browser) -> None:
    stage = Stage(tmp_path)
    await stage.prepare()
    async with providing(stage.clock) as provider, admitting(stage, provider.issuer) as url:
        async with visiting(browser, url, key_of("administrator"), "/people") as page:
            await page.get_by_role("link", name="approver-1").click()
            await page.get_by_role("button", name="Make an invitation").click()
            text = await page.locator("code.secret").inner_text()
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        context = await browser.new_context(viewport={"width": 390, "height": 844})
        page = await context.new_page()
        for first in (True, False):
            await page.goto(f"{url}/questions")
            if first:
                await page.get_by_text("I have an invitation").click()
                await page.get_by_label("Invitation").fill(text)
            await page.get_by_role("button", name="Go to the provider").click()
            await expect(page.get_by_role("heading", name="Questions")).to_be_visible()
            assert page.url == f"{url}/questions"
            await expect(page.get_by_text("approver-1")).to_be_visible()
            await page.get_by_role("button", name="Sign out").click()
            await expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
        await context.close()
    await stage.inner.close()


@asynccontextmanager
async def with_passkeys(stage: Stage) -> AsyncIterator[str]:
    """The stage's service where nobody approves without a passkey; its URL, which has a name as passkeys need."""
    (port,) = free_ports(1)
    url = f"http://localhost:{port}"
    config = stage.config(public_url=url, passkeys="required")
    deps = ServiceEnv(stage.clock, SeededEntropy(port), stage.network, background=False)
    async with started(create_app(config, deps), Listen(port=port), grace_seconds=2):
        yield url


async def test_an_approver_registers_a_passkey_and_approves_with_it(tmp_path: Path, browser: Browser) -> None:
    stage = Stage(tmp_path)
    await stage.prepare()
    await stage.start()
    question = await stage.draft()
    await stage.call("POST", f"/v1/questions/{question}/submit", status=200)
    async with with_passkeys(stage) as url:
        async with visiting(browser, url, key_of("administrator"), "/people") as page:
            await page.get_by_role("link", name="approver-1").click()
            await page.get_by_role("button", name="Make an invitation").click()
            text = await page.locator("code.secret").inner_text()
        async with visiting(browser, url, key_of("approver"), f"/questions/{question}") as page:
            devices = await page.context.new_cdp_session(page)
            await devices.send("WebAuthn.enable")
            device = {
                "protocol": "ctap2", "transport": "internal", "hasUserVerification": True, "isUserVerified": True,
                "automaticPresenceSimulation": True,
            }  # fmt: skip
            made = await devices.send("WebAuthn.addVirtualAuthenticator", {"options": device})
            approve = page.get_by_role("button", name="Approve with a passkey")
            await approve.click()
            await expect(page.get_by_text("you have no passkey")).to_be_visible()
            await page.get_by_role("link", name="Passkeys").click()
            await page.get_by_label("Invitation").fill(text)
            await page.get_by_label("Label").fill(HOSTILE[:40])
            await page.get_by_label("Label").press("Enter")
            await expect(page.get_by_role("rowheader")).to_have_text(HOSTILE[:40])
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390

            await page.goto(f"{url}/questions/{question}")
            named = {"authenticatorId": made["authenticatorId"]}
            await devices.send("WebAuthn.setUserVerified", {**named, "isUserVerified": False})
            await approve.press("Enter")
            await expect(page.get_by_text("No passkey was used, and nothing was done.")).to_be_visible()
            await devices.send("WebAuthn.setUserVerified", {**named, "isUserVerified": True})
            await approve.press("Enter")
            await expect(page.get_by_role("button", name="Publish")).to_be_visible()
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await stage.inner.close()


async def test_a_page_says_that_the_server_is_away_and_when_it_is_back(site: Site, browser: Browser) -> None:
    async with visiting(browser, site.url, key_of("analyst"), "/questions/new") as page:
        banner = page.locator("#offline")
        await expect(banner).to_be_hidden()
        await site.stop()
        await unfold(page)
        await page.get_by_label("Short name", exact=True).fill("kept")
        await expect(banner).to_be_visible()
        await site.start()
        await page.get_by_label("Metric", exact=True).fill("region")
        await expect(banner).to_be_hidden()
        await page.get_by_role("button", name="Save as a draft").click()
        await expect(page.get_by_role("button", name="Submit for approval")).to_be_visible()


@pytest.mark.slow
async def test_a_question_becomes_a_release_with_error_bars_over_a_whole_stack(
    stack: Stack, browser: Browser, tmp_path: Path
) -> None:
    paths = provision_agents(stack.layout, DEVICES, OsEntropy(), time.time())
    url, epoch_seconds = stack.url("admin"), stack.layout.options.epoch_seconds
    fields = {
        "Short name": "visits", "Metric": "mdvis", "Lower edges": "0, 0.5, 2.75, 4", "Devices": str(DEVICES),
        "Sampling rate q": "1", "Minimum batch B": str(FLOOR), "Lasts": str(DURATION), "Time precision": "1",
    }  # fmt: skip
    with hosting(paths[0].parents[1], tmp_path / "host"):
        async with visiting(browser, url, stack.token("analyst"), "/questions/new") as page:
            await unfold(page)
            await page.get_by_label("Kind of answer", exact=True).select_option("buckets")
            for label, value in fields.items():
                await page.get_by_label(label, exact=True).fill(value)
            await page.get_by_role("button", name="Save as a draft").click()
            await page.get_by_role("button", name="Submit for approval").click()
            await expect(page.get_by_text("another person has to approve it")).to_be_visible()
            question = page.url.removeprefix(url)
        async with visiting(browser, url, stack.token("approver"), question) as page:
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_role("button", name="Publish")).to_be_visible()
            if (left := epoch_seconds - time.time() % epoch_seconds) < LEAST_LEFT:
                await asyncio.sleep(left)
            await page.get_by_role("button", name="Publish").click()
            await expect(page.get_by_role("heading", name="The batch so far")).to_be_visible()
            await asyncio.sleep(2 * epoch_seconds)
            await page.get_by_role("button", name="Collect the batch").click()
            await expect(page.get_by_role("heading", name="Release, batch 0")).to_be_visible(timeout=4 * PATIENCE)
            assert await page.locator("line.interval").count() == len(["0", "0.5", "2.75", "4", "no value"])
            await page.goto(f"{url}/results")
            await expect(page.get_by_role("link", name="visits")).to_be_visible()
