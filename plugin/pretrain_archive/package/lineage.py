"""The lineage picture as inline SVG, left to right: data → run → checkpoint → model.

A map, not the document: at most :data:`SHOWN` checkpoints are drawn, and the number of the others is written
beside them. The candidate's path is drawn strongest.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_candidate
from pretrain_archive.domain.chains import chain_of
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.sentences import short

SHOWN = 6
BOX_W, BOX_H, GAP_X, GAP_Y = 164, 44, 44, 14
PAD = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A node: title, second line, column, and whether it lies on the way to the result."""

    id: str
    title: str
    detail: str
    column: int
    main: bool = True


def nodes(view: RunView) -> tuple[list[Box], list[tuple[str, str]]]:
    """The boxes and the arrows between their ids."""
    boxes: list[Box] = []
    arrows: list[tuple[str, str]] = []
    for _, source in view.all(kinds.SourceRegistered):
        boxes.append(Box(id=f"source:{source.source_id}", title=source.name, detail=source.licence, column=0))
    chain = [account for _, account in chain_of(view)]
    inner = {account.input for account in chain}
    for _, snapshot in view.all(kinds.SnapshotCreated):
        name = f"{snapshot.name}@{snapshot.version}"
        if f"snapshot:{name}" in inner:
            continue  # the last snapshot stands for the steps that led to it
        last = bool(chain) and chain[-1].output == f"snapshot:{name}"
        detail = f"{' → '.join(a.rule.kind for a in chain)}" if last else short(snapshot.manifest_digest)
        boxes.append(Box(id=f"snapshot:{name}", title=name, detail=detail, column=1))
        if snapshot.source_id:
            arrows.append((f"source:{snapshot.source_id}", f"snapshot:{name}"))
        arrows.append((f"snapshot:{name}", "run"))
    declared = view.latest(kinds.ConfigurationDeclared)
    detail = f"{view.attempts} × ↻" if view.attempts > 1 else ""
    config = short(declared.configuration_digest) if declared else "?"
    boxes.append(
        Box(
            id="run",
            title=f"run …{view.run_uid[-8:]}",
            detail=f"{config} · {detail}" if detail else config,
            column=2,
        )
    )
    _results(view, boxes, arrows)
    known = {box.id for box in boxes}
    return boxes, [arrow for arrow in arrows if set(arrow) <= known]


def _results(view: RunView, boxes: list[Box], arrows: list[tuple[str, str]]) -> None:
    candidate, standing = chosen_candidate(view), standing_release(view)
    release = standing[1] if standing else None
    chosen = candidate[1].checkpoint_id if candidate else ""
    found = [payload for _, payload in view.all(kinds.CheckpointRegistered)]
    kept = [c for c in found if c.checkpoint_id == chosen] + [
        c for c in found[::-1] if c.checkpoint_id != chosen
    ]
    for checkpoint in sorted(kept[:SHOWN], key=lambda c: c.step):
        main = checkpoint.checkpoint_id == chosen
        name = f"checkpoint:{checkpoint.checkpoint_id}"
        boxes.append(
            Box(
                id=name, title=f"step {checkpoint.step}", detail=short(checkpoint.digest), column=3, main=main
            )
        )
        arrows.append(("run", name))
    if len(kept) > SHOWN:
        boxes.append(
            Box(id="more", title=f"+ {len(kept) - SHOWN}", detail="checkpoints", column=3, main=False)
        )
        arrows.append(("run", "more"))
    if release:
        boxes.append(Box(id="model", title=f"{release.name} {release.version}", detail="release", column=4))
    elif candidate:
        boxes.append(Box(id="model", title=candidate[1].candidate_id[-12:], detail="candidate", column=4))
    arrows.append((f"checkpoint:{chosen}", "model"))


def draw(view: RunView) -> str:
    """The picture as SVG text."""
    boxes, arrows = nodes(view)
    columns: dict[int, list[Box]] = {}
    for box in boxes:
        columns.setdefault(box.column, []).append(box)
    height = max(len(column) for column in columns.values()) * (BOX_H + GAP_Y) - GAP_Y + 2 * PAD
    order = sorted(columns)
    width = len(order) * (BOX_W + GAP_X) - GAP_X + 2 * PAD
    place: dict[str, tuple[float, float]] = {}
    for number, column in enumerate(order):
        block = len(columns[column]) * (BOX_H + GAP_Y) - GAP_Y
        for row, box in enumerate(columns[column]):
            place[box.id] = (PAD + number * (BOX_W + GAP_X), (height - block) / 2 + row * (BOX_H + GAP_Y))
    main = {box.id for box in boxes if box.main}
    drawn = [_arrow(place[a], place[b], strong={a, b} <= main) for a, b in arrows]
    drawn += [_box(box, *place[box.id]) for box in boxes]
    label = "Lineage: data, run, checkpoints, model / 谱系：数据、运行、检查点、模型"
    return (
        f'<svg class="lineage" viewBox="0 0 {width} {height:g}" width="{width}" role="img" aria-label="{label}">'
        + "".join(drawn)
        + "</svg>"
    )


def _arrow(start: tuple[float, float], end: tuple[float, float], *, strong: bool) -> str:
    x1, y1, x2, y2 = start[0] + BOX_W, start[1] + BOX_H / 2, end[0], end[1] + BOX_H / 2
    bend = (x2 - x1) / 2
    style = "edge main" if strong else "edge"
    path = f"M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2 - 5:.1f} {y2:.1f}"
    return (
        f'<path class="{style}" d="{path}"/>'
        f'<path class="{style} head" d="M{x2 - 6:.1f} {y2 - 4:.1f} l6 4 l-6 4 z"/>'
    )


def _box(box: Box, x: float, y: float) -> str:
    style = f"node c{box.column}" + (" main" if box.main else "")
    title = box.title if len(box.title) <= 22 else box.title[:21] + "…"
    return (
        f'<g class="{style}"><rect x="{x:.1f}" y="{y:.1f}" width="{BOX_W}" height="{BOX_H}" rx="6"/>'
        f'<text class="t" x="{x + 12:.1f}" y="{y + 19:.1f}">{escape(title)}</text>'
        f'<text class="d" x="{x + 12:.1f}" y="{y + 35:.1f}">{escape(box.detail)}</text>'
        f"<title>{escape(box.id)}</title></g>"
    )
