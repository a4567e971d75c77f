"""Deletion of many objects with all their versions, on a real HTTP server with faults in its answers."""

from __future__ import annotations

import io
import uuid

import boto3
import pytest
from tests.support.faulty_s3 import Fault, faulty_s3, fill
from tests.support.s3 import s3, s3_endpoint  # noqa: F401 - fixtures

from pretrain_archive.domain.errors import StorageError
from pretrain_archive.storage.bulk import StoredVersion, delete_many, versions_of
from pretrain_archive.storage.factory import open_store
from pretrain_archive.storage.files import FileStore
from pretrain_archive.storage.s3_bulk import S3Bulk


@pytest.fixture(scope="module")
def server():
    """One server with faults for all tests of this file."""
    with faulty_s3() as faulty:
        yield faulty


@pytest.fixture
def faulty(server):
    """The server without any fault, and a new bucket."""
    server.faults.clear()
    server.whole.clear()
    server.requests.clear()
    server.singles.clear()
    server.client = boto3.session.Session().client("s3", **server.options)
    server.bucket = f"b-{uuid.uuid4().hex}"
    server.client.create_bucket(Bucket=server.bucket)
    return server


def version_it(client, bucket: str, *, status: str = "Enabled") -> None:
    """Turn versioning on (or off again)."""
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


def bulk(server) -> tuple[S3Bulk, list[float]]:
    """A deletion that does not wait, and the pauses that it would have made."""
    pauses: list[float] = []
    return S3Bulk(server.bucket, client=server.client, sleep=pauses.append), pauses


@pytest.mark.requirement("R149")
@pytest.mark.parametrize("versioning", ["never", "on", "suspended"])
def test_all_versions_and_markers_go(s3, versioning):  # noqa: F811 - the fixture
    """What a plain deletion hides is listed, deleted by its id, and then nothing is listed any more."""
    client = s3.client()
    if versioning != "suspended":
        client.put_object(Bucket=s3.bucket, Key="a/x", Body=b"before")
    if versioning != "never":
        version_it(client, s3.bucket)
    client.put_object(Bucket=s3.bucket, Key="a/x", Body=b"newer!!")
    if versioning != "suspended":  # the server of the tests loses its way between markers and suspension
        client.put_object(Bucket=s3.bucket, Key="a/new +é%", Body=b"z")
        client.delete_object(Bucket=s3.bucket, Key="a/new +é%")
    if versioning == "suspended":
        version_it(client, s3.bucket, status="Suspended")
        client.put_object(Bucket=s3.bucket, Key="a/y", Body=b"without a version")
    client.put_object(Bucket=s3.bucket, Key="ab", Body=b"neighbour")
    store = open_store(f"s3://{s3.bucket}", s3_options=s3.options)

    found = list(versions_of(store, "a/"))
    assert {"never": 1, "on": 4, "suspended": 2}[versioning] == len(found)
    assert sorted((e.key, e.marker) for e in found) == [(e.key, e.marker) for e in found]
    answer = delete_many(store, found)

    assert (len(found), ()) == (answer.asked, answer.faults)
    assert [] == list(versions_of(store, "a/"))
    assert ["ab"] == [entry.key for entry in versions_of(store, "")]


def test_a_prefix_of_the_store_is_no_part_of_its_keys(s3):  # noqa: F811 - the fixture
    """Versions and faults are named as the store names its objects."""
    store = open_store(f"s3://{s3.bucket}/deep/er", s3_options=s3.options)
    s3.client().put_object(Bucket=s3.bucket, Key="deep/er/k", Body=b"12")

    assert [("k", 2)] == [(entry.key, entry.size) for entry in versions_of(store, "")]
    delete_many(store, versions_of(store, ""))
    assert [] == list(store.list(""))


@pytest.mark.case("R05")
def test_errors_inside_a_good_answer_are_read_key_by_key(faulty):
    """1003 keys: two batches, one more try for what may pass, two keys stay with code and message."""
    keys = [f"ck/{number:04d}" for number in range(1003)]
    fill(faulty.bucket, keys)
    faulty.faults.update(
        {
            "/0002": Fault(code="AccessDenied", message="Access Denied"),
            "/0700": Fault(code="InternalError", message="try again", times=1),
            "/1002": Fault(code="AccessDenied", message="protected by object lock"),
        }
    )
    store, pauses = bulk(faulty)

    answer = store.delete(list(store.versions("ck/")))

    assert [1000, 1, 3] == [len(request) for request in faulty.requests]
    assert 1 == len(pauses)
    assert [("ck/0002", "AccessDenied", "Access Denied"), ("ck/1002", "AccessDenied", "protected by object lock")] == [
        (fault.key, fault.code, fault.message) for fault in answer.faults
    ]  # fmt: skip
    assert {"ck/0002", "ck/1002"} == {entry.key for entry in store.versions("ck/")}
    faulty.faults.clear()
    assert () == store.delete(list(store.versions("ck/"))).faults
    assert ["ck/0002", "ck/1002"] == faulty.requests[-1]


@pytest.mark.case("R05")
@pytest.mark.parametrize("code", ["SlowDown", "InternalError", "ServiceUnavailable"])
def test_what_may_pass_is_tried_a_bounded_number_of_times(faulty, code):
    """The pauses grow, and then it is told."""
    faulty.client.put_object(Bucket=faulty.bucket, Key="k", Body=b"x")
    faulty.faults["k"] = Fault(code=code)
    store, pauses = bulk(faulty)

    answer = store.delete([StoredVersion(key="k", size=1)])

    assert [("k", code)] == [(fault.key, fault.code) for fault in answer.faults]
    assert 6 == len(faulty.requests)
    assert all(2 * a > b > a / 2 for a, b in zip(pauses[1:], [p * 2 for p in pauses], strict=False))
    assert 3 < sum(pauses) < 20


def test_a_request_that_is_throttled_as_a_whole_is_sent_again(faulty):
    """Every client retries by itself; what is left is tried again with a pause."""
    faulty.client.put_object(Bucket=faulty.bucket, Key="k", Body=b"x")
    faulty.whole[:] = [(503, "SlowDown")]

    assert () == bulk(faulty)[0].delete([StoredVersion(key="k", size=1)]).faults
    assert [] == list(bulk(faulty)[0].versions(""))


def test_a_batch_that_is_refused_does_not_stop_the_next(faulty):
    """Its keys are told with the service's word, the others go."""
    for number in range(2):
        faulty.client.put_object(Bucket=faulty.bucket, Key=f"k{number}", Body=b"x")
    faulty.whole[:] = [(403, "AccessDenied")]
    store, _ = bulk(faulty)
    many = [StoredVersion(key="k0", size=1), *(StoredVersion(key=f"not/{n}", size=1) for n in range(999))]

    answer = store.delete([*many, StoredVersion(key="k1", size=1)])

    assert {"AccessDenied"} == {fault.code for fault in answer.faults}
    assert (1001, 1000) == (answer.asked, len(answer.faults))
    assert ["k0"] == [entry.key for entry in store.versions("")]


@pytest.mark.parametrize("code", [(501, "NotImplemented"), (400, "MissingContentMD5")])
def test_a_service_without_bulk_deletion_is_served_one_by_one(faulty, code):
    """The same versions go, one request each."""
    for key in ("a", "b"):
        faulty.client.put_object(Bucket=faulty.bucket, Key=key, Body=b"x")
    faulty.whole[:] = [code]
    store, _ = bulk(faulty)

    assert () == store.delete(list(store.versions(""))).faults
    assert 2 == len(faulty.singles)
    assert [] == list(store.versions(""))


def test_a_key_that_xml_cannot_carry_goes_alone(faulty):
    """A control character has no form in the body of a bulk request."""
    store, _ = bulk(faulty)

    answer = store.delete([StoredVersion(key="a\x01b", size=1), StoredVersion(key="plain", size=1)])

    assert () == answer.faults
    assert [["plain"]] == faulty.requests
    assert 1 == len(faulty.singles)


def test_a_version_that_is_not_there_is_missing_and_no_fault(faulty):
    """404 is what a deletion wants."""
    faulty.faults["gone"] = Fault(code="NoSuchVersion")

    answer = bulk(faulty)[0].delete([StoredVersion(key="gone", size=1, version="v")])

    assert (1, 1, ()) == (answer.asked, answer.missing, answer.faults)


def test_nobody_is_told_absent_where_the_service_cannot_be_asked(faulty):
    """No way there is an error and no empty listing."""
    faulty.client.delete_bucket(Bucket=faulty.bucket)
    store = open_store(f"s3://{faulty.bucket}", s3_options=faulty.options)

    with pytest.raises(StorageError, match="cannot list the versions"):
        list(versions_of(store, ""))


def test_a_folder_store_tells_the_same(tmp_path):
    """Objects without versions; what cannot go is told with the system's code."""
    store = FileStore(tmp_path)
    store.put_if_absent("a/x", io.BytesIO(b"12"))
    (tmp_path / "a" / "folder").mkdir()

    entries = [*versions_of(store, "a/"), StoredVersion(key="a/folder", size=0)]
    answer = delete_many(store, entries)

    assert 2 == answer.asked
    assert [("a/folder", True)] == [(f.key, f.code in {"EISDIR", "EPERM"}) for f in answer.faults]
    assert [] == list(store.list("a/"))
