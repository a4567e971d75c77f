"""``pretrain-archive checkpoint``: look at checkpoints, register, verify, list and classify them."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pretrain_archive.commands.output import (
    FINDING,
    OK,
    Json,
    answer,
    command,
    hashing_progress,
    plain,
    size_text,
    table,
    verdict_text,
)
from pretrain_archive.commands.run import RunName, find_run

if TYPE_CHECKING:
    from pretrain_archive.artifacts.formats import Inspection
    from pretrain_archive.domain.kinds import CheckpointRegistered, TensorScan
    from pretrain_archive.domain.verdicts import Item
    from pretrain_archive.services.caller import Caller
    from pretrain_archive.services.checkpoint_desk import Looked

app = typer.Typer(help="Checkpoints: look, register, verify, list, classify.")

Class = Literal["recovery", "evaluation", "candidate"]
Place = Annotated[str, typer.Argument(metavar="PLACE", help="Folder, file:// URL or s3://bucket/prefix.")]
SHOWN = 20


def _caller(name: str) -> Caller:
    from pretrain_archive.domain.identity import new_id  # noqa: PLC0415
    from pretrain_archive.domain.records import Actor, Origin  # noqa: PLC0415
    from pretrain_archive.services.caller import Caller  # noqa: PLC0415

    origin = Origin(dag_id="cli", dag_run_id=new_id("call"), task_id=name)
    return Caller(origin=origin, actor=Actor(type="cli", name=getpass.getuser()))


@command(app)
def inspect(
    place: Place,
    values: Annotated[
        bool, typer.Option("--values", help="Look at every value for NaN and infinity.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what PLACE holds and whether it would count; nothing is loaded, run or recorded. Exit 1 if it would not."""
    from pretrain_archive.artifacts.scanning import judged  # noqa: PLC0415
    from pretrain_archive.services.checkpoint_desk import look  # noqa: PLC0415

    with hashing_progress("looking") as progress:
        found = look(place, values=values, progress=progress)
    spoiled, odd = judged(found.scan)
    document = {
        **_seen(found), "spoiled": spoiled, "warnings": [*found.seen.warnings, *odd],
        "would_count": found.seen.complete and not spoiled,
    }  # fmt: skip
    lines = [
        *_seen_lines(found),
        *(f"warning: {plain(text)}" for text in document["warnings"]),
        *(f"not complete: {plain(text)}" for text in found.seen.problems),
        *(f"spoiled: {plain(text)}" for text in spoiled),
        "would be refused" if not document["would_count"] else "complete",
    ]
    answer(document, lines, as_json=as_json, code=OK if document["would_count"] else FINDING)


def _seen(found: Looked) -> dict[str, Any]:
    seen = found.seen
    return {
        "location": seen.location, "format": seen.format, "complete": seen.complete, "step": found.step,
        "tokens": seen.tokens, "files": len(seen.files), "bytes": sum(file.size for file in seen.files),
        "components": seen.components, "tensors": seen.tensor_count if seen.tensors else None,
        "dtypes": _dtypes(seen), "data_position": seen.data_position,
        "configuration_digest": seen.configuration_digest, "model_facts": seen.facts,
        "problems": list(seen.problems),
        "scan": found.scan.to_json() if found.scan else None,
    }  # fmt: skip


def _dtypes(seen: Inspection) -> dict[str, int]:
    return dict(sorted(Counter(tensor.dtype for _, tensor in seen.tensors).items()))


def _seen_lines(found: Looked) -> Iterator[str]:
    seen = found.seen
    size = size_text(sum(file.size for file in seen.files))
    step = "step unrecorded" if found.step is None else f"step {found.step}"
    yield f"{plain(seen.location)}  {seen.format}, {step}, {len(seen.files)} files, {size}"
    yield "  ".join(f"{name} {size_text(number)}" for name, number in seen.components.items())
    if seen.tensors:
        kinds = ", ".join(f"{number} {plain(name)}" for name, number in _dtypes(seen).items())
        yield f"{seen.tensor_count} tensors ({kinds})"
    if found.scan:
        yield from _scan_lines(found.scan)


def _scan_lines(scan: TensorScan) -> Iterator[str]:
    yield f"{scan.values:,} values of {scan.tensors} tensors looked at, {len(scan.not_finite)} tensors not finite"
    yield from (f"not looked at: {plain(text)}" for text in scan.skipped[:SHOWN])


@command(app)
def verify(
    checkpoint: Annotated[
        str,
        typer.Argument(metavar="CHECKPOINT|PLACE", help="Id of a registered checkpoint, or where it lies."),
    ],
    trust_stamps: Annotated[
        bool,
        typer.Option(
            "--trust-stamps", help="Do not read files that were not written since they were hashed."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Read a registered checkpoint again and compare it with its record. Exit 1 if it is not as recorded."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.verdicts import Verdict, counts  # noqa: PLC0415
    from pretrain_archive.services import checkpoint_desk  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    with hashing_progress("verifying") as progress:
        if checkpoint.startswith("ckpt_"):
            fact, items = checkpoint_desk.verify(
                ledger, checkpoint, use_stamps=trust_stamps, progress=progress
            )
        else:
            fact, items = checkpoint_desk.verify_place(ledger, checkpoint, progress=progress)
    faults = [item for item in items if item.verdict is not Verdict.VERIFIED]
    changed = any(item.verdict is Verdict.CHANGED for item in faults)
    verdict = "changed" if changed else "unrecorded" if faults else "verified"
    document = {
        "verdict": verdict,
        "checkpoint_id": fact.checkpoint_id,
        "digest": fact.digest,
        "counts": counts(items),
        "items": [_fault(item) for item in faults],
    }
    lines = [
        f"{verdict_text(item.verdict.value)}  {plain(item.id.partition('#')[2])}: "
        f"expected {plain(item.expected)}, found {plain(item.found)}"
        for item in faults
    ]
    lines.append(f"{verdict_text(verdict)}  {fact.checkpoint_id}, step {fact.step}, {len(fact.files)} files")
    answer(document, lines, as_json=as_json, code=FINDING if faults else OK)


def _fault(item: Item) -> dict[str, Any]:
    return {
        "path": item.id.partition("#")[2],
        "verdict": item.verdict.value,
        "expected": item.expected,
        "found": item.found,
    }


@command(app, "list")
def list_checkpoints(run: RunName, as_json: Json = False) -> None:
    """List the registered checkpoints of RUN: class, sizes, last use, and whether their files were overwritten."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.checkpoint_desk import listed  # noqa: PLC0415

    view = find_run(services.open_ledger(create=False), run)
    found = [each.to_dict() for each in listed(view)]
    rows = [
        [
            each["checkpoint_id"], str(each["step"]), str(each["attempt"]), str(each["class"]),
            size_text(each["bytes"]), plain(each["format"]), _use(each["last_use"]), str(each["state"]),
        ]
        for each in found
    ]  # fmt: skip
    head = ["checkpoint", "step", "attempt", "class", "size", "format", "last use", ""]
    lines = table(rows, head=head) if rows else ["no checkpoint is registered"]
    answer({"run_uid": view.run_uid, "checkpoints": found}, lines, as_json=as_json)


@command(app)
def newest(run: RunName, as_json: Json = False) -> None:
    """Name the newest checkpoint of RUN that holds now, every byte read. Exit 1 if none does."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.artifacts.verification import newest_verified_anywhere  # noqa: PLC0415

    view = find_run(services.open_ledger(create=False), run)
    found, unfit = newest_verified_anywhere(view)
    skipped = [each.text() for each in unfit]
    document = {"run_uid": view.run_uid, "checkpoint": found.to_json() if found else None, "skipped": skipped}
    lines = [plain(text) for text in skipped]
    lines.append(
        f"{found.checkpoint_id}  step {found.step}, attempt {found.attempt}  {plain(found.location)}"
        if found
        else "no checkpoint holds"
    )
    answer(document, lines, as_json=as_json, code=OK if found else FINDING)


def _use(use: dict[str, str] | None) -> str:
    return "unrecorded" if use is None else f"{use['how']} {use['at'][:16]}"


@command(app)
def register(  # noqa: PLR0917 - typer passes options by name
    run: RunName,
    place: Place,
    step: Annotated[int | None, typer.Option(min=0, help="Default: what its name or its state says.")] = None,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Default: by its name, else the run's last.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(min=0, help="Default: what its state says.")] = None,
    artifact_class: Annotated[Class, typer.Option("--class", help="What it serves.")] = "recovery",
    purpose: Annotated[str, typer.Option(help="What it is kept for, in words.")] = "",
    responsible: Annotated[
        str, typer.Option(help="Who answers for it; default: the run's restore owner.")
    ] = "",
    pointer: Annotated[
        str, typer.Option(metavar="NAME", help="PLACE is the folder above; take what this pointer names.")
    ] = "",
    values: Annotated[
        bool, typer.Option("--values", help="Look at every value for NaN and infinity.")
    ] = False,
    newest_complete: Annotated[
        bool, typer.Option("--newest", help="PLACE is the folder above; take the newest complete one in it.")
    ] = False,
    read_all: Annotated[
        bool, typer.Option("--read-all", help="Read every byte, whatever stamps say.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Verify the checkpoint at PLACE and record it for RUN. Exit 1, with every reason, if it does not count."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services import checkpoint_desk  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    wish = checkpoint_desk.Wish(
        place=place, step=step, attempt=attempt, tokens=tokens, artifact_class=artifact_class, purpose=purpose,
        responsible=responsible, pointer=pointer, newest=newest_complete, scan=values, use_stamps=not read_all,
    )  # fmt: skip
    with hashing_progress("hashing") as progress:
        made = checkpoint_desk.register(
            ledger, _caller("checkpoint_register"), find_run(ledger, run), wish, progress=progress
        )
    answer(made.to_json(), _made_lines(made), as_json=as_json)


def _made_lines(made: CheckpointRegistered) -> Sequence[str]:
    size = size_text(sum(made.components.values()))
    return [
        f"{made.checkpoint_id}  step {made.step}, attempt {made.attempt}, {made.artifact_class}, {made.format}, {size}",
        f"{made.digest}  {plain(made.check or '')}",
        *(f"warning: {plain(text)}" for text in made.warnings),
    ]


@command(app)
def classify(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="Id of a registered checkpoint.")],
    artifact_class: Annotated[Class, typer.Option("--class", help="What it serves now.")],
    purpose: Annotated[str, typer.Option(help="What it is kept for, in words.")] = "",
    as_json: Json = False,
) -> None:
    """Record that CHECKPOINT serves another purpose now; its bytes and its id stay as they are."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services import checkpoint_desk  # noqa: PLC0415

    caller = _caller("checkpoint_classify")
    made = checkpoint_desk.classify(
        services.open_ledger(create=False), caller, checkpoint, artifact_class, purpose
    )
    line = f"{made.checkpoint_id}  step {made.step} is {made.artifact_class} now: {plain(made.purpose)}"
    answer(made.to_json(), [line], as_json=as_json)
