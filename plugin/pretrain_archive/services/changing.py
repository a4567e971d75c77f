"""Record what a person changed by hand while a run was open: what, where, why, and who (R071, R072, R075, R093)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from pretrain_archive.domain.changes import told
from pretrain_archive.domain.errors import AlreadyRecordedError, InputError, RefusedError
from pretrain_archive.domain.identity import Ref, utc_now
from pretrain_archive.domain.kinds import ChangeRecorded, NoteAdded, Payload
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.port import Ledger

WHATS: tuple[str, ...] = get_args(ChangeRecorded.model_fields["what"].annotation)
"""What can be changed."""

MOST = {"scope": 300, "reason": 4000, "before": 2000, "after": 2000, "person": 200}
"""Characters of each text at most."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a person says was changed. ``authentication`` is how that person is known."""

    what: str
    scope: str
    reason: str
    person: str
    via: str
    authentication: str
    before: str | None = None
    after: str | None = None
    attempt: int | None = None


def record_change(
    ledger: Ledger, view: RunView, change: Change, *, origin: Origin, as_note: bool = False, unique: str = ""
) -> Record:
    """Append the change to the run and return its record; on a closed run only as a note, where that is asked for.

    ``unique`` makes a form that is sent twice one record. Raises ``InputError`` naming the field that cannot be
    recorded, ``RefusedError`` for a run that is closed or was never opened.
    """
    if view.opened is None:
        raise RefusedError(f"run {view.run_uid!r} is not in the ledger")
    closed = view.state == "closed"
    if closed and not as_note:
        raise RefusedError(
            f"run {view.run_uid} is closed and frozen: a change while it was open can only be added as a note",
            hint="Repeat it with --as-note.",
        )
    made = _checked(view, change)
    payload: Payload = NoteAdded(topic="manual_change", text=told(made), refs=[]) if closed else made
    person = Ref(type="person", id=made.person)
    run = Ref(type="run", id=view.run_uid)
    draft = Draft(
        stream=view.run_uid, kind="note.added" if closed else "change.recorded", payload=payload.to_json(),
        actor=Actor(type="person", name=made.person), origin=origin, attempt=made.attempt or view.attempts,
        unique=unique, edges=(Edge(subject=run, relation=Relation.WAS_ASSOCIATED_WITH, object=person),),
    )  # fmt: skip
    try:
        [record] = ledger.append([draft])
    except AlreadyRecordedError as error:
        known = [r for r in ledger.records(streams=[view.run_uid]) if r.record_id == error.record_id]
        if not known:
            raise
        return known[0]
    return record


def _checked(view: RunView, change: Change) -> ChangeRecorded:
    """The payload; every text can be read and stored, and the attempt is one of the run."""
    if change.what not in WHATS:
        raise InputError("what", change.what, f"is none of {', '.join(WHATS)}")
    texts = {name: _text(name, getattr(change, name)) for name in MOST}
    for name in ("scope", "reason", "person"):
        if not texts[name]:
            raise InputError(name, getattr(change, name), "says nothing", hint="Fill it in.")
    if change.attempt is not None and not 1 <= change.attempt <= view.attempts:
        raise InputError(
            "attempt", change.attempt, f"is no attempt of the run, which has {view.attempts}",
            hint="Leave it out for a change of the whole run.",
        )  # fmt: skip
    return ChangeRecorded.model_validate({
        **texts, "what": change.what, "attempt": change.attempt, "at": utc_now(), "via": change.via,
        "authentication": change.authentication,
    })  # fmt: skip


def _text(name: str, value: str | None) -> str | None:
    """The text without blanks around, None where it says nothing; ``InputError`` for what cannot be stored."""
    text = (value or "").strip()
    if len(text) > MOST[name]:
        raise InputError(name, f"{text[:40]}…", f"is longer than {MOST[name]} characters", hint="Shorten it.")
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InputError(
            name, ascii(text[:40]), "holds characters that cannot be stored", hint="Type it again."
        )
    return text if any(c.isprintable() and not c.isspace() for c in text) else None
