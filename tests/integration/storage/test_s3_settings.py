"""Settings of which no S3 client can be made, and errors that must not tell what is secret."""

from __future__ import annotations

import io

import pytest

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.storage.factory import open_bucket, open_store

SETTINGS = (
    "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL",
    "AWS_DEFAULT_REGION",
)  # fmt: skip
KEYS = {"AWS_ACCESS_KEY_ID": "AKIAGEHEIM", "AWS_SECRET_ACCESS_KEY": "geheim"}
REGION = {"AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture
def said(monkeypatch):
    """What is said under some of AWS's own settings, of a store and of a source."""

    def say(settings):
        for name in SETTINGS:
            monkeypatch.delenv(name, raising=False)
        for name, text in settings.items():
            monkeypatch.setenv(name, text)
        told = []
        for use in (
            lambda: open_store("s3://bucket").put_if_absent("x", io.BytesIO(b"1")),
            lambda: list(open_bucket("bucket").list(b"")),
        ):
            with pytest.raises(ArchiveError) as caught:
                use()
            told.append(str(caught.value))
        return told

    return say


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        pytest.param({"AWS_PROFILE": "nobody"}, "profile (nobody) could not be found", id="profile"),
        pytest.param({"AWS_ACCESS_KEY_ID": "AKIAGEHEIM"}, "missing: AWS_SECRET_ACCESS_KEY", id="half a key"),
        pytest.param(KEYS | {"AWS_DEFAULT_REGION": "a b"}, "region_name 'a b'", id="region"),
        pytest.param(
            KEYS | {"AWS_ENDPOINT_URL": "u:geheim@h"}, "the endpoint or another setting", id="endpoint"
        ),
    ],
)
def test_settings_that_make_no_client(said, settings, named):
    """One line names what is wrong, for a store as for a source."""
    for told in said(settings):
        assert told.startswith("S3: no client can be made: ")
        assert named in told
        assert "geheim" not in told


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"AWS_ENDPOINT_URL": "http://me:geheim@127.0.0.1:9"}, id="user in the endpoint"),
        pytest.param({"AWS_ENDPOINT_URL": "http://me:ge@heim@127.0.0.1:9"}, id="an @ in the password"),
        pytest.param(
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_SESSION_TOKEN": "geheim\nline"},
            id="token of two lines",
        ),
    ],
)
def test_no_credentials_stand_in_an_error(said, settings):
    """Neither what stands in an address nor what a request cannot carry is repeated."""
    for told in said(KEYS | REGION | settings):
        assert "geheim" not in told.replace("AKIAGEHEIM", "")
        assert "heim@" not in told
