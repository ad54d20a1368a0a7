"""A logger that writes numbers, hyper-parameters, texts, tables and alarms to Trackio, on this machine unless a Space is named."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import uuid
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only

if TYPE_CHECKING:
    import trackio

ALARM = "alarms/"
"""Texts whose tag begins so are alarms of lightrl, and alerts of Trackio."""
ELSEWHERE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_WEBHOOK_URL")
"""Variables of the environment with which Trackio sends a run away without a word in its config."""


class TrackioLogger(Logger):
    """Numbers, hyper-parameters, texts, tables and alarms of a run in Trackio; the x of all of them is the rollout.

    A run is `NAME-VERSION` in its project. One that is resumed from its last checkpoint goes on in the same run.
    """

    def __init__(
        self,
        save_dir: str = "runs",
        name: str = "lightrl",
        version: str | None = None,
        project: str = "lightrl",
        space_id: str | None = None,
        private: bool = True,
    ) -> None:
        """
        Args:
            save_dir: where the folder of the run is, with config and checkpoints; Trackio's data is in `TRACKIO_DIR`.
            name: of the run.
            version: of the run; null: drawn, or that of the checkpoint from which the run goes on.
            project: of Trackio, with all runs that are compared.
            space_id: a Space of the hub, `owner/name`, that gets the run; null: it stays on this machine.
            private: a Space that is made for the run is read by its owner alone.

        Raises:
            ImportError: Trackio is not installed.
            ValueError: a variable of the environment would send the run elsewhere.
        """
        super().__init__()
        try:
            import trackio
        except ModuleNotFoundError as error:
            raise ImportError(f"TrackioLogger: {error}. Type: pip install 'lightrl-trackio[trackio]'") from error
        if sent := [name for name in ELSEWHERE if os.environ.get(name)]:
            raise ValueError(f"TrackioLogger: {sent[0]} would send the run away. Unset it; a Space is named with space_id")
        self._trackio, self._save_dir, self._name, self._version = trackio, save_dir, name, version
        self.project, self.space_id, self.private = project, space_id, private
        self._run: trackio.Run | None = None

    @property
    def save_dir(self) -> str:
        """Where the folder of the run is."""
        return self._save_dir

    @property
    def name(self) -> str:
        """The run's name, without its version."""
        return self._name

    @property
    def version(self) -> str:
        """The run's version, eight letters and digits where none was given."""
        self._version = self._version or uuid.uuid4().hex[:8]
        return self._version

    def continue_in(self, folder: Path) -> None:
        """Go on in the run that has this folder, unless a version was given; called before a run is resumed from its last checkpoint."""
        if self._version is None and folder.parent == (Path(self._save_dir) / self._name).resolve():
            self._version = folder.name

    @property
    @rank_zero_experiment
    def experiment(self) -> trackio.Run:
        """The run of Trackio, which begins when it is asked for."""
        if self._run is None:
            with _quiet():
                self._run = self._trackio.init(
                    project=self.project,
                    name=f"{self.name}-{self.version}",
                    space_id=self.space_id,
                    private=self.private,
                    resume="allow",
                    embed=False,
                    auto_log_gpu=False,
                    auto_log_cpu=False,
                )
            where = f"the Space {self.space_id}" if self.space_id else "this machine"
            watch = "" if self.space_id else f"   Watch: trackio show --project {self.project}"
            sys.stderr.write(f"Trackio: run {self._run.name} on {where}{watch}\n")
        return self._run

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *arguments: object, **keywords: object) -> None:
        """Keep hyper-parameters, which Trackio writes together with what is logged next."""
        given = vars(params) if isinstance(params, Namespace) else params
        self.experiment.config.update({str(key): value for key, value in given.items()})

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write numbers."""
        self.experiment.log(dict(metrics), step=step)

    @rank_zero_only
    def add_text(self, tag: str, text: str, step: int) -> None:
        """Write Markdown as `texts/TAG`, since a number may have the same tag; an alarm as an alert."""
        if tag.startswith(ALARM):
            with _quiet():
                self.experiment.alert(tag.removeprefix(ALARM), text, step=step)
        else:
            self.experiment.log({f"texts/{tag}": self._trackio.Markdown(text)}, step=step)

    @rank_zero_only
    def add_table(self, tag: str, rows: Sequence[Mapping[str, str | float | int | None]], step: int) -> None:
        """Write rows that all have the same columns as the table `texts/TAG`."""
        table = self._trackio.Table(columns=list(rows[0]), data=[list(row.values()) for row in rows])
        self.experiment.log({f"texts/{tag}": table}, step=step)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Wait until everything is written."""
        if self._run is not None:
            with _quiet():
                self._trackio.finish()
            self._run = None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Within, Trackio prints nothing: standard output belongs to the command; its warnings stay."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield
