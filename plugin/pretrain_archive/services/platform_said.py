"""What a person says for the record: who it is, texts that can be stored, and one record for one statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.domain.errors import AlreadyRecordedError, InputError
from pretrain_archive.domain.identity import Ref, new_id, utc_now
from pretrain_archive.domain.kinds import BY_MODEL, Payload
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import local_identity

MOST = 4000
"""Characters of a text at most."""


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """A person, and how that person is known; ``origin`` is the call."""

    person: str
    authentication: str
    origin: Origin = field(
        default_factory=lambda: Origin(dag_id="cli", dag_run_id=new_id("call"), task_id="platform")
    )

    @property
    def said(self) -> dict[str, str]:
        """The fields of a statement: person, authentication and the moment."""
        return {"person": self.person, "authentication": self.authentication, "at": utc_now()}


def speaker(person: str = "", *, task: str = "platform") -> Speaker:
    """Who speaks on the command line: the user of this machine, or whom that user names."""
    here = local_identity()
    name = sentence("--person", person, most=200) if person else here.partition("@")[0]
    how = (
        f"stated with --person by the user {here} of the machine" if person else f"user {here} of the machine"
    )
    origin = Origin(dag_id="cli", dag_run_id=new_id("call"), task_id=task)
    return Speaker(person=name, authentication=how, origin=origin)


def sentence(name: str, value: str | None, *, most: int = MOST) -> str:
    """The text without blanks around; ``InputError`` naming the option where it says nothing or cannot be stored."""
    text = (value or "").strip()
    if not any(c.isprintable() and not c.isspace() for c in text):
        raise InputError(name, value, "says nothing", hint="Fill it in.")
    if len(text) > most:
        raise InputError(name, f"{text[:40]}…", f"is longer than {most} characters", hint="Shorten it.")
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InputError(
            name, ascii(text[:40]), "holds characters that cannot be stored", hint="Type it again."
        )
    return text


def optional(name: str, value: str | None, *, most: int = MOST) -> str | None:
    """As :func:`sentence`, None where nothing is given."""
    return sentence(name, value, most=most) if (value or "").strip() else None


def state(
    ledger: Ledger, who: Speaker, stream: str, payload: Payload, *, about: Ref, unique: str = "",
    follows: int | None = None, beside: Mapping[str, int] | None = None, edges: tuple[Edge, ...] = (),
    attempt: int = 0,
) -> Record:  # fmt: skip
    """Append what ``who`` says and return its record.

    ``unique`` lets a statement be made once; made again it returns the record that is there if that one says the
    same, and raises ``AlreadyRecordedError`` if not. ``follows`` and ``beside`` name what the speaker has seen:
    ``StreamMovedError`` if it moved on meanwhile.
    """
    person = Ref(type="person", id=who.person)
    draft = Draft(
        stream=stream, kind=BY_MODEL[type(payload)], payload=payload.to_json(), origin=who.origin, attempt=attempt,
        actor=Actor(type="person", name=who.person), unique=unique, follows=follows, beside=beside or {},
        edges=(Edge(subject=about, relation=Relation.WAS_ASSOCIATED_WITH, object=person), *edges),
    )  # fmt: skip
    try:
        [record] = ledger.append([draft])
    except AlreadyRecordedError as error:
        known = next((r for r in ledger.records(streams=[stream]) if r.record_id == error.record_id), None)
        if known is None or not _alike(known.payload, draft.payload):
            raise
        return known
    return record


def _alike(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether two statements say the same, whenever they were made."""
    return {**left, "at": ""} == {**right, "at": ""}
