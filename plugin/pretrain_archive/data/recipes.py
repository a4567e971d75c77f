"""Snapshots of which nothing is kept but how to make them again: source, rules, and every digest (R053, R054).

The recipe is a document in the store: the source's id, address and patterns, the digest of its manifest, the rules
in order, the digest of the manifest that must come out, and what the policy says about rebuilding. The manifests are
kept; of the content nothing is.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter

from pretrain_archive.data import layout
from pretrain_archive.data.hashing import Progress
from pretrain_archive.data.overlay import Overlay
from pretrain_archive.data.processing.versions import publish
from pretrain_archive.data.snapshots import create_snapshot, manifest_key, open_manifest, snapshot_ref
from pretrain_archive.data.tree import Tree
from pretrain_archive.domain.errors import ArchiveError, RefusedError
from pretrain_archive.domain.identity import Ref, parse_time
from pretrain_archive.domain.kinds import RuleDeclared, SnapshotCreated
from pretrain_archive.domain.processing import INTERPRETERS, RecipeRights, Step
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.canonical import canonical_bytes, digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/recipe/1"
_STEP: TypeAdapter[Any] = TypeAdapter(Step)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to make a snapshot again. ``rights`` is None where no policy said anything about rebuilding."""

    source_id: str | None
    source_uri: str
    include: list[str]
    exclude: list[str]
    source_digest: str
    rules: list[dict[str, Any]] = field(default_factory=list)
    manifest_digest: str
    rights: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The recipe as the document that is stored."""
        return {"format": FORMAT, **asdict(self)}

    def steps(self) -> list[Any]:
        """The rules as steps that can be applied; ``ArchiveError`` if this release carries them out differently."""
        made = []
        for value in self.rules:
            rule = RuleDeclared.model_validate(value)
            if INTERPRETERS.get(rule.kind) != rule.interpreter:
                raise ArchiveError(
                    f"rule {rule.name} v{rule.version} was carried out by {rule.interpreter!r}, this release has "
                    f"{INTERPRETERS.get(rule.kind)!r}.",
                    hint="Rebuild with the release that made the snapshot.",
                )
            stated = {"name": rule.name, "version": rule.version, "kind": rule.kind}
            made.append(
                _STEP.validate_python(rule.parameters | stated | {"effective_from": rule.effective_from})
            )
        return made


def create_recipe(
    store: ObjectStore, ledger: Ledger | None, *, name: str, tree: Tree, actor: Actor, origin: Origin,
    rights: RecipeRights | None, source_uri: str, stream: str = "", include: Sequence[str] = (),
    exclude: Sequence[str] = (), source_id: str | None = None, progress: Progress | None = None,
) -> SnapshotCreated:  # fmt: skip
    """Read and hash the source as any snapshot does, and keep manifest and recipe of it.

    Raises as :func:`snapshots.create_snapshot`; then no version exists.
    """
    layout.check_name(name)
    with tempfile.TemporaryDirectory(prefix="recipe-") as folder:
        apart = Overlay(store, Path(folder), apart=True)
        read = create_snapshot(
            apart, None, name=name, source_root=tree, mode="reference", actor=actor, origin=origin,
            include=include, exclude=exclude, source_id=source_id, source_uri=source_uri, progress=progress,
        )  # fmt: skip
        recipe = Recipe(
            source_id=source_id, source_uri=source_uri, include=list(include), exclude=list(exclude),
            source_digest=read.manifest_digest, manifest_digest=read.manifest_digest,
            rights=None if rights is None else rights.model_dump(mode="json"),
        )  # fmt: skip
        kept = {"mode": "recipe", "manifest_uri": store.location(manifest_key(read.manifest_digest))}
        wish = read.model_copy(update=kept | keep_recipe(store, recipe))
        with open_manifest(apart, read.manifest_digest) as manifest:
            made = publish(store, wish, manifest)
    if ledger is not None:
        made = _record(ledger, made, stream=stream or f"data/{name}", actor=actor, origin=origin)
    return made


def keep_recipe(store: ObjectStore, recipe: Recipe) -> dict[str, Any]:
    """Store ``recipe``; return the fields of the snapshot that name it."""
    document = recipe.to_json()
    digest = digest_of(document)
    key = layout.content_key("recipes", digest, ".json")
    store.put_if_absent(key, io.BytesIO(canonical_bytes(document)))
    return {"recipe_uri": store.location(key), "recipe_digest": digest}


class Growing:
    """The recipe of a chain of steps, which grows by one rule with each of them."""

    def __init__(self, store: ObjectStore, pool: SnapshotCreated) -> None:
        self._store = store
        self._recipe = read_recipe(store, pool)

    def __call__(self, rule: RuleDeclared, manifest_digest: str) -> dict[str, Any]:
        """Store the recipe with ``rule`` at its end; see :func:`keep_recipe`."""
        # Where a rule was recorded first is no part of how it is carried out.
        rules = [*self._recipe.rules, rule.to_json()]
        self._recipe = replace(self._recipe, rules=rules, manifest_digest=manifest_digest)
        return keep_recipe(self._store, self._recipe)


def read_recipe(store: ObjectStore, snapshot: SnapshotCreated) -> Recipe:
    """The recipe of a snapshot; ``ArchiveError`` if it is not what its digest says."""
    if snapshot.recipe_digest is None:
        raise ArchiveError(f"{snapshot_ref(snapshot)}: has no recipe.", hint="It was made in another mode.")
    key = layout.content_key("recipes", snapshot.recipe_digest, ".json")
    with store.open(key) as stream:
        raw = stream.read()
    # Kept as canonical JSON, whose digest is that of its bytes: nothing is parsed before it was compared.
    document = (
        json.loads(raw) if f"sha256:{hashlib.sha256(raw).hexdigest()}" == snapshot.recipe_digest else {}
    )
    if document.pop("format", None) != FORMAT:
        raise ArchiveError(
            f"{store.location(key)}: differs from its digest.", hint="Restore the recipe from a copy."
        )
    return Recipe(**document)


def require_rebuild_allowed(recipe: Recipe, *, recorded_at: str | None, now: datetime | None = None) -> str:
    """Refuse (exit 4) what the policy forbids or what is past its time; return who approves, empty if unrecorded."""
    if recipe.rights is None:
        return ""
    rights = RecipeRights.model_validate(recipe.rights)
    if not rights.rebuild_allowed:
        raise RefusedError(
            "the policy does not allow this snapshot to be rebuilt",
            hint=f"Ask {rights.approver}, who approves it.",
        )
    if recorded_at is None:
        raise RefusedError(
            f"the recipe is kept for {rights.keep_days:g} days, and since when is unrecorded",
            hint=f"Rebuild where the ledger is that recorded it, or ask {rights.approver}.",
        )
    until = parse_time(recorded_at) + timedelta(days=rights.keep_days)
    if until < (now or datetime.now(UTC)):
        raise RefusedError(
            f"the recipe was kept for {rights.keep_days:g} days, until {until:%Y-%m-%d}",
            hint=f"Ask {rights.approver} for a new policy and make a new snapshot.",
        )
    return rights.approver


def _record(
    ledger: Ledger, payload: SnapshotCreated, *, stream: str, actor: Actor, origin: Origin
) -> SnapshotCreated:
    for record in ledger.records(streams=[stream], kinds=["snapshot.created"]):
        if record.origin == origin and record.ordinal == 0:
            before = SnapshotCreated(**record.payload)
            if snapshot_ref(before) == snapshot_ref(payload):
                return before
    subject = snapshot_ref(payload)
    things = [Ref(type="source", id=payload.source_id)] if payload.source_id else []
    if payload.parent and not payload.unchanged:
        things.append(Ref.parse(payload.parent))
    edges = [Edge(subject=subject, relation=Relation.WAS_DERIVED_FROM, object=thing) for thing in things]
    if stream.startswith("run_"):
        edges.append(Edge(subject=Ref(type="run", id=stream), relation=Relation.USED, object=subject))
    draft = Draft(stream=stream, kind="snapshot.created", payload=payload.to_json(), actor=actor, origin=origin,
                  edges=tuple(edges))  # fmt: skip
    return SnapshotCreated(**cast("Any", ledger.append([draft])[0].payload))
