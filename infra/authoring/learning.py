"""The files of a training run: its plan, the examples on which its models are tried, and its newest model; and the
publication of its series in a local stack."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from infra.authoring.devices_at_work import crowd_of
from infra.authoring.publishing import LOCK
from infra.authoring.publishing_time import crowd_words, tell_fleet
from infra.stacks.command_options import policy_of, read_file
from infra.stacks.layout import Layout
from infra.views.learn_run_view import PICTURES, draw_progress
from infra.views.policy_words import for_authors
from infra.views.terminal import notes
from tacit.adapters.disk.files import replace_file
from tacit.adapters.disk.folder_lock import turn_in
from tacit.errors import UsageError
from tacit.learning import model_file
from tacit.learning.architectures import architecture_of
from tacit.learning.examples_file import examples_in
from tacit.learning.first_model import OwnModel, first_model
from tacit.learning.local import Examples
from tacit.learning.plan import Plan
from tacit.logview.live import LiveSeries
from tacit.operations.learning.documents import Row
from tacit.operations.learning.placing import Epochs, placed_run, refusals_of
from tacit.operations.learning.run import Place, Standing, published_series
from tacit.operations.publishing import require_model_place
from tacit.recipe.training import External, RoundModel
from tacit.signing import Signer

NPZ = ".npz"


@dataclass
class Files:
    """What a run reads and writes beside the log: ``examples`` for trying its models, if there are any; files for the
    newest model and for the picture, if they are wanted; ``own``: the first model, where only an application knows
    it."""

    plan: Plan
    examples: Examples | None = None
    model: Path | None = None
    picture: Path | None = None
    own: OwnModel | None = None
    _tried: dict[bytes, tuple[float, float]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, plan: Plan, test: Path | None, model: Path | None, picture: Path | None, initial: Path | None = None
    ) -> Files:
        """The files of these names. Raises ``UsageError`` and ``DecodeError``."""
        if picture is not None and test is None:
            raise UsageError("a picture shows loss and accuracy; give examples to try the models on: --test FILE")
        if picture is not None and _form_of(picture) not in PICTURES:
            raise UsageError(f"{picture}: a picture's name ends with .{' or .'.join(PICTURES)}")
        for path in (model, picture):
            _require_place(path, test, initial)
        if model is not None and picture is not None and model.resolve() == picture.resolve():
            raise UsageError(f"{picture}: the model is written there")
        own = None if initial is None else OwnModel.read(read_file(initial), str(initial))
        found = cls(plan, _examples(plan, test), model, picture, own)
        first_model(plan.training.architecture, plan.seed, found.initial)
        return found

    @property
    def initial(self) -> bytes | None:
        """The file of the first model, where only an application knows it."""
        return None if self.own is None else self.own.file

    def rows(self, found: Standing) -> list[Row]:
        """The published rounds of the run, each that is over with loss and accuracy of the model after it."""
        rows = []
        for live, trained, after in found.trained:
            is_newest = trained is found.run.rounds[-1]
            waits = is_newest and found.is_waiting
            loss, accuracy = (None, None) if waits else self._on_examples(after)
            why = found.passed_over if is_newest else ""
            rows.append(Row(trained.index, live.recipe, live.index, trained.contributions, loss, accuracy, why, waits))
        return rows

    def write(self, found: Standing, rows: Sequence[Row]) -> None:
        """Write the newest model and the picture, where they are wanted. Raises ``UsageError``."""
        if self.model is not None:
            replace_file(self.model, self._model_bytes(found.run.model, self.model))
        if self.picture is not None and rows:
            replace_file(self.picture, draw_progress(rows, _form_of(self.picture)))

    def _on_examples(self, model: bytes) -> tuple[float | None, float | None]:
        """Loss (nats) and accuracy of a model; None without examples."""
        if self.examples is None:
            return None, None
        if model not in self._tried:
            tried, parameters = architecture_of(self.plan.training.architecture), model_file.decode(model)
            features, labels = self.examples.features, self.examples.labels
            loss = float(tried.loss(parameters, features, labels))
            self._tried[model] = loss, tried.accuracy(parameters, features, labels)
        return self._tried[model]

    def _model_bytes(self, model: bytes, path: Path) -> bytes:
        """The file of a model, or the arrays of its layers, where ``path`` ends with ``.npz``."""
        if path.suffix != NPZ:
            return model
        spec, parameters, written = self.plan.training.architecture, model_file.decode(model), io.BytesIO()
        arrays = self.own.arrays(parameters) if self.own else architecture_of(spec).layers(parameters)
        np.savez(written, allow_pickle=False, **arrays)
        return written.getvalue()


def _examples(plan: Plan, test: Path | None) -> Examples | None:
    if test is None:
        return None
    spec = plan.training.architecture
    if isinstance(spec, External):
        raise UsageError("only the application can try an external model on examples; give it the file of --out, and "
                         "leave --test out")  # fmt: skip
    return examples_in(spec, read_file(test), str(test))


async def begun(files: Files, at: Place, layout: Layout, key: Signer, start: int | None) -> LiveSeries:
    """The newest series of the plan's name in the log; if there is none, it is placed there (``start``: POSIX seconds,
    None: soon) and published. Raises ``UsageError``, and as ``tacit.operations.publishing``."""
    plan = files.plan
    with turn_in(layout.state_dir, LOCK):
        log = await at.log()
        named = [one for one in log.series if one.series.name == plan.name and one.ended is None]
        if named:
            if start is not None:
                notes().print(f"{plan.name} is in the log already; --start changes nothing", style="yellow")
            return named[-1]
        options, crowd, now = layout.options, crowd_of(layout), at.clock.now()
        epochs = Epochs(options.epoch_seconds, options.slots_per_epoch)
        series = placed_run(plan, layout.parties, log, epochs, now, crowd.pace, start)
        for refusal in refusals_of(plan, series, policy_of(layout.policy_path), now):
            why = f"{refusal.rule}: {for_authors(refusal.detail)}"
            raise UsageError(
                f"the stack's policy refuses this run ({why}); tacit learn plan with --state-dir shows what fits"
            )
        await require_model_place(at.transport, at.server, _first_round(files))
        tell_fleet(series.probe, crowd)
        found = await published_series(at, series, key)
        notes().print(f"published {plan.name} as entry {found.index} of the log: it is charged once, in full")
        notes().print(crowd_words(series.probe, crowd), style="dim")
        return found


def _require_place(path: Path | None, test: Path | None, initial: Path | None) -> None:
    """Refuse what could not be written, and what would replace the examples or the first model, before anything is
    charged. Raises ``UsageError``."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: not a regular file")
    for read, what in ((test, "the examples"), (initial, "the first model")):
        if read is not None and path.resolve() == read.resolve():
            raise UsageError(f"{path}: it has {what}, and would be replaced")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path.parent}: nothing may be written there")


def _form_of(picture: Path) -> str:
    return picture.suffix.removeprefix(".").lower()


def _first_round(files: Files) -> RoundModel:
    plan = files.plan
    model = model_file.encode(first_model(plan.training.architecture, plan.seed, files.initial))
    return RoundModel(bytes=len(model), clip=plan.clip, model=model_file.name_of(model))
