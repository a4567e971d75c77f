"""The policy's section about the platform: who supports what, who answers in each team, and how it is run."""

from __future__ import annotations

from datetime import date
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Named = Literal["scheduling_policy", "image", "framework", "driver", "storage", "network", "platform"]
"""As ``domain.kinds.governance.Component``: a policy is read without the kinds."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Support(_Part):
    """Who supports a component from outside, and who answers for it inside (R233).

    ``covers`` is what the supplier does, ``excludes`` what stays with the enterprise whatever happens. ``until`` is
    the last day of the support; ``warn_days`` before it everybody who looks is told.
    """

    supplier: str = Field(min_length=1)
    covers: str = Field(min_length=1)
    excludes: str = ""
    until: date
    warn_days: int = Field(ge=0)
    inside: str = Field(min_length=1)
    contact: str = ""


class Teams(_Part):
    """The person who answers for each team (R231, R237), by user name."""

    training: str | None = None
    platform: str | None = None
    storage: str | None = None
    network: str | None = None


class Platform(_Part):
    """How the platform of a project is supported and run.

    None is unrecorded everywhere. ``experts`` names the few persons without whom training does not go on; an empty
    list says that there are none. ``runbook_authors`` wrote the runbook. ``drill_projects`` are projects whose
    recovery drills stand for this one's; a drill counts for ``drill_valid_days``.
    """

    support: dict[Named, Support] = {}
    teams: Teams = Teams()
    experts: list[str] | None = None
    runbook_authors: list[str] = []
    drill_projects: list[str] = []
    drill_valid_days: float | None = Field(gt=0, default=None)

    @model_validator(mode="after")
    def _names_say_something(self) -> Self:
        named = [*(self.experts or []), *self.runbook_authors, *self.drill_projects]
        named += [name for name in self.teams.model_dump().values() if name is not None]
        if any(not name.strip() for name in named):
            raise ValueError("a name is blank; leave it out where nobody is meant")
        return self
