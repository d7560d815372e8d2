"""The native libraries compiled for 64-bit ARM and run by an emulator, behind the interface that ctypes gives them."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tacit.succinct.native import build as succinct_build
from tacit.vdaf.native import build
from tests.kit.processes import running

COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = "qemu-aarch64"
PROGRAM = Path(__file__).resolve().parents[1] / "unit" / "native_remote.c"

_FUNCTIONS = (
    *("tacit_best_level", "tacit_plan_new", "tacit_plan_free", "tacit_verify_init", "tacit_decide", "tacit_aggregate"),
    *("tacit_shard", "succinct_add", "succinct_finish"),
)
"""In the order of the numbers by which ``native_remote.c`` knows them."""


def compile_for_arm(folder: Path, *flags: str) -> Path:
    """A program that runs both libraries, compiled as the product compiles them, with ``flags`` added."""
    program = folder / "native_remote"
    kernel = [*build.FLAGS, "-DTACIT_LEVEL=0", str(build.SOURCES / "kernel.c")]
    units = [
        *([f"-DTACIT_FIELD={bits}", *kernel] for bits in build.FIELDS),
        *([*build.FLAGS, str(build.SOURCES / name)] for name in ("plan.c", "dispatch.c")),
        [*succinct_build.FLAGS, str(succinct_build.SOURCES / "supports.c")],
        ["-O1", f"-I{build.SOURCES}", str(PROGRAM)],
    ]
    objects = [str(folder / f"{at}.o") for at in range(len(units))]
    for arguments, made in zip(units, objects, strict=True):
        subprocess.run([COMPILER, *flags, "-c", *arguments, "-o", made], check=True)
    subprocess.run([COMPILER, "-static", *objects, "-o", str(program)], check=True)
    return program


class Emulated:
    """Both libraries' functions, as ``ctypes.CDLL`` has them: buffers are written in place."""

    def __init__(self, to: IO[bytes], answers: IO[bytes]) -> None:
        self._to = to
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        if name not in _FUNCTIONS:
            raise AttributeError(name)
        function = _FUNCTIONS.index(name)

        def call(*arguments: Any) -> int:
            pairs = [at for at, value in enumerate(arguments) if not isinstance(value, int)]
            lengths = {at + 1 for at in pairs if name.startswith("tacit_") and isinstance(arguments[at], bytes)}
            numbers = [value for at, value in enumerate(arguments) if isinstance(value, int) and at not in lengths]
            return self._call(function, numbers, [arguments[at] for at in pairs])

        return call

    def _call(self, function: int, numbers: list[int], buffers: list[Any]) -> int:
        held = [bytes(one) for one in buffers]
        self._to.write(struct.pack(f"<3I{len(numbers)}Q", function, len(numbers), len(held), *numbers))
        for data in held:
            self._to.write(struct.pack("<Q", len(data)) + data)
        self._to.flush()
        result: int = struct.unpack("<Q", self._exactly(8))[0]
        for buffer, before in zip(buffers, held, strict=True):
            after = self._exactly(len(before))
            if after != before:
                _overwrite(buffer, after)
        return result

    def _exactly(self, count: int) -> bytes:
        data = self._answers.read(count)
        if len(data) != count:
            raise EOFError("the emulated program has ended")
        return data


def _overwrite(buffer: Any, data: bytes) -> None:
    place: Any = buffer if isinstance(buffer, bytes) else ctypes.addressof(buffer)
    ctypes.memmove(place, data, len(data))


@contextmanager
def emulated(program: Path) -> Iterator[Emulated]:
    """The libraries in a process of the emulator, for every instruction that it knows."""
    command = [EMULATOR, "-cpu", "max", str(program)]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Emulated(process.stdin, process.stdout)
        process.stdin.close()
    assert process.returncode == 0
