"""The error classes of Tacit.

Three kinds of outcome, kept apart (who is at fault decides what the caller does):

* ``Fatal``: our own fault or that of our own machine; HTTP 500, details stay in the log. Where the same request may
  succeed later (a store that is unreachable or full: ``Unavailable``), HTTP 503.
* ``Abort``: the peer's request as a whole is refused; rendered as an RFC 9457 problem document.
* ``ReportRejected`` (``tacit.dap_errors``): one report is rejected with a DAP ``ReportError`` code, its job goes on.

In addition there are ``DecodeError`` (malformed bytes, always the fault of a peer or a file), ``Refusal`` (a named rule
refused something) and ``UsageError`` (a person's flag, file or configuration is wrong). Messages never hold a share,
token, key, address or device id.
"""

from __future__ import annotations

import re


class TacitError(Exception):
    """Root of every error that Tacit raises on purpose."""


class Fatal(TacitError):
    """We cannot continue: a broken invariant, a store that does not answer, a key that is missing."""


class Unavailable(Fatal):
    """A store does not answer or has no room at the moment; the same request may succeed later."""


class NoRoom(Unavailable):
    """The disk or the quota of a store is full."""


class RolledBack(Unavailable):
    """The store's database was replaced by an older one; nothing may be spent in it until an operator has decided."""


class DecodeError(TacitError, ValueError):
    """Bytes or text from outside do not have the required form."""


class CryptoError(TacitError):
    """A ciphertext does not open or a signature does not verify. The message says which check failed, never which
    bytes."""


class UsageError(TacitError):
    """A flag, file or configuration value is wrong; the message is one line and says what to do."""


class HarmfulToRetryError(UsageError):
    """An error that becomes worse with each attempt, such as a PIN that a token refused; programs must not retry."""


class FieldError(UsageError):
    """One member of a document that a person fills in is wrong. ``field`` is its path, such as ``encoder.low``; where
    ``reason`` mentions other members, their paths are in backticks. ``others``: further errors of the same document;
    the message names the first one only."""

    def __init__(self, field: str, reason: str, others: tuple[FieldError, ...] = ()) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
        self.others = others

    @property
    def every(self) -> tuple[FieldError, ...]:
        """This error, and then ``others``."""
        return (self, *self.others)


class Refusal(TacitError):
    """A named rule refused something. ``rule`` is the stable, greppable name of the rule."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail


class Abort(TacitError):
    """The peer's request is refused as a whole.

    ``type`` is the problem type URI, ``status`` the HTTP status, ``title`` a fixed sentence for the type, ``detail``
    what was wrong this time, ``task_id`` base64url when known, ``extensions`` further members.
    """

    def __init__(
        self,
        problem_type: str,
        detail: str = "",
        *,
        status: int = 400,
        title: str = "",
        task_id: str | None = None,
        extensions: dict[str, object] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail or title or problem_type)
        self.type = problem_type
        self.status = status
        self.title = title
        self.detail = detail
        self.task_id = task_id
        self.extensions = extensions or {}
        self.headers = headers or {}

    @property
    def words(self) -> str:
        """Title and detail as one text for a person."""
        return in_sentences(self.title or "refused", self.detail)


def in_sentences(title: str, detail: str) -> str:
    """Join a problem's title and detail: where the title is a sentence, the detail becomes one too."""
    is_sentence = title.endswith((".", "!", "?"))
    return f"{title} {as_sentence(detail) if is_sentence else detail}".strip()


def as_sentence(text: str) -> str:
    """``text`` as a sentence of its own: it begins with a capital letter, unless with a name that a colon follows, and
    ends with a full stop."""
    if not text:
        return ""
    first = text if _NAME_FIRST.match(text) else text[0].upper() + text[1:]
    return first if first.endswith((".", "!", "?", ".)")) else f"{first}."


_NAME_FIRST = re.compile(r"[a-z][\w.-]*:")
"""What a text begins with that names a member, a service or a file first."""

DAP_ERROR_PREFIX = "urn:ietf:params:ppm:dap:error:"
REFUSAL_PREFIX = "urn:tacit:refusal:"
"""Precedes the name of a rule in the problem type of a ``Refusal``."""


def parts_of(error: BaseException) -> list[BaseException]:
    """The errors that a group holds, however deep, or the error itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [part for one in error.exceptions for part in parts_of(one)]


def drop_frames(error: BaseException) -> None:
    """Forget where an error was raised, and those that led to it, once it was answered: the frames hold whole requests,
    often in a circle with the error, so that they would stay until the next search for garbage."""
    left: list[BaseException | None] = [error]
    seen = set[int]()
    while left:
        one = left.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            left += (one.__cause__, one.__context__, *(one.exceptions if isinstance(one, BaseExceptionGroup) else ()))
