"""The demo's picture with labels that are long, or of letters that the usual font does not have."""

from __future__ import annotations

import io
import warnings

import pytest

pytest.importorskip("matplotlib")

from infra.lab.demo.results import lettering as module
from infra.lab.demo.results.lettering import FIRST, LABEL_CELLS, fonts_for, lettering
from infra.lab.demo.results.report import draw, page
from infra.lab.demo.results.result import Bucket, DemoResult

LONG = "never at all in the last twelve months, as far as I remember"
NOWHERE = "Ѫ"
"""A letter that, by ``poor``, no font has."""


@pytest.fixture
def poor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fonts without that letter."""
    real = module._letters_of
    monkeypatch.setattr(module, "_letters_of", lambda path: real(path) - {ord(NOWHERE)})


def result(labels: list[str], question: str) -> DemoResult:
    privacy = {"epsilon": "0.9", "delta": "1e-6", "n": 9, "mechanism": "m", "relation": "r", "epsilon0": "1"}
    buckets = tuple(Bucket(label, 30, 35.0, 10.0) for label in labels)
    details = {"name": "n", "hash": "h"}
    priced = {**privacy, "by_adversary": {}}
    return DemoResult("f.csv", question, details, 220, 0, 109, 109, 0, {}, priced, buckets, (), (), 1.0)


def test_short_labels_stand_upright_as_they_are() -> None:
    labels = [*map(str, range(15)), "15+"]
    written = lettering(labels, "How many?")
    assert (written.labels, written.slanted, written.numbered, written.title) == (labels, False, False, "How many?")
    assert written.families == [FIRST]


def test_long_labels_are_shortened_and_slanted() -> None:
    written = lettering([LONG, "no", "yes", "often"], LONG * 3)
    assert written.slanted
    assert "…" in written.labels[0]
    assert len(written.labels[0]) <= LABEL_CELLS
    assert "…" in written.title


def test_letters_come_from_another_installed_font() -> None:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    def letters(family: str) -> set[int]:
        return set(FT2Font(font_manager.findfont(font_manager.FontProperties(family=[family]))).get_charmap())

    only_there = sorted(letters("STIXGeneral") - letters(FIRST))[-1]
    families, absent = fonts_for(chr(only_there))
    assert not absent
    assert only_there in letters(families[-1])


@pytest.mark.usefixtures("poor")
def test_a_label_whose_letters_no_font_has_is_its_number() -> None:
    written = lettering(["yes", f"no {NOWHERE}"], f"{NOWHERE}?")
    assert (written.labels, written.numbered, written.title) == (["yes", "no. 2"], True, "")


def test_a_picture_of_any_labels_is_drawn_without_a_warning_and_nothing_reaches_beyond_it() -> None:
    from matplotlib.image import imread

    labels = [
        LONG,
        f"{LONG}!",
        "$x_1$ costs $",
        "Всегда, когда это возможно",
        "แทบไม่เคย",
        "日本語のとても長い回答",
        NOWHERE,
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = draw(result(labels, f"{LONG} $"))
    pixels = imread(io.BytesIO(picture))
    edge = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
    assert all((side[:, :3] == 1).all() for side in edge)
    assert LONG in page(result(labels, LONG), picture)
