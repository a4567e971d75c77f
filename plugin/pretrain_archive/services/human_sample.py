"""The sample that policy, request and evaluation give: where its items come from, and all that decides later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO, Literal

from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.kinds import (
    CheckpointRegistered,
    EvaluationFinished,
    EvaluationReported,
    HumanEvaluationSampled,
    OutputSampled,
)
from pretrain_archive.domain.policy_human import HumanEvaluation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.services.human_files import keep_items, lines_of, open_items, samples_key
from pretrain_archive.services.human_form import PAGE_SIZE
from pretrain_archive.services.human_items import METHOD, Drawn, OutputItem, candidate_first, draw
from pretrain_archive.services.runs import request_of
from pretrain_archive.storage.port import ObjectStore

Subject = Literal["evaluation_program", "stated", "unproven"]
LIMITS = ("fewest", "min_agreement", "min_kappa", "min_mean", "min_win_rate", "most_critical")
"""What decides, as the policy names it."""


def sample_of(
    store: ObjectStore,
    view: RunView,
    subject: tuple[CheckpointRegistered, EvaluationReported | None],
    rules: HumanEvaluation,
    people: Sequence[str],
    *,
    keep: bool = True,
) -> HumanEvaluationSampled:
    """Draw the sample, and ``keep`` its lines; the same whenever it is drawn from the same file."""
    checkpoint, report = subject
    file, where, written = _open(store, view, checkpoint, report)
    with file:
        drawn = draw(
            file, where=where, pairs=rules.mode == "pairs", subject=checkpoint, size=rules.sample, seed=rules.seed
        )  # fmt: skip
    if written and drawn.digest != written:
        raise InputError(
            "items", where, "is not what the evaluation program wrote any more",
            hint="Run the task 'evaluate' again; what lay there was changed after it was recorded.",
        )  # fmt: skip
    known: Subject = "evaluation_program" if written else "stated" if drawn.stated else "unproven"
    raw = lines_of(drawn.items)
    items_uri, items_digest = keep_items(store, view.run_uid, raw, keep=keep)
    shown = _shown(rules, checkpoint, drawn, people)
    return HumanEvaluationSampled.model_validate({
        **shown,
        "sample_digest": digest_of({**shown, "items_digest": items_digest}),
        "evaluation_id": report.evaluation_id if report else None,
        "subject": known, "source_uri": where, "source_digest": drawn.digest, "source_items": drawn.count,
        "duplicates": drawn.duplicates, "items_uri": items_uri, "items_digest": items_digest,
    })  # fmt: skip


def _shown(
    rules: HumanEvaluation, checkpoint: CheckpointRegistered, drawn: Drawn, people: Sequence[str]
) -> dict[str, Any]:
    """All that a question shows and by which it is judged: what the sample's digest is over."""
    pairs = rules.mode == "pairs"
    items = [_sampled(item, rules, drawn.digest, pairs=pairs).to_json() for item in drawn.items]
    return {
        "checkpoint_id": checkpoint.checkpoint_id, "checkpoint_digest": checkpoint.digest, "seed": rules.seed,
        "method": METHOD, "mode": rules.mode, "baseline_name": drawn.baseline_name if pairs else None,
        "standard_en": rules.standard.en, "standard_zh": rules.standard.zh,
        "scale": [point.model_dump() for point in rules.scale], "page_size": PAGE_SIZE,
        "show_characters": rules.show_characters, "reviewers": list(people), "wanted": rules.wanted,
        **{name: getattr(rules, name) for name in LIMITS}, "items": items,
    }  # fmt: skip


def _sampled(item: OutputItem, rules: HumanEvaluation, source: str, *, pairs: bool) -> OutputSampled:
    texts = (item.prompt, item.output, item.baseline or "")
    order = [candidate_first(rules.seed, source, item.digest, one) for one in range(1, rules.wanted + 1)]
    return OutputSampled(
        digest=item.digest, line=item.line, item_id=item.item_id, candidate_first=order if pairs else [],
        identical=item.identical, cut=any(len(text) > rules.show_characters for text in texts),
    )  # fmt: skip


def _open(
    store: ObjectStore, view: RunView, checkpoint: CheckpointRegistered, report: EvaluationReported | None
) -> tuple[BinaryIO, str, str]:
    """The file of items, its address, and the recorded digest of what the signed program wrote, if it is that."""
    asked = request_of(view).human_items
    if asked:
        names = {
            "run_uid": view.run_uid,
            "checkpoint_id": checkpoint.checkpoint_id,
            "step": str(checkpoint.step),
        }
        file, where = open_items(asked, names=names)
        return file, where, ""
    for evaluation_id in _evaluations(view, checkpoint, report):
        if digest := _written(view, evaluation_id):
            key = samples_key(view.run_uid, evaluation_id, digest)
            return store.open(key), store.location(key), digest
    raise RefusedError(
        f"run {view.run_uid} has no outputs to read: its evaluation program wrote none, and the request names none",
        hint="Let the program write the file that PRETRAIN_ARCHIVE_SAMPLES names, or give human_items.",
    )


def _evaluations(
    view: RunView, checkpoint: CheckpointRegistered, report: EvaluationReported | None
) -> list[str]:
    """The evaluations of the checkpoint: the one that decided, then the others, newest first."""
    others = [
        one.evaluation_id
        for _, one in view.all(EvaluationReported)
        if one.checkpoint_id == checkpoint.checkpoint_id
    ]
    return list(dict.fromkeys([*([report.evaluation_id] if report else []), *reversed(others)]))


def _written(view: RunView, evaluation_id: str) -> str | None:
    """The digest of the outputs that the program of an evaluation wrote; of two same evaluations the first one's."""
    finished = (one for _, one in view.all(EvaluationFinished) if evaluation_id in one.evaluations)
    return next((one.samples_digest for one in finished if one.samples_digest), None)
