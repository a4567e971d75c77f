"""Labels of documents: their definition, how they are spread, and a seeded sample of them for review by persons.

A definition is a TOML file with ``name``, ``version`` and a table ``labels`` of label → meaning. Its digest goes
into every record that rests on it, so that a changed meaning shows.
"""

from __future__ import annotations

import hashlib
import heapq
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pretrain_archive.data.quality.documents import Fields, Shard, Text, read_texts
from pretrain_archive.domain.errors import InputError

MOST_LABELS: Final = 1000
"""Different labels that are kept apart; more of them mean that the field holds something else."""

MOST_CHARACTERS: Final = 200
"""Of a label: a longer one is text of the data, which no record and no form may hold."""

METHOD: Final = (
    "by label in proportion, at least one of each; in a label the documents with the smallest "
    "sha256(pretrain-archive/label-sample/1, seed, digest of the text); equal texts once"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """What labels there are and what each means; ``digest`` is of the file's bytes."""

    name: str
    version: str
    labels: Mapping[str, str]
    digest: str

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        return {
            "name": self.name,
            "version": self.version,
            "digest": self.digest,
            "labels": dict(self.labels),
        }


def read_definition(raw: bytes, *, name: str) -> Definition:
    """Read a definition from the bytes of its file.

    Raises:
        InputError: It is no TOML, lacks name, version or labels, or a label has no meaning; names ``name``.
    """
    hint = "Write name, version and a table [labels] of label = meaning."
    try:
        value = tomllib.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError("label definition", name, f"is not a TOML file: {error}", hint=hint) from None
    for key in ("name", "version"):
        if not str(value.get(key, "")).strip():
            raise InputError("label definition", name, f"has no {key}", hint=hint)
    labels = value.get("labels")
    if not isinstance(labels, dict) or not labels:
        raise InputError("label definition", name, "defines no label", hint=hint)
    for label, meaning in labels.items():
        if len(label) > MOST_CHARACTERS:
            raise InputError(
                "label definition", name, f"has a label of more than {MOST_CHARACTERS} characters", hint=hint
            )
        if not isinstance(meaning, str) or not meaning.strip():
            raise InputError("label definition", name, f"gives label {label!r} no meaning", hint=hint)
    return Definition(
        name=str(value["name"]),
        version=str(value["version"]),
        labels=labels,
        digest="sha256:" + hashlib.sha256(raw).hexdigest(),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelCheck:
    """How the labels of a data set stand to their definition.

    ``shares`` are of the documents with a defined label, 0 for a label that never occurs. ``undefined`` documents
    have a label that the definition does not know, ``unlabelled`` none at all.
    """

    definition: Definition | None
    documents: int
    unlabelled: int
    undefined: int
    shares: Mapping[str, float]

    @property
    def largest(self) -> float | None:
        """Share of the commonest label; None if no document has a defined one."""
        return max(self.shares.values()) if any(self.shares.values()) else None

    @property
    def smallest(self) -> float | None:
        """Share of the rarest defined label; None if no document has a defined one."""
        return min(self.shares.values()) if any(self.shares.values()) else None

    @property
    def imbalance(self) -> float | None:
        """Documents of the commonest label for each one of the rarest; None if a label never occurs."""
        return self.largest / self.smallest if self.largest and self.smallest else None

    def numbers(self) -> dict[str, float]:
        """The aggregates that rules of a suite judge; none without a definition or a document.

        So nothing that was not checked passes: a rule over a number that is not there has no answer.
        """
        if self.definition is None or not self.documents:
            return {}
        made = {"labels_undefined_rate": (self.undefined + self.unlabelled) / self.documents}
        if self.largest is not None and self.smallest is not None:
            made |= {"labels_largest_share": self.largest, "labels_smallest_share": self.smallest}
        return made

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        return {
            "definition": self.definition.to_json() if self.definition else None,
            "documents": self.documents,
            "unlabelled": self.unlabelled,
            "undefined": self.undefined,
            "shares": dict(self.shares),
            "largest_share": self.largest,
            "smallest_share": self.smallest,
            "imbalance": self.imbalance,
        }


def check(definition: Definition | None, counts: Mapping[str | None, int]) -> LabelCheck:
    """Hold how often each label occurs (None: no label) against the definition."""
    documents = sum(counts.values())
    unlabelled = counts.get(None, 0)
    known = list(definition.labels) if definition else [label for label in counts if label is not None]
    defined = {label: counts.get(label, 0) for label in known}
    total = sum(defined.values())
    return LabelCheck(
        definition=definition,
        documents=documents,
        unlabelled=unlabelled,
        undefined=documents - unlabelled - total,
        shares={label: count / total if total else 0.0 for label, count in defined.items()},
    )


class Labelled(NamedTuple):
    """A document's place, the digest of its text (``sha256:`` and hex) and its label."""

    digest: str
    path: str
    line: int
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Drawn documents in the order of review, and ``(label, documents, drawn)`` of each label."""

    items: tuple[Labelled, ...]
    strata: tuple[tuple[str, int, int], ...]


def digest_of_text(raw: bytes) -> str:
    """``sha256:`` and hex of a document's text in UTF-8."""
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def labelled(shards: Iterable[Shard], *, fields: Fields) -> Iterator[Labelled]:
    """The documents that declare a label."""
    for shard in shards:
        for unit in read_texts(shard, fields=fields):
            if isinstance(unit, Text) and unit.label is not None:
                yield Labelled(digest_of_text(unit.raw), unit.path, unit.line, unit.label)


def draw(
    documents: Iterable[Labelled], *, size: int, seed: int, definition: Definition | None = None
) -> Sample:
    """Draw ``size`` documents, shared out over the labels (:data:`METHOD`); memory holds ``size`` for each label.

    The sample follows from the documents and the seed alone, in whatever order they come. Labels that the
    definition does not know are left out: there is nothing to agree with. Raises ``InputError`` if there is no
    document to draw, or more than :data:`MOST_LABELS` labels.
    """
    strata: dict[str, _Stratum] = {}
    for document in documents:
        if definition is not None and document.label not in definition.labels:
            continue
        if len(document.label) > MOST_CHARACTERS:
            raise InputError(
                "label", f"{document.path}, line {document.line}", f"is longer than {MOST_CHARACTERS} characters",
                hint="Name the labels' field.",
            )  # fmt: skip
        if document.label not in strata and len(strata) == MOST_LABELS:
            raise InputError(
                "label", f"more than {MOST_LABELS}", "are different", hint="Name the labels' field."
            )
        strata.setdefault(document.label, _Stratum(most=size)).add(_rank(document.digest, seed), document)
    if not strata:
        raise InputError(
            "labels", 0, "no document has a label to review", hint="Name the field that holds labels."
        )
    shares = _shares({label: (one.documents, len(one.kept)) for label, one in strata.items()}, size)
    chosen = [pair for label, one in strata.items() for pair in sorted(one.kept.items())[: shares[label]]]
    return Sample(
        # By rank over all labels, so that a reviewer does not see one label after the other.
        items=tuple(document for _, document in sorted(chosen)),
        strata=tuple((label, strata[label].documents, shares[label]) for label in sorted(strata)),
    )


def _rank(digest: str, seed: int) -> int:
    text = f"pretrain-archive/label-sample/1\n{seed}\n{digest}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


@dataclass(slots=True)
class _Stratum:
    """The documents of one label with the smallest ranks, equal texts once (the first by place)."""

    most: int
    documents: int = 0
    kept: dict[int, Labelled] = field(default_factory=dict)
    _largest: list[int] = field(default_factory=list)

    def add(self, rank: int, document: Labelled) -> None:
        self.documents += 1
        if rank in self.kept:
            self.kept[rank] = min(self.kept[rank], document)
        elif len(self.kept) < self.most:
            self.kept[rank] = document
            heapq.heappush(self._largest, -rank)
        elif rank < -self._largest[0]:
            del self.kept[-heapq.heappushpop(self._largest, -rank)]
            self.kept[rank] = document


def _shares(strata: Mapping[str, tuple[int, int]], size: int) -> dict[str, int]:
    """How many of each label: in proportion to its documents by largest remainders, at least one, at most what it has.

    ``strata`` is label → (documents, different ones at hand). Where there are more labels than ``size`` the
    commonest have one each.
    """
    total = sum(documents for documents, _ in strata.values())
    wanted = {label: size * documents / total for label, (documents, _) in strata.items()}
    common = sorted(strata, key=lambda label: (-strata[label][0], label))
    given = dict.fromkeys(strata, 0)
    for label in common[:size]:
        given[label] = 1
    for _ in range(size - min(size, len(common))):
        open_labels = [label for label in common if given[label] < strata[label][1]]
        if not open_labels:
            break
        given[max(open_labels, key=lambda label: wanted[label] - given[label])] += 1
    return given
