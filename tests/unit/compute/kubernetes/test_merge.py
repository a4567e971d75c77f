"""A policy's pod template goes into ours, and what it may not say is refused by name."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.compute.kubernetes.objects import TOKEN, cluster, spec

from pretrain_archive.compute.kubernetes.manifest import build_objects
from pretrain_archive.compute.kubernetes.manifest_merge import FIXED_CONTAINER, FIXED_POD, merge
from pretrain_archive.domain.errors import InputError

NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS = st.one_of(st.booleans(), st.integers(), st.text(max_size=5))
NAMED = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES}, optional={"value": SCALARS, "more": st.dictionaries(NAMES, SCALARS)}
    ),
    max_size=4,
    unique_by=lambda item: item["name"],
)
TREES = st.recursive(
    st.one_of(SCALARS, NAMED), lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(NAMES, TREES, max_size=4)


def spoil(node: Any) -> None:
    """Empty every object and list of a tree, from the leaves on."""
    if isinstance(node, dict | list):
        for child in list(node.values()) if isinstance(node, dict) else list(node):
            spoil(child)
        node.clear()


@given(left=OBJECTS, right=OBJECTS)
def test_a_merge_keeps_both_and_changes_neither(left: dict[str, Any], right: dict[str, Any]):
    """Every key of both is there, and neither input is touched, also by a later change of the result."""
    before = copy.deepcopy((left, right))
    merged = merge(left, right)

    assert set(left) | set(right) == set(merged)
    spoil(merged)
    assert before == (left, right)


@given(left=OBJECTS, right=OBJECTS)
def test_merging_twice_is_merging_once(left: dict[str, Any], right: dict[str, Any]):
    """A template that is in already changes nothing."""
    once = merge(left, right)

    assert once == merge(once, right)


@given(tree=OBJECTS)
def test_an_empty_template_changes_nothing(tree: dict[str, Any]):
    """Neither side matters where the other is empty."""
    assert tree == merge(tree, {})
    assert tree == merge({}, tree)


@given(left=NAMED, right=NAMED)
def test_named_lists_are_merged_by_name(left: list[dict[str, Any]], right: list[dict[str, Any]]):
    """Each name stands once, in the order of its first appearance, with the template's value."""
    merged = merge({"env": left}, {"env": right})["env"]
    names = list(dict.fromkeys(item["name"] for item in [*left, *right]))
    last = {item["name"]: item["value"] for item in [*left, *right] if "value" in item}

    assert names == [item["name"] for item in merged]
    assert last == {item["name"]: item["value"] for item in merged if "value" in item}


def built(template: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The pod's specification under a template."""
    objects = build_objects(spec(**changes), cluster(template=template), token_digest=TOKEN)
    found: dict[str, Any] = objects.job["spec"]["template"]
    return found


def test_a_template_adds_what_a_cluster_needs():
    """Selectors, tolerations, volumes, mounts, open variables, secrets by reference, init containers, labels."""
    secret = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    template = built(
        {
            "metadata": {"labels": {"team": "nlp"}, "annotations": {"note": "x"}},
            "spec": {
                "nodeSelector": {"pool": "gpu"},
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "imagePullSecrets": [{"name": "registry"}],
                "volumes": [{"name": "cache", "emptyDir": {}}],
                "initContainers": [{"name": "side", "image": "side:1", "restartPolicy": "Always"}],
                "containers": [
                    {
                        "name": "train",
                        "env": [{"name": "NCCL_IB_HCA", "value": "mlx5"}, secret],
                        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
                        "securityContext": {"runAsNonRoot": True},
                        "resources": {"limits": {"ephemeral-storage": "10Gi"}},
                    }
                ],
            },
        }
    )
    [main] = template["spec"]["containers"]

    assert {"team": "nlp"}.items() <= template["metadata"]["labels"].items()
    assert ["archive", "shared-memory", "cache"] == [v["name"] for v in template["spec"]["volumes"]]
    assert ["/shared", "/dev/shm", "/cache"] == [m["mountPath"] for m in main["volumeMounts"]]
    assert secret in main["env"]
    assert "wrapper.py" in main["command"][2]
    assert {"ephemeral-storage": "10Gi"} == main["resources"]["limits"]


TRAIN = "spec.containers[train]"


def inside(**fields: Any) -> dict[str, Any]:
    """A template that sets fields of our container."""
    return {"spec": {"containers": [{"name": "train", **fields}]}}


REFUSED = [
    *(pytest.param({"spec": {name: "x"}}, f"spec.{name}", id=name) for name in FIXED_POD),
    *(
        pytest.param(inside(**{name: "x"}), f"{TRAIN}.{name}", id=f"container {name}")
        for name in FIXED_CONTAINER
    ),
    *(
        pytest.param(inside(env=[{"name": name, "value": "x"}]), f"{TRAIN}.env.{name}", id=name)
        for name in ("PRETRAIN_ARCHIVE_RUN_UID", "PET_NNODES", "MASTER_ADDR", "JOB_COMPLETION_INDEX")
    ),
    pytest.param(
        inside(env=[{"name": "HF_TOKEN", "value": "hf_secret"}]),
        f"{TRAIN}.env.HF_TOKEN",
        id="a secret's value",
    ),
    pytest.param(
        {"spec": {"initContainers": [{"name": "i", "env": [{"name": "TOKEN", "value": "s3cret"}]}]}},
        "spec.initContainers[i].env.TOKEN",
        id="a secret's value in an init container",
    ),
    pytest.param(
        {"spec": {"containers": [{"name": "side"}]}}, "spec.containers[side]", id="second container"
    ),
    pytest.param(
        {"spec": {"containers": [{"image": "x"}]}}, "spec.containers[0]", id="container without name"
    ),
    pytest.param(
        {"metadata": {"labels": {"pretrain-archive/run": "x"}}},
        "metadata.labels.pretrain-archive/run",
        id="our label",
    ),
    pytest.param(
        {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}},
        "metadata.labels.kueue.x-k8s.io/queue-name",
        id="queue",
    ),
    pytest.param(
        {"metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": "7"}}},
        "metadata.annotations.batch.kubernetes.io/job-completion-index",
        id="index",
    ),
    pytest.param({"metadata": {"name": "x"}}, "metadata.name", id="name"),
    pytest.param({"metadata": {"labels": ["x"]}}, "metadata.labels", id="labels as a list"),
    pytest.param({"spec": ["x"]}, "spec", id="specification as a list"),
    pytest.param({"status": {}}, "status", id="not a template"),
    pytest.param(
        inside(resources={"limits": {"nvidia.com/gpu": "64"}}),
        "spec.containers.resources",
        id="more accelerators",
    ),
]


@pytest.mark.parametrize(("template", "field"), REFUSED)
def test_what_a_template_may_not_say(template: dict[str, Any], field: str):
    """The field is named; no value of a variable is repeated."""
    with pytest.raises(InputError) as caught:
        built(template)

    assert f"compute.kubernetes.template.{field}:" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "hf_secret" not in str(caught.value)


def test_a_variable_that_the_policy_allows_may_be_written():
    """What may be recorded may stand in a template."""
    template = built(
        inside(env=[{"name": "LANGUAGE_SET", "value": "de"}]), allowed_variables=("LANGUAGE_SET",)
    )

    assert {"name": "LANGUAGE_SET", "value": "de"} in template["spec"]["containers"][0]["env"]
