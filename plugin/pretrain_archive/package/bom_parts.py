"""The components of a bill of materials (CycloneDX 1.6): data, files, and what the model was made with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.source_rights import Standing, standings
from pretrain_archive.package.model_card_format import clean

Json = dict[str, Any]
UNRECORDED = "unrecorded"
PREFIX = "pretrain-archive:"
"""Of the names of our own properties."""
PINNED = re.compile(r"@sha256:([0-9a-f]{64})$")


def properties(facts: Mapping[str, Any]) -> list[Json]:
    """Facts as properties, by name; what is None or empty is printed as unrecorded."""
    return [
        {"name": PREFIX + name, "value": clean(str(value)) if value not in (None, "") else UNRECORDED}
        for name, value in sorted(facts.items())
    ]


def _sha256(digest: str) -> list[Json]:
    return [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}]


def data_components(view: RunView) -> list[Json]:
    """Every snapshot as a data set with the digest of its manifest, and what an evaluation was measured on."""
    sources = standings(view)
    found: dict[str, Json] = {}
    for _, snapshot in view.all(kinds.SnapshotCreated):
        name = f"data:{snapshot.name}@{snapshot.version}"
        facts = {
            "files": snapshot.file_count, "bytes": snapshot.total_bytes, "parent": snapshot.parent or "none",
            "derived_from": snapshot.derived_from or "none", "rule": snapshot.rule or "none", "check": snapshot.check,
        }  # fmt: skip
        found[name] = {
            "type": "data", "bom-ref": name, "name": clean(snapshot.name), "version": str(snapshot.version),
            "hashes": _sha256(snapshot.manifest_digest), "properties": properties(facts),
            "data": [{"type": "dataset", "name": clean(snapshot.name), **_governance(sources)}],
            **_licences(sources),
        }  # fmt: skip
    for _, report in view.all(kinds.EvaluationReported):
        name = f"data:evaluation:{report.data_set_digest.removeprefix('sha256:')}"
        found[name] = {
            "type": "data", "bom-ref": name, "name": clean(report.data_set), "hashes": _sha256(report.data_set_digest),
            "data": [{"type": "dataset", "name": clean(report.data_set), "description": "used to evaluate"}],
        }  # fmt: skip
    return [found[name] for name in sorted(found)]


def _governance(sources: Sequence[Standing]) -> Json:
    owners = sorted({fact.owner for s in sources if (fact := s.registered) is not None and fact.owner})
    if not owners:
        return {}
    return {"governance": {"owners": [{"contact": {"name": clean(name)}} for name in owners]}}


def _licences(sources: Sequence[Standing]) -> Json:
    """One expression where every source has one; else each by its name, and that one is unrecorded."""
    facts = [source.registered for source in sources]
    spdx = sorted({fact.licence_spdx for fact in facts if fact and fact.licence_spdx})
    if spdx and all(fact and fact.licence_spdx for fact in facts):
        text = " AND ".join(f"({t})" if " " in t and len(spdx) > 1 else t for t in spdx)
        return {"licenses": [{"expression": text}]}
    names = sorted(
        {clean((fact.licence_spdx or fact.licence) if fact else "") or UNRECORDED for fact in facts}
    )
    return {"licenses": [{"license": {"name": name}} for name in names]} if names else {}


def file_components(made: kinds.ReleaseMade) -> list[Json]:
    """Every released file with its digest."""
    return [
        {
            "type": "file", "bom-ref": f"file:{clean(file.path)}", "name": clean(file.path),
            "hashes": _sha256(file.sha256), "properties": properties({"bytes": str(file.size)}),
        }
        for file in (made.account.files if made.account else ())
    ]  # fmt: skip


def dependency_components(view: RunView, made: kinds.ReleaseMade) -> list[Json]:
    """Base model, training program, image and packages, as far as they are recorded."""
    if made.account is None:
        return []
    return list(_dependencies(view, made.account.dependencies))


def _dependencies(view: RunView, known: kinds.ReleaseDependencies) -> Iterator[Json]:
    if known.base_model:
        name = clean(known.base_model)
        yield {"type": "machine-learning-model", "bom-ref": f"base-model:{name}", "name": name}
    config = view.latest(kinds.ConfigurationDeclared)
    if config is not None:
        facts = {"code_digest": known.code_digest, "configuration_digest": config.configuration_digest}
        yield {
            "type": "application", "bom-ref": "training-program", "name": "training program",
            "version": clean(known.code_version or UNRECORDED), "properties": properties(facts),
        }  # fmt: skip
    if known.image:
        pinned = PINNED.search(known.image)
        yield {
            "type": "container", "bom-ref": f"image:{clean(known.image)}", "name": clean(known.image),
            **({"hashes": _sha256(pinned[1])} if pinned else {}),
        }  # fmt: skip
    if known.python:
        version = clean(known.python)
        yield {"type": "platform", "bom-ref": f"python@{version}", "name": "Python", "version": version}
    for name, text in sorted((known.packages or {}).items()):
        yield {
            "type": "library", "bom-ref": f"package:{clean(name)}@{clean(text)}", "name": clean(name),
            "version": clean(text), "purl": purl(name, text),
        }  # fmt: skip


def purl(name: str, version: str) -> str:
    """The package URL of a Python distribution (https://github.com/package-url/purl-spec, type pypi)."""
    normal = clean(name).lower().replace("_", "-")
    return f"pkg:pypi/{quote(normal, safe='.-')}@{quote(clean(version), safe='.-')}"
