"""Reach a policy's cluster without Airflow: the command line names a kubeconfig instead of a connection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pretrain_archive.services.launch_bench import ClusterOf

if TYPE_CHECKING:
    from pretrain_archive.compute.kubernetes.api import ClusterApi
    from pretrain_archive.domain.policy_compute import Kubernetes


def from_kubeconfig(path: Path | None = None, *, context: str | None = None) -> ClusterOf:
    """Every policy's cluster is that of this kubeconfig (by default the user's own)."""

    def open_cluster(_cluster: Kubernetes) -> ClusterApi:
        from pretrain_archive.compute.kubernetes.api_open import open_kubeconfig  # noqa: PLC0415 (heavy)

        return open_kubeconfig(path, context=context)

    return open_cluster
