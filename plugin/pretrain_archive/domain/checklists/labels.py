"""The item about the sampled review of labels, shown where the policy asks for one (R048, R049)."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists.common import item, last, names_snapshot
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item


def label_review(view: RunView, policy: Policy) -> Item | None:
    """Persons reviewed a sample of exactly this snapshot's labels and agreed enough; None where none is asked for."""
    if policy.data.labels is None or policy.data.labels.review is None:
        return None
    snapshot_record, snapshot = last(view, kinds.SnapshotCreated)
    sample_record, sampled = last(view, kinds.LabelsSampled)
    record, review = last(view, kinds.LabelsReviewed)
    holds: bool | None = None
    found = ""
    if review is not None and snapshot is not None and sampled is not None:
        about = names_snapshot(review.snapshot, snapshot) and review.sample_digest == sampled.sample_digest
        holds = review.passed and about
        found = (
            f"agreement {review.agreement:.3f} in {review.answers} answers by {', '.join(review.reviewers)}"
        )
        if review.kappa is not None:
            found += f", kappa {review.kappa:.3f}"
        if not about:
            found = f"the review is about {review.snapshot}, sample {review.sample_digest[7:15]}"
    return item(
        "prepare.label_review",
        "data",
        evidence=(snapshot_record, sample_record, record),
        holds=holds,
        found=found,
        check="a sample of this snapshot's labels was reviewed by persons",
        expected=f"agreement of at least {policy.data.labels.review.min_agreement:g}",
        owner=policy.people.data_owner,
        requirement="R048",
        hint="Answer the questions of the label review, or mend the labels.",
    )
