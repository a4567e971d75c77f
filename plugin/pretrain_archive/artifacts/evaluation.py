"""An evaluation becomes evidence: metrics of one verified checkpoint, judged by rules fixed before the launch.

It passes only if it has rules, every rule passes and no flag stands. Flags: ``no_baseline`` (no effect can be
claimed, R120), ``no_samples`` (a change cannot be explained, R121), ``not_finite``, ``repeated_metric``,
``contradictory``, ``no_direction``, ``baseline_same_as_candidate``, ``definition_differs``. The report goes to
the store as canonical JSON, together with the program's own bytes.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pretrain_archive.artifacts import metric_files
from pretrain_archive.artifacts.metrics import Reading, Supplement, read_output, supplemented
from pretrain_archive.artifacts.rules import Rule, wanted_directions
from pretrain_archive.artifacts.verification import verify_checkpoint
from pretrain_archive.domain.errors import CheckpointError, InputError
from pretrain_archive.domain.identity import DIGEST, Ref
from pretrain_archive.domain.kinds import CheckpointRegistered, EvaluationReported, read_payload
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.ledger.canonical import canonical_bytes, digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore

KIND = "evaluation.reported"


def record_evaluation(
    ledger: Ledger,
    store: ObjectStore,
    *,
    run_uid: str,
    checkpoint: CheckpointRegistered,
    output: Path,
    rules: Sequence[Rule],
    actor: Actor,
    origin: Origin,
    expected_definition: Mapping[str, Any] | None = None,
    extra: Supplement | None = None,
    evaluator_digest: str | None = None,
    seconds: float | None = None,
    devices: int | None = None,
    ordinal: int = 0,
) -> EvaluationReported:
    """Judge ``output`` and record it; return the recorded fact (the first one if the same was recorded).

    ``expected_definition`` is what was declared before the launch, where it was; ``extra`` says what a flat
    output cannot; ``evaluator_digest`` is that of the program that measured, ``seconds`` and ``devices`` what it
    took. Raises
    :class:`InputError` for an output that cannot be read and :class:`CheckpointError` if the checkpoint's
    bytes are not the registered ones now: then no number is stored.
    """
    raw, parsed = metric_files.read(output)
    _require_recordable(parsed, output.name)
    wanted = wanted_directions(rules)
    reading = read_output(parsed, where=output.name, directions=wanted)
    reading = supplemented(reading, extra or Supplement(), directions=wanted)
    require_present(checkpoint)
    view = RunView.of(run_uid, ledger.records(streams=[run_uid], kinds=[KIND]))
    earlier = [fact for _, fact in view.all(EvaluationReported)]
    flags = flags_of(reading, checkpoint, rules, expected_definition, earlier)
    payload = _payload(
        store, run_uid, checkpoint=checkpoint, raw=raw, reading=reading, rules=rules, flags=flags,
        evaluator_digest=evaluator_digest,
    ).model_copy(update={"seconds": seconds, "devices": devices})  # fmt: skip
    for known in earlier:
        if known.evaluation_id == payload.evaluation_id:
            return known
    this = Ref(type="evaluation", id=payload.evaluation_id)
    subject = Ref(type="checkpoint", id=checkpoint.checkpoint_id)
    draft = Draft(
        stream=run_uid,
        kind=KIND,
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        attempt=checkpoint.attempt,
        ordinal=ordinal,
        edges=(
            Edge(subject=this, relation=Relation.USED, object=subject),
            Edge(subject=this, relation=Relation.WAS_GENERATED_BY, object=Ref(type="run", id=run_uid)),
        ),
    )
    return read_payload(ledger.append([draft])[0], EvaluationReported)


def require_present(checkpoint: CheckpointRegistered) -> None:
    """Raise :class:`CheckpointError` unless every recorded file holds its recorded bytes now."""
    faults = [item for item in verify_checkpoint(checkpoint) if item.verdict is not Verdict.VERIFIED]
    if not faults:
        return
    gone = all(item.found == "missing" for item in faults) and len(faults) == len(checkpoint.files)
    what = "was removed" if gone else "; ".join(f"{f.id.rpartition('#')[2]}: {f.found}" for f in faults[:5])
    raise CheckpointError(
        f"checkpoint of step {checkpoint.step} ({checkpoint.checkpoint_id}) does not hold: {what}.",
        hint="Evaluate a checkpoint that is still there; no numbers were stored.",
    )


def flags_of(
    reading: Reading,
    checkpoint: CheckpointRegistered,
    rules: Sequence[Rule],
    expected_definition: Mapping[str, Any] | None,
    earlier: Sequence[EvaluationReported],
) -> list[str]:
    """Everything that speaks against believing the numbers, each as ``code: detail``, without repetition."""
    flags = list(reading.flags)
    if not reading.baselines:
        flags.append("no_baseline: no effect can be claimed")
    own = {checkpoint.digest, *(f"sha256:{file.sha256}" for file in checkpoint.files if file.size)}
    flags.extend(
        f"baseline_same_as_candidate: {baseline.name}"
        for baseline in reading.baselines
        if baseline.subject_digest in own
    )
    flags.extend(_contradictions(reading, rules))
    digest = digest_of(_plain(reading.definition))
    if not reading.definition:
        flags.append("definition_differs: the output does not say how it measured")
    elif expected_definition is not None and digest != digest_of(_plain(dict(expected_definition))):
        flags.append("definition_differs: not the definition that was fixed before the launch")
    elif any(other.definition_digest != digest for other in earlier):
        flags.append("definition_differs: an earlier evaluation of this run measured otherwise")
    return list(dict.fromkeys(flags))


def _contradictions(reading: Reading, rules: Sequence[Rule]) -> list[str]:
    wanted = wanted_directions(rules)
    by_name = {metric.name: metric for metric in reading.metrics}
    flags = [
        f"contradictory: {metric.name} is reported as {metric.direction} is better, the rule says "
        f"{wanted[metric.name]}"
        for metric in reading.metrics
        if metric.name in wanted and metric.direction != wanted[metric.name]
    ]
    for baseline in reading.baselines:
        for metric in baseline.metrics:
            own = by_name.get(metric.name)
            if own and (own.unit, own.direction) != (metric.unit, metric.direction):
                flags.append(
                    f"contradictory: {metric.name} is in {own.unit!r} here and in {metric.unit!r} for baseline "
                    f"{baseline.name}, or points the other way"
                )
    return flags


def _payload(
    store: ObjectStore,
    run_uid: str,
    *,
    checkpoint: CheckpointRegistered,
    raw: bytes,
    reading: Reading,
    rules: Sequence[Rule],
    flags: list[str],
    evaluator_digest: str | None,
) -> EvaluationReported:
    outcomes = [rule.decide(reading) for rule in rules]
    data_set, data_digest = _data_set(reading)
    report = {
        "format": "pretrain-archive/evaluation/1",
        "run_uid": run_uid,
        "checkpoint_id": checkpoint.checkpoint_id,
        "checkpoint_digest": checkpoint.digest,
        "data_set": data_set,
        "data_set_digest": data_digest,
        "definition": _plain(reading.definition),
        "metrics": [metric.to_json() for metric in reading.metrics],
        "baselines": [baseline.to_json() for baseline in reading.baselines],
        "rules": outcomes,
        "flags": flags,
        "passed": bool(outcomes) and all(outcome["passed"] for outcome in outcomes) and not flags,
        "output_sha256": hashlib.sha256(raw).hexdigest(),
        "evaluator_digest": evaluator_digest,
    }
    body = canonical_bytes(report)
    evaluation_id = "eval_" + hashlib.sha256(body).hexdigest()[:32]
    key = f"runs/{run_uid}/evaluations/{evaluation_id}"
    store.put_if_absent(f"{key}/output.json", io.BytesIO(raw))
    store.put_if_absent(f"{key}/report.json", io.BytesIO(body))
    names = (
        "checkpoint_id", "checkpoint_digest", "data_set", "data_set_digest", "definition", "evaluator_digest",
    )  # fmt: skip
    lists = ("metrics", "baselines", "flags", "passed", "rules")
    return EvaluationReported(
        evaluation_id=evaluation_id,
        definition_digest=digest_of(report["definition"]),
        report_uri=store.location(f"{key}/report.json"),
        report_digest="sha256:" + hashlib.sha256(body).hexdigest(),
        **{name: report[name] for name in (*names, *lists)},
    )


def _data_set(reading: Reading) -> tuple[str, str]:
    """The data set's name and digest: numbers without them belong to nothing and are refused."""
    name, digest = reading.data_set, reading.data_set_digest
    if not isinstance(name, str) or not name:
        raise InputError("data_set", name, "the evaluation output must name its data set")
    if not isinstance(digest, str) or not re.fullmatch(DIGEST, digest):
        raise InputError("data_set_digest", digest, "expected sha256: and 64 hex digits")
    return name, digest


def _require_recordable(parsed: metric_files.Parsed, where: str) -> None:
    try:
        canonical_bytes(_plain(list(parsed.documents)))
    except (ValueError, RecursionError) as error:  # a lone surrogate: no UTF-8, so no record
        raise InputError("evaluation output", where, f"cannot be recorded: {error}") from error


def _plain(value: Any) -> Any:
    """``value`` without what strict JSON cannot hold: a number that is not finite becomes its name."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 53:
        return str(value)
    if isinstance(value, float):
        number, not_finite = metric_files.finite(value)
        return not_finite if number is None else number
    return value
