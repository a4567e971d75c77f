# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads around an evaluation: what was declared before the launch, each try that began, and how it ended.

The numbers themselves stand in ``evaluation.reported``. A try that began reads a checkpoint: its bytes are in use
until the try has an end, at the latest until ``lease_until``.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pretrain_archive.domain.kinds.base import Digest, Payload


class SuiteUsed(Payload):
    """A declared set of metric definitions, named with its version and the digest of what it says."""

    name: str
    version: str
    objective: str
    digest: Digest


class EvaluationPlanned(Payload):
    """An evaluation program as it is signed for, with the suites that its output is held to.

    ``program`` is empty for the request's own program, else the name that the policy gives it. A digest of None is
    unrecorded: no file of the program was found.
    """

    program: str = ""
    command: list[str] = []
    code_digest: Digest | None = None
    code_files: dict[str, str] = {}
    suites: list[SuiteUsed] = []


class EvaluationStarted(Payload):
    """An evaluation begins to read a checkpoint (``try_id`` names this one try)."""

    try_id: str
    checkpoint_id: str
    checkpoint_digest: Digest
    program: str = ""
    evaluator_digest: Digest | None = None
    lease_until: str


class EvaluationFailed(Payload):
    """A try that gave no numbers, and why; ``abandoned`` is one whose process left no end of its own.

    ``flags`` say what was wrong with its output; ``log_uri`` is the end of what the program printed.
    """

    try_id: str
    checkpoint_id: str
    checkpoint_digest: Digest
    program: str = ""
    cause: Literal["program", "timeout", "output", "checkpoint", "abandoned", "other"]
    detail: str
    exit_code: int | None = None
    flags: list[str] = []
    seconds: float | None = None
    devices: int | None = None
    log_uri: str | None = None
    log_digest: Digest | None = None


class EvaluationFinished(Payload):
    """A try that ended with recorded numbers: the evaluations that hold them.

    ``samples_*`` is the file of outputs for readers that the program wrote, None where it wrote none or none was asked.
    """

    try_id: str
    checkpoint_id: str
    evaluations: list[str] = Field(min_length=1)
    samples_uri: str | None = None
    samples_digest: Digest | None = None
