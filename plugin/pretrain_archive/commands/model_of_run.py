"""What became of a run's release since, for ``pretrain-archive run show``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pretrain_archive.commands.output import plain

if TYPE_CHECKING:
    from pretrain_archive.domain.run_view import RunView
    from pretrain_archive.ledger.port import Ledger


def model_of(ledger: Ledger, view: RunView) -> dict[str, Any] | None:
    """What became of the run's release since: state, retirement, open problems; None where it made none."""
    from pretrain_archive.services.model_life import of_run  # noqa: PLC0415

    life = of_run(ledger, view.run_uid)
    if life is None:
        return None
    return {
        "name": life.release.name,
        "version": life.release.version,
        "release_id": life.release.release_id,
        "state": life.state,
        "delivered_to": list(life.places),
        "retired": life.retired[1].to_json() if life.retired else None,
        "open_problems": len(life.open_problems()),
        "facts": len(life.facts),
    }


def model_lines(model: dict[str, Any] | None) -> list[str]:
    """The same for a person; nothing where there is no release."""
    if model is None:
        return []
    state = model["state"].replace("_", " ")
    if (gone := model["retired"]) is not None:
        state = f"retired at {gone['at']} by {gone['by']}: {gone['text']}"
    title = f"{model['name']}@{model['version']}"
    return ["", "model", f"  {plain(title)}: {plain(state)}; {model['open_problems']} open problems"]
