"""A version that is being made and a removal that is under way: between the two no named content is lost unseen."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from tests.support.artifact_run import ACTOR, POLICY, Run
from tests.support.deleting import Stepping, carry_out, plan_over, rule, ruled, stones

from pretrain_archive.data.condemned import JOURNALS, condemned, settle
from pretrain_archive.data.snapshots import create_snapshot, open_version
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.retention.references import needed, references
from pretrain_archive.retention.subjects_strays import Strays
from pretrain_archive.storage.bulk import StoredVersion
from pretrain_archive.storage.files import FileStore

RULES = ruled(
    POLICY.format(keep_last=1, age=0, limit=10**9, hold="[]"),
    rule("rest", ["leftover"], more="younger_than_days = 0"),
)


@pytest.fixture
def store(tmp_path):
    """A store with a version, and content that a failed snapshot left."""
    made = FileStore(tmp_path / "store")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").write_bytes(b"left" * 1000)
    snapshot(made, None, tmp_path)
    for key in [info.key for info in made.list("snapshots/")]:
        made.delete(key)
    return made


def snapshot(store: Any, ledger: Any, tmp_path: Any) -> Any:
    """A version of what lies in the source."""
    return create_snapshot(
        store,
        ledger,
        name="corpus",
        source_root=tmp_path / "source",
        mode="copy",
        actor=ACTOR,
        origin=Run.origin(),
    )


def leftovers(ledger: Any, store: Any) -> list[dict[str, Any]]:
    """The plan's items about content that no version names."""
    found = plan_over(ledger, RULES, [Strays(store=store, owner="demo")])
    return [item for item in found if item["class"] == "content without a version"]


class CutError(Exception):
    """The process ends here."""


@pytest.mark.requirement("R151")
def test_a_cut_removal_is_not_finished_over_a_version_that_was_made_since(
    ledger, store, tmp_path, monkeypatch
):
    """The journal names content that was nobody's when it was written."""
    monkeypatch.setattr("pretrain_archive.data.condemned.GRACE", 0)
    items = leftovers(ledger, store)

    def cut(step: str) -> None:
        if step == "delete many":
            raise CutError

    with pytest.raises(CutError):
        carry_out(ledger, RULES, items, [Strays(store=Stepping(store, cut), owner="demo")])
    assert condemned(store)
    made = snapshot(store, ledger, tmp_path)

    done = carry_out(ledger, RULES, items, [Strays(store=store, owner="demo")])

    settle(store, {info.key for info in store.list("blobs/")})
    assert b"left" * 1000 in [store.open(info.key).read() for info in store.list("blobs/")], done
    assert made.manifest_digest == open_version(store, "corpus").manifest_digest
    assert 0 == sum(stone.bytes_released for stone in stones(ledger).values())


@pytest.mark.requirement("R151")
def test_a_version_whose_content_went_meanwhile_is_not_recorded_and_is_whole_when_made_again(
    ledger, store, tmp_path
):
    """The content is found there and is gone when the version is named; the next try stores it anew."""
    blob = next(info.key for info in store.list("blobs/"))

    def meanwhile(step: str) -> None:
        if step.startswith("put snapshots/") and step.endswith("done"):
            store.delete(blob)

    with pytest.raises(StorageError, match="1 objects were removed by a clean-up"):
        snapshot(Stepping(store, meanwhile), ledger, tmp_path)
    assert [] == list(ledger.records(kinds=["snapshot.created"]))

    again = snapshot(store, ledger, tmp_path)

    assert (1, True) == (again.version, store.stat(blob) is not None)


def test_a_removal_under_way_is_waited_for(store):
    """As long as it names the content, and not for ever: a removal that was cut names it until it is finished."""
    blob = next(info.key for info in store.list("blobs/"))
    document = {"ref": "x", "plan_digest": "y", "bytes": 0, "versions": [[blob, None, 1, False]]}
    store.put_if_absent(f"{JOURNALS}1.json", io.BytesIO(json.dumps(document).encode()))
    store.put_if_absent(f"{JOURNALS}2.json", io.BytesIO(b"no journal"))
    waited: list[float] = []

    settle(store, {blob}, sleep=waited.append)
    settle(store, {"blobs/other"} - {"blobs/other"}, sleep=lambda _: pytest.fail("nothing to wait for"))

    assert 60 == len(waited)


def test_named_content_behind_a_delete_marker_can_be_shown_again(store, tmp_path):
    """Somebody hid the object: what is below the marker is the only copy of it."""
    snapshot(store, None, tmp_path)
    blob = next(info.key for info in store.list("blobs/"))
    old = StoredVersion(key=blob, size=1, version="1", latest=False)
    new = StoredVersion(key=blob, size=1, version="2")
    marker = StoredVersion(key=blob, size=0, version="3", marker=True)
    other = StoredVersion(key="blobs/nobody", size=1, version="1")

    with references(store) as counted:
        assert [new] == list(needed([old, new, other], counted))
        assert [old, marker] == list(needed([old, marker, other], counted))
