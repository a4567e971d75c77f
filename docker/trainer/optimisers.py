"""The two optimisers, their schedule, and their state as named tensors.

Matrices of the blocks are moved by Muon (Jordan et al. 2024), everything else by AdamW (Loshchilov and Hutter
2019). With AdamW alone the same budget ends at a clearly higher loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from configuration import Optimisation
from contract import TrainerError
from model import Transformer
from torch import Tensor, nn

LEAST_SHARE = 0.05  # of the learning rate, at the last step


class Optimisers:
    """Moves the weights of one model."""

    def __init__(self, model: Transformer, settings: Optimisation) -> None:
        self._settings = settings
        named = dict(model.named_parameters())
        matrices = {name: p for name, p in named.items() if name.startswith("blocks.") and p.ndim == 2}
        others = {name: p for name, p in named.items() if name not in matrices}
        muon = torch.optim.Muon(
            list(matrices.values()), lr=settings.matrix_learning_rate, weight_decay=settings.weight_decay
        )
        adamw = torch.optim.AdamW(
            list(others.values()),
            lr=settings.learning_rate,
            betas=(0.9, 0.95),
            weight_decay=0.0,
            foreach=True,
        )
        self._parts: tuple[tuple[str, torch.optim.Optimizer, dict[str, nn.Parameter], float], ...] = (
            ("muon", muon, matrices, settings.matrix_learning_rate),
            ("adamw", adamw, others, settings.learning_rate),
        )
        self._all = list(named.values())

    def step(self, step: int) -> float:
        """Clip the gradients, move the weights for 1-based ``step``, forget the gradients.

        Returns AdamW's learning rate at this step.
        """
        nn.utils.clip_grad_norm_(self._all, self._settings.clip)
        share = schedule(step, self._settings)
        for _, optimiser, _, rate in self._parts:
            for group in optimiser.param_groups:
                group["lr"] = rate * share
            optimiser.step()
            optimiser.zero_grad()
        return self._settings.learning_rate * share

    def tensors(self) -> dict[str, Tensor]:
        """The state, as ``optimiser.parameter.moment``."""
        return {
            f"{kind}.{name}.{moment}": value
            for kind, optimiser, parameters, _ in self._parts
            for name, parameter in parameters.items()
            for moment, value in optimiser.state[parameter].items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over a state; raises :class:`TrainerError` unless it is exactly this model's."""
        left = dict(tensors)
        for kind, optimiser, parameters, _ in self._parts:
            for name, parameter in parameters.items():
                prefix = f"{kind}.{name}."
                moments = [key for key in left if key.startswith(prefix)]
                for key in moments:
                    value = left.pop(key)
                    if value.shape not in {parameter.shape, torch.Size([])}:
                        raise TrainerError(f"optimizer.safetensors: {key} has shape {tuple(value.shape)}.")
                    optimiser.state[parameter][key.removeprefix(prefix)] = value.clone()
                if not moments:
                    raise TrainerError(
                        f"optimizer.safetensors: nothing for {prefix[:-1]}. Resume from an earlier one."
                    )
        if left:
            raise TrainerError(f"optimizer.safetensors: {min(left)} belongs to no weight of this model.")


def schedule(step: int, settings: Optimisation) -> float:
    """Share of the learning rate at 1-based ``step``: linear rise, then half a cosine to a twentieth."""
    if step <= settings.warmup:
        return step / settings.warmup
    done = (step - settings.warmup) / (settings.steps - settings.warmup)
    return LEAST_SHARE + (1 - LEAST_SHARE) * 0.5 * (1 + math.cos(math.pi * done))
