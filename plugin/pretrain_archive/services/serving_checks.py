"""Record how a candidate would serve (R114): declared by somebody, or measured with its evidence in the store."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pretrain_archive.domain.candidates import chosen_candidate
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import ServingCheck
from pretrain_archive.domain.kinds.release import ASPECTS, MOST_VALUE
from pretrain_archive.domain.records import Draft, Edge, Relation
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.storage.port import ObjectStore

MOST_BYTES = 64 << 20
"""Of an evidence file: a report, not a data set."""


def record_serving(
    ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str,
    *, aspect: str, value: str, by: str, evidence: Path | None = None,
) -> ServingCheck:  # fmt: skip
    """Record one aspect for the run's candidate; with ``evidence`` it counts as measured on the candidate's bytes.

    Raises :class:`RefusedError` for a run that is closed or has no candidate, :class:`InputError` for wrong values.
    """
    view = load_run(ledger, run_uid)
    if view.opened is None:
        raise InputError("RUN", run_uid, "is not in the ledger", hint="List runs: pretrain-archive run list.")
    if view.state == "closed":
        raise RefusedError(
            f"run {run_uid} is closed and frozen", hint="Record feedback on the model instead."
        )
    if aspect not in ASPECTS:
        raise InputError("aspect", aspect, "is not known", hint=f"Choose one of {', '.join(ASPECTS)}.")
    _require_text(value=value, by=by)
    chosen = chosen_candidate(view)
    if chosen is None:
        raise RefusedError(f"run {run_uid} has no candidate yet", hint="Evaluate a checkpoint first.")
    digest, uri = _keep(store, evidence) if evidence else (None, None)
    check = ServingCheck.model_validate({
        "aspect": aspect, "value": value.strip(), "how": "measured" if evidence else "declared", "by": by,
        "checkpoint_digest": chosen[1].checkpoint_digest, "evidence_digest": digest, "evidence_uri": uri,
    })  # fmt: skip
    known = [fact for _, fact in view.all(ServingCheck) if fact.aspect == aspect]
    if known and known[-1] == check:
        return check
    source = Ref(type="candidate", id=chosen[1].candidate_id)
    subject = Ref(type="serving", id=f"{chosen[1].candidate_id}/{aspect}")
    draft = Draft(
        stream=run_uid, kind="release.serving_checked", payload=check.to_json(), actor=caller.actor,
        origin=caller.origin, attempt=view.attempts, ordinal=len(known),
        edges=(Edge(subject=subject, relation=Relation.WAS_DERIVED_FROM, object=source),),
    )  # fmt: skip
    ledger.append([draft])
    return check


def _require_text(**texts: str) -> None:
    """Refuse what no record can hold: nothing, too much, or bytes that are no text."""
    for name, text in texts.items():
        if not text.strip():
            raise InputError(name, text, "is empty", hint="Write the value with its unit, and who says so.")
        if len(text.strip()) > MOST_VALUE:
            raise InputError(name, f"{text[:40]}…", f"is longer than {MOST_VALUE} characters")
        if not text.isprintable():
            raise InputError(name, text, "holds a character that cannot be shown", hint="Write plain text.")


def _keep(store: ObjectStore, evidence: Path) -> tuple[str, str]:
    """Digest and location of the evidence, copied into the store."""
    if not evidence.is_file():
        raise InputError(
            "--evidence", str(evidence), "is no file", hint="Name the report of the measurement."
        )
    if evidence.stat().st_size > MOST_BYTES:
        raise InputError("--evidence", str(evidence), f"is larger than {MOST_BYTES} bytes")
    with evidence.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
        handle.seek(0)
        store.put_if_absent(f"serving/{digest}", handle)
    return f"sha256:{digest}", store.location(f"serving/{digest}")
