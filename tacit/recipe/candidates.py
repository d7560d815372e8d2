"""The candidates of a round of prefixes: what ``question.round_input`` holds where the encoder is ``prefixes``.

It is the RFC 8785 form of ``{"bits": b, "prefixes": [...]}``: the prefixes of b bits that the round tells apart, each
in ceil(b/4) hexadecimal digits (most significant first), rising. Every prefix is one that a text of the domain can
have. Candidates are public and signed with the round's recipe, so that whoever knows the
recipe has the same categories.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
from typing import Final

from pydantic import ValidationError

from tacit.errors import DecodeError, FieldError, Refusal
from tacit.methods.base.candidate_labels import QUOTE, printable
from tacit.methods.base.statistics import MAX_ITEM_BITS
from tacit.recipe.encoder_specs import Domain, Prefixes, PrefixSearch
from tacit.recipe.model import MAX_ROUND_INPUT, Question
from tacit.tlog.canonical import canonical_bytes, parse_canonical
from tacit.validation_words import reason_of

KEPT: Final = 8
"""Prefixes whose extensions a round has room for, at least, where a search states no levels."""
OTHER: Final = "(other)"
OUTSIDE_LABEL: Final = "(does not fit)"
"""What texts outside the domain of a question are counted as, where a survey names nothing else."""
_Utf8 = codecs.getincrementaldecoder("utf-8")
_WHAT = "round_input"
_HEX = re.compile(r"[0-9a-f]+")
_FRAME = len(canonical_bytes({"bits": MAX_ITEM_BITS, "prefixes": []}))


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
        """Whether each of these begins with one of ``earlier``; False unless those are shorter."""
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
    """The encoder of a search: with its levels, and with labels for other texts, for those outside the domain and,
    where ``missing`` is one, for devices without a text. Raises FieldError."""
    levels = search.levels or _plan(search)
    labels = {
        "other": search.other or OTHER,
        "outside": search.outside or OUTSIDE_LABEL,
        "missing": search.missing or missing,
    }
    stated = {name: value for name, value in {**dict(search), **labels, "levels": levels}.items() if value is not None}
    try:
        return Prefixes.model_validate(stated)
    except ValidationError as error:
        raise FieldError(
            "encoder.levels", reason_of(error.errors(include_url=False, include_input=False)[0])
        ) from error


def _plan(search: PrefixSearch) -> tuple[int, ...]:
    """The longest first prefixes that the candidates can all be, and then as few rounds as leave room for the
    extensions of ``KEPT`` prefixes, with even steps. Long prefixes take more of a round input, so that steps become
    smaller. Raises FieldError."""
    lengths = range(1, search.bits + 1)
    fits = partial(extensions, search, 0, 0, most=search.candidates)
    fitting = [*takewhile(lambda at: fits(at) is not None, lengths)]  # longer prefixes are never fewer
    if not fitting:
        raise FieldError("encoder.candidates", "are too few for the first bits of a text")
    first = fitting[-1]
    step = _widest(search, first)
    more = -(-(search.bits - first) // step)
    even = [first + (search.bits - first) * at // max(1, more) for at in range(more)] + [search.bits]
    if _widest(search, search.bits - step) >= step:
        return tuple(even)
    levels = [first]
    while levels[-1] < search.bits:
        levels.append(min(search.bits, levels[-1] + _widest(search, levels[-1])))
    return tuple(levels)


def _widest(search: PrefixSearch, bits: int) -> int:
    """The widest step after prefixes of so many bits that leaves room for the extensions of ``KEPT``, 1 at least."""
    steps = range(1, min(search.bits - bits, search.candidates.bit_length()) + 1)
    fitting = [step for step in steps if KEPT << step <= most_candidates(search, bits + step)]
    return max(fitting, default=1)


def most_candidates(spec: PrefixSearch, bits: int) -> int:
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


@dataclass(frozen=True, slots=True)
class TextPrefixes:
    """The prefixes of the items of a domain of texts, for a search (``tacit.succinct.tree.Prefixes``)."""

    spec: Domain

    def holds(self, prefix: int, bits: int) -> bool:
        """Whether a text of the domain begins with these bits: as ``is_prefix``, and without an alphabet the whole
        bytes must begin a text in UTF-8."""
        if not is_prefix(self.spec, prefix, bits):
            return False
        whole, rest = divmod(bits, self.spec.symbol_bits)
        if self.spec.alphabet is not None:
            return True
        data = (prefix >> rest).to_bytes(whole, "big").rstrip(b"\0")
        try:
            _Utf8().decode(data, final=len(data) < whole or bits == self.spec.bits)
        except UnicodeDecodeError:
            return False
        return True

    def ends(self, prefix: int, bits: int) -> bool:
        """Whether the last whole symbol is the end."""
        whole, rest = divmod(bits, self.spec.symbol_bits)
        return whole > 0 and not prefix >> rest & (1 << self.spec.symbol_bits) - 1


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
        return f"{QUOTE}{_spell(spec, symbols)}{QUOTE}"
    more = "" if bits == spec.bits else f"{part}…"
    return f"{QUOTE}{_spell(spec, symbols)}{QUOTE}{more}"


def _spell(spec: Domain, symbols: Iterable[int]) -> str:
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
