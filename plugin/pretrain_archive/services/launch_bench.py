"""What a launch works with besides the ledger, and on which target it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.policy import LoadedPolicy, Policy
from pretrain_archive.domain.policy_compute import Kubernetes
from pretrain_archive.storage.port import ObjectStore

if TYPE_CHECKING:
    from pretrain_archive.compute.kubernetes.api import ClusterApi

ClusterOf = Callable[[Kubernetes], "ClusterApi"]
"""Opens the cluster that a policy names; raises an ``ArchiveError`` that names the connection if it cannot."""


def no_cluster(cluster: Kubernetes) -> ClusterApi:
    """What a caller that brings no cluster answers."""
    raise RefusedError(
        f"this caller cannot reach the cluster of connection {cluster.connection!r}",
        hint="Run the task in Airflow, or name a kubeconfig.",
    )


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Store, policies by project, folder with a folder per run, and how a cluster is reached."""

    store: ObjectStore
    policies: Callable[[str], LoadedPolicy]
    runs_folder: Path
    clusters: ClusterOf = no_cluster


def cluster_of(policy: Policy, asked: str | None = None) -> Kubernetes | None:
    """The cluster that the policy launches on, None for this machine.

    ``asked`` is the operator's own argument: it may confirm the policy and never change it.
    """
    target = policy.compute.target
    if asked is not None and asked != target:
        raise InputError(
            "target", asked, f"the policy of project {policy.project} launches on {target!r}",
            hint="Leave the argument out, or change [compute] target in the policy and trigger a new run.",
        )  # fmt: skip
    return policy.compute.kubernetes if target == "kubernetes" else None


def require_shared(cluster: Kubernetes, places: dict[str, Path]) -> None:
    """Refuse a launch whose evidence would not travel: worker and pods see the same files below one path only."""
    if not cluster.mount_path:
        raise RefusedError(
            "no launch: [compute.kubernetes] mount_path is empty",
            hint="Name the path at which workers and pods mount the shared volume.",
        )
    root = Path(cluster.mount_path).resolve()
    outside = tuple(
        f"{name} {path} is not below {root}"
        for name, path in places.items()
        if not path.resolve().is_relative_to(root)
    )
    if outside:
        raise RefusedError(
            "no launch: worker and pods would not see the same files", reasons=outside,
            hint="Put [pretrain_archive] work_folder and the program below [compute.kubernetes] mount_path.",
        )  # fmt: skip
