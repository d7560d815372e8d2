"""Signals between the processes that have one database open: "look now".

A signal carries no authority and may be lost or repeated: whoever hears one reads the database, and reads it now and
then anyway. In SQLite, which one process has open, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable

LONGEST_TEXT = 7000
"""Most bytes of a signal's text. PostgreSQL takes 8,000 bytes, topic included."""

Heard = Callable[[str], None]


class Signals:
    """The signals of one process: ``on`` names who hears them, ``send`` tells the other processes.

    ``send`` never waits and never fails. It does not tell this process, which knows already.
    """

    def __init__(self) -> None:
        self._heard: dict[str, list[Heard]] = {}
        self._carry: Heard | None = None

    def on(self, topic: str, heard: Heard) -> None:
        """Call ``heard`` with the text of every signal of ``topic`` from another process, and with an empty text when
        signals may have been lost. ``topic``: letters only."""
        self._heard.setdefault(topic, []).append(heard)

    def send(self, topic: str, text: str = "") -> None:
        """Tell the other processes. Raises ``ValueError`` for a text that is too long."""
        if len(text.encode()) > LONGEST_TEXT:
            raise ValueError(f"a signal's text has at most {LONGEST_TEXT} bytes")
        if self._carry is not None:
            self._carry(f"{topic} {text}")

    def carry(self, by: Heard | None) -> None:
        """From now on, give what is sent to ``by``, as one line; ``None``: to nobody."""
        self._carry = by

    def arrived(self, line: str) -> None:
        """Another process sent ``line``. Topics that nobody listens to are ignored."""
        topic, _, text = line.partition(" ")
        for heard in self._heard.get(topic, ()):
            heard(text)

    def missed(self) -> None:
        """Signals may have been lost: everybody who listens should look."""
        for topic in self._heard:
            self.arrived(topic)


class Wakeup:
    """One kind of work that may have come up: ``notify`` makes every process look for it, this one included.

    ``handler`` is what this process then does: nothing, unless it does such work.
    """

    def __init__(self, signals: Signals, topic: str) -> None:
        self._signals = signals
        self._topic = topic
        self.handler: Callable[[], None] = _ignore
        signals.on(topic, lambda _text: self.handler())

    def notify(self) -> None:
        """Tell all, after the commit of what they should see."""
        self.handler()
        self._signals.send(self._topic)


def _ignore() -> None:
    """For processes that do not do the work."""
