"""A cluster from a kubeconfig: what is wrong with the file is said before anything is asked of the cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pretrain_archive.compute.kubernetes.api import KubernetesApi
from pretrain_archive.compute.kubernetes.api_errors import Answer
from pretrain_archive.domain.errors import ArchiveError, InputError

FIELD = "kubeconfig"


def open_kubeconfig(path: Path | None = None, *, context: str | None = None, **options: Any) -> KubernetesApi:
    """The cluster of a kubeconfig (by default that of ``KUBECONFIG``, or ``~/.kube/config``).

    Raises ``InputError`` naming field, value and remedy for a file that is missing or no kubeconfig, an unknown
    context, a host that cannot be reached and a certificate that is not trusted. ``options`` are those of
    :class:`KubernetesApi`.
    """
    from kubernetes import client, config  # type: ignore[import-untyped]  # noqa: PLC0415 (heavy)

    chosen = path or _default()
    _check_file(chosen)
    configuration = client.Configuration()
    configuration.retries = 0
    try:
        config.load_kube_config(
            str(chosen), context=context, client_configuration=configuration, persist_config=False
        )
    except config.ConfigException as error:
        raise _unusable(chosen, context, error) from error
    except Exception as error:  # the loader raises whatever the file's content leads it to
        raise InputError(
            FIELD, str(chosen), f"cannot be read: {type(error).__name__}: {_one_line(error)}",
            hint="Write it anew, for example with: kubectl config view --raw --flatten",
        ) from error  # fmt: skip
    api = KubernetesApi(client.ApiClient(configuration), **options)
    check_reachable(api, field=FIELD, value=str(chosen))
    return api


def check_reachable(api: KubernetesApi, *, field: str, value: str) -> None:
    """Ask once who is there; ``InputError`` if nobody is."""
    answer: Answer = api._once("GET", "/version", [], None, "application/json")  # noqa: SLF001 (its other half)
    if answer.status == 0:
        raise InputError(
            field, value, f"its cluster at {api.server} cannot be reached: {answer.problem}",
            hint="Check the server's address, the network, and certificate-authority; then try again.",
        )  # fmt: skip


def _default() -> Path:
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(named).expanduser() if named else Path.home() / ".kube" / "config"


def _check_file(path: Path) -> None:
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "there is no such file"
        raise InputError(FIELD, str(path), problem, hint="Name a kubeconfig file, or set KUBECONFIG.")
    if not os.access(path, os.R_OK):
        raise InputError(FIELD, str(path), "may not be read", hint="Give this user the right to read it.")


def _unusable(path: Path, context: str | None, error: Exception) -> ArchiveError:
    said = _one_line(error)
    if context is not None and context in said:
        return InputError(
            "context", context, f"there is none in {path}", hint="See: kubectl config get-contexts"
        )
    return InputError(
        FIELD, str(path), f"is no usable kubeconfig: {said}",
        hint="It needs clusters, users, contexts and a current-context; see: kubectl config view",
    )  # fmt: skip


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")
