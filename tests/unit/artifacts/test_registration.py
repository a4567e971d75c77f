"""Registration: once per checkpoint, refused with every reason, never in doubt."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest
from tests.support.artifact_files import write_checkpoint, write_sharded
from tests.unit.artifacts.conftest import RUN

from pretrain_archive.artifacts import claims, hashing
from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.registration import (
    Claim,
    current,
    reclassify,
    register_checkpoint,
    registered,
)
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.kinds import CheckpointRefused, FileDigest
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.canonical import canonical_bytes

CONFIGURATION = "sha256:" + "c" * 64


def claim(step: int = 100, **changes) -> Claim:
    """What the run says about the checkpoint of ``step``."""
    known = Claim(
        run_uid=RUN,
        attempt=1,
        step=step,
        tokens=step * 4096,
        snapshot="stdlib@1",
        configuration_digest=CONFIGURATION,
        responsible="alice",
    )
    return dataclasses.replace(known, **changes)


def refusals(ledger) -> list[CheckpointRefused]:
    """The refusals on record."""
    return [fact for _, fact in RunView.of(RUN, ledger.records()).all(CheckpointRefused)]


@pytest.mark.requirement("R098", "R100", "R101", "R102")
def test_registers_files_tensors_components_and_edges(tmp_path, ledger, actor, origin):
    """A whole checkpoint is recorded with everything that tells where it came from."""
    folder = write_checkpoint(tmp_path, 100)

    fact = register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    files = {file.path: file.sha256 for file in fact.files}
    assert {".complete", "model.safetensors", "optimizer.safetensors", "state.json"} == set(files)
    for name, sha256 in files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
    assert (100, 409600, "safetensors", 2, "recovery") == (
        fact.step,
        fact.tokens,
        fact.format,
        fact.tensors,
        fact.artifact_class,
    )
    assert {"epoch": 0, "document": 300, "offset": 17} == fact.data_position
    assert (folder / "optimizer.safetensors").stat().st_size == fact.components["optimizer"]
    this = f"checkpoint:{fact.checkpoint_id}"
    assert {
        (this, "was_generated_by", f"run:{RUN}"),
        (this, "was_derived_from", "snapshot:stdlib@1"),
        (this, "used", f"configuration:{CONFIGURATION}"),
        (this, "was_attributed_to", "person:alice"),
    } == {tuple(edge.to_dict().values()) for edge in ledger.log[0].edges}


def test_same_checkpoint_from_another_path_and_try_is_the_first(tmp_path, ledger, actor, origin):
    """The id follows from run, step and bytes, so a copy or a retry adds nothing."""
    first = register_checkpoint(
        ledger, write_checkpoint(tmp_path / "a", 100), claim(), actor=actor, origin=origin
    )

    copy = write_checkpoint(tmp_path / "b", 100)
    retry = dataclasses.replace(origin, try_number=2)
    again = register_checkpoint(ledger, copy, claim(attempt=2), actor=actor, origin=retry)

    assert first == again
    assert 1 == len(ledger.log)


def test_other_content_for_a_step_of_the_same_attempt_is_refused(tmp_path, ledger, actor, origin):
    """Both digests are named and the first record stands."""
    first = register_checkpoint(
        ledger, write_checkpoint(tmp_path / "a", 100), claim(), actor=actor, origin=origin
    )
    other = write_checkpoint(tmp_path / "b", 100, content=b"\x09" * 16)

    with pytest.raises(CheckpointError, match="other content") as caught:
        register_checkpoint(ledger, other, claim(), actor=actor, origin=origin)

    assert first.digest in str(caught.value)
    assert 2 == str(caught.value).count("sha256:")
    assert [first] == [fact for _, fact in registered(ledger, RUN)]
    assert 1 == len(refusals(ledger))


def test_a_later_attempt_makes_a_second_generation(tmp_path, ledger, actor, origin):
    """A rewound attempt reaches a step again with other bytes: both stay on record."""
    first = register_checkpoint(
        ledger, write_checkpoint(tmp_path / "a", 100), claim(), actor=actor, origin=origin
    )
    other = write_checkpoint(tmp_path / "b", 100, content=b"\x09" * 16)

    second = register_checkpoint(
        ledger, other, claim(attempt=2), actor=actor, origin=dataclasses.replace(origin, try_number=2)
    )

    assert first.checkpoint_id != second.checkpoint_id
    assert second == register_checkpoint(ledger, other, claim(), actor=actor, origin=origin)
    assert [first, second] == list(current(RunView.of(RUN, ledger.records())).values())


@pytest.mark.parametrize(
    ("state", "words"),
    [
        pytest.param({"step": 200}, "step", id="another step"),
        pytest.param({"step": 100, "tokens": 1}, "tokens", id="other tokens"),
        pytest.param(
            {"step": 100, "configuration_digest": "sha256:" + "d" * 64},
            "configuration",
            id="other configuration",
        ),
        pytest.param({"step": "100"}, "whole number", id="step as text"),
        pytest.param(
            {"step": 100, "data_position": {"seed": 2**63}}, "exactly", id="position that JSON rounds"
        ),
    ],
)
def test_a_checkpoint_that_contradicts_the_run_is_refused(tmp_path, ledger, actor, origin, state, words):
    """What the state file says must be what the run says."""
    folder = write_checkpoint(tmp_path, 100, state=state)

    with pytest.raises(CheckpointError, match=words):
        register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    assert [] == registered(ledger, RUN)
    assert words in refusals(ledger)[0].problems[0]


def test_a_refusal_is_recorded_once_per_reason(tmp_path, ledger, actor, origin):
    """Looking again at the same fault adds nothing; another fault does."""
    folder = write_checkpoint(tmp_path, 100, complete=False)
    for _ in range(2):
        with pytest.raises(CheckpointError):
            register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError):
        register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    assert 2 == len(refusals(ledger))


@pytest.mark.case("C01")
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(
            lambda d: (d / "model-00002-of-00002.safetensors").unlink(),
            "00002-of-00002.safetensors, which is missing",
            id="b shard missing",
        ),
        pytest.param(
            lambda d: (d / "model-00002-of-00002.safetensors").write_bytes(b""),
            "00002-of-00002.safetensors: 0 bytes",
            id="c shard empty",
        ),
        pytest.param(lambda d: _name_tensor(d, "c"), "does not hold: 'c'", id="d tensor missing"),
        pytest.param(
            lambda d: [path.unlink() for path in d.iterdir()] and (d / "config.json").write_text("{}"),
            "no weight file",
            id="e no weights",
        ),
        pytest.param(
            lambda d: (d / "model.safetensors.index.json").write_text('{"weight_map": {"a": '),
            "index.json: not valid JSON",
            id="f index broken",
        ),
    ],
)
def test_index_and_shards_must_agree(tmp_path, ledger, actor, origin, spoil, words):
    """Whatever an index promises and the shards do not hold is named in one line and nothing is registered."""
    folder = write_sharded(tmp_path / "model")
    spoil(folder)

    with pytest.raises(CheckpointError) as caught:
        register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert 1 == len(inspect(folder).problems)
    assert [] == registered(ledger, RUN)


def _name_tensor(folder: Path, name: str) -> None:
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"][name] = "model-00002-of-00002.safetensors"
    path.write_text(json.dumps(index))


@pytest.mark.case("C01")
def test_a_whole_sharded_folder_registers(tmp_path, ledger, actor, origin):
    """Case a: index and shards agree."""
    fact = register_checkpoint(ledger, write_sharded(tmp_path / "model"), claim(), actor=actor, origin=origin)

    assert ("safetensors-sharded", 2) == (fact.format, fact.tensors)


def test_a_folder_that_changes_under_the_reader_is_refused(tmp_path, ledger, actor, origin, monkeypatch):
    """A file that is cut after it was hashed stops the second phase."""
    folder = write_checkpoint(tmp_path, 100)
    records = ledger.records

    def cut_meanwhile(**kwargs):
        (folder / "model.safetensors").write_bytes(b"cut")
        return records(**kwargs)

    monkeypatch.setattr(ledger, "records", cut_meanwhile)

    with pytest.raises(CheckpointError, match="changed after it was read"):
        register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)


@pytest.mark.requirement("R099", "R153")
def test_class_changes_are_facts_and_not_names(tmp_path, ledger, actor, origin):
    """A checkpoint becomes a candidate by a record; id, bytes and folder stay."""
    first = register_checkpoint(ledger, write_checkpoint(tmp_path, 100), claim(), actor=actor, origin=origin)
    change = {
        "run_uid": RUN,
        "checkpoint": first.checkpoint_id,
        "artifact_class": "candidate",
        "purpose": "best",
    }

    for _ in range(2):
        second = reclassify(ledger, **change, actor=actor, origin=origin)

    assert (first.digest, first.location, "candidate") == (
        second.digest,
        second.location,
        second.artifact_class,
    )
    assert 2 == len(ledger.log)
    assert [second] == list(current(RunView.of(RUN, ledger.records())).values())


def test_reclassifying_an_unknown_checkpoint_is_refused(ledger, actor, origin):
    """Only what is registered has a class."""
    with pytest.raises(CheckpointError, match="not a registered checkpoint"):
        reclassify(
            ledger,
            run_uid=RUN,
            checkpoint="ckpt_x",
            artifact_class="candidate",
            purpose="best",
            actor=actor,
            origin=origin,
        )


def test_more_files_than_a_record_can_name_are_refused_before_they_are_hashed(
    tmp_path, ledger, actor, origin, monkeypatch
):
    """And what is not refused for its number of files fits the ledger's limit, whatever the files are called."""
    folder = write_checkpoint(tmp_path, 100)
    monkeypatch.setattr(claims, "MOST_BYTES", claims.FOR_THE_REST + 4 * 144)
    monkeypatch.setattr(hashing, "hash_checkpoint", lambda *_, **__: pytest.fail("it was hashed"))

    with pytest.raises(CheckpointError, match="holds 4 files, more than one record can name"):
        register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    one = FileDigest(path="p" * 90, size=1 << 45, sha256="a" * 64, version="v" * 32)
    assert len(canonical_bytes(one.to_json())) + 1 <= claims.PER_FILE + 90 + 32
    assert 1 == len(refusals(ledger))
