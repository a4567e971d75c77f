"""A close that signs, packages and registers: one walk through the main line, then retried and looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from huggingface_hub import ModelCard
from tests.support.mlflow_server import free_port
from tests.support.released import model_key
from tests.support.walked_release import OTHERS, Walk, walked

from pretrain_archive.artifacts.location import to_path
from pretrain_archive.artifacts.signing import read_public_key
from pretrain_archive.cli import run_command
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.services.release_reading import find_release, verify_release
from pretrain_archive.services.serving_checks import record_serving


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """One run from a folder to a release."""
    return walked(tmp_path_factory.mktemp("walk"))


@pytest.mark.requirement("R113", "R114")
def test_the_close_gate_refuses_a_product_without_its_serving_checks(walk):
    """Registering is refused by the item's name until every aspect is recorded."""
    assert "release.serving" in walk.refused


@pytest.mark.requirement("R104", "R113")
def test_what_is_recorded_after_the_signature_makes_it_stale(walk):
    """A measurement after the approval: no release under the old decision."""
    assert "release.serving" in walk.stale


@pytest.mark.requirement("R104", "R105", "R106", "R112", "R114")
def test_the_release_carries_its_serving_checks(walk):
    """Declared and measured ones, the measured one with its evidence in the store."""
    checks = {check.aspect: check for check in walk.closed.release.account.serving}

    assert {*OTHERS, "latency"} == set(checks)
    assert ("measured", "declared") == (checks["latency"].how, checks["monitoring"].how)
    assert b"p95 170 ms" in to_path(checks["latency"].evidence_uri).read_bytes()
    assert walk.closed.release.account.dependencies.packages["pydantic"]


@pytest.mark.case("A05")
def test_two_closes_at_the_same_moment_hand_over_the_same(walk):
    """One release, one signature, one package, whoever was first."""
    view = walk.line.view()

    assert (walk.closed.release, walk.closed.package) == (walk.beside.release, walk.beside.package)
    assert (1, 1, 1) == tuple(
        len(list(view.all(kind))) for kind in (kinds.ReleaseMade, kinds.ReleaseSigned, kinds.RunClosed)
    )


@pytest.mark.case("A05")
@pytest.mark.requirement("R113")
def test_with_the_registry_down_the_package_is_complete(walk):
    """Registration is pending, and the package verifies with the key from outside."""
    done = walk.line.verify(walk.closed.folder)

    assert isinstance(walk.closed.registration, kinds.ReleaseExportPending)
    assert "does not answer" in walk.closed.registered
    assert (0, "verified") == (done.returncode, json.loads(done.stdout)["verdict"])


@pytest.mark.requirement("R105", "R112", "R113", "R143")
def test_the_package_holds_card_bill_and_signature(walk):
    """Both languages, the bill of materials, and the bundle under the digest of its record."""
    files = walk.files()
    card = ModelCard(files["release/README.md"].decode())
    bill = json.loads(files["release/bom.cdx.json"])
    signed = walk.line.view().latest(kinds.ReleaseSigned)

    assert walk.line.run_uid == card.data.pretrain_archive["run"]
    assert "未记录" in files["release/README.zh-CN.md"].decode()
    assert "latency" in json.dumps(bill)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None
    assert signed.bundle_digest in files["release/README.md"].decode()
    [bundle] = [data for name, data in files.items() if name.endswith("-model-signature.json")]
    assert (
        walk.line.store.open(f"releases/{signed.release_id}/{signed.key_fingerprint[7:23]}.sig").read()
        == bundle
    )


@pytest.mark.case("A05")
@pytest.mark.parametrize("other", [False, True], ids=["same key", "another key since"])
def test_a_retried_close_changes_nothing(walk, tmp_path, other):
    """The same bytes, one release, one signature; a key that was exchanged since signs nothing again."""
    before = walk.files()
    key = model_key(tmp_path / "other.key") if other else None
    again = walk.close(try_number=4 + other, key=key)
    view = walk.line.view()

    assert walk.closed.release == again.release
    assert before == walk.files()
    assert (1, 1) == (len(list(view.all(kinds.ReleaseMade))), len(list(view.all(kinds.ReleaseSigned))))


@pytest.mark.requirement("R105")
def test_a_release_verifies_with_the_key_from_outside(walk, tmp_path):
    """Without a key it is intact; another person's key is a finding."""
    other = read_public_key(model_key(tmp_path / "other.key").with_suffix(".pub"))

    assert "verified" == walk.verify(public_key=walk.public).verdict
    assert "intact" == walk.verify(public_key=None).verdict
    found = walk.verify(public_key=other)
    assert "changed" == found.verdict
    assert ["release.signature"] == [i.id for i in found.items if i.verdict == "changed"]


def damaged(change: Callable[[bytes], bytes], file: Path):
    """The file with other bytes, for a while."""

    class Damaged:
        """Puts them back."""

        def __enter__(self) -> None:
            self.whole = file.read_bytes()
            file.write_bytes(change(self.whole))

        def __exit__(self, *_: object) -> None:
            file.write_bytes(self.whole)

    return Damaged()


@pytest.mark.requirement("R105")
@pytest.mark.parametrize("what", ["weights", "signature"])
def test_a_wrong_byte_is_found(walk, what):
    """One bit in the weights or in the signature: changed, by name."""
    release = walk.line.view().latest(kinds.ReleaseMade)
    checkpoint = next(
        c
        for _, c in walk.line.view().all(kinds.CheckpointRegistered)
        if c.digest == release.checkpoint_digest
    )
    signed = walk.line.view().latest(kinds.ReleaseSigned)
    file = to_path(checkpoint.location) / "weights.bin" if what == "weights" else to_path(signed.bundle_uri)
    with damaged(lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:], file):
        found = walk.verify(public_key=walk.public)

    assert "changed" == found.verdict
    [bad] = [item.id for item in found.items if item.verdict == "changed"]
    assert ("weights.bin" if what == "weights" else "release.signature") in bad
    assert "verified" == walk.verify(public_key=walk.public).verdict


def test_a_forged_bundle_record_is_found(walk):
    """A bundle that somebody signed with a key of their own is none of the outside key."""
    found = find_release(walk.line.ledger, walk.line.run_uid)
    signed = replace_signature(found, key_fingerprint="sha256:" + "0" * 64)

    assert "changed" == verify_release(walk.line.store, signed, public_key=walk.public).verdict


def replace_signature(found, **changes):
    """The release with another record of its signature."""
    records = [
        replace(r, payload={**r.payload, **changes}) if r.kind == "release.signed" else r
        for r in found.view.records
    ]
    return replace(found, view=replace(found.view, records=tuple(records)))


def test_an_unsigned_release_says_so(walk):
    """Without a signature the finding is unrecorded with its reason, and the verdict at most intact."""
    found = find_release(walk.line.ledger, "line@1")
    bare = replace(
        found,
        view=replace(found.view, records=tuple(r for r in found.view.records if r.kind != "release.signed")),
    )
    told = verify_release(walk.line.store, bare, public_key=walk.public)

    [item] = [i for i in told.items if i.id == "release.signature"]
    assert ("intact", "unrecorded") == (told.verdict, item.verdict)
    assert "no signing key was configured" in item.hint


def test_a_closed_run_takes_no_more_checks(walk):
    """It is frozen."""
    with pytest.raises(RefusedError, match="frozen"):
        record_serving(
            walk.line.ledger, walk.line.store, walk.line.caller("check"), walk.line.run_uid, aspect="latency",
            value="1", by="dana",
        )  # fmt: skip


def test_an_unknown_release_lists_what_there_is(walk):
    """Name@version, run or id; anything else is answered with the known ones."""
    made = walk.closed.release

    for name in ("line@1", walk.line.run_uid, made.release_id):
        assert made == find_release(walk.line.ledger, name).made
    with pytest.raises(InputError) as raised:
        find_release(walk.line.ledger, "nothing@2")
    assert "line@1" in raised.value.hint


@pytest.fixture
def home(walk, monkeypatch, tmp_path):
    """Settings that lead the command line to the walked run."""
    folder = walk.line.folder
    settings = {
        "DATABASE_URL": f"sqlite:///{folder}/ledger.db", "SIGNING_KEY": folder / "ledger.key",
        "STORE_URL": (folder / "store").as_uri(), "ANCHORS": (folder / "anchors").as_uri(),
        "WORK_FOLDER": folder, "MODEL_SIGNING_KEY": walk.key,
    }  # fmt: skip
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__PRETRAIN_ARCHIVE__{name}", str(value))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["show", "line@1"], 0, ["measured by dana", "registration pending", "knows nothing"], id="show"),
        pytest.param(["verify", "line@1"], 0, ["line@1: verified"], id="verify by the configured key"),
        pytest.param(["card", "line@1", "--lang", "zh"], 0, ["已知限制", "未记录"], id="card"),
        pytest.param(["card", "line@1", "--bom"], 0, ["CycloneDX"], id="bill"),
        pytest.param(["export", "line@1"], 2, ["mlflow_url"], id="export without a registry"),
        pytest.param(["show", "line@9"], 2, ["line@1"], id="unknown"),
        pytest.param(["check", "RUN", "--aspect", "latency", "--value", "1"], 4, ["frozen"], id="check"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("home")
def test_the_command_line(walk, capfd, monkeypatch, arguments, code, words):
    """Each command answers in words and as one document, with its exit code."""
    monkeypatch.delenv("AIRFLOW__PRETRAIN_ARCHIVE__MLFLOW_URL", raising=False)
    given = [walk.line.run_uid if word == "RUN" else word for word in arguments]

    assert code == run_command(["release", *given])
    told = "".join(capfd.readouterr())
    assert [] == [word for word in words if word not in told]

    assert code == run_command(["release", *given, "--json"])
    assert json.loads(capfd.readouterr().out)


@pytest.mark.usefixtures("home")
def test_export_to_a_registry_that_is_down_is_a_finding(capfd, monkeypatch):
    """Exit code 1 and the state pending, ready to be tried again."""
    monkeypatch.setenv("AIRFLOW__PRETRAIN_ARCHIVE__MLFLOW_URL", f"http://127.0.0.1:{free_port()}")

    assert 1 == run_command(["release", "export", "line@1", "--json"])
    assert "pending" == json.loads(capfd.readouterr().out)["state"]
