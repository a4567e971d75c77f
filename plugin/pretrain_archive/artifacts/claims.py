"""What a run says about a checkpoint, and what speaks against that before a byte is hashed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pretrain_archive.artifacts.classes import CheckpointClass
from pretrain_archive.artifacts.formats import Inspection
from pretrain_archive.artifacts.readers import FileEntry
from pretrain_archive.ledger.encoding import MOST_BYTES

PER_FILE = 130
"""Bytes of a file in a record, beside its path and version: digest, size and names."""

FOR_THE_REST = 2 << 20
"""Bytes of a record for everything else, of which the data position may take half."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """What the run says about a checkpoint; ``snapshot`` is ``NAME@VERSION``, ``attempt`` counts from 1."""

    run_uid: str
    attempt: int
    step: int
    tokens: int | None
    snapshot: str
    configuration_digest: str
    responsible: str
    artifact_class: CheckpointClass = "recovery"
    purpose: str = ""
    model: str | None = None


def unnamable(files: Sequence[FileEntry]) -> list[str]:
    """That one record cannot name all files: told before they are hashed, which may take hours."""
    needed = sum(PER_FILE + len(file.path.encode()) + len(file.version or "") for file in files)
    told = (
        f"holds {len(files)} files, more than one record can name: let the program write fewer, larger ones"
    )
    return [told] if needed > MOST_BYTES - FOR_THE_REST else []


def contradictions(seen: Inspection, claim: Claim) -> list[str]:
    """Where the checkpoint's own state says something else than the run."""
    pairs = (
        ("step", claim.step, seen.step),
        ("tokens", claim.tokens, seen.tokens),
        ("configuration", claim.configuration_digest, seen.configuration_digest),
    )
    return [
        f"{name}: the run says {said}, the checkpoint's state file {found}"
        for name, said, found in pairs
        if said is not None and found is not None and said != found
    ]
