"""How estimates are written: one function says with how many digits, and one margin stands beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.methods.figures import delta_form, form_of, form_of_errors, interval, with_margin

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("stderr", "told"),
    [(167.0, "2,720 ± 327"), (21.4, "2,720 ± 42"), (3.2, "2,720 ± 6"), (0.31, "2,720.40 ± 0.61"), (0.0, "2,720 ± 0")],
)
def test_an_estimate_has_the_digits_that_its_error_leaves(stderr: float, told: str) -> None:
    assert with_margin(2720.4, stderr, form_of_errors([stderr])) == told


def test_numbers_of_devices_are_whole_and_all_answers_of_a_result_have_one_precision() -> None:
    buckets = [{"stderr": 0.2}, {"stderr": 40.0}]
    assert form_of({"statistic": "histogram", "buckets": buckets}) == ",.0f"
    assert form_of({"statistic": "mean", "buckets": buckets}) == ",.2f"
    assert interval(10.0, 5.0) == pytest.approx((0.2, 19.8))
    assert (delta_form(1e-6), delta_form("0.000001"), delta_form(0.5)) == ("0.000001", "0.000001", "0.5")


def test_no_page_reckons_a_margin_of_its_own() -> None:
    templates = ROOT / "services" / "admin" / "pages" / "templates"
    assert not [one.name for one in templates.glob("*.html") if "1.96 *" in one.read_text()]
