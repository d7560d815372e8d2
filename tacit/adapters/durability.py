"""What keeps a store from keeping anything, as its last writes found, until a write proves otherwise."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from tacit.errors import NoRoom, RolledBack, Unavailable

DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
_PAST, _ROOM, _AWAY = "past", "room", "away"


class Durability:
    """The trouble of one store.

    A store that was away is well again after any write. One without room is not: what is left of the room in its own
    files takes small writes while larger ones still fail, so ``has_room`` must be said, after a write of some size. One
    that is from the past, or was taken by another process, needs a restart.
    """

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        """What is wrong; empty where nothing is known to be."""
        return next((self._words[kind] for kind in (_PAST, _ROOM, _AWAY) if kind in self._words), "")

    @property
    def lacks_room(self) -> bool:
        """Whether a write found no room, and ``has_room`` was not said since."""
        return _ROOM in self._words

    def has_room(self) -> None:
        """A write that needs more room than the others succeeded."""
        self._words.pop(_ROOM, None)

    def ended(self, words: str) -> None:
        """Nothing is written any more until a restart."""
        self._words[_PAST] = words

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Around every durable write: what it raises goes on, and is remembered."""
        try:
            yield
        except RolledBack as error:
            self.ended(str(error))
            raise
        except NoRoom as error:
            self._words[_ROOM] = str(error)
            raise
        except Unavailable as error:
            self._words[_AWAY] = str(error)
            raise
        except OSError as error:
            if error.errno in DISK_ERRORS:
                self._words[_ROOM] = "there is no room for the mark of the database"
            raise
        self._words.pop(_AWAY, None)
