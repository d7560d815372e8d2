"""The kernels on 64-bit ARM, under an emulator, against pure Python: with products by NEON, and as plain C."""

from __future__ import annotations

import re
import shutil
import subprocess
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from tacit.succinct import supports
from tacit.vdaf.native import build, kernels, usable_levels
from tests.conftest import skip_or_fail
from tests.kit.other_processor import COMPILER, EMULATOR, compile_for_arm, emulated
from tests.unit import test_native_batch as batches

pytestmark = pytest.mark.slow

WITHOUT_NEON = "-U__ARM_NEON"


@pytest.fixture(scope="module", params=[(), (WITHOUT_NEON,)], ids=["neon", "without"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = [name for name in (COMPILER, EMULATOR) if shutil.which(name) is None]
    if missing:
        skip_or_fail("aarch64", f"{' and '.join(missing)} missing (Debian: gcc-aarch64-linux-gnu, qemu-user)")
    return compile_for_arm(tmp_path_factory.mktemp("arm"), *request.param)


@pytest.fixture
def arm(program: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every call of a kernel goes to the emulator."""
    with emulated(program) as library:
        monkeypatch.setattr(kernels, "load", lambda: library)
        monkeypatch.setattr("tacit.vdaf.native.library.load", lambda: library)
        monkeypatch.setattr(supports, "load", lambda: library)
        yield


@pytest.mark.usefixtures("arm")
def test_only_the_baseline_exists() -> None:
    assert usable_levels() == ["baseline"]


@pytest.mark.usefixtures("arm")
@pytest.mark.parametrize("reports", [1, 3])
@pytest.mark.parametrize("name", batches.NAMES)
def test_both_aggregators_and_the_prover_get_what_pure_python_gives(name: str, reports: int) -> None:
    assert kernels.kernels_for(batches.INSTANCES[name][0], batches.CTX, 0) is not None
    batches.test_both_aggregators_get_what_pure_python_gives(name, reports, 0)
    batches.test_prover_makes_the_shares_of_pure_python(name, reports, 0)
    batches.test_aggregate_is_the_sum_of_the_accepted_out_shares(name, 0)


@pytest.mark.usefixtures("arm")
@pytest.mark.parametrize("name", ["count", "sum", "histogram", "multihot", "three proofs"])
def test_extreme_elements_are_judged_one_by_one(name: str) -> None:
    batches.test_extreme_elements_are_judged_one_by_one(name, 0)


@pytest.mark.usefixtures("arm")
def test_measurement_out_of_range_is_refused_as_in_pure_python() -> None:
    batches.test_measurement_out_of_range_is_refused_as_in_pure_python(0)


@pytest.mark.usefixtures("arm")
@pytest.mark.parametrize("prefixes", [[0], [1, 5, 2]])
def test_supports_are_those_of_pure_python(prefixes: list[int]) -> None:
    reports = supports.Reports(3, array("Q", range(1000, 1040)), bytearray(at % 8 for at in range(40)))
    counted = supports._native(reports, prefixes, 3, 6)
    assert counted == supports._pure(reports, prefixes, 3, 6)
    assert counted is not None
    assert any(map(any, counted))


def test_no_branch_depends_on_a_lane(program: Path, tmp_path: Path) -> None:
    for bits in build.FIELDS:
        output = tmp_path / f"{bits}.s"
        command = [COMPILER, *build.FLAGS, "-DTACIT_LEVEL=0", f"-DTACIT_FIELD={bits}", "-S"]
        subprocess.run([*command, str(build.SOURCES / "kernel.c"), "-o", str(output)], check=True)
        text = output.read_text()
        assert "umull" in text
        assert re.findall(r"^\s+(?:umaxv|uminv|sqxtn)\s.*", text, flags=re.MULTILINE) == []
        assert re.findall(r"^\s+(?:adcs?|sbcs?)\s.*\n\s+b\.(?:cs|cc|hs|lo)\s.*", text, flags=re.MULTILINE) == []
