"""What this program and whoever starts it agree on: variables in, events out.

Variables (all start with ``PRETRAIN_ARCHIVE_``): ``RUN_UID``, ``ATTEMPT``, ``CONFIG`` (JSON file),
``DATA_MANIFEST`` (JSON Lines), ``CHECKPOINT_DIR``, ``RESUME_FROM`` (a checkpoint folder, or empty), ``EVENTS``
(JSON Lines, appended). Events are ``metric``, ``checkpoint``, ``evaluation``, ``data_read``, ``checkpoint_loaded``
and ``note``; ``checkpoint`` and ``evaluation`` tell for how many ``seconds`` training stood still.
After a resume each worker of a group reports the checkpoint that it loaded (``checkpoint_loaded``: ``worker``,
``world_size``, ``path``, ``step``, ``digest``), and at each start what it read (``data_read`` with ``worker``,
``world_size``, ``files``, ``manifest_digest``, ``data_digest``): that a checkpoint can be written does not prove
that all can load it, and data that one node reads may not be what another one reads. The first worker writes the
lines; each worker's are its own word. ``digest`` is ``sha256:`` over the JSON list (no blanks) of
``[path, size, sha256]`` of the checkpoint's files, all as text, sorted. A ``data_read`` may also say
how many ``reads`` it stands for (1 where unsaid), how many failed (``errors``) or gave nothing (``empty``), and a
``problem`` with the data themselves: ``unreadable`` or ``digest`` (not the bytes that the manifest names), with
``shard``, ``detail``, ``expected`` and ``found``; the stop conditions say what then ends the job.
The evaluation gets ``EVALUATION`` (the file it writes) instead of the last, and ``SAMPLES``: a file (JSON Lines) for
outputs that persons may be asked to read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PREFIX = "PRETRAIN_ARCHIVE_"
WRONG_INPUT = 2


class TrainerError(Exception):
    """The program cannot go on; the text says what was expected, what came and what to do."""


def required(environment: Mapping[str, str], *names: str) -> tuple[str, ...]:
    """Values of the named variables (without prefix); raises :class:`TrainerError` naming all that are missing."""
    missing = [PREFIX + name for name in names if not environment.get(PREFIX + name)]
    if missing:
        raise TrainerError(
            f"environment: {', '.join(missing)} not set. This program is started with the variables of its "
            "contract; see contract.py."
        )
    return tuple(environment[PREFIX + name] for name in names)


def optional_path(environment: Mapping[str, str], name: str) -> Path | None:
    """A path variable that may be empty or absent."""
    value = environment.get(PREFIX + name, "")
    return Path(value) if value else None


def run(name: str, main: Callable[[], int]) -> int:
    """Call ``main``; a :class:`TrainerError` becomes one line on standard error and exit status 2."""
    try:
        return main()
    except TrainerError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return WRONG_INPUT


class Events:
    """Appends events, each as one line in one write, so that a reader never sees half a line of another process.

    ``None`` as path writes nothing: that is what processes other than the first get.
    """

    def __init__(self, path: Path | None) -> None:
        self._descriptor: int | None = None
        if path is None:
            return
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise TrainerError(
                f"{PREFIX}EVENTS {path}: cannot be opened for appending: {error.strerror}. Check the folder."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def metric(self, name: str, value: float, *, step: int, tokens: int) -> None:
        """One observation. A value that is not finite is written as NaN or Infinity, so that readers can act."""
        self._write(
            {"event": "metric", "name": name, "step": step, "tokens": tokens, "value": value, "at": now()}
        )

    def data_read(self, *, step: int, seconds: float, size: int) -> None:
        """Time spent on reading and assembling ``size`` bytes of data since the last such event."""
        self._write(
            {"event": "data_read", "step": step, "seconds": round(seconds, 6), "bytes": size, "at": now()}
        )

    def worker_read(self, said: Mapping[str, Any], *, step: int) -> None:
        """What one worker read: ``worker, world_size, files, manifest_digest, data_digest``."""
        self._write({"event": "data_read", "step": step, **said, "at": now()})

    def loaded(self, said: Mapping[str, Any], path: Path, *, step: int) -> None:
        """One worker loaded the checkpoint at ``path``: ``worker, world_size, digest``."""
        self._write({"event": "checkpoint_loaded", "path": str(path), "step": step, **said, "at": now()})

    def checkpoint(self, path: Path, *, step: int, tokens: int, seconds: float) -> None:
        """A checkpoint is durable at ``path``; training stood still for ``seconds``."""
        said = {"event": "checkpoint", "path": str(path), "step": step, "tokens": tokens}
        self._write({**said, "seconds": round(seconds, 6), "at": now()})

    def evaluation(self, *, step: int, seconds: float) -> None:
        """Training stood still for ``seconds`` while the model was measured."""
        self._write({"event": "evaluation", "step": step, "seconds": round(seconds, 6), "at": now()})

    def note(self, text: str, **more: Any) -> None:
        """Anything worth a line on the timeline."""
        self._write({"event": "note", "text": text, "at": now(), **more})

    def _write(self, event: Mapping[str, Any]) -> None:
        if self._descriptor is None:
            return
        line = (json.dumps(event) + "\n").encode()
        try:
            while line:  # a second round only when the disk fills up, and it then says so
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            raise TrainerError(
                f"{PREFIX}EVENTS: an event cannot be appended: {error.strerror}. Free space, then resume."
            ) from error


def now() -> str:
    """The present time, RFC 3339 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
