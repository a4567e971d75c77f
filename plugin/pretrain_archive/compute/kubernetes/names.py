"""Names and labels that Kubernetes accepts, derived from the launch alone: the same launch has the same name.

Limits (RFC 1123 labels as Kubernetes applies them): an object's name and a label's value have 63 characters at
most. The pods of an Indexed Job get ``<job>-<index>`` as hostname, which is a label too, and a TrainJob's pods get
``<job>-node-0-<index>-<five characters>`` as name.
"""

from __future__ import annotations

import hashlib
import re

from pretrain_archive.domain.errors import InputError

RUN_LABEL = "pretrain-archive/run"
ATTEMPT_LABEL = "pretrain-archive/attempt"
TOKEN_LABEL = "pretrain-archive/token"  # noqa: S105 (a label's name)
SCOPE_LABEL = "pretrain-archive/scope"

LONGEST = 63
MOST_MEMBERS = 4096
"""As many indices as the wrapper takes."""
TRAIN_JOB_TAIL = len("-node-0--") + 5
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)


def job_name(run_uid: str, attempt: int, token_digest: str) -> str:
    """The name of the one job of this launch: readable parts, and a digest over run, attempt and token."""
    whole = f"{run_uid}\n{attempt}\n{token_digest}"
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    tail = re.sub(r"[^a-z0-9]", "", run_uid.lower())[-12:]
    return "-".join(part for part in ("pa", tail, f"a{attempt}", digest) if part)


def pod_hostname(name: str, index: int) -> str:
    """The hostname of the pod with this index in an Indexed Job."""
    return f"{name}-{index}"


def check_lengths(name: str, *, nodes: int, train_job: bool) -> None:
    """Raise ``InputError`` if a pod of this job would have no legal name or no index."""
    if nodes > MOST_MEMBERS:
        raise InputError("nodes", nodes, f"at most {MOST_MEMBERS} are possible", hint="Ask for fewer nodes.")
    last = nodes - 1
    longest = len(name) + TRAIN_JOB_TAIL + len(str(last)) if train_job else len(pod_hostname(name, last))
    if longest > LONGEST:
        raise InputError(
            "nodes", nodes, f"the pods of job {name} would have names of {longest} characters",
            hint=f"Kubernetes allows {LONGEST}: ask for fewer nodes.",
        )  # fmt: skip


def label_value(text: str) -> str:
    """``text`` as a label's value: itself where it is legal, else its legal characters and a digest of it."""
    if len(text) <= LONGEST and _LABEL.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    kept = re.sub(r"[^A-Za-z0-9_.-]", "-", text)[: LONGEST - 17].strip("-_.")
    return f"{kept}-{digest}" if kept else digest


def token_label(token_digest: str) -> str:
    """A token's digest as a label's value: the first forty hexadecimal digits (160 bits tell tokens apart)."""
    return label_value(token_digest.removeprefix("sha256:")[:40])
