"""One or several processes that train one model together (data parallel, gloo).

``torchrun`` sets ``RANK`` and ``WORLD_SIZE``; without it there is one process and nothing is sent.
``COLLECTIVE_SECONDS`` is how long a process waits for the others before it takes them for lost and fails; without
it that is the library's own limit, half an hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import torch
import torch.distributed
from contract import TrainerError
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class Group:
    """The number of this process and how many there are. As a context it joins and leaves the group."""

    rank: int
    size: int
    patience: timedelta | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], *, batch: int) -> Group:
        """The group that the environment describes; raises :class:`TrainerError` if the batch cannot be shared."""
        try:
            rank, size = int(environment.get("RANK", "0")), int(environment.get("WORLD_SIZE", "1"))
        except ValueError as error:
            raise TrainerError(f"environment: RANK and WORLD_SIZE must be whole numbers: {error}.") from error
        if size < 1 or not 0 <= rank < size:
            raise TrainerError(
                f"environment: RANK is {rank} of WORLD_SIZE {size}. Start the program with torchrun."
            )
        if batch % size:
            raise TrainerError(
                f"configuration: optimisation.batch is {batch}, which {size} processes cannot share equally. "
                f"Give a multiple of {size}."
            )
        return cls(rank=rank, size=size, patience=_patience(environment))

    @property
    def first(self) -> bool:
        """Whether this process writes events and checkpoints."""
        return self.rank == 0

    def __enter__(self) -> Self:
        if self.size > 1:
            torch.distributed.init_process_group("gloo", timeout=self.patience)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the others may be waiting for this process: leaving at once lets torchrun end them.
        if self.size > 1 and kind is None:
            torch.distributed.destroy_process_group()

    def gather(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        """What every process says, by its number, each with ``worker`` and ``world_size``; all must call it.

        Nobody's word stands for another: a process that failed or hangs says nothing, and then nobody does.
        """
        own = {"worker": self.rank, "world_size": self.size, **said}
        if self.size == 1:
            return [own]
        heard: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(heard, own)
        return heard

    def share(self, rows: Tensor) -> Tensor:
        """The part of a batch that this process computes."""
        each = len(rows) // self.size
        return rows[self.rank * each : (self.rank + 1) * each]

    def add_up(self, parameters: Iterable[nn.Parameter], loss: float, stop: bool) -> tuple[float, bool]:
        """Add the gradients of all processes, in place; returns the added loss and whether anyone wants to stop.

        Everything travels in one message, so that all processes stop after the same step.
        """
        if self.size == 1:
            return loss, stop
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in gradients] + [torch.tensor([loss, float(stop)])])
        torch.distributed.all_reduce(flat)
        at = 0
        for gradient in gradients:
            gradient.copy_(flat[at : at + gradient.numel()].view_as(gradient))
            at += gradient.numel()
        return float(flat[-2]), bool(flat[-1] > 0)


def _patience(environment: Mapping[str, str]) -> timedelta | None:
    text = environment.get("COLLECTIVE_SECONDS", "")
    try:
        seconds = float(text) if text else None
    except ValueError:
        seconds = 0.0
    if seconds is not None and not 0 < seconds < 86_400:
        raise TrainerError(
            f"environment: COLLECTIVE_SECONDS is {text!r}. Give seconds below a day, or nothing."
        )
    return None if seconds is None else timedelta(seconds=seconds)
