"""The handover exam: questions for a person who took no part, made from a package and scored against it.

Each question has answers that the records give. A free text counts if it names one of them (case, spacing and
the ``sha256:`` prefix do not matter; a digest may be shortened to eight digits). A question whose answer nobody
recorded is not asked: it is a gap of the archive, not of the person.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_candidate, chosen_evaluation
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.evaluations import last_deciding
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.run_view import GATES, RunView
from pretrain_archive.package.outcomes import checkpoint_by_id
from pretrain_archive.package.reading import read_package
from pretrain_archive.package.sentences import GATE_ZH


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question with the answers that count (empty: nobody recorded one) and the records behind them."""

    id: str
    en: str
    zh: str
    answers: tuple[str, ...]
    records: tuple[Record, ...]

    @property
    def files(self) -> list[str]:
        """Where the answer stands in the package."""
        return [f"records/{record.sequence:06d}-{record.kind}.json" for record in self.records]


def questions(folder: Path) -> list[dict[str, Any]]:
    """The questions that can be answered from the package, without the answers."""
    return [
        {"id": q.id, "question": {"en": q.en, "zh": q.zh}}
        for q in make_questions(read_package(folder).view)
        if q.answers
    ]


def score(folder: Path, answers: Mapping[str, str]) -> dict[str, Any]:
    """Score answers by question id.

    Returns ``score`` (right answers), ``asked``, ``verdict`` of the package and ``gaps``: for each question
    that was wrong, unanswered or unanswerable its id, the ``reason`` and the ``files`` to read. Raises
    ``InputError`` for an id that was not asked.
    """
    package = read_package(folder)
    found = make_questions(package.view)
    asked = {q.id: q for q in found if q.answers}
    for name in answers:
        if name not in asked:
            raise InputError("answers", name, "no such question", hint=f"Asked were: {', '.join(asked)}.")
    gaps, right = [], 0
    for question in found:
        given = str(answers.get(question.id, ""))
        if not question.answers:
            reason = "unrecorded"
        elif not given.strip():
            reason = "unanswered"
        elif not matches(given, question.answers):
            reason = "wrong"
        else:
            right += 1
            continue
        gaps.append({"id": question.id, "reason": reason, "files": question.files})
    return {"score": right, "asked": len(asked), "verdict": package.report["verdict"], "gaps": gaps}


def matches(given: str, answers: tuple[str, ...]) -> bool:
    """Whether ``given`` names one of ``answers`` as whole words, or enough of a digest."""
    text = _flat(given)
    for answer in answers:
        wanted = _flat(answer)
        if re.search(rf"(?<![\w.]){re.escape(wanted)}(?![\w]|\.\w)", text):
            return True
        if re.fullmatch(r"[0-9a-f]{64}", wanted) and any(
            wanted.startswith(part) for part in re.findall(r"[0-9a-f]{8,64}", text)
        ):
            return True
    return False


def _flat(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold().replace("sha256:", "")
    return " ".join(folded.split()).strip(" .。")


# -- the questions -------------------------------------------------------------------------------------


def make_questions(view: RunView) -> list[Question]:
    """All questions, those without a recorded answer included."""
    return [question for make in MAKERS for question in make(view)]


def _one(name: str, en: str, zh: str, record: Record | None, *answers: str | None) -> Question:
    good = tuple(answer for answer in answers if answer)
    return Question(id=name, en=en, zh=zh, answers=good, records=(record,) if record else ())


def _data(view: RunView) -> Iterator[Question]:
    found = view.last(kinds.SnapshotCreated)
    record, s = found or (None, None)
    yield _one(
        "snapshot",
        "Which data snapshot was the input (name and version, or digest)?",
        "输入的是哪个数据快照（名称与版本，或摘要）？",
        record,
        f"{s.name}@{s.version}" if s else None,
        s.manifest_digest if s else None,
    )
    source = view.last(kinds.SourceRegistered)
    yield _one(
        "licence",
        "Under which licence may the data be used?",
        "数据依据哪个许可证使用？",
        source and source[0],
        source and source[1].licence,
    )


def _conditions(view: RunView) -> Iterator[Question]:
    found = view.last(kinds.ConfigurationDeclared)
    yield _one(
        "configuration",
        "Which configuration id was signed for?",
        "签署的是哪个配置标识？",
        found and found[0],
        found and found[1].configuration_digest,
    )
    yield _one(
        "budget_owner",
        "Who owns the budget of the launch?",
        "启动预算由谁负责？",
        found and found[0],
        found and found[1].budget.owner,
    )


def _attempts(view: RunView) -> Iterator[Question]:
    started = list(view.all(kinds.AttemptStarted))
    last = started[-1][0] if started else None
    yield _one(
        "attempts",
        "How many attempts were made?",
        "共进行了几次尝试？",
        last,
        str(len(started)) if started else None,
    )
    for record, again in started[1:]:
        yield _one(
            f"resume_{again.attempt}",
            f"From which step did attempt {again.attempt} resume?",
            f"第 {again.attempt} 次尝试从第几步恢复？",
            record,
            None if again.resume_step is None else str(again.resume_step),
            again.resume_from,
        )
    for record, end in view.all(kinds.AttemptEnded):
        if end.state != "completed":
            yield _one(
                f"end_{end.attempt}",
                f"Why did attempt {end.attempt} end (its state, signal or reason)?",
                f"第 {end.attempt} 次尝试为何结束（状态、信号或原因）？",
                record,
                end.reason,
                end.state,
                f"signal {end.signal}" if end.signal else None,
            )


def _choice(view: RunView) -> Iterator[Question]:
    found = chosen_candidate(view)
    source = checkpoint_by_id(view, found[1].checkpoint_id) if found else None
    yield _one(
        "checkpoint",
        "Which checkpoint became the candidate (step, id or digest)?",
        "哪个检查点成为候选模型（步数、标识或摘要）？",
        found and found[0],
        str(source[1].step) if source else None,
        found and found[1].checkpoint_id,
        found and found[1].checkpoint_digest,
    )
    yield _one(
        "reason",
        "Why was this checkpoint kept? Quote the recorded reason, or name the record that holds it.",
        "为何保留该检查点？请引用记录的理由，或写出所在记录。",
        found and found[0],
        found and found[1].reason,
        found and found[0].record_id,
        found and f"{found[0].sequence:06d}-{found[0].kind}.json",
    )
    report = chosen_evaluation(view) or last_deciding(view)
    metric = next((m for m in report[1].metrics if m.value is not None), None) if report else None
    yield _one(
        "result",
        f"Which value did the evaluation give for {metric.name if metric else 'the acceptance metric'}?",
        f"评估给出的 {metric.name if metric else '验收指标'} 是多少？",
        report and report[0],
        f"{metric.value:g}" if metric and metric.value is not None else None,
    )
    yield _one(
        "baseline",
        "Name one baseline that it was compared with.",
        "写出一个对照基线。",
        report and report[0],
        *(b.name for b in (report[1].baselines if report else [])),
    )


def _people(view: RunView) -> Iterator[Question]:
    for gate in GATES:
        found = view.decision(gate)
        yield _one(
            f"signed_{gate}",
            f"Who signed the {gate} gate?",
            f"谁签署了{GATE_ZH[gate]}关口？",
            found and found[0],
            found and found[1].person_name,
            found and found[1].person_id,
        )


def _use(view: RunView) -> Iterator[Question]:
    found = standing_release(view)
    release = found[1] if found else None
    yield _one(
        "allowed",
        "Name one use that is allowed.",
        "写出一种允许的用途。",
        found and found[0],
        *(release.applicable if release else []),
    )
    yield _one(
        "not_allowed",
        "Name one use that is not allowed.",
        "写出一种不允许的用途。",
        found and found[0],
        *(release.not_applicable if release else []),
    )
    yield _one(
        "limits",
        "Name one known limit.",
        "写出一条已知局限。",
        found and found[0],
        *(release.known_limits if release else []),
    )
    yield _one(
        "rollback",
        "How is the model taken out of use or rolled back?",
        "如何回退或下线该模型？",
        found and found[0],
        release.rollback if release else None,
        release.take_down if release else None,
    )


MAKERS: tuple[Callable[[RunView], Iterator[Question]], ...] = (
    _data,
    _conditions,
    _attempts,
    _choice,
    _people,
    _use,
)
