"""The classes of artifact: each has its own retention, readers and signer (R098–R100, R153).

The class is a recorded fact and never read from a file name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

CheckpointClass = Literal["recovery", "evaluation", "candidate"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactClass:
    """What a class means: use, retention rule (policy field, empty: never by age), readers and signer role."""

    name: str
    purpose: str
    retention_rule: str
    readers: str
    signer_role: str


CLASSES: Mapping[str, ArtifactClass] = {
    "recovery": ArtifactClass(
        name="recovery",
        purpose="resume the run after an interruption",
        retention_rule="recovery_max_age_days, recovery_keep_last",
        readers="the run itself and its restore owner",
        signer_role="restore_owner",
    ),
    "evaluation": ArtifactClass(
        name="evaluation",
        purpose="be measured at a stage of the run",
        retention_rule="evaluation_max_age_days",
        readers="those who evaluate the run",
        signer_role="model_owner",
    ),
    "candidate": ArtifactClass(
        name="candidate",
        purpose="become the model",
        retention_rule="",
        readers="the model's owner and the approvers of the close gate",
        signer_role="acceptance",
    ),
    "release": ArtifactClass(
        name="release",
        purpose="be handed over",
        retention_rule="",
        readers="those whom the release's usage scope names",
        signer_role="acceptance",
    ),
}
