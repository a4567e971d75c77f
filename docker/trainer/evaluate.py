"""Bits per byte of a checkpoint on the validation split, against models that cost nothing to have.

Reads ``PRETRAIN_ARCHIVE_CONFIG``, ``_DATA_MANIFEST`` and ``_RESUME_FROM`` (the checkpoint folder) and writes one
JSON document to ``PRETRAIN_ARCHIVE_EVALUATION``; where ``_SAMPLES`` names a file, a few continuations by the trained
and the untrained model for persons to read. The baselines are the untrained model of the same seed and
byte n-gram models of orders 3 and 4 counted on the *whole* training split, which the demo's transformer sees
only a small part of. n-gram models of order 5 and more beat the demo's configuration: it trains for a minute.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import checkpoint as checkpoints
import ngram
import samples
from configuration import Configuration, load_configuration
from contract import TrainerError, optional_path, required, run
from corpus import Corpus, load_manifest, load_split
from model import build_model, prepare_torch, weights_digest
from scoring import Bits, Sample, choose, interval, model_bits

ORDERS = (3, 4)
UNTRAINED = "untrained model"

Json = dict[str, Any]


def evaluate(
    configuration: Configuration, folder: Path, train: Corpus, validation: Corpus
) -> tuple[Json, list[Json]]:
    """The whole report as plain JSON, and the continuations that persons can read."""
    sample = choose(validation, context=configuration.model.context, limit=configuration.report_bytes)
    found = checkpoints.read(folder, configuration)
    model = build_model(configuration)
    prompts = samples.choose_prompts(validation, context=configuration.model.context)
    before = samples.continuations(model, prompts, configuration)
    untrained = _baseline(
        UNTRAINED,
        "untrained model",
        weights_digest(model.state_dict()),
        _metrics(model_bits(model, sample, configuration), sample),
    )
    try:
        model.load_state_dict(dict(found.weights))
    except RuntimeError as error:
        raise TrainerError(f"checkpoint {folder}: its weights do not fit the model: {error}") from error
    metrics = _metrics(model_bits(model, sample, configuration), sample)
    written = samples.items(
        prompts, samples.continuations(model, prompts, configuration), before, name=UNTRAINED
    )
    counts = ngram.count(train.stream, max(ORDERS))
    report = {
        "metrics": metrics,
        "baselines": [untrained, *(_ngram(counts.lower(order), sample) for order in ORDERS)],
        "definition": definition(configuration, sample, train),
        "data_set": "validation split",
        "data_set_digest": validation.digest,
    }
    return report, written


def definition(configuration: Configuration, sample: Sample, train: Corpus) -> dict[str, Any]:
    """What exactly is computed, so that a stranger can compute it again."""
    context = configuration.model.context
    return {
        "formula": "mean over the scored bytes of -log2 p(byte | symbols before it in its document)",
        "unit": "one byte of the file as it is stored; no tokenizer, no normalisation",
        "document_boundaries": (
            "each document starts after one boundary symbol, which is seen and never predicted; "
            "nothing is seen across documents, the length of a document is not predicted"
        ),
        "context": (
            f"the model sees at most {context} symbols: those before the end of the scored block of "
            f"{context // 2} bytes; n-gram models see n-1 symbols"
        ),
        "sample": (
            f"documents in byte order of their path, cut into blocks of {context // 2} bytes, every "
            f"{sample.every}. block from the first; the same bytes for model and baselines"
        ),
        "scored_bytes": sample.size,
        "available_bytes": sample.available,
        "documents": sample.corpus.documents,
        "interval": "95 % percentile bootstrap over scored blocks, 1000 resamples, seed 0",
        "untrained_model": f"the same shape with the initial weights of seed {configuration.seed}",
        "n_gram_model": (
            "interpolated Witten-Bell smoothing down to the uniform distribution, counted on all "
            f"{train.size} bytes of the training split"
        ),
        "dtype": configuration.dtype,
    }


def main() -> int:
    """Evaluate as the environment says."""
    config, manifest, folder, target = required(
        os.environ, "CONFIG", "DATA_MANIFEST", "RESUME_FROM", "EVALUATION"
    )
    configuration = load_configuration(Path(config))
    prepare_torch(configuration)
    entries = load_manifest(Path(manifest))
    train, validation = load_split(entries, "train"), load_split(entries, "validation")
    report, written = evaluate(configuration, Path(folder), train, validation)
    if (beside := optional_path(os.environ, "SAMPLES")) is not None:
        _write(beside, "samples", "".join(json.dumps(item) + "\n" for item in written))
    _write(Path(target), "report", json.dumps(report, indent=2, ensure_ascii=False))
    ours, *others = (subject["metrics"][0]["value"] for subject in (report, *report["baselines"]))
    names = [baseline["name"] for baseline in report["baselines"]]
    compared = ", ".join(f"{name} {value:.4f}" for name, value in zip(names, others, strict=True))
    print(f"{ours:.4f} bits per byte; {compared}", flush=True)
    return 0


def _ngram(counts: ngram.NGram, sample: Sample) -> dict[str, Any]:
    bits = counts.bits(sample.corpus.stream, sample.positions)
    return _baseline(f"byte {counts.order}-gram", "n-gram model", counts.digest, _metrics(bits, sample))


def _baseline(name: str, kind: str, digest: str, metrics: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "kind": kind, "subject_digest": digest, "metrics": metrics}


def _metrics(bits: Bits, sample: Sample) -> list[dict[str, Any]]:
    low, high = interval(bits, sample, seed=0)
    return [
        {
            "name": "bits_per_byte",
            "unit": "bits/byte",
            "direction": "lower",
            "value": float(bits.mean()),
            "samples": sample.size,
            "low": low,
            "high": high,
        }
    ]


def _write(target: Path, what: str, text: str) -> None:
    """Write a text under another name first, so that a reader sees all of it or nothing."""
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise TrainerError(
            f"{what} {target}: cannot be written: {error.strerror}. Check folder and space."
        ) from error


if __name__ == "__main__":
    sys.exit(run("evaluate", main))
