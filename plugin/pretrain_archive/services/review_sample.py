"""Draw a sample of labelled documents from a snapshot, and find a document of it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pretrain_archive.data.shards import of_snapshot
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import LabelsSampled, SampledItem, SnapshotCreated, Stratum
from pretrain_archive.domain.policy import LabelReview, Labels
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.services.review_form import EXCERPT, PAGE_SIZE
from pretrain_archive.storage.port import ObjectStore

if TYPE_CHECKING:
    from pretrain_archive.data.quality.labels import Definition

MOST_DEFINITION: Final = 1 << 20
"""Bytes of a label definition's file."""


def load_definition(labels: Labels, *, folder: Path) -> Definition | None:
    """The policy's label definition, a path below ``folder`` or an absolute one; None if it names none."""
    from pretrain_archive.data.quality.labels import read_definition  # noqa: PLC0415 (heavy)

    if labels.definition is None:
        return None
    path = folder / labels.definition
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_DEFINITION + 1)
    except OSError as error:
        raise InputError(
            "data.labels.definition", labels.definition, f"cannot be read: {error.strerror}",
            hint="Give a path relative to the folder of policies.",
        ) from None  # fmt: skip
    if len(raw) > MOST_DEFINITION:
        raise InputError(
            "data.labels.definition", labels.definition, f"is larger than {MOST_DEFINITION} bytes"
        )
    return read_definition(raw, name=labels.definition)


def sample_of(
    store: ObjectStore, snapshot: SnapshotCreated, labels: Labels, review: LabelReview, people: Sequence[str], *,
    folder: Path, text_field: str,
) -> LabelsSampled:  # fmt: skip
    """The sample that policy and snapshot give; the same whenever it is drawn. Reads the snapshot once."""
    from pretrain_archive.data.quality.documents import Fields  # noqa: PLC0415 (heavy)
    from pretrain_archive.data.quality.labels import METHOD, draw, labelled  # noqa: PLC0415

    definition = load_definition(labels, folder=folder)
    shards = (shard for _, shard in of_snapshot(store, snapshot))
    drawn = draw(
        labelled(shards, fields=Fields(text=text_field, label=labels.field)),
        size=review.sample, seed=review.seed, definition=definition,
    )  # fmt: skip
    items = [SampledItem(digest=d.digest, path=d.path, line=d.line, label=d.label) for d in drawn.items]
    reference = f"{snapshot.name}@{snapshot.version}"
    return LabelsSampled(
        snapshot=reference,
        sample_digest=digest_of({
            "snapshot": reference, "manifest": snapshot.manifest_digest, "seed": review.seed,
            "definition": definition.digest if definition else None, "items": [item.to_json() for item in items],
        }),
        seed=review.seed,
        method=METHOD,
        definition_name=definition.name if definition else None,
        definition_version=definition.version if definition else None,
        definition_digest=definition.digest if definition else None,
        labels=dict(definition.labels) if definition else {},
        strata=[Stratum(label=label, documents=many, sampled=few) for label, many, few in drawn.strata],
        items=items,
        page_size=PAGE_SIZE,
        reviewers=list(people),
        wanted=review.reviewers,
        min_agreement=review.min_agreement,
    )  # fmt: skip


def excerpts_of(
    store: ObjectStore, snapshot: SnapshotCreated, items: Sequence[SampledItem], *, field: str
) -> dict[str, str]:
    """The beginning of each document's text by digest: what a question may show."""
    return {digest: text[: EXCERPT * 2] for digest, text in texts_of(store, snapshot, items, field=field)}


def texts_of(
    store: ObjectStore, snapshot: SnapshotCreated, items: Sequence[SampledItem], *, field: str = "text"
) -> Iterator[tuple[str, str]]:
    """Digest and text of the documents, in the order of their files; each is compared with its digest.

    Raises ``InputError`` for one that is not where the sample says.
    """
    from pretrain_archive.data.quality.documents import Fields, Text, read_texts  # noqa: PLC0415 (heavy)
    from pretrain_archive.data.quality.labels import digest_of_text  # noqa: PLC0415

    wanted: dict[str, dict[int, SampledItem]] = {}
    for item in items:
        wanted.setdefault(item.path, {})[item.line] = item
    for entry, shard in of_snapshot(store, snapshot):
        places = wanted.pop(entry.path, {})
        for unit in read_texts(shard, fields=Fields(text=field)) if places else ():
            if isinstance(unit, Text) and unit.line in places:
                item = places.pop(unit.line)
                if digest_of_text(unit.raw) != item.digest:
                    raise InputError(
                        "document", f"{item.path}, line {item.line}", "has another digest than the sample"
                    )
                yield item.digest, unit.text
            if not places:
                break
        if places:
            raise InputError("document", f"{shard.path}, line {min(places)}", "is not in the snapshot")
        if not wanted:
            return
    if wanted:
        raise InputError("document", min(wanted), "is not in the snapshot")
