"""How two environments differ: every field by name, with a grade and the reason for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Grade = Literal["blocking", "warning", "info"]
_ORDER = ("blocking", "warning", "info")

CRITICAL_PACKAGES = (
    "torch", "numpy", "safetensors", "triton", "transformers", "accelerate", "deepspeed", "megatron-core",
    "tensorflow", "jax", "jaxlib", "flax", "tokenizers", "datasets", "flash-attn", "torch-npu", "xformers",
)  # fmt: skip
"""Packages that compute the numbers: another version is another experiment."""

CRITICAL_LIBRARIES = (
    "libnccl",
    "libcudart",
    "libcublas",
    "libcublasLt",
    "libcudnn",
    "libhccl",
    "libascendcl",
    "librccl",
)
"""Loaded libraries that compute or exchange the numbers."""

RULES: Mapping[str, tuple[Grade | None, str]] = {
    "python.version": (None, "another minor version is another interpreter, a patch release is not"),
    "python.implementation": ("blocking", "another interpreter"),
    "platform.system": ("blocking", "another operating system"),
    "platform.machine": ("blocking", "another instruction set rounds otherwise"),
    "platform.release": ("info", "the kernel does not compute"),
    "platform.libc": ("warning", "mathematical functions may differ in the last bit"),
    "cpu.model": ("info", "placement"),
    "cpu.count": ("info", "placement"),
    "cpu.usable": ("warning", "the order of parallel sums may differ"),
    "limits.cpus": ("info", "less CPU is slower, not another result"),
    "limits.memory_bytes": ("info", "less memory fails or does not"),
    "container.os": ("warning", "another base image"),
    "git.commit": ("blocking", "another code"),
    "git.dirty": ("warning", "code beside the commit"),
    "git.diff_digest": ("warning", "another edit of the code"),
    "image": ("blocking", "another image"),
    "memory_bytes": ("info", "placement"),
    "node": ("info", "placement"),
    "stack.driver": ("warning", "kernels of the driver's compiler may differ"),
    "stack.cuda": ("blocking", "another runtime chooses other kernels"),
    "stack.torch_cuda": ("blocking", "the framework was built for another runtime"),
    "stack.rocm": ("blocking", "the framework was built for another runtime"),
    "stack.cudnn": ("blocking", "other kernels"),
    "stack.cublas": ("blocking", "other kernels"),
    "stack.nccl": ("blocking", "another order of sums, or a job that hangs"),
    "stack.cann": ("blocking", "another runtime chooses other kernels"),
    "stack.hccl": ("blocking", "another order of sums, or a job that hangs"),
    "topology.numa": ("info", "placement"),
    "topology.infiniband": ("warning", "another fabric: other speed, other algorithms of the collectives"),
    "topology.network": ("info", "names and speeds of interfaces belong to the place"),
}
"""Field → grade of a difference and why. A grade None is decided by the values."""

_DEVICE: Mapping[str, tuple[Grade, str]] = {
    "name": ("blocking", "another accelerator"),
    "driver": ("warning", "kernels of the driver's compiler may differ"),
    "memory_mib": ("warning", "another size or partition"),
    "uuid": ("info", "placement"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A field that is not as declared. ``declared`` or ``observed`` None means unrecorded there, or absent."""

    field: str
    declared: Any
    observed: Any
    grade: Grade
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The difference as plain JSON."""
        return {
            "field": self.field,
            "declared": self.declared,
            "observed": self.observed,
            "grade": self.grade,
            "reason": self.reason,
        }


def compare_environments(declared: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """Name and grade every difference, blocking ones first.

    What is unrecorded in ``declared`` is nothing that could have been broken: at most ``info``. What is unrecorded
    in ``observed`` cannot be proved: at most ``warning``. Loaded libraries are compared where both sides name them.
    """
    found = [
        *(
            d
            for name, (grade, reason) in RULES.items()
            for d in _rule(name, grade, reason, declared, observed)
        ),
        *_packages(declared.get("packages"), observed.get("packages")),
        *_accelerators(declared.get("accelerators"), observed.get("accelerators")),
        *_variables(declared.get("variables"), observed.get("variables")),
        *_links(_of(declared, "topology.links"), _of(observed, "topology.links")),
        *_libraries(declared.get("libraries"), observed.get("libraries")),
    ]
    return sorted(found, key=lambda d: (_ORDER.index(d.grade), d.field))


def blocking_drift(differences: Iterable[Mapping[str, Any] | Difference]) -> tuple[str, ...]:
    """Fields that differ so that what runs is not what was signed, by name, each once."""
    plain = (d.to_dict() if isinstance(d, Difference) else d for d in differences)
    return tuple(dict.fromkeys(str(d.get("field")) for d in plain if d.get("grade") == "blocking"))


def _of(environment: Mapping[str, Any], path: str) -> Any:
    """A field by its path; None where it, or what holds it, is not there."""
    inner: Any = environment
    for name in path.split("."):
        inner = inner.get(name) if isinstance(inner, Mapping) else None
    return inner


def _graded(field: str, left: Any, right: Any, grade: Grade, reason: str) -> Iterator[Difference]:
    if left == right:
        return
    if left is None:
        grade, reason = "info", "unrecorded before"
    elif right is None and grade == "blocking":
        grade, reason = "warning", "unrecorded now"
    yield Difference(field=field, declared=left, observed=right, grade=grade, reason=reason)


def _rule(
    name: str, grade: Grade | None, reason: str, declared: Mapping[str, Any], observed: Mapping[str, Any]
) -> Iterator[Difference]:
    left, right = _of(declared, name), _of(observed, name)
    group, _, key = name.partition(".")
    if group in _NEWER and key not in (declared.get(group) or {}):
        return  # nobody looked (an earlier release), or it is no part of what is declared: nothing to differ from
    yield from _graded(name, left, right, grade or _version_grade(left, right), reason)


_NEWER = ("limits", "container", "stack", "topology")


def _version_grade(left: Any, right: Any) -> Grade:
    """Another minor version of Python is another interpreter; a patch release is not."""
    return "warning" if str(left).split(".")[:2] == str(right).split(".")[:2] else "blocking"


def _packages(declared: Any, observed: Any) -> Iterator[Difference]:
    if declared is None or observed is None:
        left, right = declared and len(declared), observed and len(observed)
        yield from _graded("packages", left, right, "warning", "unrecorded now")
        return
    for name in sorted({*declared, *observed}):
        left, right = declared.get(name), observed.get(name)
        critical = name in CRITICAL_PACKAGES or name.startswith("nvidia-")
        grade: Grade = "blocking" if critical else "info" if left is None else "warning"
        reason = "computes the numbers" if critical else "one more" if left is None else "another version"
        if left != right:
            yield Difference(
                field=f"packages.{name}", declared=left, observed=right, grade=grade, reason=reason
            )


def _accelerators(declared: Any, observed: Any) -> Iterator[Difference]:
    left, right = (None if side is None else len(side) for side in (declared, observed))
    yield from _graded("accelerators.count", left, right, "blocking", "another number of accelerators")
    for index, (a, b) in enumerate(zip(declared or (), observed or (), strict=False)):
        for name, (grade, reason) in _DEVICE.items():
            yield from _graded(f"accelerators.{index}.{name}", a.get(name), b.get(name), grade, reason)


def _variables(declared: Any, observed: Any) -> Iterator[Difference]:
    left, right = declared or {}, observed or {}
    for name in sorted({*left, *right}):
        if left.get(name) != right.get(name):
            grade: Grade = "info" if declared is None else "warning"
            yield Difference(
                field=f"variables.{name}", declared=left.get(name), observed=right.get(name), grade=grade,
                reason="unrecorded before" if declared is None else "a variable that may steer the program",
            )  # fmt: skip


def _links(declared: Any, observed: Any) -> Iterator[Difference]:
    """How accelerators reach each other; only where both sides know it."""
    if not declared or not observed:
        return
    for device in sorted({*declared, *observed}):
        left, right = declared.get(device), observed.get(device)
        yield from _graded(
            f"topology.links.{device}", left, right, "warning",
            "other links: other speed and other order of the collectives",
        )  # fmt: skip


def _libraries(declared: Any, observed: Any) -> Iterator[Difference]:
    if not declared or not observed:
        return
    for name in CRITICAL_LIBRARIES:
        left, right = declared.get(name), observed.get(name)
        if left is not None and right is not None:
            yield from _graded(
                f"libraries.{name}", left, right, "blocking", "computes or exchanges the numbers"
            )
