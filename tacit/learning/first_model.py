"""The model with which a training run begins: drawn by the plan's seed, or a file where only the application knows it.

An application has its parameters as arrays. A model is all their numbers in one row, array after array, each in
row-major order (the last index runs fastest).
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DecodeError, UsageError
from tacit.learning import model_file
from tacit.learning.architectures import Reals, architecture_of
from tacit.recipe.training import MAX_ENTRIES, ArchitectureSpec, External

ONE: Final = "parameters"
"""The name of an array that has none."""
_NPY: Final = b"\x93NUMPY"
_ZIP: Final = b"PK"
_MOST_ARRAYS: Final = 4096
_MOST_BYTES: Final = 16 * MAX_ENTRIES + 4096 * _MOST_ARRAYS
"""Of all arrays and their headers."""


@dataclass(frozen=True, slots=True, repr=False)
class OwnModel:
    """An application's model: its ``file``, and the ``shapes`` of its arrays by their names, in their order."""

    file: bytes
    shapes: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[np.floating]]) -> OwnModel:
        """The model of these arrays. Raises ``DecodeError``."""
        for name, array in arrays.items():
            if not np.issubdtype(array.dtype, np.floating):
                raise DecodeError(f"{name} holds {array.dtype}, and a model floating-point numbers: leave it out")
        if not arrays:
            raise DecodeError("there is no array")
        try:
            file = model_file.encode(flat(arrays.values()))
        except ValueError as error:
            raise DecodeError(str(error)) from error
        return cls(file, {name: array.shape for name, array in arrays.items()})

    @classmethod
    def read(cls, data: bytes, name: str) -> OwnModel:
        """The model in the ``data`` of a file called ``name``: ``.npz``, ``.npy``, or a model file. Raises
        ``DecodeError``."""
        try:
            if data.startswith((_NPY, _ZIP)):
                return cls.of(_arrays(data))
            return cls(data, {ONE: model_file.decode(data).shape})
        except DecodeError as error:
            raise DecodeError(f"{name}: {error}") from error

    @property
    def spec(self) -> External:
        """What a plan says of it: how many entries it has, and the name of its file (``model_file.name_of``)."""
        entries, name = model_file.entries_of(self.file), model_file.name_of(self.file)
        return External(kind="external", entries=entries, initial=name)

    def arrays(self, parameters: Reals) -> dict[str, Reals]:
        """``parameters`` cut into arrays of ``shapes``, by name. Raises ``ValueError`` for another number than the
        model has."""
        parts = split_into_shapes(parameters, list(self.shapes.values()))
        return dict(zip(self.shapes, parts, strict=True))


def flat(arrays: Iterable[NDArray[np.floating]]) -> NDArray[np.float64]:
    """The numbers of all arrays in one row, each array in C order. Raises ``ValueError`` if there is no array."""
    return np.concatenate([np.asarray(one, dtype=np.float64).ravel() for one in arrays])


def split_into_shapes(parameters: Reals, shapes: Sequence[tuple[int, ...]]) -> list[Reals]:
    """Arrays of these shapes, copied from one row of their numbers. Raises ``ValueError`` for another number."""
    sizes = [math.prod(shape) for shape in shapes]
    if sum(sizes) != parameters.size:
        raise ValueError(f"{parameters.size} parameters do not fill arrays of {sum(sizes)}")
    parts = np.split(parameters, np.cumsum(sizes)[:-1])
    return [part.reshape(shape).copy() for part, shape in zip(parts, shapes, strict=True)]


def first_model(spec: ArchitectureSpec, seed: int, initial: bytes | None = None) -> NDArray[np.float32]:
    """The parameters with which a run begins. ``initial``: the file of an external model, which no other has. Raises
    ``UsageError`` where it is missing or another one than the plan names, and ``DecodeError``."""
    if not isinstance(spec, External):
        if initial is not None:
            raise UsageError("the plan's first model is drawn by its seed; leave --initial out")
        return architecture_of(spec).initial(seed)
    if initial is None:
        raise UsageError("the plan trains an external model; give the file of the first one: --initial FILE")
    if not model_file.is_named(initial, spec.initial):
        raise UsageError(f"--initial is the model {model_file.name_of(initial)}, and the plan begins with another one: "
                         f"{spec.initial}")  # fmt: skip
    found = model_file.decode(initial)
    if found.size != spec.entries:
        raise UsageError(f"--initial has {found.size} entries, and training.architecture.entries says {spec.entries}")
    return found


def _arrays(data: bytes) -> dict[str, NDArray[np.floating]]:
    """The arrays of a ``.npz`` or ``.npy`` file, whose size is known before they are made. Raises ``DecodeError``."""
    try:
        members = zipfile.ZipFile(io.BytesIO(data)).infolist() if data.startswith(_ZIP) else []
        _require_few([one.file_size for one in members])
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {ONE: loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except DecodeError:
        raise
    except (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile, RuntimeError) as error:
        raise DecodeError("not arrays of numbers, as numpy.savez writes them") from error


def _require_few(sizes: Sequence[int]) -> None:
    if len(sizes) > _MOST_ARRAYS or sum(sizes) > _MOST_BYTES:
        raise DecodeError(f"a model has at most {MAX_ENTRIES} numbers in {_MOST_ARRAYS} arrays")
