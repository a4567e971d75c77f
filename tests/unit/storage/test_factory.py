"""Opening stores by address."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pretrain_archive.domain.errors import InputError
from pretrain_archive.storage.factory import open_store
from pretrain_archive.storage.files import FileStore
from pretrain_archive.storage.port import local_path
from pretrain_archive.storage.s3 import S3Store


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        pytest.param("file:///a/b%20c", "/a/b c", id="percent"),
        pytest.param("file://localhost/a", "/a", id="localhost"),
        pytest.param("/plain/path%20", "/plain/path%20", id="path"),
    ],
)
def test_a_folder(url, folder):
    """File addresses are decoded once; a plain path is taken as it is."""
    store = open_store(url)

    assert isinstance(store, FileStore)
    assert Path(folder) == store.folder
    assert Path(folder) / "k" == local_path(store, "k")


def test_a_bucket():
    """Bucket and prefix come from the address; there is no local path."""
    store = open_store("s3://bucket/some/pre%20fix/", s3_options={"region_name": "eu-west-1"})

    assert isinstance(store, S3Store)
    assert ("bucket", "some/pre fix/") == (store.bucket, store.prefix)
    assert "s3://bucket/some/pre%20fix/k" == store.location("k")
    assert local_path(store, "k") is None


@pytest.mark.parametrize(
    "url", ["", "relative/path", "http://host/x", "s3:///x", "file://host/x", "gs://b/x"]
)
def test_what_is_not_a_store(url):
    """Any other address is refused with the known forms."""
    with pytest.raises(InputError, match=r"store: .*s3://bucket/prefix"):
        open_store(url)


def test_an_option_with_a_typo_is_named_without_its_value():
    """A misspelt option is refused by name; its value may be a secret."""
    with pytest.raises(InputError, match="aws_secret_key") as caught:
        open_store("s3://b", s3_options={"aws_secret_key": "hidden"})
    assert "hidden" not in str(caught.value)


def test_a_folder_store_does_not_load_the_s3_library():
    """boto3 is imported when an S3 store is opened and not before."""
    code = (
        "import sys; from pretrain_archive.storage.factory import open_store; open_store('/x');"
        "import pretrain_archive.data.snapshots, pretrain_archive.data.quality.check;"
        "print([m for m in ('boto3', 'great_expectations', 'pandas', 'sqlalchemy', 'airflow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout
