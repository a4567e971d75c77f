"""What a release needs beyond the close gate's own items (R113): advisory until the outcome is to register."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists.common import Check, item, last, short, stated
from pretrain_archive.domain.checklists.serving import release_serving
from pretrain_archive.domain.checklists.sources import release_rights
from pretrain_archive.domain.evaluations import last_deciding
from pretrain_archive.domain.exploration import REASON, is_exploration
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item


def _release(item_id: str, *fields: str, hint: str) -> Check:
    """A release item that holds where the request states every one of ``fields``."""

    def made(view: RunView, policy: Policy) -> Item:
        record, opened = last(view, kinds.RunOpened)
        texts = [stated(opened.conf.get(field)) if opened else "" for field in fields]
        return item(
            f"release.{item_id}",
            "artifact",
            evidence=(record,),
            holds=True if all(texts) else None,
            found="; ".join(texts),
            check=f"the request states {' and '.join(fields).replace('_', ' ')}",
            expected="stated",
            blocking=False,
            owner=policy.people.model_owner,
            requirement="R113",
            hint=hint,
        )

    return made


def release_origin(view: RunView, policy: Policy) -> Item:
    """The release's origin is recorded: source and licence (R113)."""
    record, source = last(view, kinds.SourceRegistered)
    return item(
        "release.origin",
        "artifact",
        evidence=(record,),
        holds=True if source else None,
        found=f"{source.name}, {source.licence}" if source else "",
        expected="source and licence",
        blocking=False,
        check="the source behind the data is registered with its licence",
        owner=policy.people.data_owner,
        requirement="R113",
        hint="Register the source.",
    )


def release_evaluation(view: RunView, policy: Policy) -> Item:
    """The evaluation report is stored with its digest (R113)."""
    record, report = last_deciding(view) or (None, None)
    return item(
        "release.evaluation",
        "artifact",
        evidence=(record,),
        holds=True if report else None,
        found=f"report {short(report.report_digest)}" if report else "",
        expected="a report",
        blocking=False,
        check="the evaluation report is in the store under its digest",
        owner=policy.people.model_owner,
        requirement="R113",
        hint="Evaluate the checkpoint.",
    )


def release_scope(view: RunView, policy: Policy) -> Item | None:
    """An exploration is never released; other runs are not asked (R132)."""
    if not is_exploration(view):
        return None
    record, _ = last(view, kinds.RunOpened)
    return item(
        "release.scope",
        "artifact",
        evidence=(record,),
        holds=False,
        found=REASON,
        check="the run was launched with a full sign-off",
        expected="a full run",
        blocking=False,
        owner=policy.people.model_owner,
        requirement="R132",
        hint="Trigger a full run with the same inputs and have it signed.",
    )


def release_registry(_view: RunView, policy: Policy) -> Item:
    """The release is in a registry (R113): happens after this gate, so it is advisory and has no evidence."""
    return item(
        "release.registry",
        "artifact",
        evidence=(),
        holds=None,
        expected="a registry entry",
        found="",
        check="a registry holds the release",
        blocking=False,
        owner=policy.people.model_owner,
        requirement="R113",
        hint="The release is exported when the run is closed, where a registry is configured.",
    )


RELEASE: tuple[Check, ...] = (
    _release("version", "release_version", hint="Give a version in the form."),
    release_origin,
    release_rights,
    release_evaluation,
    _release("applicable", "applicable", hint="Say where the model may be used."),
    _release("not_applicable", "not_applicable", hint="Say where the model must not be used."),
    _release("rollback", "rollback", "take_down", hint="Say how the model is rolled back and taken down."),
    release_serving,
    release_scope,
    release_registry,
)
