"""The flags that fill a survey, from the table of its members; each stands for the same member in all commands."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from infra.authoring.survey_errors import ParsedFlags
from infra.stacks.command_options import read_file
from tacit.errors import FieldError, UsageError
from tacit.methods.base.method import plain
from tacit.recipe.writing.survey_table import SURVEY_FIELDS, Option, SurveyField, Value

Command = Callable[..., None]
SurveyFile = Annotated[
    Path | None, typer.Option("--file", help="Survey as JSON or TOML; flags add to it or override it.")
]
_FILE = "file"


def amount(text: str) -> str:
    """Return a decimal number in a survey's notation; other text is returned as it is, for the survey to refuse."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return plain(number) if number.is_finite() and -30 < number.adjusted() < 30 else text


def amount_of_float(number: float) -> str:
    """Return a float in a survey's notation, as ``amount`` does for text."""
    return amount(repr(number))


def _number(text: str) -> int | str:
    """Parse a number that need not be whole. Raises ``ValueError``."""
    from tacit.recipe.quantity import parse_spoken

    return parse_spoken(text)


def edges_of(text: str) -> list[int | str]:
    """Parse bucket edges separated by commas. Raises ``ValueError`` if one is not a number."""
    try:
        return [_number(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"takes numbers with commas between, such as 0,1,2,4 or 0,0.25,0.5: {error}") from error


def _wholes(text: str) -> list[int]:
    """Parse whole numbers separated by commas. Raises ``ValueError``."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError("takes whole numbers with commas between, such as 9,15,20") from error


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _pairs(texts: list[str]) -> dict[str, str]:
    """Parse criteria of the form NAME=VALUE. Raises ``ValueError``."""
    pairs = [text.partition("=") for text in texts]
    found = {name: value for name, _, value in pairs}
    if len(found) != len(pairs) or not all(equals for _, equals, _ in pairs):
        raise ValueError("takes NAME=VALUE, such as locale=de, each name once")
    return found


def _several(texts: list[str]) -> dict[str, list[str]]:
    """Parse attributes with their values, NAME=VALUE,VALUE. Raises ``ValueError``."""
    try:
        return {name: _parts(values) for name, values in _pairs(texts).items()}
    except ValueError as error:
        raise ValueError("takes NAME=VALUE,VALUE,..., such as locale=de,en, each name once") from error


@dataclass(frozen=True, slots=True)
class Flag:
    """``field``: path of the member. ``kind`` and ``least``: type and minimum on the command line; ``read`` converts
    that value to the document's. ``help``, ``default``: the document's own, unless set; ``names``: all option names."""

    field: str
    kind: Any = str
    read: Callable[[Any], Any] = str
    help: str = ""
    least: int | None = None
    default: Any = None
    names: tuple[str, ...] = ()
    metavar: str | None = None

    def parameter(self, name: str) -> inspect.Parameter:
        """The flag as a keyword-only parameter of a command's signature: help and default are those of the survey's
        field where the flag states none, and without a default it is required."""
        described = _describe(self.field)
        default = described[1] if self.default is None else self.default
        option = typer.Option(
            *(self.names or (_flag(name),)), help=self.help or described[0], min=self.least, metavar=self.metavar
        )
        kind = self.kind | None if default is None else self.kind
        annotation, stated = Annotated[kind, option], inspect.Parameter.empty if default is ... else default
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=stated, annotation=annotation)


def _describe(field: str) -> tuple[str, Any]:
    """The document's description of a member, and its default in the command line's notation."""
    from tacit.recipe.writing.survey import ImportancePlan, Survey

    part, _, member = field.rpartition(".")
    models: dict[str, type[ImportancePlan | Survey]] = {"": Survey, "importance": ImportancePlan}
    if part not in models:
        return "", None
    info = models[part].model_fields[member]
    default = None if info.is_required() else info.default
    return info.description or "", plain(default) if isinstance(default, Decimal) else default


def _flag_of(row: SurveyField, option: Option) -> Flag:
    kind, read, metavar, default = _NOTATIONS[option.value or row.value]
    return Flag(row.path, kind, read, option.help, row.least, default, metavar=metavar)


_NOTATIONS: Final[Mapping[Value, tuple[Any, Callable[[Any], Any], str | None, Any]]] = {
    Value.TEXT: (str, str, None, None),
    Value.CHOICE: (str, str, None, None),
    Value.SWITCH: (bool, bool, None, False),
    Value.WHOLE: (int, int, None, None),
    Value.MOMENT: (int, int, None, None),
    Value.QUANTITY: (str, _number, None, None),
    Value.AMOUNT: (str, amount, None, None),
    Value.FLOAT: (float, amount_of_float, None, None),
    Value.WHOLES: (str, _wholes, None, None),
    Value.LABELS: (str, _parts, None, None),
    Value.QUANTITIES: (str, edges_of, None, None),
    Value.PAIRS: (list[str], _pairs, "NAME=VALUE", None),
    Value.VALUES: (list[str], _several, "NAME=VALUE,...", None),
}
"""How the command line states each type: as which type, how its value becomes the document's, its placeholder in the
help, and its default."""
FLAGS: Final[Mapping[str, Flag]] = {
    option.name: _flag_of(row, option) for row in SURVEY_FIELDS for option in row.options
}
"""The flags by parameter name; the option has the same name, with hyphens."""


def asking(*order: str, **changed: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Return a decorator that replaces a command's parameter ``said`` by these flags; the command gets their values and
    the survey's file, if it takes one, as a ``ParsedFlags``. ``order``: the flags, and the command's own parameters
    between them; ``changed``: members of ``Flag`` that differ for this command. A ``FieldError`` becomes a
    ``UsageError`` that names the flag."""
    flags = {name: replace(FLAGS[name], **changed.get(name, {})) for name in order if name in FLAGS}

    return functools.partial(_Taking, flags, order)


class _Taking:
    """A command that takes ``flags`` in place of ``said``. The flags are described when the command is built, because a
    survey's own descriptions are theirs."""

    def __init__(self, flags: Mapping[str, Flag], order: tuple[str, ...], command: Command) -> None:
        functools.update_wrapper(
            self, command, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=()
        )
        self._command, self._flags, self._order = command, flags, order
        self._own = dict(inspect.signature(command, eval_str=True).parameters)
        del self._own["said"]

    @functools.cached_property
    def __signature__(self) -> inspect.Signature:
        placed = [self._flags[name].parameter(name) if name in self._flags else self._own[name] for name in self._order]
        rest = [one for name, one in self._own.items() if name not in self._order]
        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = (context, *placed, *rest)
        return inspect.Signature([one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters])

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return {one.name: one.annotation for one in self.__signature__.parameters.values()}

    def __call__(self, context: typer.Context, **given: Any) -> None:
        said = _parse_flags(self._flags, context, given)
        try:
            self._command(said=said, **{name: given[name] for name in self._own})
        except FieldError as error:
            raise UsageError(said.words(error)) from error


def _parse_flags(flags: Mapping[str, Flag], context: typer.Context, given: Mapping[str, Any]) -> ParsedFlags:
    """The values from the command line and, if there is no file, the command's own defaults. Raises ``BadParameter``,
    and ``UsageError`` for a file that holds no survey."""
    from tacit.recipe.writing.survey import read_survey

    path: Path | None = given.get(_FILE)
    file = None if path is None else read_survey(read_file(path), str(path))
    found: dict[str, Any] = {}
    for name, flag in flags.items():
        source = context.get_parameter_source(name)
        granted = path is None and flag.default is not None
        if given[name] is None or not (granted or (source is not None and source.name == "COMMANDLINE")):
            continue
        try:
            found[name] = flag.read(given[name])
        except ValueError as error:
            raise typer.BadParameter(f"{_flag(name)}: {error}") from error
    fields = {name: flag.field for name, flag in {**FLAGS, **flags}.items()}
    stated = {name: value for name, value in found.items() if value is not False}
    return ParsedFlags(stated, fields, tuple(flags), file, str(path))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
