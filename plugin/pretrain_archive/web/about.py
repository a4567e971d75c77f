"""What a record on the timeline is about, in a few words beside the name of its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pretrain_archive.domain.records import Record
from pretrain_archive.web.texts import Text, known, say

LONGEST = 90
"""Characters of a name or reason that are shown; the record's page shows all."""


def about(record: Record) -> Text:
    """The few words, or an empty text; a payload of another release that lacks a field has none."""
    tell = TELLERS.get(record.kind)
    if tell is None:
        return _same("")
    try:
        return tell(record.payload)
    except (KeyError, TypeError, ValueError):
        return _same("")


def _same(text: object) -> Text:
    said = str(text)
    cut = said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"
    return Text(cut, cut)


def _field(name: str) -> Callable[[Mapping[str, Any]], Text]:
    return lambda payload: _same(payload[name])


def _applied(payload: Mapping[str, Any]) -> Text:
    rule = payload["rule"]
    return say(
        "about.applied",
        kind=rule["kind"],
        rule=_same(f"{rule['name']} v{rule['version']}"),
        read=f"{payload['documents_in']:,}",
        kept=f"{payload['documents_out']:,}",
    )


def _split(payload: Mapping[str, Any]) -> Text:
    train, held_out = payload["train_documents"], payload["validation_documents"]
    return say("about.split", train=f"{train:,}", held_out=f"{held_out:,}")


def _quality(payload: Mapping[str, Any]) -> Text:
    return say("about.passed" if payload["passed"] is True else "about.not_passed")


def _access(payload: Mapping[str, Any]) -> Text:
    key = f"about.{payload['action']}"
    action = say(key) if known(key) else _same(payload["action"])
    return say("about.access", action=action, identity=_same(payload["identity"]))


def _refused(payload: Mapping[str, Any]) -> Text:
    key = f"cause.{payload['cause']}"
    return say(key) if known(key) else _same(payload["cause"])


def _reviewed(payload: Mapping[str, Any]) -> Text:
    return say("about.reviewed", agreement=f"{100 * payload['agreement']:.1f}", n=payload["answers"])


def _human(payload: Mapping[str, Any]) -> Text:
    flags = payload["flags"]
    if not flags:
        return say("about.human.passed", n=payload["scored"])
    key = f"human.flag.{flags[0].partition(':')[0]}"
    return say("about.human.flagged", n=payload["scored"], flag=say(key) if known(key) else _same(flags[0]))


TELLERS: dict[str, Callable[[Mapping[str, Any]], Text]] = {
    "source.registered": _field("name"),
    "source.access": _access,
    "source.withdrawn": _field("reason"),
    "snapshot.created": lambda payload: _same(f"{payload['name']}@{payload['version']}"),
    "rule.declared": lambda payload: _same(f"{payload['name']} v{payload['version']}"),
    "processing.applied": _applied,
    "split.created": _split,
    "quality.reported": _quality,
    "labels.sampled": lambda payload: say("about.sampled", n=len(payload["items"])),
    "labels.answered": lambda payload: say("about.page", n=payload["page"]),
    "labels.refused": _refused,
    "labels.reviewed": _reviewed,
    "human_evaluation.sampled": lambda payload: say("about.human.sampled", n=len(payload["items"])),
    "human_evaluation.answered": lambda payload: say("about.page", n=payload["page"]),
    "human_evaluation.refused": _refused,
    "human_evaluation.reported": _human,
}
"""Kinds that stand several times on a timeline, or whose name alone does not say what happened."""
