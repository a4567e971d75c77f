"""Reach a policy's cluster through an Airflow connection of type kubernetes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from pretrain_archive.domain.errors import InputError

if TYPE_CHECKING:
    from pretrain_archive.compute.kubernetes.api import KubernetesApi
    from pretrain_archive.domain.policy_compute import Kubernetes
    from pretrain_archive.services.launch_bench import Bench
    from pretrain_archive.storage.port import ObjectStore

FIELD = "compute.kubernetes.connection"


def open_cluster(cluster: Kubernetes, *, patience: float = 30.0) -> KubernetesApi:
    """The cluster of the policy's connection; raises ``InputError`` naming the connection and what is wrong.

    Nothing is asked of the cluster yet. ``patience`` bounds the tries of one call, in seconds. Called in a task, or
    in a thread of the triggerer.
    """
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook  # noqa: PLC0415 (heavy)

    from pretrain_archive.compute.kubernetes.api import KubernetesApi  # noqa: PLC0415

    try:
        client = KubernetesHook(conn_id=cluster.connection).get_conn()
    except Exception as error:  # the hook and the client's loader raise whatever the connection leads them to
        raise InputError(
            FIELD, cluster.connection, f"cannot be used: {type(error).__name__}: {_one_line(error)}",
            hint="Mend the connection (type kubernetes): its kubeconfig, its path, or in-cluster.",
        ) from error  # fmt: skip
    return KubernetesApi(client, patience=patience)


def connect(connection: str) -> AbstractAsyncContextManager[Any]:
    """The asynchronous client of a connection, for the triggerer."""
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import AsyncKubernetesHook  # noqa: PLC0415 (heavy)

    client: AbstractAsyncContextManager[Any] = AsyncKubernetesHook(conn_id=connection).get_conn()
    return client


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")


def launch_bench(store: ObjectStore | None = None) -> Bench:
    """What a launch works with, from the settings; clusters are reached through their policy's connection."""
    from pretrain_archive.services.launch_bench import Bench  # noqa: PLC0415 (heavy)
    from pretrain_archive.services.wiring import open_store, policy, runs_folder  # noqa: PLC0415

    return Bench(
        store=store or open_store(), policies=policy, runs_folder=runs_folder(), clusters=open_cluster
    )
