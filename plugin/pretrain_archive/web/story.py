"""The decision behind a run in six sentences, for a person who took no part in it."""

from __future__ import annotations

from dataclasses import dataclass

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_candidate
from pretrain_archive.domain.chains import chain_of
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.web.gate_cards import GateCard
from pretrain_archive.web.render import label, short, size
from pretrain_archive.web.texts import Text, say


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """One of the six sentences."""

    name: str
    text: Text


def six_sentences(view: RunView, gates: tuple[GateCard, ...]) -> tuple[Sentence, ...]:
    """The decision in six sentences: data, conditions, events, checkpoint, signatures, use."""
    return (
        Sentence(name="data", text=_data(view)),
        Sentence(name="conditions", text=_conditions(view)),
        Sentence(name="events", text=_events(view)),
        Sentence(name="checkpoint", text=_checkpoint(view)),
        Sentence(name="signatures", text=_signatures(gates)),
        Sentence(name="use", text=_use(view)),
    )


def _data(view: RunView) -> Text:
    snapshot, source = view.latest(kinds.SnapshotCreated), view.latest(kinds.SourceRegistered)
    if snapshot is None:
        return say("six.data.none")
    return say(
        "six.data.text",
        snapshot=f"{snapshot.name}@{snapshot.version}",
        files=f"{snapshot.file_count:,}",
        bytes=size(snapshot.total_bytes),
        source=source.name if source else say("unrecorded"),
        licence=source.licence if source else say("unrecorded"),
        steps=_steps(view),
    )


def _steps(view: RunView) -> Text:
    """What the recorded steps of processing kept, if there were any."""
    chain = [account for _, account in chain_of(view)]
    if not chain:
        return Text("", "")
    return say("six.data.steps", kept=f"{chain[-1].documents_out:,}", read=f"{chain[0].documents_in:,}")


def _conditions(view: RunView) -> Text:
    declared = view.latest(kinds.ConfigurationDeclared)
    if declared is None:
        return say("six.conditions.none")
    budget = declared.budget
    where = (
        say("six.cpu")
        if not budget.accelerators
        else Text(
            f"{budget.accelerators} × {budget.accelerator}", f"{budget.accelerators} × {budget.accelerator}"
        )
    )
    return say(
        "six.conditions.text",
        configuration=short(declared.configuration_digest),
        code=short(declared.code_digest) if declared.code_digest else say("unrecorded"),
        where=where,
        minutes=f"{budget.minutes:g}",
        owner=budget.owner,
    )


def _events(view: RunView) -> Text:
    failed = view.latest(kinds.RunFailed)
    if failed is not None and view.state == "failed":
        return say("six.events.failed", task=failed.task_id, reason=failed.reason)
    ends = [end for _, end in view.all(kinds.AttemptEnded)]
    if not ends:
        running = view.latest(kinds.AttemptStarted)
        return say("six.events.running", attempt=running.attempt) if running else say("six.events.none")
    lost = sum(end.steps_lost or 0 for end in ends)
    repeated = sum(end.steps_repeated or 0 for end in ends)
    last = ends[-1]
    return say(
        "six.events.text",
        attempts=len(ends),
        state=label("attempt", last.state),
        step=last.last_step if last.last_step is not None else say("unrecorded"),
        lost=lost,
        repeated=repeated,
    )


def _checkpoint(view: RunView) -> Text:
    found = chosen_candidate(view)
    steps = {c.checkpoint_id: c.step for _, c in view.all(kinds.CheckpointRegistered)}
    if found is not None:
        chosen = found[1]
        step = steps.get(chosen.checkpoint_id)
        return say(
            "six.checkpoint.text",
            step=step if step is not None else say("unrecorded"),
            digest=short(chosen.checkpoint_digest),
            reason=chosen.reason.rstrip("."),
        )
    return say("six.checkpoint.some", n=len(steps)) if steps else say("six.checkpoint.none")


def _signatures(gates: tuple[GateCard, ...]) -> Text:
    signed = [card for card in gates if card.person]
    if not signed:
        return say("six.signatures.none")
    parts = [
        say(
            "six.signature",
            gate=label("gate", card.gate),
            person=card.person,
            decision=say(f"run.gate.{card.state}"),
        )
        for card in signed
    ]
    return say(
        "six.signatures.text",
        list=Text("; ".join(part.en for part in parts), "；".join(part.zh for part in parts)),
    )


def _use(view: RunView) -> Text:
    if (standing := standing_release(view)) is not None:
        release = standing[1]
        return say(
            "six.use.released",
            name=release.name,
            version=release.version,
            use=", ".join(release.applicable) or say("unrecorded"),
            limits="; ".join(release.known_limits) or say("unrecorded"),
        )
    opened = view.opened
    use = opened.purpose.intended_use if opened and opened.purpose else ""
    return say("six.use.intended", use=use) if use else say("six.use.none")
