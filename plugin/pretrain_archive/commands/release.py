"""``pretrain-archive release``: what was released, whether it still holds, and where it is registered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pretrain_archive.commands.output import (
    FINDING,
    NOT_AUTHENTICATED,
    OK,
    Json,
    answer,
    command,
    plain,
    table,
    verdict_text,
)

if TYPE_CHECKING:
    from pretrain_archive.services.caller import Caller
    from pretrain_archive.services.release_reading import Found

app = typer.Typer(help="Releases: show, verify, export, model card, serving checks.")

Release = Annotated[str, typer.Argument(metavar="RELEASE", help="Run, NAME@VERSION or release id.")]
Language = Annotated[
    Literal["en", "zh"] | None, typer.Option("--lang", help="Default: the configured language.")
]
CODES = {"verified": OK, "intact": NOT_AUTHENTICATED, "changed": FINDING}
SHOWN = ("name", "version", "created_at", "run", "checkpoint_digest", "rollback", "take_down")
NEVER = "Its close failed and the gate decided otherwise since; nothing was signed, packaged or exported."
NOT_YET = "Its run is not closed: the close signs, packages and exports it."
LISTED = ("applicable", "not_applicable", "known_limits", "usage_scope")


def _find(name: str) -> Found:
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.release_reading import find_release  # noqa: PLC0415

    return find_release(services.open_ledger(create=False), name)


def _caller(task: str) -> Caller:
    import getpass  # noqa: PLC0415
    import sys  # noqa: PLC0415

    from pretrain_archive.domain.identity import new_id  # noqa: PLC0415
    from pretrain_archive.domain.records import Actor, Origin  # noqa: PLC0415
    from pretrain_archive.services.caller import Caller  # noqa: PLC0415

    return Caller(
        origin=Origin(dag_id="cli", dag_run_id=new_id("call"), task_id=task),
        actor=Actor(type="cli", name=getpass.getuser()),
        say=lambda line: print(plain(line), file=sys.stderr),
    )


@command(app)
def show(release: Release, as_json: Json = False) -> None:
    """What was released: bytes, terms, dependencies, evaluation, serving checks, signature, registry."""
    from pretrain_archive.services.release_reading import release_document  # noqa: PLC0415

    document = release_document(_find(release))
    rows = [[key.replace("_", " "), plain(document[key])] for key in SHOWN]
    rows += [[key.replace("_", " "), plain("; ".join(document[key]) or "unrecorded")] for key in LISTED]
    account: dict[str, Any] = document["account"] or {}
    rows.append(["evaluation", plain(account.get("conclusion") or "unrecorded")])
    rows += [
        [
            f"serving, {check['aspect'].replace('_', ' ')}",
            plain(f"{check['value']} ({check['how']} by {check['by']})"),
        ]
        for check in account.get("serving", ())
    ]
    signed, registered = document["signature"], document["registration"]
    if not document["handed_over"]:
        rows.append(["handed over", f"no: {NOT_YET if document['stands'] else NEVER}"])
    rows.append(["signature", plain(signed["key_fingerprint"]) if signed else "unrecorded (unsigned)"])
    rows.append(["registry", plain(_registered(registered))])
    rows += [
        [f"unrecorded: {plain(name)}", plain(why)] for name, why in account.get("unrecorded", {}).items()
    ]
    answer(document, table(rows), as_json=as_json)


def _registered(told: dict[str, Any] | None) -> str:
    if told is None:
        return "unrecorded (no registry was configured)"
    if told["state"] == "pending":
        return f"registration pending: {told['reason']}"
    gone = ", which the registry no longer lists: somebody removed it there; it is not made again"
    return f"{told['registry_url']}: {told['name']} version {told['version']}{gone * (told['state'] == 'missing')}"


@command(app)
def verify(
    release: Release,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="Public key (PEM) from outside; default: the option."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="List verified items too.")] = False,
    as_json: Json = False,
) -> None:
    """Read every released byte again and check the signature: 0 verified, 3 intact without a key, 1 changed."""
    from pretrain_archive import config, services  # noqa: PLC0415
    from pretrain_archive.artifacts.signing import read_public_key  # noqa: PLC0415
    from pretrain_archive.services.release_reading import verify_release  # noqa: PLC0415

    file = key or config.model_signing_public_key()
    public = read_public_key(file) if file else None
    checked = verify_release(services.open_store(), _find(release), public_key=public)
    document = checked.to_dict(everything=everything)
    rows = [
        [verdict_text(i["verdict"]), plain(i["id"]), plain(i["found"] or i["hint"])]
        for i in document["items"]
    ]
    lines = [*table(rows), f"release {plain(release)}: {checked.verdict}"]
    answer(document, lines, as_json=as_json, code=CODES[checked.verdict])


@command(app)
def export(release: Release, as_json: Json = False) -> None:
    """Register the release in MLflow where that is still pending; one version, however often."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.errors import InputError, RefusedError  # noqa: PLC0415
    from pretrain_archive.domain.kinds import ReleaseExported  # noqa: PLC0415
    from pretrain_archive.services.releasing import export_release, still_listed  # noqa: PLC0415
    from pretrain_archive.services.wiring import releasing  # noqa: PLC0415

    found, settings = _find(release), releasing()
    if settings.registry is None:
        hint = "Set [pretrain_archive] mlflow_url to the tracking server."
        raise InputError("[pretrain_archive] mlflow_url", "", "is not set", hint=hint)
    ledger = services.open_ledger(create=False)
    told = export_release(ledger, _caller("release_export"), found.view.run_uid, settings)
    if told is None:
        raise RefusedError(f"release {release} was never handed over", hint=NEVER)
    state = "pending"
    if done := isinstance(told, ReleaseExported):
        done = still_listed(ledger, found.view.run_uid, settings.registry, told)
        state = "registered" if done else "missing"
    document = {"state": state, **told.to_json()}
    answer(document, [plain(_registered(document))], as_json=as_json, code=OK if done else FINDING)


@command(app)
def card(
    release: Release,
    lang: Language = None,
    bom: Annotated[bool, typer.Option("--bom", help="The bill of materials (CycloneDX) instead.")] = False,
    as_json: Json = False,
) -> None:
    """Print the model card, made from the records, in the Hugging Face format."""
    from pretrain_archive import config, services  # noqa: PLC0415
    from pretrain_archive.domain.errors import RefusedError  # noqa: PLC0415
    from pretrain_archive.gates.sources import with_sources  # noqa: PLC0415
    from pretrain_archive.package import bom as material  # noqa: PLC0415
    from pretrain_archive.package.model_card import write_model_card  # noqa: PLC0415

    view = with_sources(services.open_ledger(create=False), _find(release).view)
    name = "README.zh-CN.md" if (lang or config.language()) == "zh" else "README.md"
    files = material.write_bom(view) if bom else write_model_card(view)
    if not files:
        raise RefusedError(f"release {release} was never handed over", hint=NEVER)
    name = material.FILE if bom else name
    text = files[name].decode()
    answer({"file": name, "text": text}, [text.rstrip("\n")], as_json=as_json)


@command(app)
def check(  # noqa: PLR0917 - the options of a command
    run: Annotated[str, typer.Argument(metavar="RUN", help="An open run with a candidate.")],
    aspect: Annotated[
        str, typer.Option(help="resources, latency, concurrency, safety_boundary or monitoring.")
    ],
    value: Annotated[str, typer.Option(help="The value with its unit.")],
    evidence: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The measurement's report; without it the value is declared."),
    ] = None,
    by: Annotated[str, typer.Option(help="Person or service behind the value; default: you.")] = "",
    as_json: Json = False,
) -> None:
    """Record how the candidate would serve: declared, or measured with its evidence."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.caller import local_identity  # noqa: PLC0415
    from pretrain_archive.services.serving_checks import record_serving  # noqa: PLC0415

    made = record_serving(
        services.open_ledger(create=False), services.open_store(), _caller("release_check"), run,
        aspect=aspect, value=value, by=by or local_identity(), evidence=evidence,
    )  # fmt: skip
    line = f"{made.aspect}: {made.value} ({made.how} by {made.by})"
    answer(made.to_json(), [plain(line)], as_json=as_json)
