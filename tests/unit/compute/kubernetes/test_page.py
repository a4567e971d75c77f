"""The page about clusters says what the code does: role, policy, reasons and classes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import yaml

from pretrain_archive.compute.kubernetes.api_places import CALLS
from pretrain_archive.compute.kubernetes.exits import RETRIED, UNCOUNTED
from pretrain_archive.compute.kubernetes.manifest_request import VENDORS
from pretrain_archive.domain.kinds.cluster import ExitClass, WaitReason
from pretrain_archive.domain.policy_compute import Compute, Kubernetes

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "kubernetes.md").read_text()


def blocks(language: str) -> list[str]:
    """The page's blocks of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def rows(title: str) -> dict[str, list[str]]:
    """The table below a heading, by its first cell; a cell may name several things."""
    part = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    found: dict[str, list[str]] = {}
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for name in re.findall(r"`([^`]+)`", cells[0]) if line.startswith("| `") else []:
            found[name] = cells[1:]
    return found


def test_the_role_covers_exactly_the_calls():
    """A cluster's administrator grants what is asked for, and nothing more."""
    documents: list[dict[str, Any]] = [doc for block in blocks("yaml") for doc in yaml.safe_load_all(block)]
    [role] = [doc for doc in documents if doc["kind"] == "Role"]
    granted = {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }

    assert {(group, resource): set(verbs) for group, resource, verbs in CALLS} == granted
    [binding] = [doc for doc in documents if doc["kind"] == "RoleBinding"]
    assert role["metadata"]["name"] == binding["roleRef"]["name"]


def test_every_key_of_the_policy_is_explained():
    """The table names each key of the section and none that is not there."""
    assert set(Kubernetes.model_fields) == set(rows("The policy"))


def test_the_example_is_a_policy():
    """The section on the page is read by the policy's own model."""
    [text] = blocks("toml")
    compute = Compute.model_validate(tomllib.loads(text)["compute"])

    assert ("kubernetes", "/shared") == (compute.target, compute.kubernetes.mount_path)


def test_every_wait_reason_is_explained():
    """Nobody reads a reason that the page does not know."""
    assert set(get_args(WaitReason)) == set(rows("Why a launch waits"))


def test_every_exit_class_is_explained():
    """The table tells of each class whether it counts and is tried again, as the code does."""
    table = rows("How a member ended")

    assert set(get_args(ExitClass)) == set(table)
    for name, (_, counts, again) in table.items():
        assert ("no" if name in UNCOUNTED else "yes") == counts, name
        if name != "requeued":
            assert ("yes" if name in RETRIED else "no") == again, name


def test_every_vendor_is_named():
    """The short names of accelerators stand on the page."""
    for name in VENDORS:
        assert f"`{name}`" in PAGE
