"""What a launch is signed for, measured again right before it: code and environment, on either target.

On a cluster the worker does not see what will run: signed is the image by its digest, and what the policy says of
the cluster. What is only known inside a pod stays out of the declared environment and is unrecorded there; attempts
are compared with each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pretrain_archive.compute.environment import declare_environment
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.kinds import ConfigurationDeclared, EnvironmentDeclared
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.policy_compute import Kubernetes
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.permit import Observed
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.services.code import Code, read_code, resolve_command
from pretrain_archive.services.launch_bench import cluster_of

IN_IMAGE = "image:"
"""Stands for the files of a program that no worker sees, since the image holds them: their digest is the image's."""

_PINNED = re.compile(r"[^\s@]+@(sha256:[0-9a-f]{64})", re.ASCII)
_BOUND = (
    "connection", "namespace", "service_account", "object_kind", "runtime", "claim", "mount_path", "python",
    "accelerators_per_node", "cpu", "memory", "queue", "workload_priority", "priority_class",
    "grace_seconds", "shared_memory", "train_job_patches",
)  # fmt: skip


def image_digest(image: str) -> str | None:
    """The digest that pins an image; None for a tag, which can be moved."""
    found = _PINNED.fullmatch(image.strip())
    return found[1] if found else None


def program_of(policy: Policy, command: Sequence[str], *, field: str) -> tuple[list[str], Code]:
    """A command as it will be started where the policy launches, and the files that it runs.

    On a cluster ``{python}`` is the image's interpreter, and a program that does not lie on the shared volume is
    the image's own.
    """
    cluster = cluster_of(policy)
    if cluster is None:
        words = resolve_command(command, field=field)
        return words, read_code(words)
    words = [cluster.python if word == "{python}" else word for word in command]
    if cluster.mount_path:
        for word in words:
            if word.startswith(f"{cluster.mount_path.rstrip('/')}/") and not Path(word).exists():
                raise InputError(field, word, "no such file on the shared volume", hint="Mend the path.")
    return words, code_of(words, cluster)


def code_of(words: Sequence[str], cluster: Kubernetes | None) -> Code:
    """The files of a program; of one that only the image holds, the image's digest stands for them."""
    if cluster is None:
        return read_code(words)
    below = tuple(word for word in words[1:] if _shared(word, cluster))
    if below:
        return read_code(words)
    pinned = image_digest(cluster.image)
    return Code(folder=Path(cluster.mount_path or "/"), files={IN_IMAGE: pinned} if pinned else {})


def _shared(word: str, cluster: Kubernetes) -> bool:
    return bool(cluster.mount_path) and Path(word).is_relative_to(cluster.mount_path) and Path(word).is_file()


def in_image(code: Code) -> bool:
    """Whether the program lies in the image and nowhere else."""
    return IN_IMAGE in code.files


def environment_of(policy: Policy, words: Sequence[str], code: Code) -> EnvironmentDeclared:
    """The environment that a launch under ``policy`` is signed for."""
    cluster = cluster_of(policy)
    if cluster is None:
        return declare_environment(list(words), policy.environment.allowed_variables, code.folder)
    said = cluster.model_dump(mode="json")
    facts = {
        "image": cluster.image,
        "target": "kubernetes",
        "kubernetes": {name: said[name] for name in _BOUND}
        | {"template_digest": digest_of(cluster.template)},
    }
    return EnvironmentDeclared(environment=facts, environment_digest=digest_of(facts), image=cluster.image)


def observed_now(view: RunView, policy: Policy) -> tuple[Observed, Code]:
    """Code and environment of the run, measured now; ``policy`` is the one that stands now."""
    config = config_of(view)
    code = code_of(config.command, cluster_of(policy))
    environment = environment_of(policy, config.command, code)
    return Observed(code_digest=code.digest, environment_digest=environment.environment_digest), code


def image_faults(view: RunView, policy: Policy, *, pinned: bool = True) -> list[str]:
    """Why the image that stands in the policy now is not the one that was signed; none on this machine.

    ``pinned`` False lets an image go by its tag, which only an exploration may.
    """
    cluster, declared = cluster_of(policy), view.latest(EnvironmentDeclared)
    if cluster is None:
        return []
    faults: list[str] = []
    if pinned and image_digest(cluster.image) is None:
        faults.append(f"the image {cluster.image or '(none)'} is not pinned by digest (name@sha256:…)")
    if declared is not None and declared.image != cluster.image:
        faults.append(f"the image changed after it was signed: {declared.image} is now {cluster.image}")
    return faults


def require_image(policy: Policy, *, pinned: bool) -> None:
    """Refuse a run whose image could be changed under its signature: the earliest place to say so."""
    cluster = cluster_of(policy)
    if cluster is not None and (
        not cluster.image.strip() or (pinned and image_digest(cluster.image) is None)
    ):
        raise InputError(
            "compute.kubernetes.image", cluster.image, "is not pinned by digest",
            hint="Write it into the policy as name@sha256:…: a tag can be moved after the sign-off.",
        )  # fmt: skip


def config_of(view: RunView) -> ConfigurationDeclared:
    """The configuration that the run is bound to."""
    config = view.latest(ConfigurationDeclared)
    if config is None:
        raise RefusedError("no launch", reasons=("the configuration is unrecorded",))
    return config
