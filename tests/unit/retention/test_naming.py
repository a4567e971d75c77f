"""However a run spells the checkpoint that it begins from, it is the one on record."""

from __future__ import annotations

import pytest

from pretrain_archive.artifacts.location import bucket_location, to_location
from pretrain_archive.retention.naming import NamedByRuns

CKPT = "ckpt_" + "0" * 32
DIGEST = "sha256:" + "ab" * 32


def users(text: str, *names: str) -> list[str]:
    """Who uses one of ``names`` where a run says ``text``."""
    named = NamedByRuns()
    named.add(text, "run_b")
    return list(dict.fromkeys(named.users(names)))


@pytest.mark.requirement("R151")
@pytest.mark.case("R03")
@pytest.mark.parametrize(
    "spelled",
    [
        pytest.param("{at}", id="path"),
        pytest.param("{at}/", id="slash at the end"),
        pytest.param(" {at}\n", id="space around"),
        pytest.param("{home}/../a//./step 100", id="dots"),
        pytest.param("{home}/link", id="link to it"),
        pytest.param("{home}/link/model.safetensors", id="file below a link"),
        pytest.param("{at}/model.safetensors", id="file in it"),
        pytest.param("{home}", id="folder that it lies in"),
        pytest.param("file://{at}", id="address with a space"),
        pytest.param("file://{home}/step%20100", id="address, encoded"),
        pytest.param("file://{home}/%73tep%20100/", id="address, encoded more than needed"),
        pytest.param("FILE://localhost{home}/step%20100", id="address with a host"),
        pytest.param("file:{home}/step%20100", id="address without slashes"),
    ],
)
def test_a_folder_is_known_by_every_name(tmp_path, spelled):
    """As it is, through a link, in percent-encoding, by what lies in it or by what it lies in."""
    home = tmp_path / "a"
    at = home / "step 100"
    at.mkdir(parents=True)
    (home / "link").symlink_to(at)

    assert ["run_b"] == users(spelled.format(at=at, home=home), to_location(at))
    assert [] == users(str(tmp_path / "b" / "step 100"), to_location(at))
    assert [] == users(f"{at}0", to_location(at))


@pytest.mark.requirement("R151")
@pytest.mark.parametrize(
    "spelled",
    [
        "s3://bucket/runs/a b/100%", "s3://bucket/runs/a%20b/100%25", "S3://bucket/runs/a b/100%/",
        "s3a://bucket/runs/a b/100%",
        "s3n://bucket/runs/a%20b/100%25/model.safetensors", "s3://bucket//runs/a b/100%", "s3://bucket/runs",
    ],
)  # fmt: skip
def test_a_prefix_is_known_by_every_name(spelled):
    """Keys as they are and encoded, and the other names of the scheme."""
    assert ["run_b"] == users(spelled, bucket_location("bucket", b"runs/a b/100%"))
    assert [] == users(spelled, bucket_location("other", b"runs/a b/100%"))


@pytest.mark.parametrize(
    "spelled", [CKPT, f"checkpoint:{CKPT}", f"archive://{CKPT}@main", DIGEST, DIGEST.upper(), DIGEST[7:]]
)
def test_ids_and_digests_are_known_by_every_name(spelled):
    """With and without what stands before and behind them."""
    assert ["run_b"] == users(spelled, f"checkpoint:{CKPT}", CKPT, "file:///x/y", DIGEST)


def test_a_name_of_any_bytes_is_known(tmp_path):
    """A folder's name need not be text."""
    at = tmp_path / b"odd-\xff\n%41".decode("utf-8", "surrogateescape")
    at.mkdir()

    assert ["run_b"] == users(str(at), to_location(at))
