"""``tacit admin`` against an admin service somewhere else: a question's whole way, people and keys, the audit log."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cli import FAILED, OK, USAGE, run
from tests.http.admin_served import Served, serving

Capture = pytest.CaptureFixture[str]
FLAGS = ["--metric", "mdvis", "--buckets", "0,1,2,4", "--text", "How many visits?"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("admin")) as found:
        yield found


class Terminal:
    """A person at a terminal, with their key."""

    def __init__(self, served: Served, capsys: Capture) -> None:
        self.served, self.capsys = served, capsys

    def give(self, role: str, *words: str, code: int = OK) -> str:
        """Run a command and return what it prints."""
        self.capsys.readouterr()
        where = ["--url", self.served.url, "--key-file", str(self.served.keys[role])]
        found = run(["admin", *words, *where])
        shown = self.capsys.readouterr()
        assert found == code, shown
        return shown.out + shown.err

    def document(self, role: str, *words: str, code: int = OK) -> Any:
        """Run a command with ``--json`` and return its document."""
        self.capsys.readouterr()
        where = ["--url", self.served.url, "--key-file", str(self.served.keys[role]), "--json"]
        found = run(["admin", *words, *where])
        shown = self.capsys.readouterr()
        assert found == code, shown
        return json.loads(shown.out)


@pytest.fixture
def at(served: Served, capsys: Capture) -> Terminal:
    return Terminal(served, capsys)


def test_a_question_is_written_checked_approved_by_another_and_published(at: Terminal) -> None:
    missing = at.give("analyst", "question", "new", "--name", "weekly", *FLAGS)
    assert "still missing before it can be submitted: --population" in missing
    refused = at.give("analyst", "question", "submit", "weekly", code=FAILED)
    assert "population" in refused
    draft = at.document("analyst", "question", "new", "--name", "weekly", "--population", "1000", *FLAGS)
    assert draft["state"] == "draft"
    assert at.document("analyst", "question", "check", draft["id"])["accepted"]
    assert "accepted by all rules" in at.give("analyst", "question", "check", draft["id"])
    assert "the newest" in at.give("analyst", "question", "submit", "weekly")
    own = at.document("analyst", "question", "approve", draft["id"], code=FAILED)
    assert "Another person" in own["error"]["detail"]
    assert at.document("approver", "question", "approve", draft["id"])["approver"] == "approver-1"
    published = at.document("analyst", "question", "publish", draft["id"])
    assert (published["state"], len(published["hash"])) == ("published", 43)
    listed = at.document("viewer", "question", "list", "--state", "published")["questions"]
    assert [one["id"] for one in listed] == [draft["id"]]
    shown = at.give("viewer", "question", "show", draft["id"])
    assert "How many visits?" in shown
    assert '"edges": [' in shown
    assert at.document("viewer", "results", draft["id"], code=FAILED) == {"results": []}
    assert "not released within" in at.give("analyst", "results", draft["id"], "--wait", "1", code=FAILED)
    assert "ended" in at.give("analyst", "question", "end", draft["id"])


def test_a_question_is_edited_by_flags_or_by_a_whole_file_and_is_a_draft_again(at: Terminal, tmp_path: Path) -> None:
    draft = at.document("analyst", "question", "new", "--name", "weekly", "--population", "1000", *FLAGS)
    at.give("analyst", "question", "submit", "weekly")
    edited = at.document("analyst", "question", "edit", draft["id"], "--population", "2000")
    assert (edited["state"], edited["survey"]) == ("draft", {**draft["survey"], "population": 2000})
    whole = {**draft["survey"], "population": 3000}
    (tmp_path / "survey.json").write_text(json.dumps(whole))
    file = str(tmp_path / "survey.json")
    assert at.document("analyst", "question", "edit", draft["id"], "--file", file)["survey"] == whole
    assert "say what changes" in at.give("analyst", "question", "edit", draft["id"], code=USAGE)
    assert "role" in at.give("viewer", "question", "edit", draft["id"], "--population", "9", code=FAILED)


def test_what_a_rule_refuses_is_told_with_the_rule(at: Terminal) -> None:
    low = ["--name", "low", "--population", "100", "--min-batch-size", "20", *FLAGS]
    draft = at.document("analyst", "question", "new", *low)["id"]
    assert "refused by" in at.give("analyst", "question", "check", draft, code=FAILED)
    at.give("analyst", "question", "submit", draft)
    at.give("approver", "question", "approve", draft)
    assert at.document("analyst", "question", "publish", draft, code=FAILED)["error"]["rule"] == "batch-floor"


def test_a_recipe_is_signed_where_the_key_is_and_published_then(tmp_path: Path, capsys: Capture) -> None:
    with serving(tmp_path / "stage", analyst_key=None) as served:
        at = Terminal(served, capsys)
        draft = at.document("analyst", "question", "new", "--name", "weekly", "--population", "1000", *FLAGS)["id"]
        at.give("analyst", "question", "submit", draft)
        at.give("approver", "question", "approve", draft)
        recipe, leaf = str(tmp_path / "recipe.json"), str(tmp_path / "recipe.leaf")
        assert "waits for its signature" in at.give("analyst", "question", "publish", draft, "--out", recipe)
        assert run(["recipe", "sign", recipe, "--key", str(tmp_path / "stage" / "analyst.key"), "--out", leaf]) == OK
        assert "entry 2 of the log" in at.give("analyst", "question", "publish", draft, "--leaf", leaf)
        assert "not a signed leaf" in at.give("analyst", "question", "publish", draft, "--leaf", recipe, code=FAILED)


def test_people_get_keys_in_files_of_their_own(at: Terminal, tmp_path: Path) -> None:
    assert at.document("administrator", "people", "add", "carol", "--role", "analyst")["role"] == "analyst"
    file = tmp_path / "carol.key"
    made = at.give("administrator", "keys", "give", "carol", "--label", "laptop", "--out", str(file))
    text = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert text.startswith("tacit-")
    assert text not in made
    assert "exists already" in at.give("administrator", "keys", "give", "carol", "--out", str(file), code=FAILED)
    at.served.keys["carol"] = file
    at.give("carol", "question", "list")
    listed = at.document("administrator", "keys", "list", "carol")["keys"]
    assert [one["label"] for one in listed] == ["laptop"]
    at.give("administrator", "keys", "take", "carol", "laptop")
    assert "no key called laptop" in at.give("administrator", "keys", "take", "carol", "laptop", code=FAILED)
    at.give("carol", "question", "list", code=FAILED)
    assert "shut out" in at.give("administrator", "people", "change", "carol", "--disable")
    assert "viewer" in at.give("administrator", "people", "list")
    assert "give --role" in at.give("administrator", "people", "change", "carol", code=USAGE)


def test_the_audit_log_is_listed_and_its_chain_computed_anew(at: Terminal) -> None:
    at.give("analyst", "question", "new", "--name", "other", *FLAGS)
    found = at.document("administrator", "audit", "verify")
    assert found["broken"] is None
    acts = at.document("administrator", "audit", "list", "--last", "1")["acts"]
    assert [(one["what"], one["who"], one["hash"]) for one in acts] == [
        ("question.create", "analyst-1", found["newest"])
    ]
    assert "analyst-1" in at.give("administrator", "audit", "list")
    at.give("administrator", "audit", "verify", "--holds", found["newest"])
    assert "acts are missing" in at.give("administrator", "audit", "verify", "--holds", "B" * 42 + "A", code=FAILED)


def test_what_cannot_be_meant_or_reached_is_one_line(at: Terminal, tmp_path: Path, capsys: Capture) -> None:
    key = str(at.served.keys["analyst"])
    for words, code in (
        (["--url", at.served.url], USAGE),
        (["--url", at.served.url, "--key-file", key, "--state-dir", "x"], USAGE),
        (["--url", "http://admin.example", "--key-file", key], FAILED),
        (["--url", at.served.url, "--key-file", str(tmp_path / "none")], FAILED),
        (["--state-dir", str(tmp_path)], FAILED),
    ):
        assert run(["admin", "question", "list", *words]) == code
        said = capsys.readouterr()
        assert (said.out, len(said.err.splitlines()) <= 2) == ("", True)
    assert "there is no question none" in at.give("analyst", "question", "show", "none", code=FAILED)
    assert "one of draft" in at.give("analyst", "question", "list", "--state", "none", code=FAILED)
