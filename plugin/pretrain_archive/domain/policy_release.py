"""The policy's section ``[release]``: what is checked before a model may serve."""

from __future__ import annotations

from typing import get_args

from pydantic import BaseModel, ConfigDict

from pretrain_archive.domain.kinds.release import ASPECTS, MOST_VALUE, ServingAspect

LINE = "one of " + ", ".join(ASPECTS) + ", a colon and the value, such as 'latency: p95 below 200 ms'"


class Release(BaseModel):
    """What a release must show.

    A model is meant to serve when its intended use is one of ``serving_uses``, or its request declares a serving
    value. Then every aspect in ``serving_demanded`` must be recorded before it is registered, and those in
    ``serving_measured`` must have been measured on the candidate's own bytes: a declaration does not do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    serving_uses: list[str] = ["product"]
    serving_demanded: list[ServingAspect] = list(get_args(ServingAspect))
    serving_measured: list[ServingAspect] = []


def parse_line(line: str) -> tuple[str, str]:
    """Aspect and value of a line ``aspect: value``; ``ValueError`` says how a line looks."""
    aspect, colon, value = line.partition(":")
    name, value = aspect.strip().lower().replace(" ", "_").replace("-", "_"), value.strip()
    if not colon or name not in ASPECTS or not value:
        raise ValueError(f"{line!r} is no serving value: write {LINE}")
    if len(value) > MOST_VALUE:
        raise ValueError(f"the value of {name} has {len(value)} characters, at most {MOST_VALUE} are kept")
    return name, value
