"""What of a cluster a launch is signed for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.main_line import line_policy_text

from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.domain.policy_compute import Kubernetes
from pretrain_archive.services.code import Code
from pretrain_archive.services.launch_inputs import environment_of

OTHER: dict[str, Any] = {
    "connection": "other", "namespace": "other", "service_account": "other", "image": "other@sha256:" + "c" * 64,
    "object_kind": "TrainJob", "runtime": "other", "claim": "other", "mount_path": "/other", "python": "other",
    "accelerators_per_node": 3, "cpu": "3", "memory": "3Gi", "queue": "other", "workload_priority": "other",
    "priority_class": "other", "template": {"spec": {"nodeSelector": {"a": "b"}}}, "grace_seconds": 3,
    "shared_memory": "3Gi", "train_job_patches": "podTemplateOverrides",
}  # fmt: skip
UNSIGNED = {"start_minutes", "keep_hours"}
"""How long is waited, and how long a job that ended is kept: no part of what runs."""


def digest(**changes: Any) -> str:
    """The digest that is signed under a policy with these settings of the cluster."""
    policy = parse_policy(
        line_policy_text('[compute]\ntarget = "kubernetes"\n').encode(), name="line.toml"
    ).policy
    compute = policy.compute.model_copy(update={"kubernetes": Kubernetes(**changes)})
    whole = policy.model_copy(update={"compute": compute})
    return environment_of(whole, ["python3"], Code(folder=None, files={})).environment_digest  # type: ignore[arg-type]


@pytest.mark.parametrize("field", sorted(OTHER))
def test_what_runs_is_signed(field: str) -> None:
    """Another value of whatever shapes the job is another environment: the signature is stale."""
    assert digest() != digest(**{field: OTHER[field]})


def test_every_setting_is_signed_or_named() -> None:
    """A new setting of a cluster has to be decided upon."""
    assert set(Kubernetes.model_fields) == set(OTHER) | UNSIGNED
