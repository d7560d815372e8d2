"""Backups of one service: a folder with a snapshot of its database and the files that the service creates itself.

A backup leaves out what the operator made (keys, tokens, certificates, the configuration), which does not change while
a service runs. Databases hold secrets all the same (the issuer's token keys, shares of reports), and so do the files
that a service makes (the gateway's keys, the attester's). So every file is encrypted to public keys of the operator
(``infra.backing.sealed_files``), unless the operator says otherwise.

A backup also leaves out the mark beside the database that reveals an older database
(``tacit.adapters.databases.watermark``), because that mark must never go back. ``backup.json`` is written last: a
folder without it is not a backup.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic import ValidationError

from infra.backing.postgres_backup import dump_into, put_dump, write_new
from infra.backing.sealed_files import SEALED, recipients_of, seal, unseal
from infra.backing.sqlite_backup import copy_database, put_database
from infra.base.service_names import kind_of
from infra.stacks.deployables import deployable
from tacit.adapters.disk.files import sync_folder
from tacit.errors import UsageError
from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import Frozen
from tacit.service.base.secret_files import write_secret

CONTENTS = "backup.json"
DATABASES = {"sqlite": "database.sqlite3", "postgres": "database.sql"}
WITHOUT_DATABASE = frozenset({"relay"})
OWN_FILES = {"relay": ("key-sets.json",), "gateway": ("ohttp-keys.json", "signing.key"), "attester": ("stable-id.key",)}
"""By service: the files in its ``state_dir`` that it creates itself."""
_STAMP = "%Y%m%dT%H%M%SZ"
_DRAFT_SECONDS = 86400
"""Age in seconds at which an unfinished backup is deleted."""
_ASIDE = ".backup-"
_MOST_BYTES = 1 << 20
_CHUNK = 1 << 20


class Contents(Frozen):
    """The contents of ``backup.json``."""

    format: Literal[1, 2] = 2
    service: str
    made: int
    """When the backup was begun, in POSIX seconds."""
    database: Literal["sqlite", "postgres", "none"]
    files: dict[str, str]
    """The SHA-256 of each file as it lies here, in hexadecimal, by file name."""
    encrypted_to: tuple[str, ...] = ()
    """The public keys to which every file is encrypted; without any the files are as they were."""

    @property
    def suffix(self) -> str:
        """What the name of every file here ends with."""
        return SEALED if self.encrypted_to else ""


@dataclass(frozen=True)
class Restored:
    """What a restore did: the ``contents`` of the backup, where the previous database is now (``before``, SQLite only),
    and which of the service's own files were ``missing`` and were put back."""

    contents: Contents
    before: Path | None
    missing: tuple[str, ...]


def back_up(name: str, config: Path, out: Path, keys: Sequence[str] | None = None) -> Contents:
    """Back up the service ``name``, running or stopped, into the new folder ``out`` (0700), encrypted to the public
    ``keys`` (default: those of its configuration; none: not encrypted). A snapshot of a database file lies in the
    service's own folder until it is encrypted. Raises ``UsageError``."""
    kind, settings = kind_of(name), deployable(name).load(config)
    keys = settings.backup_keys if keys is None else tuple(keys)
    recipients = recipients_of(keys) if keys else []
    if out.exists():
        raise UsageError(f"{out} exists already; a backup never replaces another one")
    draft, made = out.with_name(f".{out.name}.{os.getpid()}.new"), int(time.time())
    try:
        draft.mkdir(mode=0o700, parents=True)
        database = _copy(kind, settings, draft, recipients)
        for file in _own_files(kind, settings):
            _keep(file, draft, recipients)
        files = {path.name: _digest(path) for path in sorted(draft.iterdir())}
        if not files:
            raise UsageError(f"{settings.state_dir}: the {kind} has made nothing yet")
        contents = Contents(service=kind, made=made, database=database, files=files, encrypted_to=tuple(keys))
        write_secret(draft / CONTENTS, json.dumps(contents.model_dump(), indent=1).encode())
        draft.rename(out)
    except OSError as error:
        raise UsageError(f"{error.filename or out}: {error.strerror or 'cannot be written'}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    sync_folder(out.parent)
    return contents


def back_up_into(
    name: str, config: Path, folder: Path, keep: int, keys: Sequence[str] | None = None
) -> tuple[Path, Contents]:
    """Back up the service ``name`` as ``back_up`` does into a new folder below ``folder``, named after the service and
    the time (UTC). Once the backup is complete, delete all but the newest ``keep`` of the service's backups; none if
    the clock has gone back behind one of them, whose names then tell nothing. Raises ``UsageError``."""
    kind = kind_of(name)
    out = folder / f"{kind}-{time.strftime(_STAMP, time.gmtime())}"
    contents = back_up(name, config, out, keys)
    try:
        # the backups of a service that `back_up_into` made in `folder`, oldest first
        pattern = re.compile(rf"{kind}-\d{{8}}T\d{{6}}Z")
        found = sorted(path for path in folder.iterdir() if path.is_dir() and pattern.fullmatch(path.name))
        if found[-1] != out:
            raise UsageError(f"{out} is complete, but {found[-1].name} is of a later time; is the clock right? Nothing "
                             "was deleted; remove what a wrong clock named")  # fmt: skip
        for old in found[:-keep]:
            (old / CONTENTS).unlink(missing_ok=True)  # first, so that a deletion cut short leaves no backup
            shutil.rmtree(old)
        for draft in folder.glob(f".{kind}-*.new"):
            if draft.stat().st_mtime < time.time() - _DRAFT_SECONDS:
                shutil.rmtree(draft)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}; {out} is complete, older ones remain") from error
    return out, contents


def restore(name: str, config: Path, backup: Path, key: Path | None = None) -> Restored:
    """Replace the database of the service ``name``, which must be stopped, by that of the backup in the folder
    ``backup``, which the private key in the file ``key`` decrypts. Files that the service created are put back only
    where they are missing, as they may be newer than the backup's. The mark is not touched. Raises ``UsageError``,
    with nothing changed."""
    kind, settings = kind_of(name), deployable(name).load(config)
    contents = read_contents(backup)
    if contents.service != kind:
        raise UsageError(f"{backup} is a backup of the {contents.service}, not of the {kind}")
    stored = _kind_of_database(kind, settings)
    if contents.database != stored:
        raise UsageError(f"{backup} has a database of kind {contents.database}, but {config} says {stored}")
    if contents.encrypted_to and key is None:
        raise UsageError(f"{backup} is encrypted to {contents.encrypted_to[0]}; name its private key with --key")
    before = None
    try:
        with _plain_files(backup, contents, settings.state_dir, key) as folder:
            own = _missing_files(folder, contents, settings.state_dir)
            if contents.database == "postgres":
                put_dump(folder / DATABASES["postgres"], settings.database_url(kind))
            elif contents.database == "sqlite":
                before = put_database(folder / DATABASES["sqlite"], _database_file(kind, settings))
            for file, data in own.items():
                write_secret(settings.state_dir / file, data)
    except OSError as error:
        raise UsageError(f"{error.filename or backup}: {error.strerror or 'cannot be read'}") from error
    return Restored(contents, before, tuple(own))


@contextlib.contextmanager
def _plain_files(backup: Path, contents: Contents, state_dir: Path, key: Path | None) -> Iterator[Path]:
    """A folder with the backup's files as they were: its own, or one in ``state_dir`` while the block runs, with what
    ``key`` decrypts. Raises ``UsageError``."""
    if not contents.encrypted_to or key is None:
        yield backup
        return
    with _aside(state_dir) as folder:
        for name in contents.files:
            with _plain(backup / name) as file:
                unseal(file, folder / name.removesuffix(SEALED), key)
        yield folder


@contextlib.contextmanager
def _aside(state_dir: Path) -> Iterator[Path]:
    """A folder (0700) on the service's own disk, for what nobody else may see, while the block runs. One that a killed
    run left is deleted a day later."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in state_dir.glob(f"{_ASIDE}*"):
        if old.stat().st_mtime < time.time() - _DRAFT_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_ASIDE, dir=state_dir, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _missing_files(folder: Path, contents: Contents, state_dir: Path) -> dict[str, bytes]:
    """The contents of the service's own files that are missing from its folder, by name, of those in ``folder``: read
    once, and checked against the backup's hashes if they are not encrypted, which checks them too. Raises
    ``UsageError``."""
    own = {}
    for file in OWN_FILES.get(contents.service, ()):
        if f"{file}{contents.suffix}" in contents.files and not (state_dir / file).exists():
            with _plain(folder / file) as found:
                own[file] = found.read(_MOST_BYTES)
            if not contents.encrypted_to and hashlib.sha256(own[file]).hexdigest() != contents.files[file]:
                raise UsageError(f"{folder}: {file} is not what was backed up; use another")
    return own


def read_contents(backup: Path) -> Contents:
    """Return the contents of the backup in the folder ``backup``, with the hash of every file checked. Raises
    ``UsageError``."""
    path = backup / CONTENTS
    try:
        with _plain(path) as file:
            contents = Contents.model_validate_json(file.read(_MOST_BYTES))
        own = OWN_FILES.get(contents.service, ())
        known = {f"{name}{contents.suffix}" for name in (*DATABASES.values(), *own)}
        strange = sorted(set(contents.files) - known)
        wrong = [name for name, digest in contents.files.items() if not strange and _digest(backup / name) != digest]
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}; not a complete backup by tacit backup") from error
    except ValidationError as error:
        raise UsageError(f"{path}: not what tacit backup writes") from error
    database = DATABASES.get(contents.database)
    if strange or wrong or (database is not None and f"{database}{contents.suffix}" not in contents.files):
        raise UsageError(
            f"{backup}: {(strange or wrong or ['the database'])[0]} is not what was backed up; use another"
        )
    return contents


def _kind_of_database(kind: str, settings: ServiceConfig) -> Literal["sqlite", "postgres", "none"]:
    if kind in WITHOUT_DATABASE:
        return "none"
    if settings.storage == "memory":
        raise UsageError(f"the {kind} keeps its state in memory, which nobody can back up or restore")
    return "sqlite" if settings.database_file is None else "postgres"


def _copy(
    kind: str, settings: ServiceConfig, folder: Path, recipients: Sequence[Any]
) -> Literal["sqlite", "postgres", "none"]:
    """Copy the database into new files in ``folder``, encrypted if there are ``recipients``; returns which kind it is.
    Raises ``UsageError`` for a service that keeps its state in memory."""
    stored = _kind_of_database(kind, settings)
    if stored == "none":
        return stored
    name, url = DATABASES[stored], settings.database_url(kind)
    if stored == "postgres" and recipients:
        dump_into(url, lambda dump: seal(dump, folder / f"{name}{SEALED}", recipients))
    elif stored == "postgres":
        dump_into(url, lambda dump: write_new(dump, folder / name))
    elif recipients:
        with _aside(settings.state_dir) as own:
            copy_database(_database_file(kind, settings), own / name)
            _keep(own / name, folder, recipients)
    else:
        copy_database(_database_file(kind, settings), folder / name)
    return stored


def _keep(file: Path, folder: Path, recipients: Sequence[Any]) -> None:
    """Put a copy of ``file`` into ``folder``, encrypted if there are ``recipients``."""
    if not recipients:
        write_secret(folder / file.name, file.read_bytes())
        return
    with file.open("rb") as source:
        seal(source, folder / f"{file.name}{SEALED}", recipients)


def _database_file(kind: str, settings: ServiceConfig) -> Path:
    return settings.state_dir.absolute() / f"{kind}.sqlite3"


def _own_files(kind: str, settings: ServiceConfig) -> list[Path]:
    return [path for name in OWN_FILES.get(kind, ()) if (path := settings.state_dir / name).exists()]


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with _plain(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _plain(path: Path) -> BinaryIO:
    """Open a file of a backup. Raises ``UsageError`` unless it is a regular file: a link would lead elsewhere, a
    pipe or a device might never end."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise UsageError(f"{path}: not a regular file, so it is not part of a backup")
    return os.fdopen(file, "rb")
