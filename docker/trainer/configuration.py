"""The configuration of one training run: typed, complete and checked before anything is read.

Every field must be given: a value that nobody wrote down would be a guess later. ``demo.json`` next to this
file is a complete example, sized for a minute on one slow core.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from contract import TrainerError

LARGEST_SEED = 2**53 - 1  # the largest whole number that every JSON reader keeps exactly
DTYPES = ("float32", "bfloat16")

# What may differ between a checkpoint and the run that resumes it: when to look, never what is computed.
MAY_DIFFER = ("checkpoint_every", "evaluate_every", "evaluate_bytes", "report_bytes", "log_every")


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """The shape of the transformer.

    ``layers`` blocks of ``width`` channels with ``heads`` attention heads; ``context`` is the number of
    symbols that a prediction may see. Each position's input is the sum of the embeddings of its own byte and
    of ``previous_bytes`` bytes before it.
    """

    layers: int
    width: int
    heads: int
    context: int
    previous_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimisation:
    """How the weights move: ``steps`` of ``batch`` windows each, over all processes together.

    ``learning_rate`` (AdamW) moves embeddings, norms and head, ``matrix_learning_rate`` (Muon) the matrices
    of the blocks. Both rise over ``warmup`` steps and fall on a half cosine to a twentieth.
    ``weight_decay`` acts on the matrices only; ``clip`` bounds the norm of the whole gradient.
    """

    steps: int
    batch: int
    learning_rate: float
    matrix_learning_rate: float
    warmup: int
    weight_decay: float
    clip: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """Everything that decides a run, apart from its data.

    ``threads`` is part of it because the order of additions decides the last bits of a sum.
    ``checkpoint_every``, ``evaluate_every`` (0: never) and ``log_every`` count steps. ``evaluate_bytes``
    bounds the validation bytes of one look during training, ``report_bytes`` those of the evaluation.
    """

    model: Model
    optimisation: Optimisation
    seed: int
    threads: int
    dtype: str
    checkpoint_every: int
    evaluate_every: int
    evaluate_bytes: int
    report_bytes: int
    log_every: int

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain JSON."""
        return asdict(self)


def load_configuration(path: Path) -> Configuration:
    """Read and check the JSON file at ``path``.

    Raises:
        TrainerError: the file cannot be read, or a field is missing, unknown or out of range.
    """
    try:
        raw = json.loads(path.read_bytes())
    except OSError as error:
        raise TrainerError(
            f"configuration {path}: cannot be read: {error.strerror}. Check the path."
        ) from error
    except (ValueError, RecursionError) as error:
        raise TrainerError(
            f"configuration {path}: is not JSON: {error}. Compare it with demo.json."
        ) from error
    return parse_configuration(raw)


def write_effective(configuration: Configuration, beside: Path, **more: Any) -> Path:
    """Write what this program made of its configuration beside the file it was read from; return its path.

    ``more`` are facts that no file sets, such as the number of processes. Whoever keeps the records compares it with
    what was declared. Raises :class:`TrainerError` where it cannot be written.
    """
    path = beside.with_name(f"{beside.stem}.effective{beside.suffix}")
    text = json.dumps({**configuration.to_dict(), **more}, indent=2, sort_keys=True)
    try:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise TrainerError(f"{path}: cannot be written: {error.strerror}. Check the folder.") from error
    return path


def parse_configuration(raw: Any) -> Configuration:
    """Check a JSON value; raises :class:`TrainerError` naming field, value and remedy."""
    top = _exact_fields("", raw, Configuration)
    model = _exact_fields("model.", top["model"], Model)
    optimisation = _exact_fields("optimisation.", top["optimisation"], Optimisation)
    shape = Model(
        layers=_whole("model.layers", model["layers"], 1, 64),
        width=_whole("model.width", model["width"], 8, 8192),
        heads=_whole("model.heads", model["heads"], 1, 128),
        context=_whole("model.context", model["context"], 8, 8192),
        previous_bytes=_whole("model.previous_bytes", model["previous_bytes"], 0, 16),
    )
    if shape.width % (2 * shape.heads):
        raise TrainerError(
            f"configuration: model.width is {shape.width}, which is not a multiple of 2 × model.heads "
            f"({2 * shape.heads}). Each head needs an even number of channels."
        )
    return Configuration(
        model=shape,
        optimisation=_optimisation(optimisation),
        seed=_whole("seed", top["seed"], 0, LARGEST_SEED),
        threads=_whole("threads", top["threads"], 1, 256),
        dtype=_choice("dtype", top["dtype"], DTYPES),
        checkpoint_every=_whole("checkpoint_every", top["checkpoint_every"], 1, 10**9),
        evaluate_every=_whole("evaluate_every", top["evaluate_every"], 0, 10**9),
        evaluate_bytes=_whole("evaluate_bytes", top["evaluate_bytes"], 1, 10**12),
        report_bytes=_whole("report_bytes", top["report_bytes"], 1, 10**12),
        log_every=_whole("log_every", top["log_every"], 1, 10**9),
    )


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Fields that change the computed sequence and differ, as ``name: ours, theirs``."""
    left, right = _flat(ours), _flat(theirs)
    names = [name for name in sorted({*left, *right}) if name not in MAY_DIFFER]
    return [
        f"{name} is {left.get(name)!r} here and {right.get(name)!r} in the checkpoint"
        for name in names
        if left.get(name) != right.get(name)
    ]


def _optimisation(raw: Mapping[str, Any]) -> Optimisation:
    steps = _whole("optimisation.steps", raw["steps"], 1, 10**9)
    warmup = _whole("optimisation.warmup", raw["warmup"], 0, 10**9)
    if warmup >= steps:
        raise TrainerError(
            f"configuration: optimisation.warmup is {warmup}, not below optimisation.steps ({steps}). "
            "Lower it: the schedule needs at least one step after the warm-up."
        )
    return Optimisation(
        steps=steps,
        batch=_whole("optimisation.batch", raw["batch"], 1, 10**6),
        learning_rate=_real("optimisation.learning_rate", raw["learning_rate"], above=0.0, limit=1000.0),
        matrix_learning_rate=_real(
            "optimisation.matrix_learning_rate", raw["matrix_learning_rate"], above=0.0, limit=1000.0
        ),
        warmup=warmup,
        weight_decay=_real("optimisation.weight_decay", raw["weight_decay"], above=-1e-12, limit=10.0),
        clip=_real("optimisation.clip", raw["clip"], above=0.0, limit=1e6),
    )


def _exact_fields(prefix: str, raw: Any, kind: type) -> Mapping[str, Any]:
    where = prefix.rstrip(".") or "the document"
    if not isinstance(raw, dict):
        raise TrainerError(
            f"configuration: {where} is {type(raw).__name__}, not an object. Compare it with demo.json."
        )
    names = {field.name for field in fields(kind)}
    missing, unknown = sorted(names - set(raw)), sorted(set(raw) - names)
    if missing:
        raise TrainerError(
            f"configuration: {prefix}{missing[0]} is missing. Add it (demo.json shows a value)."
        )
    if unknown:
        raise TrainerError(
            f"configuration: {prefix}{unknown[0]} = {raw[unknown[0]]!r} is not known. "
            f"Remove it or use one of: {', '.join(sorted(names))}."
        )
    return raw


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise TrainerError(f"configuration: {name} is {value!r}. Give a whole number from {least} to {most}.")
    return value


def _real(name: str, value: Any, *, above: float, limit: float) -> float:
    fits = not isinstance(value, bool) and isinstance(value, int | float)
    if not fits or not above < value <= limit:
        bound = "of at least 0" if above < 0 else "above 0"
        raise TrainerError(
            f"configuration: {name} is {value!r}. Give a number {bound} and at most {limit:g}."
        )
    return float(value)


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise TrainerError(f"configuration: {name} is {value!r}. Give one of: {', '.join(choices)}.")
    return value


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = item
    return flat
