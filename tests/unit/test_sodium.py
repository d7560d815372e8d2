"""Where libsodium comes from and what it computes: the vectors of RFC 9496, and no trace of it on any disk."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tacit import sodium
from tacit.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
MULTIPLES = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76",
    "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
    "94741f5d5d52755ece4f23f044ee27d5d1ea1e2bd196b462166b16152a9d0259",
    "da80862773358b466ffadfe0b3293ab3d9fd53c5ea6c955358f568322daf6a57",
    "e882b131016b52c1d3337080187cf768423efccbb517bb495ab812c4160ff44e",
    "f64746d3c92b13050ed8d80236a7f0007c3b3f962f5ba793d19a601ebb1df403",
    "44f53520926ec81fbd5a387845beb7df85a96a24ece18738bdcfa6a7822a176d",
    "903293d8f2287ebe10e2374dc1a53e0bc887e592699f02d077d5263cdd55601c",
    "02622ace8f7303a31cafc63f8fc48fdc16e1c8c8d234b2f0d6685282a9076031",
    "20706fd788b2720a1ed2a5dad4952b01f413bcf0e7564de8cdc816689e2db95f",
    "bce83f8ba5dd2fa572864c24ba1810f9522bc6004afe95877ac73241cafdab42",
    "e4549ee16b9aa03099ca208c67adafcafa4c3f3e4e5303de6026e3ca8ff84460",
    "aa52e000df2e16f55fb1032fc33bc42742dad6bd5a8fc0be0167436c5948501f",
    "46376b80f409b29dc2b5f6f0c52591990896e5716f41477cd30085ab7f10301e",
    "e0c418f7c8d9c4cdd7395b93ea124f3ad99021bb681dfc3302a9d99a2e53e64e",
]
"""Section A.1: 0 to 15 times the generator."""
NO_ELEMENTS = [
    "00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ed57ffd8c914fb201471d1c3d245ce3c746fcbe63a3679d51b6a516ebebe0e20",
    "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
]
"""Of section A.2: not canonical, negative, and not squares."""

USED_AND_KILLED = """
import os, signal
from tacit import sodium
from tacit.panprivate.ristretto import RISTRETTO255 as group
assert group.times_base(group.scalar(1)) == group.generator
print("used", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
ONLY_IMPORTED = """
import client_agent.runner, tacit.rules.watching, tacit.panprivate.state, tacit.panprivate.discrete_logarithm
import services.leader.app, services.helper.app, services.analyzer.app, infra.cli
print("libsodium" in open("/proc/self/maps").read())
"""


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing is loaded yet, and what a test loads is not kept."""
    sodium._library.cache_clear()
    yield
    sodium._library.cache_clear()


def scalar(number: int) -> bytes:
    return number.to_bytes(sodium.SIZE, "little")


def run(command: list[str], temporary: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_multiples_of_the_generator_are_those_of_the_rfc() -> None:
    generator = bytes.fromhex(MULTIPLES[1])
    for number, expected in enumerate(MULTIPLES):
        assert sodium.multiply_base(scalar(number)).hex() == expected
        assert sodium.multiply(scalar(number), generator).hex() == expected
        assert sodium.is_valid_point(bytes.fromhex(expected))
    for number, expected in enumerate(MULTIPLES[1:]):
        assert sodium.add(bytes.fromhex(MULTIPLES[number]), generator).hex() == expected
        assert sodium.subtract(bytes.fromhex(expected), generator).hex() == MULTIPLES[number]


@pytest.mark.parametrize("text", NO_ELEMENTS)
def test_what_is_no_element_is_refused_or_multiplied_to_the_identity(text: str) -> None:
    data, generator = bytes.fromhex(text), bytes.fromhex(MULTIPLES[1])
    assert not sodium.is_valid_point(data)
    assert sodium.multiply(scalar(2), data) == bytes(sodium.SIZE)
    for operation in (sodium.add, sodium.subtract):
        for operands in ((data, generator), (generator, data)):
            assert operation(*operands) == bytes(sodium.SIZE)


def test_nothing_is_read_beyond_bytes_of_another_length() -> None:
    short, generator = bytes(31), bytes.fromhex(MULTIPLES[1])
    for call in (
        lambda: sodium.is_valid_point(short),
        lambda: sodium.scalar_reduce(generator),
        lambda: sodium.add(short, generator),
        lambda: sodium.subtract(generator, short),
        lambda: sodium.multiply_base(short),
        lambda: sodium.multiply(generator, short),
    ):
        with pytest.raises(ValueError, match="bytes are needed"):
            call()


def test_64_bytes_are_reduced_modulo_the_order() -> None:
    order = 2**252 + 27742317777372353535851937790883648493
    for number in (0, order - 1, order, 2**512 - 1):
        assert sodium.scalar_reduce(number.to_bytes(sodium.WIDE, "little")) == scalar(number % order)


def test_a_process_that_used_the_group_and_was_killed_leaves_nothing_in_the_temporary_folder(tmp_path: Path) -> None:
    done = run([sys.executable, "-c", USED_AND_KILLED], tmp_path)
    assert (done.stdout, done.returncode) == ("used\n", -signal.SIGKILL), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_where_nothing_may_be_executed_is_enough_and_stays_empty(tmp_path: Path) -> None:
    """In a mount namespace of its own, as a systemd unit or a hardened Debian mounts it."""
    mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount -t tmpfs -o noexec,nosuid,nodev none "$TMPDIR"'
    if shutil.which("unshare") is None or run([*mounted, mount], tmp_path).returncode:
        pytest.skip("this machine gives no mount namespace")
    said = 'cp /bin/true "$TMPDIR/program" && "$TMPDIR/program"; echo "executed: $?"; rm "$TMPDIR/program"'
    command = f'{mount}; {said}; "$0" -c "$1"; echo "killed: $?"; ls -A "$TMPDIR"'
    done = run([*mounted, command, sys.executable, USED_AND_KILLED], tmp_path)
    assert done.stdout.splitlines() == ["executed: 126", "used", "killed: 137"], done.stderr


def test_a_process_that_needs_no_group_does_not_load_it(tmp_path: Path) -> None:
    done = run([sys.executable, "-c", ONLY_IMPORTED], tmp_path)
    assert done.stdout == "False\n", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_executable_memory_the_library_of_the_system_serves(
    fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(name: str) -> int:
        raise PermissionError(13, "no memory for code")

    carried = tmp_path / "libsodium.so"
    carried.write_bytes(sodium.embedded_library())
    monkeypatch.setattr(os, "memfd_create", refused)
    monkeypatch.setattr(sodium, "SYSTEM_NAMES", (str(tmp_path / "none.so"), str(carried)))
    assert sodium.multiply_base(scalar(1)).hex() == MULTIPLES[1]


def test_with_no_library_at_all_one_line_says_what_to_install(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sodium, "_EMBEDDED", re.compile(b"never there"))
    monkeypatch.setattr(sodium, "SYSTEM_NAMES", ("no-such-library.so",))
    with pytest.raises(UsageError, match=r"the package rbcl holds no library.*libsodium23") as raised:
        sodium.library()
    assert "\n" not in str(raised.value)
