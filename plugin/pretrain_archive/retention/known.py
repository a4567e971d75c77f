"""What the ledger says of the things of one batch: registrations, tombstones, parts that went."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain.kinds import CheckpointRegistered, read_payload
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.burying import NO_RUN, TOMBSTONE, stone_name
from pretrain_archive.retention.files import Target, target_for

ItemOf = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the ledger says of the checkpoints of one batch."""

    facts: Mapping[str, CheckpointRegistered]
    stones: Collection[str]
    gone: Mapping[str, frozenset[str]]
    recorded: Mapping[str, str]

    @classmethod
    def of(cls, ledger: Ledger, batch: Sequence[ItemOf]) -> Known:
        """Read the streams of the batch."""
        wanted = {str(item["id"]) for item in batch}
        streams = {str(item.get("run") or NO_RUN) for item in batch}
        facts, stones, gone = {}, set[str](), dict[str, frozenset[str]]()
        recorded: dict[str, str] = {}
        for record in ledger.records(streams=streams, kinds=["checkpoint.registered", TOMBSTONE]):
            if record.kind == TOMBSTONE:
                ref, parts = str(record.payload["ref"]), frozenset(record.payload.get("parts") or ())
                stones |= {edge.object.id for edge in record.edges if edge.object.type == "tombstone"}
                if parts:
                    gone[ref] = gone.get(ref, frozenset()) | parts
            elif (ref := f"checkpoint:{record.payload['checkpoint_id']}") in wanted:
                facts[ref] = read_payload(record, CheckpointRegistered)
                recorded[ref] = record.recorded_at
        return cls(facts=facts, stones=stones, gone=gone, recorded=recorded)

    def target(self, item: ItemOf) -> Target | None:
        """What is to go of a checkpoint, or None if the ledger does not know it."""
        fact = self.facts.get(str(item["id"]))
        if fact is None:
            return None
        parts = tuple(item.get("parts") or ()) if item["action"] == "delete_parts" else ()
        ref = str(item["id"])
        gone = self.gone.get(ref, frozenset()) - set(parts)
        return target_for(fact, parts=parts, gone=gone, recorded_at=self.recorded[ref])

    def buried(self, target: Target) -> bool:
        """Whether the tombstone of exactly this stands."""
        return stone_name(target) in self.stones
