"""``pretrain-archive source`` and ``withdraw``: where data come from, by what right, and taking the right back."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, table

if TYPE_CHECKING:
    from pretrain_archive.domain.source_rights import Standing
    from pretrain_archive.domain.withdrawal import Touched
    from pretrain_archive.services.caller import Caller

app = typer.Typer(help="Where data come from, and who may use them.")

SourceName = Annotated[
    str, typer.Argument(metavar="SOURCE", help="Id of a source, or its name where only one has it.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")]
Identity = Annotated[str, typer.Option("--identity", metavar="NAME", help="Service identity that reads.")]
At = Annotated[str, typer.Option("--at", metavar="TIME", help="When (RFC 3339); default: now.")]


def _caller(task: str) -> Caller:
    from pretrain_archive.domain.identity import new_id  # noqa: PLC0415
    from pretrain_archive.domain.records import Actor, Origin  # noqa: PLC0415
    from pretrain_archive.services.caller import Caller  # noqa: PLC0415

    origin = Origin(dag_id="cli", dag_run_id=new_id("call"), task_id=task)
    return Caller(origin=origin, actor=Actor(type="cli", name=getpass.getuser()))


def _find(name: str) -> Standing:
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.withdrawing import find_source  # noqa: PLC0415

    return find_source(services.open_ledger(create=False), name)


@command(app, "list")
def list_sources(as_json: Json = False) -> None:
    """List registered sources with licence, scope and whether they may still be used."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.withdrawal import source_document, withdrawal_document  # noqa: PLC0415
    from pretrain_archive.services.withdrawing import all_sources  # noqa: PLC0415

    known = all_sources(services.open_ledger(create=False))
    documents = [{**source_document(s), "withdrawn": withdrawal_document(s)} for s in known]
    rows = [
        [plain(d["source_id"]), plain(d.get("name", "")), plain(d.get("licence", "unrecorded")),
         plain(", ".join(d.get("usage_scope", []))), plain(d.get("owner", "")), _state(s)]
        for d, s in zip(documents, known, strict=True)
    ]  # fmt: skip
    head = ["source", "name", "licence", "usage scope", "owner", "state"]
    answer({"sources": documents}, table(rows, head=head) if rows else ["no sources"], as_json=as_json)


@command(app)
def show(source: SourceName, as_json: Json = False) -> None:
    """One source: where it came from, by what right, who may read it since when, and its withdrawal."""
    from pretrain_archive.domain.withdrawal import source_document, withdrawal_document  # noqa: PLC0415

    found = _find(source)
    document = {**source_document(found), "withdrawn": withdrawal_document(found)}
    answer(document, _rights_lines(document, found), as_json=as_json)


@command(app)
def register(  # noqa: PLR0917 - typer passes options by name
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Folder, or URL of a known form.")],
    name: Annotated[str, typer.Option(help="Name of the data.")],
    obtained: Annotated[str, typer.Option(help="How the data was obtained.")],
    authorisation: Annotated[str, typer.Option(help="Who allowed the use, or why nobody must.")],
    origin_class: Annotated[str, typer.Option(help="Class of the data, for example: public corpus.")],
    owner: Annotated[str, typer.Option(help="Business owner of the data.")],
    responsible: Annotated[str, typer.Option(help="Person who answers for the data.")],
    usage_scope: Annotated[list[str], typer.Option(help="What it may be used for; give it once per use.")],
    licence: Annotated[str, typer.Option(help="SPDX expression, or the contract.")] = "",
    task: Annotated[list[str] | None, typer.Option(help="Task it may be used for; once per task.")] = None,
    collected_at: Annotated[str, typer.Option(metavar="TIME", help="When it was collected.")] = "",
    masking: Annotated[str, typer.Option(help="How personal data was masked.")] = "",
    identity: Identity = "",
    granted_at: Annotated[str, typer.Option(metavar="TIME", help="When reading was permitted.")] = "",
    ends_at: Annotated[str, typer.Option(metavar="TIME", help="When the right to read ends.")] = "",
    open_because: Annotated[str, typer.Option(help="Why nobody has to permit the reading.")] = "",
    as_json: Json = False,
) -> None:
    """Register a source outside of a run; what is registered here binds every run that uses the source."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.data.sources import register_source, resolve_source, source_id  # noqa: PLC0415
    from pretrain_archive.domain.source_rights import source_stream  # noqa: PLC0415
    from pretrain_archive.services.withdrawing import told_of_registration  # noqa: PLC0415

    found, caller, ledger = resolve_source(address), _caller("source_register"), services.open_ledger()
    payload = register_source(
        ledger, source=found, name=name, licence=licence, obtained=obtained,
        authorisation=authorisation, usage_scope=usage_scope, origin_class=origin_class, owner=owner,
        responsible=responsible, collected_at=collected_at or None, masking=masking or None,
        applicable_tasks=task or [], access_identity=identity or None,
        observed_identity=found.identity or None, access_open=open_because or None,
        access_granted_at=granted_at or None, access_revoked_at=ends_at or None,
        actor=caller.actor, origin=caller.origin, stream=source_stream(source_id(name.strip(), found.uri)),
    )  # fmt: skip
    changed, twins = told_of_registration(ledger, payload.source_id)
    withdrawn = [twin.source_id for twin in twins if twin.withdrawal is not None]
    document = {**payload.to_json(), "replaces": changed,
                "same_address": [twin.source_id for twin in twins], "withdrawn_at_this_address": withdrawn}  # fmt: skip
    lines = [f"{payload.source_id}  {plain(payload.name)}  {plain(payload.licence)}"]
    lines += [
        f"  {field}: {plain(str(before))} → {plain(str(now))}" for field, (before, now) in changed.items()
    ]
    lines += [
        f"  data at this address were withdrawn as {plain(source)}: ask its owner" for source in withdrawn
    ]
    answer(document, lines, as_json=as_json, code=FINDING if withdrawn else OK)


@command(app)
def grant(
    source: SourceName, identity: Identity, at: At = "", reason: Reason = "", as_json: Json = False
) -> None:
    """Record that a service identity was permitted to read a source."""
    _access("granted", source, identity, at, reason, as_json=as_json)


@command(app)
def revoke(
    source: SourceName, identity: Identity, at: At = "", reason: Reason = "", as_json: Json = False
) -> None:
    """Record that a service identity lost the right to read a source: launches that it reads for stop."""
    _access("revoked", source, identity, at, reason, as_json=as_json)


def _access(action: str, name: str, identity: str, at: str, reason: str, *, as_json: bool) -> None:
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.withdrawing import record_access  # noqa: PLC0415

    source, caller = _find(name), _caller(f"source_{action}")
    told = {"action": action, "identity": identity, "at": at, "reason": reason}
    fact = record_access(services.open_ledger(), caller, source, **told)
    line = (
        f"{plain(source.name)}: {action} to {plain(fact.identity)} at {fact.at}, recorded by {plain(fact.by)}"
    )
    reads = not source.identities or fact.identity in source.identities
    known = plain(", ".join(source.identities))
    other = f"no registration names {plain(fact.identity)} as reader, so nothing changes; readers: {known}"
    answer({**fact.to_json(), "reads": reads}, [line] if reads else [line, other], as_json=as_json)


def withdraw(
    source: SourceName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be touched.")] = False,
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Withdraw a source: list all that rests on it and the people to tell; nothing of it is launched any more."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services import withdrawing  # noqa: PLC0415

    found, done = _find(source), False
    if not dry_run:
        found, done = withdrawing.withdraw(services.open_ledger(), _caller("withdraw"), found, reason=reason)
    report = withdrawing.what_rests_on(services.open_ledger(create=False), found)
    lines = _report_lines(report, dry_run=dry_run, done=done)
    answer(report.to_json(dry_run=dry_run), lines, as_json=as_json, code=FINDING if report.truncated else OK)


def _state(source: Standing) -> str:
    if source.withdrawal is not None:
        return "withdrawn"
    return plain(source.revoked() or source.ended() or "may be used")


SHOWN = (
    "name", "uri", "licence", "authorisation", "usage_scope", "applicable_tasks", "origin_class", "obtained",
    "collected_at", "masking", "owner", "responsible", "access_identity",
    "access_identity_observed", "permitted", "access_revoked_at",
    "revoked", "registered_at",
)  # fmt: skip


def _rights_lines(document: dict[str, Any], source: Standing) -> Iterator[str]:
    """The rights of a source for a person; what is not recorded says so."""
    yield f"{source.source_id}  {_state(source)}"
    for key in SHOWN:
        value = document.get(key)
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        if key != "revoked" or text:
            yield f"  {key.replace('_', ' ')}: {plain(text) or 'unrecorded'}"
    for fact in document["access"]:
        because = f" ({plain(fact['reason'])})" if fact["reason"] else ""
        yield f"  {fact['action']} to {plain(fact['identity'])} at {fact['at']} by {plain(fact['by'])}{because}"
    if (gone := document["withdrawn"]) is not None:
        yield f"  withdrawn at {gone['at']} by {plain(gone['by'])}: {plain(gone['reason'])}"


TOLD = {
    "snapshots": ("files", "total_bytes"), "splits": ("snapshot",), "runs": ("state", "submitter", "objective"),
    "checkpoints": ("step", "deleted", "location"), "evaluations": ("data_set",), "candidates": ("digest",),
    "releases": ("name", "version"), "packages": ("location",), "decisions": ("gate", "decision", "person", "at"),
}  # fmt: skip
"""What is told of each thing beside its reference."""


def _report_lines(report: Touched, *, dry_run: bool, done: bool) -> Iterator[str]:
    source = report.source
    yield f"{plain(source.name)}  {source.source_id}  {_state(source)}"
    if (gone := source.withdrawal) is not None:
        already = "" if done else "already "
        yield f"{already}withdrawn at {gone[1].at} by {plain(gone[1].by)}: {plain(gone[1].reason)}"
    for name, entries in report.lists.items():
        yield ""
        yield f"{name}: {len(entries)}"
        for entry in entries:
            facts = [f"{key} {plain(entry[key])}" for key in TOLD[name] if entry.get(key) not in {None, ""}]
            yield "  " + "  ".join([plain(entry["id"]), *facts])
    yield ""
    yield "people to tell"
    for group, names in report.people.items():
        yield f"  {group.replace('_', ' ')}: {plain(', '.join(names))}"
    yield ""
    for other in report.beside:
        if other.withdrawal is None:
            yield f"{other.source_id} ({plain(other.name)}) is registered at the same address and is not withdrawn"
    if report.truncated:
        yield "the lists are not complete: more rests on the source than could be followed"
    if dry_run:
        yield (
            "nothing was recorded"
            if gone is not None
            else "nothing was recorded: without --dry-run the source is withdrawn"
        )
