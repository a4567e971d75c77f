"""The runbook as a text with sections, which section speaks of which symptom, and what changed in it since."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView

RUNBOOK = "docs/runbook.md"
"""Where the runbook of this project lies."""

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")

SYMPTOMS: dict[str, str] = {
    "gate": "What can happen",
    "waiting": "Why a launch waits",
    "stopped": "Recovery, step by step",
    "failed": "Recovery, step by step",
    "lost": "Recovery, step by step",
    "interrupted": "Recovery, step by step",
    "checkpoint": "Recovery, step by step",
    "support": "Changes of the platform",
    "change": "Changes of the platform",
    "incident": "Incidents",
    "ledger": "The ledger",
    "nothing": "First look",
}
"""The section of the runbook by what is seen; a test holds that each of them is there."""

WALKED = ("First look", "Who to ask", "Recovery, step by step")
"""The sections that somebody on call has to have walked through on a drill."""


EMPTY = "sha256:" + hashlib.sha256(b"").hexdigest()
"""The digest of a section that says nothing."""


def sections(text: str) -> dict[str, str]:
    """Heading → digest (``sha256:`` and hex) of the section's text, with the sections inside of it.

    Lines inside of fenced code are no headings. A heading that stands there twice is one section of both texts.
    """
    bodies: dict[str, list[str]] = {}
    inside: list[tuple[int, str]] = []
    fence = ""
    for line in text.splitlines():
        if (mark := _FENCE.match(line)) is not None:
            fence = "" if fence == mark[1] else fence or mark[1]
        heading = None if fence else _HEADING.fullmatch(line)
        if heading is not None:
            inside = [one for one in inside if one[0] < len(heading[1])]
        for _, name in inside:
            bodies[name].append(line.rstrip())
        if heading is not None:
            inside.append((len(heading[1]), heading[2]))
            bodies.setdefault(heading[2], [])
    return {
        name: "sha256:" + hashlib.sha256("\n".join(body).strip().encode()).hexdigest()
        for name, body in bodies.items()
    }


def since(before: Mapping[str, str] | None, now: Mapping[str, str], heading: str) -> str:
    """How a section stands against what it was: ``new``, ``changed``, ``as before``, ``missing`` or ``there``.

    ``there`` is said where nobody recorded what it was before.
    """
    if heading not in now:
        return "missing"
    if before is None:
        return "there"
    if heading not in before:
        return "new"
    return "as before" if before[heading] == now[heading] else "changed"


def symptoms(view: RunView) -> list[str]:
    """What is seen of a run, worst first: keys of :data:`SYMPTOMS`."""
    found: list[str] = []
    ended = view.latest(kinds.AttemptEnded)
    running = view.attempts > (ended.attempt if ended else 0)
    if ended is not None and ended.state != "completed" and not running:
        found.append(ended.state)
    wait = view.latest(kinds.WaitObserved)
    if wait is not None and not wait.ended and running and wait.attempt == view.attempts:
        found.append("waiting")
    if view.waiting_gate() is not None or view.state == "failed":
        found.append("gate")
    refused, kept = view.last(kinds.CheckpointRefused), view.last(kinds.CheckpointRegistered)
    if refused is not None and (kept is None or refused[0].position > kept[0].position):
        found.append("checkpoint")
    return found
