"""What commands say of a run beside its own records: how its project may be called, and what was concluded of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pretrain_archive.commands.output import plain

if TYPE_CHECKING:
    from pretrain_archive.domain.run_view import RunView
    from pretrain_archive.ledger.port import Ledger


def governed(ledger: Ledger, view: RunView) -> dict[str, Any]:
    """``service`` (label and why) and ``conclusion`` (None is unrecorded) of a run."""
    from pretrain_archive.domain.gates import recorded_policy  # noqa: PLC0415
    from pretrain_archive.services.concluding import conclusion_document  # noqa: PLC0415
    from pretrain_archive.services.platform_stage import standing  # noqa: PLC0415

    service = {"label": "unrecorded", "because": "the run has no policy"}
    if view.opened is not None and view.opened.policy:
        try:
            service = standing(ledger, recorded_policy(view), view.opened.policy_digest)
        except ValueError:
            service = {"label": "unrecorded", "because": "the recorded policy cannot be read"}
    return {"service": service, "conclusion": conclusion_document(view)}


def governed_lines(document: dict[str, Any]) -> list[str]:
    """The same as lines for a terminal."""
    service, conclusion = document["service"], document["conclusion"]
    told = plain(conclusion["told"]["en"]) if conclusion else "no conclusion recorded"
    lapsed = f", lapsed: {', '.join(service['lapsed'])}" if service.get("lapsed") else ""
    return [f"service {service['label'].replace('_', ' ')} ({plain(service['because'])}){lapsed}", told]
