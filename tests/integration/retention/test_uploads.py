"""Uploads that a killed writer left in a bucket (a real HTTP server) are found, proposed and dropped."""

from __future__ import annotations

import pytest
from tests.support.artifact_run import POLICY, Run
from tests.support.deleting import carry_out, plan_over, rule, ruled, stones
from tests.support.s3 import s3, s3_endpoint  # noqa: F401 - fixtures

from pretrain_archive.retention.reconcile import reconcile
from pretrain_archive.retention.subjects_uploads import Uploads
from pretrain_archive.storage.factory import open_store
from pretrain_archive.storage.s3 import S3Store

RULES = ruled(
    POLICY.format(keep_last=1, age=0, limit=10**9, hold="[]"),
    rule("rest", ["leftover"], more="younger_than_days = 0"),
)


def begin(s3, key: str, size: int) -> None:  # noqa: F811 - the fixture
    """A writer begins an upload, sends one part and dies."""
    client, target = s3.client(), {"Bucket": s3.bucket, "Key": key}
    upload = client.create_multipart_upload(**target)["UploadId"]
    client.upload_part(**target, UploadId=upload, PartNumber=1, Body=b"x" * size)


class Killed(S3Store):
    """The process ends between the removal and the proof."""

    def abort(self, upload):
        """Dropped, and nothing comes after it."""
        super().abort(upload)
        raise KeyboardInterrupt


@pytest.mark.requirement("R116", "R154")
@pytest.mark.parametrize("killed", [False, True])
def test_unfinished_uploads_are_proposed_and_dropped_with_a_tombstone(ledger, tmp_path, s3, killed):  # noqa: F811
    """Those of the archive's prefix, once no run is open; also if the pass is killed after the drop."""
    store = open_store(f"s3://{s3.bucket}/archive", s3_options=s3.options)
    begin(s3, "archive/blobs/odd +é", 7000)
    begin(s3, "elsewhere/x", 9000)
    run = Run(ledger, store, tmp_path / "checkpoints").open()
    found = reconcile(ledger, places=(), store=store).findings
    finder = Uploads(store=store, owner="demo")
    kept = plan_over(ledger, RULES, [finder])
    run.close()
    items = plan_over(ledger, RULES, [finder])
    if killed:
        dying = Killed(s3.bucket, "archive", client=s3.client())
        with pytest.raises(KeyboardInterrupt):
            carry_out(ledger, RULES, items, [Uploads(store=dying, owner="demo")])

    done = carry_out(ledger, RULES, items, [finder])

    assert [("left_over", 7000)] == [(finding.kind, finding.size) for finding in found]
    assert [("keep", "unfinished upload")] == [(item["action"], item["class"]) for item in kept]
    assert ({"deleted": 1}, 7000) == (done.outcomes(), done.bytes_released)
    assert [7000] == [stone.bytes_released for stone in stones(ledger).values()]
    left = s3.client().list_multipart_uploads(Bucket=s3.bucket)["Uploads"]
    assert ["elsewhere/x"] == [upload["Key"] for upload in left]
    assert [] == list(store.list("retention/"))


class Denied(S3Store):
    """A store whose user may list objects and not uploads."""

    def uploads(self):
        """Refused, as the service does."""
        raise self._refused("list the uploads of", "", PermissionError("AccessDenied"))


def test_without_the_right_to_list_uploads_only_that_is_blocked(ledger, s3):  # noqa: F811 - the fixture
    """Everything else is judged and compared."""
    store = Denied(s3.bucket, "archive", client=s3.client())

    items = plan_over(ledger, RULES, [Uploads(store=store, owner="demo")])
    found = reconcile(ledger, places=(), store=store).findings

    assert [("blocked", True)] == [(item["action"], "AccessDenied" in item["reason"]) for item in items]
    assert [("unreachable", "mount")] == [(finding.kind, finding.proposal.act) for finding in found]
