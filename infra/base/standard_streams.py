"""The standard streams of a command: an answer that cannot be written is an error of one line, whatever the disk, the
reader of a pipe or the terminal's encoding does."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from typing import BinaryIO, Final, TextIO, cast

READABLE: Final = "tacit-readable"
"""Name of the error handler that writes what an encoding lacks."""
_WORDS: Final = str.maketrans(
    {
        "ε": "eps", "δ": "delta", "γ": "gamma", "σ": "sigma", "µ": "u", "₀": "0", "√": "sqrt", "∞": "inf",
        "±": "+-", "·": "*", "×": "x", "…": "~", "–": "-", "—": "-", "→": ">", "✓": "+",
        "“": '"', "”": '"', "‘": "'", "’": "'",
        "━": "=", "╌": "-", "┃": "|", "─": "-", "┤": "|", "└": "+",
        **dict(zip("▁▂▃▄▅▆▇█", "12345678", strict=True)),
    }
)  # fmt: skip
"""What an answer is written with where its characters cannot be. Those in tables and drawings stay as wide."""


class OutputError(Exception):
    """Standard output takes nothing any more. No ``OSError``: a command would take it for one of its own files."""


class _Output(io.TextIOWrapper):
    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise OutputError(f"standard output: {error.strerror or 'cannot be written'}") from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputError(f"standard output: {error.strerror or 'cannot be written'}") from error


class _Remarks(io.TextIOWrapper):
    """Standard error: what it does not take can be told to nobody, and is no reason to end."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def prepare_streams() -> None:
    """Let standard output raise ``OutputError`` instead of ``OSError``, standard error nothing, and neither
    ``UnicodeEncodeError``. A stream that is closed becomes the null device: else the next file that is opened would be
    taken for it."""
    codecs.register_error(READABLE, _readable)
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:
            while (opened := os.open(os.devnull, os.O_RDWR)) < number:
                pass
            if opened > number:
                os.close(opened)
    sys.stdout = _again(_Output, sys.stdout, 1)
    sys.stderr = _again(_Remarks, sys.stderr, 2)


def end_output() -> None:
    """Write what standard output still holds. Raises ``OutputError``."""
    sys.stdout.flush()


def abandon_output() -> None:
    """Drop what standard output still holds, so that the end of the process does not fail at it again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _again(kind: type[io.TextIOWrapper], stream: TextIO | None, number: int) -> TextIO:
    if stream is None:
        buffer, encoding = cast("BinaryIO", os.fdopen(number, "wb")), "utf-8"
    else:
        encoding = stream.encoding
        buffer = cast("BinaryIO", stream.detach())  # type: ignore[attr-defined]
    return kind(buffer, encoding, READABLE, line_buffering=number == 2 or buffer.isatty())


def _readable(error: UnicodeError) -> tuple[str, int]:
    """Characters that an encoding lacks, in ones of ASCII that mean the same, or else as their escapes in JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_plain, error.object[error.start : error.end])), error.end


def _plain(char: str) -> str:
    known = char.translate(_WORDS)
    if known.isascii():
        return known
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
