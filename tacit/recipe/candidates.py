"""The candidates of a round of prefixes: what ``question.round_input`` holds where the encoder is ``prefixes``.

It is the RFC 8785 form of ``{"bits": b, "prefixes": [...]}``: the prefixes of b bits that the round tells apart, each
in ceil(b/4) hexadecimal digits (most significant first), rising. Every prefix is one that a text of the domain can
have. Candidates are public and signed with the round's recipe, so that whoever knows the
recipe has the same categories.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
from typing import Final

from pydantic import ValidationError

from tacit.errors import DecodeError, FieldError, Refusal
from tacit.methods.result import QUOTE, printable
from tacit.recipe.encoder_specs import Domain, Prefixes, PrefixSearch
from tacit.recipe.model import MAX_ROUND_INPUT, Question
from tacit.tlog.canonical import canonical_bytes, parse_canonical

KEPT: Final = 8
"""Prefixes whose extensions a round has room for, at least, where a search states no levels."""
OTHER: Final = "(other)"
_WHAT = "round_input"
_HEX = re.compile(r"[0-9a-f]{1,16}")
_FRAME = len(canonical_bytes({"bits": 64, "prefixes": []}))


@dataclass(frozen=True, slots=True)
class Candidates:
    """Prefixes of ``bits`` bits each, as numbers, rising."""

    bits: int
    prefixes: tuple[int, ...]

    def text(self) -> str:
        """The round input that states them."""
        width = _digits(self.bits)
        return canonical_bytes({"bits": self.bits, "prefixes": [f"{one:0{width}x}" for one in self.prefixes]}).decode()

    def extend(self, earlier: Candidates) -> bool:
        """Whether each of these begins with one of ``earlier``, which are shorter."""
        known, more = set(earlier.prefixes), self.bits - earlier.bits
        return more > 0 and all(one >> more in known for one in self.prefixes)


def read_candidates(text: str, spec: Prefixes) -> Candidates:
    """The candidates of a round input, strictly: canonical, at most ``spec.candidates``, of one of the levels, rising,
    and of texts of the domain. Raises ``DecodeError``."""
    body = parse_canonical(text.encode("utf-8", "replace"), _WHAT)
    if set(body) != {"bits", "prefixes"}:
        raise DecodeError(f"{_WHAT} must have the members bits and prefixes")
    bits, listed = body["bits"], body["prefixes"]
    if type(bits) is not int or bits not in spec.levels:
        raise DecodeError(f"{_WHAT}: bits must be one of {', '.join(map(str, spec.levels))}")
    if not isinstance(listed, list) or not 1 <= len(listed) <= spec.candidates:
        raise DecodeError(f"{_WHAT}: there must be 1 to {spec.candidates} prefixes")
    width = _digits(bits)
    if not all(isinstance(one, str) and len(one) == width and _HEX.fullmatch(one) for one in listed):
        raise DecodeError(f"{_WHAT}: each prefix must be {width} hexadecimal digits in lower case")
    prefixes = tuple(int(one, 16) for one in listed)
    if any(low >= high for low, high in pairwise(prefixes)):
        raise DecodeError(f"{_WHAT}: the prefixes must rise")
    if not all(is_prefix(spec, one, bits) for one in prefixes):
        raise DecodeError(f"{_WHAT}: a prefix belongs to no text of {bits} bits and more")
    return Candidates(bits, prefixes)


def candidates_of(question: Question) -> Candidates | None:
    """The candidates of a question about prefixes; None for any other, and before a round states them. Raises refusal
    ``round-candidates`` where the round input does not hold any."""
    spec, text = question.encoder, question.round_input
    if not isinstance(spec, Prefixes) or text is None:
        return None
    try:
        return read_candidates(text, spec)
    except DecodeError as error:
        raise Refusal("round-candidates", str(error)) from error


def asked_prefixes(search: PrefixSearch, missing: str | None) -> Prefixes:
    """The encoder of a search: with its levels, and with labels for other texts and, where ``missing`` is one, for
    devices without a text. Raises FieldError."""
    levels = search.levels or _planned(search)
    labels = {"other": search.other or OTHER, "missing": search.missing or missing}
    stated = {name: value for name, value in {**dict(search), **labels, "levels": levels}.items() if value is not None}
    try:
        return Prefixes.model_validate(stated)
    except ValidationError as error:
        raise FieldError("encoder.levels", error.errors()[0]["msg"].removeprefix("Value error, ")) from error


def _planned(search: PrefixSearch) -> tuple[int, ...]:
    """The longest first prefixes that the candidates can all be, and then as few rounds as leave room for the
    extensions of ``KEPT`` prefixes, with even steps. Raises FieldError."""
    lengths = range(1, search.bits + 1)
    fits = partial(extensions, search, 0, 0, most=search.candidates)
    fitting = [*takewhile(lambda at: fits(at) is not None, lengths)]  # longer prefixes are never fewer
    if not fitting:
        raise FieldError("encoder.candidates", "are too few for the first bits of a text")
    first, step = fitting[-1], max(1, (search.candidates // KEPT).bit_length() - 1)
    more = -(-(search.bits - first) // step)
    return (*(first + (search.bits - first) * at // more for at in range(more)), search.bits) if more else (first,)


def most_candidates(spec: Prefixes, bits: int) -> int:
    """How many prefixes of ``bits`` bits a round may ask of: those that the encoder allows and a round input holds."""
    return min(spec.candidates, (MAX_ROUND_INPUT - _FRAME) // (_digits(bits) + 3))


def extensions(spec: Domain, prefix: int, bits: int, longer: int, most: int) -> list[int] | None:
    """The prefixes of ``longer`` bits that begin with ``prefix`` (of ``bits`` bits) and that a text can have, rising;
    None where there are more than ``most``, which bounds the work too."""
    at, found = bits, [prefix]
    while at < longer and len(found) <= most:
        step = min(longer, at - at % spec.symbol_bits + spec.symbol_bits) - at
        at += step
        wider = (one << step | last for one in found for last in range(1 << step))
        found = [one for one in wider if is_prefix(spec, one, at)]
    return found if len(found) <= most else None


def is_prefix(spec: Domain, prefix: int, bits: int) -> bool:
    """Whether a text of the domain has an item that begins with these bits: symbols that exist, at least one of them,
    and nothing after the end."""
    if not 0 <= prefix < 1 << bits:
        return False
    *whole, (last, known) = _symbols(spec, prefix, bits)
    ended = False
    for at, (symbol, _) in enumerate(whole):
        if symbol > spec.symbols or (ended and symbol) or (at == 0 and symbol == 0):
            return False
        ended = symbol == 0
    rest = spec.symbol_bits - known
    if last << rest > spec.symbols or (ended and last):
        return False
    return bool(whole) or last > 0 or rest > 0


def label_of(spec: Domain, prefix: int, bits: int) -> str:
    """A prefix for people: its text in quotes; dots where more may follow, after the bits that are known of the next
    symbol. Distinct for the prefixes of a round."""
    *whole, (last, known) = _symbols(spec, prefix, bits)
    part = ""
    if known == spec.symbol_bits:
        whole.append((last, known))
    else:
        part = f"+{last:0{known}b}"
    symbols = [symbol for symbol, _ in whole if symbol]
    if len(symbols) < len(whole):
        return f"{QUOTE}{_spelled(spec, symbols)}{QUOTE}"
    more = "" if bits == spec.bits else f"{part}…"
    return f"{QUOTE}{_spelled(spec, symbols)}{QUOTE}{more}"


def _spelled(spec: Domain, symbols: Iterable[int]) -> str:
    """The symbols as text on one line; bytes that are not UTF-8 are escaped."""
    if spec.alphabet is None:
        return printable(bytes(symbols).decode("utf-8", "surrogateescape"))
    return printable("".join(spec.alphabet[symbol - 1] for symbol in symbols))


def _symbols(spec: Domain, prefix: int, bits: int) -> list[tuple[int, int]]:
    """The symbols of a prefix, each with the number of its bits that are known: all of them but for the last one."""
    width, found, at = spec.symbol_bits, [], 0
    while at < bits:
        known = min(width, bits - at)
        at += known
        found.append((prefix >> bits - at & (1 << known) - 1, known))
    return found


def _digits(bits: int) -> int:
    return -(-bits // 4)
