"""An evaluation becomes evidence: metrics of one verified checkpoint, judged by rules fixed before the launch.

It passes only if it has rules, every rule passes and no flag stands. Flags: ``no_baseline`` (no effect can be
claimed, R120), ``no_samples`` (a change cannot be explained, R121), ``not_finite``, ``no_value``, ``contradictory``,
``no_direction``, ``baseline_same_as_candidate``, ``baseline_unknown``, ``definition_differs``,
``definition_changed`` (against the group, R124), ``missing_metric``, ``imported``, ``bad_step``, ``late_rule``. A
metric with two values is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pretrain_archive.artifacts.baselines import Known, Subject, from_ledger, judged
from pretrain_archive.artifacts.evaluation_report import (
    Judged,
    Setting,
    made_payload,
    stored,
    suite_flags,
)
from pretrain_archive.artifacts.fetching import require_listed
from pretrain_archive.artifacts.metric_files import strict
from pretrain_archive.artifacts.metrics import Reading, Supplement, supplemented
from pretrain_archive.artifacts.outputs import Output, read_files
from pretrain_archive.artifacts.readers import FolderReader, open_reader
from pretrain_archive.artifacts.reading import MOST_METRICS
from pretrain_archive.artifacts.rules import Rule, contradicted, wanted_directions
from pretrain_archive.artifacts.verification import verify_checkpoint
from pretrain_archive.domain.definitions import compare_definitions, named_differences
from pretrain_archive.domain.errors import CheckpointError, InputError
from pretrain_archive.domain.identity import Ref
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
    setting: Setting | None = None,
    copy: Path | None = None,
) -> EvaluationReported:
    """Judge ``output`` and record it; return the recorded fact (the first one if the same was recorded).

    ``output`` is a result file or a folder of them. ``expected_definition`` is what was declared before the launch,
    where it was; ``extra`` says what a flat output cannot; ``evaluator_digest`` is that of the program that measured,
    ``seconds`` and ``devices`` what it took; ``setting`` holds suites, group and wanted baselines;
    ``copy`` is where a checkpoint of a bucket was laid out for the program. Raises
    :class:`InputError` for an output that cannot be read and :class:`CheckpointError` if the checkpoint's
    bytes are not the registered ones now: then no number is stored.
    """
    setting = setting or Setting()
    wanted = wanted_directions(rules)
    read = read_files(output, directions=wanted, suites=setting.suites, runs=setting.runs)
    _require_recordable(read, output.name)
    extra = _with_declared(extra or Supplement(), read.reading, setting)
    reading = supplemented(read.reading, extra, directions=wanted, suites=setting.suites)
    _require_few(reading, output.name)
    require_present(checkpoint, copy)
    view = RunView.of(
        run_uid, ledger.records(streams=[run_uid], kinds=[KIND, "run.opened", "checkpoint.registered"])
    )
    opened = view.opened
    subject = Subject(
        checkpoint=checkpoint,
        project=opened.project if opened else "",
        release_name=str(opened.conf.get("release_name") or "") if opened else "",
        trained={c.digest: c.step for _, c in view.all(CheckpointRegistered) if c.step},
    )
    reading, flags, none = _compared(ledger, run_uid, reading, subject, setting)
    earlier = [fact for _, fact in view.all(EvaluationReported)]
    flags += flags_of(reading, checkpoint, rules, expected_definition, earlier, setting)
    made = Judged(
        run_uid=run_uid, checkpoint=checkpoint, opened=opened, output=read, reading=reading,
        outcomes=[*(rule.decide(reading) for rule in rules), *setting.also],
        flags=list(dict.fromkeys([*reading.flags, *flags])), none=none, setting=setting,
        evaluator_digest=evaluator_digest,
    )  # fmt: skip
    made = _held_to_group(ledger, store, made)
    payload = stored(store, made, seconds=seconds, devices=devices)
    for known in earlier:
        if known.evaluation_id == payload.evaluation_id:
            return known
    draft = Draft(
        stream=run_uid, kind=KIND, payload=payload.to_json(), actor=actor, origin=origin,
        attempt=checkpoint.attempt, ordinal=ordinal, edges=_edges(payload, run_uid),
    )  # fmt: skip
    return read_payload(ledger.append([draft])[0], EvaluationReported)


def require_present(checkpoint: CheckpointRegistered, copy: Path | None = None) -> None:
    """Raise :class:`CheckpointError` unless every recorded file holds its recorded bytes now.

    Of one that was measured as a ``copy`` the copy is read again, and the bucket must still list what was copied.
    """
    if copy is not None:
        require_listed(checkpoint)
    reader = open_reader if copy is None else lambda _: FolderReader(copy)
    items = verify_checkpoint(checkpoint, opened=reader)
    faults = [item for item in items if item.verdict is not Verdict.VERIFIED]
    if not faults:
        return
    gone = all(item.found == "missing" for item in faults) and len(faults) == len(checkpoint.files)
    what = "was removed" if gone else "; ".join(f"{f.id.rpartition('#')[2]}: {f.found}" for f in faults[:5])
    raise CheckpointError(
        f"checkpoint of step {checkpoint.step} ({checkpoint.checkpoint_id}) does not hold: {what}.",
        hint="Evaluate a checkpoint that is still there; no numbers were stored.",
    )


def flags_of(  # noqa: PLR0917 - each is a part of what is judged
    reading: Reading,
    checkpoint: CheckpointRegistered,
    rules: Sequence[Rule],
    expected_definition: Mapping[str, Any] | None,
    earlier: Sequence[EvaluationReported],
    setting: Setting,
) -> list[str]:
    """What speaks against believing the numbers, beyond what reading them showed, each as ``code: detail``."""
    flags = [] if reading.counted else ["no_baseline: no effect can be claimed"]
    if setting.imported:
        flags.append("imported: measured elsewhere, by a program that is unrecorded")
    flags += contradicted(rules, reading.metrics)
    flags += _other_subject(reading, checkpoint)
    flags += suite_flags(reading, setting.suites)
    digest = digest_of(strict(reading.definition))
    before = [one for one in earlier if (one.program, one.imported) == (setting.program, setting.imported)]
    if not reading.definition:
        flags.append("definition_differs: the output does not say how it measured")
    elif expected_definition is not None and digest != digest_of(strict(expected_definition)):
        flags.append("definition_differs: not the definition that was fixed before the launch")
    elif any(other.definition_digest != digest for other in before):
        flags.append("definition_differs: an earlier evaluation of this run measured otherwise")
    return flags


def _other_subject(reading: Reading, checkpoint: CheckpointRegistered) -> list[str]:
    """What an output says of another checkpoint than the one that was evaluated: a result left over from before."""
    evaluated = {
        "checkpoint_id": checkpoint.checkpoint_id,
        "checkpoint_digest": checkpoint.digest,
        "step": checkpoint.step,
    }
    return [
        f"contradictory: the output is of {key} {str(said)[:80]}, evaluated was {evaluated[key]}"
        for key, said in reading.subject.items()
        if said != evaluated[key]
    ]


def _compared(
    ledger: Ledger, run_uid: str, reading: Reading, subject: Subject, setting: Setting
) -> tuple[Reading, list[str], list[str]]:
    """The reading with its baselines judged and completed from the ledger, flags, and what there was none of."""
    beyond = setting.baselines or any(
        baseline.kind in {"previous version", "other data version"} for baseline in reading.baselines
    )
    known = Known.of(ledger, run_uid) if beyond else None
    baselines, flags = judged(reading, subject, known)
    reading = reading.with_(baselines=baselines)
    if known is None or setting.imported:
        return reading, flags, []
    added, more, none = from_ledger(ledger, known, setting.baselines, reading, subject)
    return reading.with_(baselines=(*reading.baselines, *added)), [*flags, *more], none


def _held_to_group(ledger: Ledger, store: ObjectStore, made: Judged) -> Judged:
    """``made`` with a flag where the newest evaluation of the group's other runs measured otherwise (R124)."""
    setting = made.setting
    if not setting.group:
        return made
    others = [
        report
        for _, _, report in Known.of(ledger, made.run_uid).reports
        if (report.group, report.program, report.imported)
        == (setting.group, setting.program, setting.imported)
    ]
    if not others:
        return made
    compared = compare_definitions({"before": others[-1], "now": made_payload(store, made)[0]})
    if compared.uniform:
        return made
    text = "; ".join(named_differences(compared))
    flag = f"definition_changed: within the group {setting.group}: {text}"
    return replace(made, flags=[*made.flags, flag])


def _with_declared(extra: Supplement, reading: Reading, setting: Setting) -> Supplement:
    """``extra`` with the data set that a suite declares, where neither the output nor the task names one."""
    declared = next((s for s in setting.suites if s.data_set_digest is not None), None)
    if declared is None or reading.data_set_digest or extra.data_set_digest:
        return extra
    return Supplement(
        data_set=extra.data_set or (None if reading.data_set else declared.data_set),
        data_set_digest=declared.data_set_digest,
        definition=extra.definition,
        baselines=extra.baselines,
    )


def _edges(payload: EvaluationReported, run_uid: str) -> tuple[Edge, ...]:
    """The evaluation used the checkpoint and was made by the run: numbers lead back to their experiment (R115)."""
    this = Ref(type="evaluation", id=payload.evaluation_id)
    return (
        Edge(subject=this, relation=Relation.USED, object=Ref(type="checkpoint", id=payload.checkpoint_id)),
        Edge(subject=this, relation=Relation.WAS_GENERATED_BY, object=Ref(type="run", id=run_uid)),
    )


def _require_few(reading: Reading, where: str) -> None:
    count = len(reading.metrics) + sum(len(baseline.metrics) for baseline in reading.baselines)
    if count > MOST_METRICS:
        raise InputError(
            "evaluation output", where, f"{count} numbers, an evaluation has at most {MOST_METRICS}",
            hint="Let the program write what decides and explains, or split it into several programs.",
        )  # fmt: skip


def _require_recordable(read: Output, where: str) -> None:
    try:
        canonical_bytes(strict(list(read.documents)))
    except (ValueError, RecursionError) as error:  # a lone surrogate: no UTF-8, so no record
        raise InputError("evaluation output", where, f"cannot be recorded: {error}") from error
