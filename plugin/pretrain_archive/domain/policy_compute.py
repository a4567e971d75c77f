"""The policy's sections about what a launch runs on, how far it may go unsigned, and who pays for it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Kubernetes(_Part):
    """The cluster that a project's jobs run on.

    ``connection`` is an Airflow connection of type kubernetes. ``image`` is pinned by digest
    (``name@sha256:…``). ``claim`` is a volume claim that the workers of Airflow mount too, at ``mount_path`` in
    every pod: the attempt's folder, data and checkpoints lie below it. ``accelerators_per_node`` 0 puts them all on
    one node. ``queue`` and ``workload_priority`` are Kueue's names, ``priority_class`` is the pod's. ``template`` is
    merged into the pod template. ``start_minutes`` is how long a job may wait for its members. ``grace_seconds`` are
    what a program gets between SIGTERM and SIGKILL, for a last checkpoint. ``shared_memory`` limits ``/dev/shm``
    (it counts as memory). ``train_job_patches`` is the field by which the cluster's Kubeflow Trainer is told of pods.
    """

    connection: str = "kubernetes_default"
    namespace: str = Field(min_length=1, default="default")
    service_account: str | None = None
    image: str = ""
    object_kind: Literal["Job", "TrainJob"] = "Job"
    runtime: str | None = None
    claim: str | None = None
    mount_path: str = ""
    python: str = "python3"
    accelerators_per_node: int = Field(ge=0, default=0)
    cpu: str | None = None
    memory: str | None = None
    queue: str | None = None
    workload_priority: str | None = None
    priority_class: str | None = None
    template: dict[str, Any] = {}
    start_minutes: float = Field(gt=0, default=60)
    keep_hours: float = Field(ge=0, default=24)
    grace_seconds: float = Field(ge=0, le=3600, default=20)
    shared_memory: str | None = None
    train_job_patches: Literal["podTemplateOverrides", "runtimePatches"] = "runtimePatches"


class Compute(_Part):
    """Where launches go."""

    target: Literal["local", "kubernetes"] = "local"
    kubernetes: Kubernetes = Kubernetes()


class Exploration(_Part):
    """What a run may take without a full sign-off, and no more: accelerators × minutes, and as many a day.

    Without accelerators the machine counts as one.
    """

    max_accelerators: int = Field(ge=0)
    accelerator_minutes: float = Field(gt=0)
    accelerator_minutes_per_day: float | None = Field(gt=0, default=None)


class Cost(_Part):
    """To whom cost is attributed, and what a device-hour, a stored gigabyte-month and a sent gigabyte cost."""

    team: str | None = None
    budget: str | None = None
    currency: str = "EUR"
    per_device_hour: float | None = Field(ge=0, default=None)
    per_gigabyte_month: float | None = Field(ge=0, default=None)
    per_gigabyte_sent: float | None = Field(ge=0, default=None)
