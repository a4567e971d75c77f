"""Train a byte-level transformer on the files of a manifest.

Start it with the variables of contract.py; under ``torchrun`` several processes share each batch. Metrics:
``loss`` (mean nats per predicted byte, every step), ``learning_rate``, ``tokens_per_second`` and data-read time
(every ``log_every`` steps), ``validation_bits_per_byte`` (every ``evaluate_every`` steps and at the end).

The same configuration and data give the same losses and weights bit for bit, also across a stop and a resume,
on the same kind of machine with the same versions. SIGTERM ends the step, writes a checkpoint if the last
one took less than three seconds, and leaves with status 143. Wrong input is one line on standard error and
status 2.

Needs torch, safetensors and numpy (requirements.txt).
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import checkpoint as checkpoints
import torch
from configuration import Configuration, load_configuration, write_effective
from contract import Events, TrainerError, optional_path, required, run
from corpus import BOUNDARY, Corpus, WindowOrder, load_manifest, load_split
from group import Group
from model import IGNORED, Transformer, build_model, precision, prepare_torch
from optimisers import Optimisers
from scoring import Sample, choose, model_bits
from torch.nn import functional

TERMINATED = 128 + signal.SIGTERM
SECONDS_TO_SAVE = 3.0


class StopFlag:
    """Remembers that SIGTERM came; the loop asks between two steps."""

    def __init__(self) -> None:
        self.set = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.set = True

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.set


class Trainer:
    """One attempt: model, optimisers, data position, and where they are written."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        group: Group,
        events: Events,
        train: Corpus,
        sample: Sample,
        folder: Path,
        attempt: str,
    ) -> None:
        self.configuration, self.group, self.events = configuration, group, events
        self.train_digest, self.sample = train.digest, sample
        self.folder, self.attempt = folder, attempt
        self.order = WindowOrder(train, context=configuration.model.context, seed=configuration.seed)
        self.model: Transformer = build_model(configuration)
        self.optimisers = Optimisers(self.model, configuration.optimisation)
        self.step = self.tokens = self.saved_step = 0
        self.save_seconds = 0.0
        self.read_seconds, self.read_bytes = 0.0, 0
        self.learning_rate, self.logged_step = 0.0, 0

    def resume(self, folder: Path) -> None:
        """Go on from a checkpoint; raises :class:`TrainerError` if that would change the sequence."""
        found = checkpoints.read(folder, self.configuration)
        digest = found.data_position.get("data_digest")
        if digest != self.train_digest:
            raise TrainerError(
                f"checkpoint {folder}: was trained on data {digest}, the manifest's is {self.train_digest}. "
                "Resume with the same data, or start a new run."
            )
        if found.processes != self.group.size:
            raise TrainerError(
                f"checkpoint {folder}: was written by {found.processes} processes, here are {self.group.size}. "
                "Sums would differ: resume with the same number."
            )
        try:
            self.model.load_state_dict(dict(found.weights))
        except RuntimeError as error:
            raise TrainerError(f"checkpoint {folder}: its weights do not fit the model: {error}") from error
        self.optimisers.load(found.optimizer)
        torch.set_rng_state(found.random)
        self.step = self.saved_step = self.logged_step = found.step
        self.tokens = found.tokens
        for said in self.group.gather({"digest": checkpoints.digest(folder)}):
            self.events.loaded(said, folder, step=found.step)
        self.events.note(f"resumed from step {found.step}", step=found.step)

    def run(self, stopped: StopFlag) -> bool:
        """Train to the last step; False when a signal ended it before."""
        settings = self.configuration
        window = time.perf_counter()
        while self.step < settings.optimisation.steps:
            stop = self._step(stopped())
            if self.step % settings.log_every == 0 or self.step == settings.optimisation.steps:
                self._log(time.perf_counter() - window)
                window = time.perf_counter()
            if stop:
                if self.save_seconds < SECONDS_TO_SAVE:
                    self._save()
                return False
            started = time.perf_counter()
            self._look_and_save()
            window += time.perf_counter() - started
        return True

    def _step(self, stop: bool) -> bool:
        symbols, targets, predicted = self._batch()
        with precision(self.configuration):
            logits = self.model(symbols)
        nats = functional.cross_entropy(
            logits.float().view(-1, logits.shape[-1]),
            targets.reshape(-1),
            ignore_index=IGNORED,
            reduction="sum",
        )
        loss = nats / max(1, predicted)
        loss.backward()  # type: ignore[no-untyped-call]
        total, stop = self.group.add_up(self.model.parameters(), float(loss.detach()), stop)
        self.learning_rate = self.optimisers.step(self.step + 1)
        self.step += 1
        self.tokens += self.configuration.optimisation.batch * self.configuration.model.context
        self.events.metric("loss", total, step=self.step, tokens=self.tokens)
        if not abs(total) < float("inf"):
            raise TrainerError(
                f"step {self.step}: the loss is {total}. No checkpoint of it is kept: resume from the last one "
                "with lower optimisation.learning_rate and matrix_learning_rate in a new run."
            )
        return stop

    def _batch(self) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Inputs and targets of this process, and the predicted bytes of the whole batch."""
        started = time.perf_counter()
        batch = self.configuration.optimisation.batch
        rows = torch.from_numpy(self.order.batch(self.step * batch, batch))
        targets = rows[:, 1:].masked_fill(rows[:, 1:] == BOUNDARY, IGNORED)
        predicted = int((targets != IGNORED).sum())
        self.read_seconds += time.perf_counter() - started
        self.read_bytes += rows.numel()
        return self.group.share(rows[:, :-1]), self.group.share(targets), predicted

    def _log(self, seconds: float) -> None:
        settings = self.configuration
        steps, self.logged_step = self.step - self.logged_step, self.step
        rate = steps * settings.optimisation.batch * settings.model.context / seconds
        self.events.metric("tokens_per_second", rate, step=self.step, tokens=self.tokens)
        self.events.metric("learning_rate", self.learning_rate, step=self.step, tokens=self.tokens)
        self.events.data_read(step=self.step, seconds=self.read_seconds, size=self.read_bytes)
        self.read_seconds, self.read_bytes = 0.0, 0

    def _look_and_save(self) -> None:
        settings, last = self.configuration, self.step == self.configuration.optimisation.steps
        due = settings.evaluate_every and (last or self.step % settings.evaluate_every == 0)
        if due and self.group.first:
            started = time.perf_counter()
            bits = float(model_bits(self.model, self.sample, settings).mean())
            self.events.evaluation(step=self.step, seconds=time.perf_counter() - started)
            self.events.metric("validation_bits_per_byte", bits, step=self.step, tokens=self.tokens)
            print(f"step {self.step} of {settings.optimisation.steps}: {bits:.4f} bits per byte", flush=True)
        if last or self.step % settings.checkpoint_every == 0:
            self._save()

    def _save(self) -> None:
        """Write a checkpoint, then say so; only the first process, and a step only once."""
        if not self.group.first or self.saved_step == self.step:
            return
        started = time.perf_counter()
        position = self.order.describe(self.step * self.configuration.optimisation.batch)
        content = checkpoints.Checkpoint(
            weights=self.model.state_dict(),
            optimizer=self.optimisers.tensors(),
            step=self.step,
            tokens=self.tokens,
            data_position={**position, "data_digest": self.train_digest},
            processes=self.group.size,
            random=torch.get_rng_state(),
        )
        path = checkpoints.write(content, self.configuration, self.folder, attempt=self.attempt)
        self.saved_step, self.save_seconds = self.step, time.perf_counter() - started
        self.events.checkpoint(path, step=self.step, tokens=self.tokens, seconds=self.save_seconds)


def main() -> int:
    """Train as the environment says; 0 when the last step is done, 143 after SIGTERM."""
    stopped = StopFlag()
    _, attempt, config, manifest, folder, event_file = required(
        os.environ, "RUN_UID", "ATTEMPT", "CONFIG", "DATA_MANIFEST", "CHECKPOINT_DIR", "EVENTS"
    )
    configuration = load_configuration(Path(config))
    prepare_torch(configuration)
    group = Group.of(os.environ, batch=configuration.optimisation.batch)
    with group, Events(Path(event_file) if group.first else None) as events:
        if group.first:
            write_effective(configuration, Path(config), processes=group.size)
        trainer = _load(
            configuration,
            group=group,
            events=events,
            manifest=Path(manifest),
            folder=Path(folder),
            attempt=attempt,
            stopped=stopped,
        )
        resume_from = optional_path(os.environ, "RESUME_FROM")
        if resume_from is not None:
            trainer.resume(resume_from)
        for said in group.gather(_read_facts(Path(manifest), trainer)):
            events.worker_read(said, step=trainer.step)
        if not trainer.run(stopped):
            print(f"stopped by SIGTERM after step {trainer.step}", file=sys.stderr, flush=True)
            return TERMINATED
        events.note("training complete", complete=True, step=trainer.step)
    return 0


def _read_facts(manifest: Path, trainer: Trainer) -> dict[str, Any]:
    """What this process read, for the comparison with what the others did."""
    data = manifest.read_bytes()
    return {
        "files": sum(1 for line in data.split(b"\n") if line.strip()),
        "manifest_digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
        "data_digest": trainer.train_digest,
    }


def _load(
    configuration: Configuration,
    *,
    group: Group,
    events: Events,
    manifest: Path,
    folder: Path,
    attempt: str,
    stopped: StopFlag,
) -> Trainer:
    if group.first:
        for name in checkpoints.remove_unfinished(folder):
            events.note(f"removed the unfinished checkpoint {name}")
    started = time.perf_counter()
    entries = load_manifest(manifest)
    train = load_split(entries, "train", stopped=stopped)
    validation = load_split(entries, "validation", stopped=stopped)
    if stopped():
        sys.exit(TERMINATED)
    events.data_read(step=0, seconds=time.perf_counter() - started, size=train.size + validation.size)
    sample = choose(validation, context=configuration.model.context, limit=configuration.evaluate_bytes)
    return Trainer(
        configuration, group=group, events=events, train=train, sample=sample, folder=folder, attempt=attempt
    )


if __name__ == "__main__":
    sys.exit(run("train", main))
