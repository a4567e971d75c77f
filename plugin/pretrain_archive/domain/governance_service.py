"""How a project may be called (R248): training that depends on a few experts is a controlled project."""

from __future__ import annotations

from pretrain_archive.domain.governance_support import recorded_platform
from pretrain_archive.domain.governance_texts import CONTROLLED
from pretrain_archive.domain.run_view import RunView


def controlled_told(view: RunView) -> tuple[str, str] | None:
    """What is said of a run of a controlled project, in English and 简体中文; None of any other."""
    experts = recorded_platform(view).experts
    if not experts:
        return None
    en, zh = CONTROLLED
    return en.format(experts=", ".join(experts)), zh.format(experts="、".join(experts))


def service_fact(view: RunView) -> list[tuple[str, str]]:
    """The fact of a dossier; none where the policy names no experts, so that other dossiers stay as they were."""
    told = controlled_told(view)
    return (
        [("service", f"controlled project ({', '.join(recorded_platform(view).experts or [])})")]
        if told
        else []
    )
