"""``pretrain-archive evaluation outputs``: what persons said of a run's outputs, and whether the sample still holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pretrain_archive.commands.output import FINDING, OK, Json, answer, plain, table, verdict_text
from pretrain_archive.commands.run import RunName, find_run
from pretrain_archive.commands.snapshot import Store, open_store

if TYPE_CHECKING:
    from pretrain_archive.domain.kinds import HumanEvaluationReported
    from pretrain_archive.services.human_lookup import Checked


def outputs(run: RunName, store: Store = "", as_json: Json = False) -> None:
    """What persons said of a run's outputs; the sample is drawn again and compared with the recorded one."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.human_lookup import check_outputs  # noqa: PLC0415

    view = find_run(services.open_ledger(create=False), run)
    found = check_outputs(open_store(store), view)
    document = {
        "run_uid": view.run_uid,
        "verdict": found.verdict.value,
        "source": found.source.value,
        "kept": found.kept.value,
        "expected": found.sampled.sample_digest,
        "found": found.found or None,
        "sample": found.sampled.to_json(),
        "report": found.report.to_json() if found.report else None,
        "refused": [one.to_json() for one in found.refused],
    }
    good = found.verdict.value == "verified" and found.report is not None and found.report.passed
    answer(document, _lines(found), as_json=as_json, code=OK if good else FINDING)


def _lines(found: Checked) -> Iterator[str]:
    sampled = found.sampled
    yield f"{verdict_text(found.source.value)}  sample of {len(sampled.items)} of {sampled.source_items} outputs"
    yield f"{verdict_text(found.kept.value)}  kept lines {sampled.items_digest}"
    yield f"checkpoint {sampled.checkpoint_id}, outputs by {sampled.subject.replace('_', ' ')}"
    yield f"answers that did not count: {len(found.refused)}"
    if found.report is None:
        yield "not summed up yet"
        return
    yield from _told(found.report)


def _told(report: HumanEvaluationReported) -> Iterator[str]:
    """The result for a person: numbers, flags, then every problem and every item that was skipped."""
    from pretrain_archive.domain.human_texts import told  # noqa: PLC0415

    yield plain(told(report))
    yield from table([[plain(label), str(count)] for label, count in report.points.items()])
    for one in report.problems:
        whose = f", of {'both' if one.whose == 'both' else f'the {one.whose}'}" if one.whose else ""
        said = f"{one.category}, {one.severity}{whose}, by {plain(one.by)}"
        yield f"problem  line {one.line}: {said}: {plain(one.note)}"
    for gap in report.skipped:
        yield f"skipped  line {gap.line} by {plain(gap.by)}: {plain(gap.note)}"
    for apart in report.disagreements:
        said = ", ".join(f"{plain(who)} {plain(label)}" for who, label in apart.labels.items())
        yield f"{'opposite' if apart.opposite else 'apart   '} line {apart.line}: {said}"
