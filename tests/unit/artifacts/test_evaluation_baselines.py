"""Baselines that count, and an account of those that do not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.memory_ledger import MemoryLedger
from tests.support.artifact_run import ACTOR, DIGEST, Run

from pretrain_archive.artifacts.evaluation import record_evaluation
from pretrain_archive.artifacts.evaluation_report import Setting
from pretrain_archive.artifacts.metrics import flag_code
from pretrain_archive.artifacts.rules import BetterThanBaselines, Limit
from pretrain_archive.domain import kinds
from pretrain_archive.storage.files import FileStore

OTHER = "sha256:" + "e" * 64


class Bench:
    """Two runs in one ledger; the second is evaluated against the first."""

    def __init__(self, tmp_path: Path) -> None:
        self.ledger, self.store, self.folder = MemoryLedger(), FileStore(tmp_path / "store"), tmp_path
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        self.first = Run(self.ledger, self.store, tmp_path / "a").open()
        self.second = Run(self.ledger, self.store, tmp_path / "b").open()

    def released(self) -> kinds.CheckpointRegistered:
        """The first run's checkpoint, evaluated at loss 1.9 and released."""
        checkpoint = self.first.checkpoint(10, content=b"\x09" * 16)
        report = self.first.evaluate(checkpoint, 1.9)
        self.first.append(
            kinds.CandidateNamed(
                candidate_id="cand_1", checkpoint_id=checkpoint.checkpoint_id, checkpoint_digest=checkpoint.digest,
                evaluation_id=report.evaluation_id, kept=True, reason="best",
            )
        )  # fmt: skip
        self.first.append(
            kinds.ReleaseMade(
                release_id="rel_1", name="demo", version="1", candidate_id="cand_1",
                checkpoint_digest=checkpoint.digest, applicable=["a"], not_applicable=["b"], known_limits=["c"],
                rollback="r", take_down="t", usage_scope=["research"],
            )
        )  # fmt: skip
        return checkpoint

    def judge(self, *baselines: dict[str, Any], setting: Setting | None = None, **changes: Any) -> Any:
        """Evaluate the second run's checkpoint at loss 1.5."""
        found = [c for _, c in self.second_view().all(kinds.CheckpointRegistered)]
        checkpoint = found[-1] if found else self.second.checkpoint(20)
        document = {
            "metrics": [loss(1.5)], "baselines": list(baselines), "definition": {"metric": "loss"},
            "data_set": "validation", "data_set_digest": DIGEST, **changes,
        }  # fmt: skip
        output = self.folder / "evaluation.json"
        output.write_text(json.dumps(document))
        return record_evaluation(
            self.ledger, self.store, run_uid=self.second.uid, checkpoint=checkpoint, output=output,
            rules=(Limit(metric="loss", direction="lower", limit=2.0),
                   BetterThanBaselines(metric="loss", direction="lower")),
            actor=ACTOR, origin=self.second.origin(), setting=setting,
        )  # fmt: skip

    def second_view(self) -> Any:
        """The second run."""
        from pretrain_archive.domain.run_view import RunView

        return RunView.of(self.second.uid, self.ledger.records(streams=[self.second.uid]))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two open runs."""
    return Bench(tmp_path)


def loss(value: float, **more: Any) -> dict[str, Any]:
    """The metric of the rules."""
    return {
        "name": "loss", "unit": "nats per token", "direction": "lower", "value": value, "samples": 10, **more,
    }  # fmt: skip


def baseline(kind: str = "untrained model", digest: str = OTHER, **more: Any) -> dict[str, Any]:
    """A baseline that the candidate beats."""
    return {"name": kind, "kind": kind, "subject_digest": digest, "metrics": [loss(9.0)], **more}


@pytest.mark.requirement("R119")
def test_a_previous_version_is_a_release_of_the_ledger(bench: Bench) -> None:
    """The released digest counts with the ledger's record as evidence."""
    released = bench.released()

    fact = bench.judge(baseline("previous version", released.digest))

    assert ([], True) == (fact.flags, fact.passed)
    record = next(r for r in bench.ledger.log if r.kind == "release.made")
    assert [(True, record.record_id)] == [(b.counted, b.record_id) for b in fact.baselines]


@pytest.mark.requirement("R119", "R120")
@pytest.mark.parametrize("kind", ["previous version", "other data version"])
def test_a_version_that_the_ledger_does_not_know_does_not_count(bench: Bench, kind: str) -> None:
    """It is flagged, and no effect can be claimed."""
    fact = bench.judge(baseline(kind))

    assert ["baseline_unknown", "no_baseline"] == [flag_code(flag) for flag in fact.flags]
    assert [False] == [b.counted for b in fact.baselines]
    assert ["no baseline"] == [rule["reason"] for rule in fact.rules[1:]]
    assert not fact.passed


def test_a_baseline_that_does_not_count_decides_nothing(bench: Bench) -> None:
    """One with another definition could not be beaten; the rule looks at the other one alone."""
    unbeatable = baseline(name="cheat", metrics=[loss(0.1)], definition={"metric": "something else"})

    fact = bench.judge(unbeatable, baseline())

    assert [True, True] == [rule["passed"] for rule in fact.rules]
    assert 9.0 == fact.rules[1]["limit"]
    assert ["definition_differs: baseline cheat has another definition"] == fact.flags
    assert not fact.passed


@pytest.mark.requirement("R119", "R121")
@pytest.mark.parametrize(
    ("theirs", "ours", "flag"),
    [
        pytest.param({"samples": 1000}, {},
                     "definition_differs: untrained model: loss rests on 10 samples here, on 1000 there", id="samples"),
        pytest.param({"unit": "bits per token"}, {},
                     "contradictory: untrained model: loss is in 'nats per token' here and in "
                     "'bits per token' there, or points the other way", id="unit"),
        pytest.param({"name": "acc", "unit": "", "value": 0.9}, {"name": "acc", "unit": "", "value": 93.0},
                     "contradictory: untrained model: acc looks like a share on one side and like a percentage on the "
                     "other", id="share and percent"),
    ],
)  # fmt: skip
def test_a_baseline_that_was_measured_otherwise_does_not_count(
    bench: Bench, theirs: dict[str, Any], ours: dict[str, Any], flag: str
) -> None:
    """Another number of samples, unit or scale is another measurement, whatever the definition says."""
    fact = bench.judge(
        baseline(metrics=[loss(9.0) | theirs]), metrics=[loss(1.5) | ours, loss(1.5, name="more")]
    )

    assert flag in fact.flags
    assert [False] == [b.counted for b in fact.baselines]
    assert not fact.passed


@pytest.mark.parametrize("unit", ["", "nats per token"])
def test_sizes_alone_are_no_contradiction(bench: Bench, unit: str) -> None:
    """A loss of 0.5 beside one of 9 is a better model."""
    fact = bench.judge(baseline(metrics=[loss(9.0, unit=unit)]), metrics=[loss(0.5, unit=unit)])

    assert ([], True) == (fact.flags, fact.passed)


@pytest.mark.parametrize(
    "said", [{"step": 999}, {"checkpoint_id": "ckpt_other"}, {"checkpoint_digest": OTHER}, {"step": "20"}]
)
def test_an_output_of_another_checkpoint_is_flagged(bench: Bench, said: dict[str, Any]) -> None:
    """A result file that was left over from before does not pass for this one."""
    [flag] = bench.judge(baseline(), **said).flags
    assert flag.startswith(f"contradictory: the output is of {next(iter(said))} ")

    assert [] == bench.judge(baseline(), step=20).flags


@pytest.mark.requirement("R119")
def test_a_wanted_previous_version_comes_from_the_ledger(bench: Bench) -> None:
    """The last release of the name is compared with by the evaluation that it was chosen by."""
    released = bench.released()
    conf = {"release_name": "demo"}
    opened = bench.second_view().opened.model_copy(update={"conf": conf})
    bench.second.append(opened)

    fact = bench.judge(baseline(), setting=Setting(baselines=("previous version",)))

    [_, before] = fact.baselines
    assert ("demo 1", "previous version", released.digest, True) == (
        before.name, before.kind, before.subject_digest, before.counted,
    )  # fmt: skip
    assert 1.9 == fact.rules[1]["limit"]
    assert fact.passed
    assert ["demo 1"] == [c["baseline"] for c in fact.comparisons if c["baseline"] == "demo 1"]


def test_a_wanted_previous_version_by_another_definition_is_flagged(bench: Bench) -> None:
    """The ledger's numbers are shown and do not count."""
    bench.released()
    bench.second.append(bench.second_view().opened.model_copy(update={"conf": {"release_name": "demo"}}))

    fact = bench.judge(
        baseline(), definition={"metric": "another loss"}, setting=Setting(baselines=("previous version",))
    )

    assert [True, False] == [b.counted for b in fact.baselines]
    assert ["definition_differs"] == [flag_code(flag) for flag in fact.flags]


def test_the_first_release_has_no_previous_version(bench: Bench) -> None:
    """That is part of the reach and no flag; a wanted untrained model is measured or missing."""
    fact = bench.judge(baseline(), setting=Setting(baselines=("previous version", "other data version")))

    assert [] == fact.flags
    assert ["previous version: the ledger has none to compare with",
            "other data version: the ledger has none to compare with"] == fact.scope["not_evaluated"]  # fmt: skip
    ngram = baseline("n-gram model")
    flagged = bench.judge(ngram, setting=Setting(baselines=("untrained model",)))
    assert ["no_baseline"] == [flag_code(flag) for flag in flagged.flags]


@pytest.mark.requirement("R119")
def test_another_data_version_is_the_newest_passed_evaluation_of_other_data(bench: Bench) -> None:
    """Same project and definition, another snapshot; the same snapshot is no other data version."""
    bench.first.evaluate(bench.first.checkpoint(10), 1.9)
    setting = Setting(baselines=("other data version",))
    assert ["other data version: the ledger has none to compare with"] == bench.judge(
        baseline(), setting=setting
    ).scope["not_evaluated"]

    checkpoint = bench.first.checkpoint(20, content=b"\x05" * 16)
    moved = checkpoint.model_copy(update={"snapshot": "stdlib@2", "checkpoint_id": "ckpt_other"})
    bench.first.append(moved)
    bench.first.evaluate(moved, 1.8)

    [_, other] = bench.judge(baseline(), setting=setting).baselines
    assert ("other data version", 1.8, True) == (other.kind, other.metrics[0].value, other.counted)
    assert "stdlib@2" in other.name


@pytest.mark.requirement("R124")
def test_a_definition_that_changed_within_its_group_is_flagged(bench: Bench) -> None:
    """The first evaluation of a group fixes nothing alone; the next run's other definition is named by its field."""
    setting = Setting(group="loss-2026")
    first = bench.judge(baseline(), setting=setting)
    assert [] == first.flags
    third = Run(bench.ledger, bench.store, bench.folder / "c")
    (bench.folder / "c").mkdir()
    third.open()
    bench.second = third

    same = bench.judge(baseline(), setting=setting)
    assert [] == same.flags
    (bench.folder / "d").mkdir()
    bench.second = Run(bench.ledger, bench.store, bench.folder / "d").open()
    other = bench.judge(baseline(), definition={"metric": "loss", "window": 8}, setting=setting)

    assert [
        "definition_changed: within the group loss-2026: definition.window: unrecorded / 8"
    ] == other.flags
    assert not other.passed
    (bench.folder / "e").mkdir()
    bench.second = Run(bench.ledger, bench.store, bench.folder / "e").open()
    apart = bench.judge(baseline(), definition={"metric": "x"}, setting=Setting(group="another"))
    assert [] == apart.flags


@pytest.mark.requirement("R120")
@pytest.mark.parametrize(
    "metrics",
    [
        pytest.param([], id="no metric at all"),
        pytest.param([{**loss(9.0), "name": "other"}], id="another metric alone"),
    ],
)
def test_a_baseline_without_a_number_to_compare_is_none(bench: Bench, metrics: list[dict[str, Any]]) -> None:
    """A name with nothing measured allows no claim, also where no rule asks for a comparison."""
    fact = bench.judge(baseline(metrics=metrics))

    assert {"no_baseline"} == {flag_code(flag) for flag in fact.flags}
    assert ([False], False) == ([b.counted for b in fact.baselines], fact.passed)


@pytest.mark.requirement("R119")
def test_a_trained_checkpoint_of_the_run_is_no_untrained_model(bench: Bench) -> None:
    """An early, bad checkpoint would be easy to beat."""
    early = bench.second.checkpoint(5, content=b"\x05" * 16)
    bench.second.checkpoint(20)

    fact = bench.judge(baseline(digest=early.digest))

    assert any("is the checkpoint of step 5 of this run" in flag for flag in fact.flags)
    assert not fact.passed


@pytest.mark.requirement("R119")
def test_a_result_from_elsewhere_bears_out_no_baseline(bench: Bench) -> None:
    """Neither what an output calls another data version nor the ledger's own comparison rests on an import."""
    checkpoint = bench.first.checkpoint(10, content=b"\x09" * 16)
    bench.first.evaluate(checkpoint, 9.0)
    bench.ledger.log[-1] = replace(
        bench.ledger.log[-1], payload={**bench.ledger.log[-1].payload, "imported": True}
    )

    fact = bench.judge(baseline("other data version", checkpoint.digest))

    assert "baseline_unknown" in {flag_code(flag) for flag in fact.flags}
    assert not fact.passed


def test_the_ledgers_baseline_cannot_be_the_candidate_itself(bench: Bench) -> None:
    """The same bytes, released before under the run's name."""
    released = bench.released()
    again = bench.second.checkpoint(10, content=b"\x09" * 16)
    assert released.digest == again.digest
    bench.second.append(bench.second_view().opened.model_copy(update={"conf": {"release_name": "demo"}}))

    fact = bench.judge(setting=Setting(baselines=("previous version",)))

    assert {"baseline_same_as_candidate", "no_baseline"} == {flag_code(flag) for flag in fact.flags}
    assert not fact.passed
