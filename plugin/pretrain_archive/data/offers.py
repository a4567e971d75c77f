"""What may be done with a source, in ODRL 2.2 (https://www.w3.org/TR/odrl-model/), for a Croissant description."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pretrain_archive.domain.kinds import SourceRegistered
from pretrain_archive.domain.source_rights import Standing, source_stream

Json = dict[str, Any]

DUO = re.compile(r"DUO[:_](\d{7})")
"""A code of the Data Use Ontology (http://purl.obolibrary.org/obo/duo.owl) in a usage scope."""


def policy(source: Standing, fact: SourceRegistered) -> Json:
    """What may be done with a source as an ODRL offer; a withdrawn source permits nothing any more."""
    rule: Json = {"odrl:action": {"@id": "odrl:use"}, "odrl:constraint": _constraints(source, fact)}
    offer: Json = {"@type": ["CreativeWork", "odrl:Offer"], "name": f"Use of {fact.name}"}
    if source.withdrawal is not None:
        gone = source.withdrawal[1]
        offer |= {"description": f"Withdrawn: {gone.reason}", "expires": gone.at}
        return {
            **offer,
            "odrl:prohibition": {"@type": "odrl:Prohibition", "odrl:action": {"@id": "odrl:use"}},
        }
    return {**offer, "odrl:permission": {"@type": "odrl:Permission", **rule}}


def _constraints(source: Standing, newest: SourceRegistered) -> list[Json]:
    """All of them hold at once: those of the newest registration, and of the source's own, which binds every run."""
    own = source_stream(source.source_id)
    facts = [newest, *(fact for record, fact in source.registrations if record.stream == own)]
    found: list[Json] = []
    for fact in facts:
        found.append(_limit("odrl:purpose", "odrl:isAnyOf", [_purpose(use) for use in fact.usage_scope]))
        if fact.applicable_tasks:
            limit = _limit("odrl:purpose", "odrl:isAnyOf", fact.applicable_tasks)
            found.append({**limit, "name": "Applicable tasks"})
    if (granted := source.granted_at()) is not None:
        found.append(_limit("odrl:dateTime", "odrl:gteq", granted))
    ends = [fact.access_revoked_at for fact in facts if fact.access_revoked_at]
    return unique([*found, *(_limit("odrl:dateTime", "odrl:lteq", end) for end in ends)])


def _limit(left: str, operator: str, right: Any) -> Json:
    return {
        "@type": "odrl:Constraint", "odrl:leftOperand": {"@id": left}, "odrl:operator": {"@id": operator},
        "odrl:rightOperand": right,
    }  # fmt: skip


def _purpose(use: str) -> str | Json:
    """A use in its own words; a DUO code as the term that it is."""
    code = DUO.fullmatch(use.strip())
    return {"@id": f"duo:{code[1]}"} if code else use


def unique(values: Iterable[Any]) -> list[Any]:
    """Each value once, in the order of its first appearance; values need not be hashable."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found
