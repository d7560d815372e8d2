"""The dashboard's pages: who sees which, what a form may do, and what stands in the HTML."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from infra.lab.kit.recipes import NOW
from services.admin.pages.assets import assets
from services.admin.pages.rendering import time_element
from services.admin.pages.views.table import PAGES
from services.admin.questions.followed_log import BESIDE_SECONDS
from tacit.codec import unb64url
from tacit.ports import HttpResponse
from tests.http.admin_collector import COLLECTOR_URL, CollectorStub, beside
from tests.http.admin_stage import ADMIN_URL, KIT, LOG_URL, ROLES, SURVEY, Stage, key_of, serving

FORM = "application/x-www-form-urlencoded"
MOST_BYTES = 500_000
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
VOID = {"meta", "link", "input", "img", "br", "hr", "line", "circle", "path", "rect"}
CLOSED_ALONE = {"line", "circle", "path", "rect"}


class Html(HTMLParser):
    """Reads a page and keeps what is wrong with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        self.wrong += [f"<{tag}> is not closed" for tag in self.open]
        self._check_names()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            self.wrong.append(f"<{tag}> repeats an attribute")
        self.wrong += [f"<{tag}> has {name}" for name in names if name.startswith("on") or name == "style"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.seen if tag in tags]

    def _check_names(self) -> None:
        ids = [attrs["id"] for _, attrs in self.seen if attrs.get("id")]
        self.wrong += [f"id {one} stands twice" for one in set(ids) if ids.count(one) > 1]
        labelled = {attrs.get("for") for attrs in self.all("label")}
        for attrs in self.all("input", "select", "textarea"):
            if attrs.get("type") != "hidden" and attrs.get("id") not in labelled:
                self.wrong.append(f"field {attrs.get('name')} has no label")
        for _, attrs in self.seen:
            for name in ("aria-labelledby", "aria-describedby"):
                if attrs.get(name) and attrs[name] not in ids:
                    self.wrong.append(f"{name} names nothing: {attrs[name]}")
        for tag, least in (("main", 1), ("h1", 1), ("title", 1)):
            if len(self.all(tag)) != least:
                self.wrong.append(f"there are {len(self.all(tag))} <{tag}>")
        self.wrong += [f"<{tag}> in a foreign place" for tag in ("iframe", "object", "base") if self.all(tag)]
        self.wrong += ["a script stands in the page" for attrs in self.all("script") if not attrs.get("src")]
        self.wrong += ["an image has no words" for attrs in self.all("img") if "alt" not in attrs]
        self.wrong += ["a drawing has no words" for attrs in self.all("svg") if not attrs.get("aria-label")]


class Browser:
    """Somebody with cookies and no script."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.cookies: dict[str, str] = {}
        self.page = ""

    async def get(self, path: str) -> HttpResponse:
        return await self._go("GET", path)

    async def post(self, path: str, **fields: str) -> HttpResponse:
        """The form, with the token that the page before showed, unless another is given."""
        named = {name.replace("__", "."): value for name, value in fields.items()}
        return await self._go("POST", path, urlencode({"csrf": self.csrf, **named}).encode())

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([^"]*)"', self.page)
        return found[1] if found else ""

    async def sign_in(self, role: str, target: str = "/") -> HttpResponse:
        await self.get(f"/sign-in?next={target}")
        return await self.post("/sign-in", key=key_of(role), next=target)

    async def _go(self, method: str, path: str, body: bytes = b"") -> HttpResponse:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        if method == "POST":
            headers["Content-Type"] = FORM
        answer = await self.stage.inner.request(method, ADMIN_URL + path, headers=headers, body=body)
        found = SimpleCookie(answer.headers.get("set-cookie", ""))
        self.cookies |= {name: morsel.value for name, morsel in found.items()}
        self.page = answer.body.decode()
        return answer


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path) as running:
        yield running


async def signed_in(stage: Stage, role: str) -> Browser:
    browser = Browser(stage)
    assert (await browser.sign_in(role)).status == 303
    await browser.get("/")
    return browser


async def paths_of(stage: Stage) -> dict[str, set[str]]:
    """Every page that is read, with the roles that may."""
    everybody, writers = set(ROLES), {"analyst", "approver"}
    draft = await stage.draft()
    approved = await stage.approved(name="approved")
    published = await stage.approved(name="published", encoder={"kind": "categories", "categories": ["a", "b"]})
    await stage.call("POST", f"/v1/questions/{published}/publish", status=200)
    _, people = await stage.call("GET", "/v1/people", role="administrator")
    person = people["people"][0]["id"]
    series = KIT.series()
    assert (await stage.post_leaf(KIT.series_leaf(series))).status == 201
    await stage.clock.advance(BESIDE_SECONDS)
    known = {
        "/": everybody,
        "/questions": everybody,
        "/questions/new": writers,
        "/plans/new": writers,
        f"/questions/{draft}/edit": writers,
        **{f"/questions/{one}": everybody for one in (draft, approved, published)},
        **dict.fromkeys(
            (
                "/results",
                "/series",
                f"/series/{series.hash_text}",
                "/jobs",
                "/fleet",
                "/ledger",
                "/log",
                "/log/0",
                "/keys",
                "/passkeys",
            ),
            everybody,
        ),
        "/audit": everybody - {"viewer"},
        "/people": {"administrator"},
        f"/people/{person}": {"administrator"},
    }
    patterns = {page.path for page in PAGES if page.method == "GET" and page.permission is not None}
    read = {pattern for pattern in patterns for path in known if re.fullmatch(re.sub("{.*?}", "[^/]+", pattern), path)}
    assert read == patterns
    return known


async def test_every_page_is_whole_small_and_for_whom_it_is(stage: Stage, tmp_path: Path) -> None:
    host = ADMIN_URL.replace("127.0.0.1", "localhost")
    await stage.start(passkeys="optional", public_url=host, fleet=tmp_path / "fleet")
    pages = await paths_of(stage)
    for role in ROLES:
        browser = await signed_in(stage, role)
        for path, allowed in pages.items():
            answer = await browser.get(path)
            assert answer.status == (200 if role in allowed else 403), (path, role)
            found = Html(browser.page)
            assert not found.wrong, (path, role, found.wrong)
            assert len(answer.body) < MOST_BYTES
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert answer.headers["cache-control"] == "no-store"
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self';")
            assert "unsafe" not in policy
            offered = {attrs["href"] for attrs in found.all("a")}
            assert ("/people" in offered) == (role == "administrator")


async def test_assets_are_kept_for_good_under_their_digest(stage: Stage) -> None:
    browser = Browser(stage)
    await browser.get("/sign-in")
    links = re.findall(r'(?:href|src)="(/assets/[^"]+)"', browser.page)
    assert {link.rpartition("/")[2] for link in links} == {"style.css", "forms.js", "script.js", "mark.svg"}
    for link in links:
        answer = await browser.get(link)
        assert answer.status == 200
        assert "immutable" in answer.headers["cache-control"]
        assert len(answer.body) < 40_000
    assert (await browser.get("/assets/other/style.css")).status == 404


async def test_whoever_is_not_signed_in_goes_to_the_form_and_comes_back(stage: Stage) -> None:
    question = await stage.draft()
    browser = Browser(stage)
    answer = await browser.get(f"/questions/{question}")
    assert (answer.status, answer.headers["location"]) == (303, f"/sign-in?next=/questions/{question}")
    answer = await browser.sign_in("analyst", f"/questions/{question}")
    assert (answer.status, answer.headers["location"]) == (303, f"/questions/{question}")
    assert (await browser.get(f"/questions/{question}")).status == 200
    assert "httponly" in answer.headers["set-cookie"].lower()
    await stage.clock.advance(2 * 86400)
    assert (await browser.get("/")).status == 303
    answer = await browser.post(f"/questions/{question}/submit")
    assert (answer.status, answer.headers["location"]) == (303, f"/sign-in?next=/questions/{question}")


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/sign-in", ""]
)
async def test_nobody_is_sent_elsewhere_after_signing_in(stage: Stage, target: str) -> None:
    assert (await Browser(stage).sign_in("analyst", target)).headers["location"] == "/"


async def test_signing_in_asks_for_the_right_key_and_for_our_own_form(stage: Stage) -> None:
    browser = Browser(stage)
    await browser.get("/sign-in")
    assert (await browser.post("/sign-in", key="tacit-nothing")).status == 401
    assert not Html(browser.page).wrong
    assert (await browser.post("/sign-in", key=key_of("analyst"), csrf="other")).status == 403
    stranger = Browser(stage)
    assert (await stranger.post("/sign-in", key=key_of("analyst"))).status == 403
    assert "tacit_session" not in browser.cookies | stranger.cookies
    assert (await browser.sign_in("analyst")).status == 303
    await browser.get("/")
    assert (await browser.post("/sign-out")).status == 303
    assert (await browser.get("/")).status == 303


async def test_a_form_without_the_sessions_token_does_nothing(stage: Stage) -> None:
    question = await stage.draft()
    browser = await signed_in(stage, "analyst")
    other = await signed_in(stage, "analyst")
    for token in ("", "x", "é", other.csrf):
        answer = await browser.post(f"/questions/{question}/submit", csrf=token)
        assert answer.status == 403, token
        assert "<h1>" in browser.page
    assert (await stage.shown(question))["state"] == "draft"
    await browser.get(f"/questions/{question}")
    assert (await browser.post(f"/questions/{question}/submit")).status == 303
    assert (await stage.shown(question))["state"] == "submitted"


async def test_a_question_is_written_approved_and_published_without_a_script(stage: Stage) -> None:
    analyst, approver = await signed_in(stage, "analyst"), await signed_in(stage, "approver")
    await analyst.get("/questions/new")
    once = re.findall(r'name="once" value="([^"]+)"', analyst.page)[-1]
    fields = {
        "name": "regions", "metric": "region", "encoder__kind": "categories", "population": "2000",
        "encoder__categories": "north\nsouth, or near it", "encoder__low": "7", "epsilon": "0.9", "once": once,
    }  # fmt: skip
    looked = await analyst.post("/questions/new", **fields, do="look")
    assert looked.status == 200
    assert "accepted" in analyst.page
    assert 'value="regions"' in analyst.page
    assert not Html(analyst.page).wrong
    made = await analyst.post("/questions/new", **fields)
    twice = await analyst.post("/questions/new", **fields, csrf=analyst.csrf or looked_token(looked))
    assert made.status == 303
    path = made.headers["location"]
    survey = (await stage.shown(path.rpartition("/")[2]))["survey"]
    assert survey["encoder"] == {"kind": "categories", "categories": ["north", "south, or near it"]}
    assert survey["epsilon"] == "0.9"
    assert twice.headers.get("location", path) == path
    await analyst.get(path)
    assert (await analyst.post(f"{path}/submit")).status == 303
    await analyst.get(path)
    assert "another person has to approve it" in analyst.page
    refused = await analyst.post(f"{path}/approve")
    assert refused.status == 403
    assert "Another person has to approve it." in analyst.page
    await approver.get(path)
    assert (await approver.post(f"{path}/approve")).status == 303
    await approver.get(path)
    assert (await approver.post(f"{path}/publish")).status == 303
    await approver.get(path)
    (recipe,) = await stage.recipes()
    assert recipe in approver.page
    assert "by approver-1" in approver.page
    assert not Html(approver.page).wrong


def looked_token(answer: HttpResponse) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', answer.body.decode())
    assert found is not None
    return found[1]


async def test_a_wrong_field_is_told_beside_it_and_nothing_typed_is_lost(stage: Stage) -> None:
    browser = await signed_in(stage, "analyst")
    await browser.get("/questions/new")
    answer = await browser.post(
        "/questions/new", name="typed", encoder__kind="number", encoder__low="9", encoder__high="3", statistic="sum",
        text=HOSTILE,
    )  # fmt: skip
    assert answer.status == 422
    found = Html(browser.page)
    assert not found.wrong
    marked = [attrs["name"] for attrs in found.all("input") if "aria-invalid" in attrs]
    assert marked == ["encoder.low"]
    assert 'value="typed"' in browser.page
    assert "<script>alert" not in browser.page


async def test_an_edit_of_an_older_text_is_refused_and_keeps_what_was_typed(stage: Stage) -> None:
    question = await stage.draft()
    browser = await signed_in(stage, "analyst")
    await browser.get(f"/questions/{question}/edit")
    fields = {"name": "mine", "metric": "mdvis", "encoder__kind": "boolean", "population": "900"}
    await stage.call("PUT", f"/v1/questions/{question}", SURVEY, headers={"If-Match": '"1"'}, status=200)
    answer = await browser.post(f"/questions/{question}/edit", **fields, revision="1")
    assert answer.status == 412
    assert 'value="mine"' in browser.page
    assert (await browser.post(f"/questions/{question}/edit", **fields, revision="2")).status == 303
    assert (await stage.shown(question))["survey"]["name"] == "mine"


async def test_the_preview_has_every_way_to_ask_and_what_a_rule_asks_for(stage: Stage) -> None:
    browser = await signed_in(stage, "analyst")
    await browser.get("/questions/new")
    token = browser.csrf
    fields = {"name": "few", "metric": "m", "encoder__kind": "boolean", "population": "100", "min_batch_size": "20"}
    assert (await browser.post("/questions/preview", **fields, csrf=token)).status == 200
    assert "batch-floor" in browser.page
    assert "passes with" in browser.page
    assert browser.page.count('class="curve') >= 4
    assert "<html" not in browser.page
    stage.network.partition(LOG_URL)
    await browser.post("/questions/preview", **fields, csrf=token)
    assert "cannot be reached" in browser.page
    viewer = await signed_in(stage, "viewer")
    assert (await viewer.post("/questions/preview", **fields)).status == 403
    assert (await Browser(stage).post("/questions/preview", **fields)).status == 401


async def test_names_that_are_markup_stay_text(stage: Stage) -> None:
    labels = [HOSTILE[:60], '" onmouseover="alert(1)']
    question = await stage.draft(
        text=HOSTILE, metric=HOSTILE[:60], encoder={"kind": "categories", "categories": labels}
    )
    browser = await signed_in(stage, "analyst")
    for path in ("/questions", f"/questions/{question}", f"/questions/{question}/edit", f"/?x={HOSTILE[:8]}"):
        await browser.get(path)
        assert not Html(browser.page).wrong, path
        assert "<img src=x" not in browser.page
    assert (await browser.get(f"/{HOSTILE.replace('/', '')[:20]}")).status in {400, 404}


async def test_administrators_add_people_and_give_keys_that_are_shown_once(stage: Stage) -> None:
    browser = await signed_in(stage, "administrator")
    await browser.get("/people")
    assert (await browser.post("/people", name="<b>", role="viewer")).status == 422
    assert not Html(browser.page).wrong
    assert (await browser.post("/people", name="carol", role="approver", key_sha256="xyz")).status == 422
    assert "“SHA-256 of a key” takes 64 digits of 0-9 and a-f" in browser.page
    assert "ey_sha256:" not in browser.page
    answer = await browser.post("/people", name="new one", role="analyst", password="a long password")
    person = answer.headers["location"]
    await browser.get(person)
    token = browser.csrf
    await browser.post(f"{person}/keys", label=HOSTILE[:60], expires="2099-12-31", csrf=token)
    assert not Html(browser.page).wrong
    key = re.search(r'class="secret">(tacit-[^<]+)<', browser.page)
    assert key is not None
    await browser.get(person)
    assert key[1] not in browser.page
    other = Browser(stage)
    await other.get("/sign-in")
    assert (await other.post("/sign-in", key=key[1])).status == 303
    action = re.search(rf'action="({person}/keys/[0-9a-f]+/take)"', browser.page)
    assert action is not None
    assert (await browser.post(action[1])).status == 303
    named = Browser(stage)
    await named.get("/sign-in")
    assert (await named.post("/sign-in", name="new one", password="a long password")).status == 303
    await browser.get(person)
    assert (await browser.post(person, role="viewer", disabled="yes")).status == 303
    assert (await named.get("/")).status == 303
    _, people = await stage.call("GET", "/v1/people", role="administrator")
    own = next(one["id"] for one in people["people"] if one["role"] == "administrator")
    await browser.get(f"/people/{own}")
    assert (await browser.post(f"/people/{own}", role="viewer")).status == 409


def release(name: str, recipe_hash: str, at: int) -> dict[str, Any]:
    buckets = [{"label": label, "estimate": 100.0 + at, "stderr": 9.0} for label in ("a", HOSTILE[:40])]
    return {
        "name": name, "recipe_hash": recipe_hash, "batch": 0, "statistic": "histogram", "report_count": 412 + at,
        "released_at": NOW + at, "interval": {"start": NOW - 9000 + at, "duration": 60}, "buckets": buckets,
        "privacy": {"n": 400, "by_adversary": {"aggregator": 0.5, "both_aggregators": "unbounded"}},
    }  # fmt: skip


async def test_what_policy_forbids_is_said_in_words_to_whoever_cannot_change_it(stage: Stage) -> None:
    browser = await signed_in(stage, "analyst")
    await browser.get("/questions/new")
    token = browser.csrf
    fields = {"name": "few", "metric": "m", "encoder__kind": "number", "encoder__low": "0", "encoder__high": "50"}
    fields |= {"statistic": "sum", "population": "40000", "min_batch_size": "20"}
    for changes, reason in (
        ({}, "a batch of 20 is below the 100 in which policy lets devices hide one another"),
        ({"randomizer": "flips"}, "policy accepts nothing without a local guarantee"),
        ({"randomizer": "flips", "min_batch_size": "200"}, "policy accepts nothing without a local guarantee"),
    ):
        await browser.post("/questions/preview", **{**fields, **changes}, csrf=token)
        assert reason in browser.page
        assert "allow_unbounded_local" not in browser.page


async def test_what_came_of_a_recipe_stands_on_its_page_and_over_time(stage: Stage) -> None:
    collector = CollectorStub()
    account = {"epsilon": "10", "delta": "0.001", "window_seconds": 30 * 86400}
    policy = KIT.policy.model_validate({**KIT.policy.model_dump(), "accounts": {"default": account}})
    await stage.start(**await beside(stage, collector), policy=policy)
    question = await stage.approved(encoder={"kind": "categories", "categories": ["a", "b"]})
    _, published = await stage.call("POST", f"/v1/questions/{question}/publish", status=200)
    browser = await signed_in(stage, "viewer")
    await browser.get(f"/questions/{question}")
    assert "nothing reported yet; B" in browser.page
    collector.released = [release("weekly", "A" * 43, at) for at in range(3)]
    collector.released.append(release("visits", published["hash"], 9))
    for path, words in (
        ("/", "421 of B"),
        (f"/questions/{question}", "Release, batch 0"),
        ("/results", "2 earlier"),
        ("/ledger", "epsilon left"),
        (f"/log/{published['position']}", "Inclusion proof"),
        ("/keys", "Token keys of the issuer"),
    ):
        await browser.get(path)
        assert words in browser.page, path
        assert not Html(browser.page).wrong, path
    await browser.get("/results")
    assert "both aggregators, if at least 400 honest devices reported: ε unbounded" in browser.page
    assert (await browser.get("/log/999")).status == 404
    await stage.inner.unmount(COLLECTOR_URL)
    stage.network.partition(LOG_URL)
    for path, status in (("/", 200), (f"/questions/{question}", 200), ("/results", 200), ("/keys", 503)):
        assert (await browser.get(path)).status == status
        assert not Html(browser.page).wrong, path


async def test_every_round_of_submission_and_approval_keeps_its_time(stage: Stage) -> None:
    question = await stage.draft()
    moments: list[str] = []
    for revision in (3, 6):
        for role, act in (("analyst", "submit"), ("approver", "approve")):
            await stage.clock.advance(3600)
            assert (await stage.refused("POST", f"/v1/questions/{question}/approve"))[0] in {403, 409}
            await stage.call("POST", f"/v1/questions/{question}/{act}", role=role, status=200)
            moments.append(str(time_element(int(stage.clock.now()))))
        if revision == 3:
            await stage.call("PUT", f"/v1/questions/{question}", SURVEY, headers={"If-Match": '"3"'}, status=200)
    browser = await signed_in(stage, "viewer")
    await browser.get(f"/questions/{question}")
    assert not Html(browser.page).wrong
    steps, _, rounds = browser.page.partition("Submitted 2 times")
    assert [one in steps for one in moments] == [False, False, True, True]
    places = [rounds.index(one) for one in moments]
    assert places == sorted(places)
    assert rounds.count("by approver-1") >= 2


async def test_the_newest_hash_of_the_audit_page_is_one_that_a_later_look_takes(stage: Stage) -> None:
    await stage.draft()
    browser = await signed_in(stage, "approver")
    await browser.get("/audit")
    found = re.search(r"Newest hash: <code>([^<]+)</code>", browser.page)
    async with stage.admin.store.read() as tx:
        last = await tx.last_act()
    assert found is not None
    assert last is not None
    assert unb64url(found[1], length=32) == last.hash


async def test_a_broken_chain_is_told(stage: Stage) -> None:
    await stage.draft()
    await stage.draft(name="second")
    browser = await signed_in(stage, "approver")
    await browser.get("/audit")
    assert "each one matches the row before it" in browser.page
    async with stage.admin.store.transaction() as tx:
        first = (await tx.acts(0, 1))[0]
        forged = replace(first, number=first.number + 100)
        await tx.add_act(forged)
    await browser.get("/audit")
    assert "The chain is broken." in browser.page


async def test_a_refusal_is_a_page_in_the_same_look(stage: Stage) -> None:
    browser = await signed_in(stage, "viewer")
    for path, status in (
        ("/nothing", 404),
        ("/questions/0", 404),
        ("/questions?cursor=x", 400),
        (f"/questions?cursor={2**53 + 1}", 400),
        ("/people", 403),
    ):
        answer = await browser.get(path)
        assert answer.status == status
        assert not Html(browser.page).wrong
        assert "style.css" in browser.page
    assert (await browser._go("HEAD", "/questions")).status == 200
    assert (await browser._go("PUT", "/nothing")).status == 404
    answer, problem = await stage.call("GET", "/v1/nothing")
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
    assert problem["status"] == 404


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    digits = colour.removeprefix("#")
    digits = "".join(2 * one for one in digits) if len(digits) == 3 else digits
    parts = (int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4))
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out_from_what_is_behind_them(scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", assets()["style.css"].body.decode(), re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6});", blocks[["light", "dark"].index(scheme)]))
    for behind in ("page", "card", "pale"):
        for text in ("ink", "soft", "hue"):
            assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind)
    for text, behind in (
        ("bad", "page"), ("bad", "card"), ("ink", "bad-pale"), ("ink", "good-pale"), ("good", "page"),
        ("on-hue", "hue"), ("card", "bad"),
    ):  # fmt: skip
        assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind)
    for line in ("chosen", "allowed", "compared", "wanted", "focus"):
        assert contrast(colours[line], colours["page"]) >= 3, line
