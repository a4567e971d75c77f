"""What a run's page says beside its evidence: how its project is called, what was concluded, what to ask on call."""

from __future__ import annotations

from dataclasses import dataclass

from pretrain_archive.domain import kinds
from pretrain_archive.domain.governance_conclusion import conclusion_of, conclusion_told
from pretrain_archive.domain.governance_runbook import SYMPTOMS, symptoms
from pretrain_archive.domain.governance_service import controlled_told
from pretrain_archive.domain.governance_support import recorded_platform
from pretrain_archive.domain.governance_texts import SYMPTOMS as WORDS
from pretrain_archive.domain.governance_texts import TEAMS
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.web.texts import Text


@dataclass(frozen=True, kw_only=True, slots=True)
class Concluded:
    """A person's conclusion; ``late``: it came after the close, and is none of what was signed."""

    record: Record
    text: Text
    late: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Governed:
    """``controlled`` is said of a controlled project alone; ``seen`` are symptoms with the runbook's section.

    A team without a person is unrecorded: None.
    """

    controlled: Text | None
    concluded: Concluded | None
    seen: tuple[tuple[Text, str], ...]
    teams: tuple[tuple[Text, str | None], ...]
    command: str


def governed(view: RunView) -> Governed:
    """Read it from the run's own records."""
    told, people = controlled_told(view), recorded_platform(view).teams.model_dump()
    return Governed(
        controlled=Text(en=told[0], zh=told[1]) if told else None,
        concluded=_concluded(view),
        seen=tuple((_text(WORDS[name]), SYMPTOMS[name]) for name in symptoms(view)),
        teams=tuple((_text(words), people[team]) for team, words in TEAMS.items()),
        command=f"pretrain-archive run oncall {view.run_uid}",
    )


def _text(words: tuple[str, str]) -> Text:
    return Text(en=words[0], zh=words[1])


def _concluded(view: RunView) -> Concluded | None:
    found, closed = conclusion_of(view), view.last(kinds.RunClosed)
    if found is None:
        return None
    return Concluded(
        record=found[0],
        text=_text(conclusion_told(found[1])),
        late=closed is not None and closed[0].position < found[0].position,
    )
