"""What prevents a store from writing durably, as found by its last writes, until a later write succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tacit.adapters.disk.files import DISK_ERRORS
from tacit.errors import NoRoom, RolledBack, Unavailable

_PAST, _ROOM, _AWAY = "past", "room", "away"


class Durability:
    """The write problem of one store.

    After an outage, any successful write clears it. A lack of room is different: the space left in the store's own
    files takes small writes while larger ones still fail, so ``has_room`` must be called after a write of some size. A
    database from the past, or one taken by another process, needs a restart.
    """

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        """What is wrong; empty where no problem is known."""
        return next((self._words[kind] for kind in (_PAST, _ROOM, _AWAY) if kind in self._words), "")

    @property
    def lacks_room(self) -> bool:
        """Whether a write found no room and ``has_room`` has not been called since."""
        return _ROOM in self._words

    def has_room(self) -> None:
        """Record that a write that needs more room than the others succeeded."""
        self._words.pop(_ROOM, None)

    def ended(self, words: str) -> None:
        """Record that nothing can be written until a restart, for the reason in ``words``."""
        self._words[_PAST] = words

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Wrap every durable write: its exceptions are recorded and re-raised."""
        try:
            yield
        except RolledBack as error:
            self.ended(str(error))
            raise
        except NoRoom as error:
            self._words[_ROOM] = str(error)
            raise
        except Unavailable as error:  # the two above are kinds of it
            self._words[_AWAY] = str(error)
            raise
        except OSError as error:
            if error.errno in DISK_ERRORS:
                self._words[_ROOM] = "there is no room for the mark of the database"
            raise
        self._words.pop(_AWAY, None)
