"""A ground whose launches go to a cluster that speaks real HTTP and runs pods as processes."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bypass.ground import EXTRA, Ground
from tests.fakes.cluster import FakeCluster

from pretrain_archive.compute.kubernetes.api import KubernetesApi
from pretrain_archive.compute.kubernetes.api_open import open_kubeconfig
from pretrain_archive.compute.kubernetes.launch import KubernetesLaunch
from pretrain_archive.domain.records import Record
from pretrain_archive.gates.permit import Observed
from pretrain_archive.services.checkpoints import registrar

NAMESPACE = "training"
IMAGE = "registry.example/trainer@sha256:" + "ab" * 32


def announce(mount: Path) -> None:
    """The policy's section of a cluster whose shared volume is ``mount``."""
    values = {
        "namespace": NAMESPACE,
        "image": IMAGE,
        "claim": "shared",
        "mount_path": str(mount),
        "python": sys.executable,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    EXTRA["kubernetes"] = "\n".join(['\n[compute]\ntarget = "kubernetes"\n[compute.kubernetes]', *lines, ""])


@dataclass
class ClusterGround(Ground):
    """See the module; ``cluster`` is shared by all tries, which are told apart by what existed before."""

    cluster: Any = None
    api: Any = None

    @classmethod
    def on(cls, cluster: FakeCluster, api: KubernetesApi, **more: Any) -> ClusterGround:
        """A ground on a cluster."""
        return cls(
            target="kubernetes", cluster=cluster, api=api, clusters=lambda _: api,
            pods=lambda: [f"pod {name}" for name in cluster.ever("pods")], **more,
        )  # fmt: skip

    def open_door(self, spec: Any, intent: Record) -> None:
        """The last door before a job."""
        self.job_of(spec, intent).create()

    def job_of(self, spec: Any, intent: Record) -> KubernetesLaunch:
        """The launch of an intent."""
        caller = self.caller()
        return KubernetesLaunch(
            spec, intent=intent, cluster=self.line.policy.policy.compute.kubernetes, api=self.api, ledger=self.ledger,
            actor=caller.actor, origin=caller.origin, on_checkpoint=registrar(self.ledger, caller, self.line.view()),
            progress=caller.say,
        )  # fmt: skip

    def observed(self, code: str, environment: str) -> Observed:
        """What stands on the worker."""
        return Observed(code_digest=code, environment_digest=environment)


def open_api(cluster: FakeCluster, folder: Path) -> KubernetesApi:
    """The real client on the cluster."""
    return open_kubeconfig(cluster.kubeconfig(folder / "kubeconfig", namespace=NAMESPACE), patience=5.0)
