"""The task of a recovery drill: what it says of the teams' boundaries, whatever became of the drill."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from tests.integration.kubernetes.cluster_line import section
from tests.unit.operators.conftest import context

from pretrain_archive.domain import kinds
from pretrain_archive.domain.kinds import read_payload
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.services.platform_boundaries import confirm
from pretrain_archive.services.platform_said import Speaker
from pretrain_archive_operators import RecoveryDrillOperator

ROOT = Path(__file__).parents[3]


@pytest.mark.requirement("R237")
def test_boundaries_stand_in_the_log(
    ledger: SqlLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who confirmed and who did not is told beside the checks; here a fault that only a cluster's own tools inject."""
    text = (ROOT / "dags" / "policies" / "drill.toml").read_text() + section(tmp_path / "volume")
    text += '\n[platform.teams]\nstorage = "sam"\nnetwork = "ned"\n'
    (tmp_path / "policies" / "drill.toml").write_text(text)
    loaded = parse_policy(text.encode(), name="drill.toml")
    confirm(ledger, lambda _: loaded, Speaker(person="sam", authentication="a test"), project="drill",
            team="storage", answers_for="the volume")  # fmt: skip
    task = RecoveryDrillOperator(
        task_id="drill", inject="network_cut", program=str(ROOT / "docker" / "trainer"), nodes=1, node=0
    )

    with pytest.raises(AirflowFailException, match="found a gap: detected unrecorded: network_cut cannot be"):
        task.execute(context("drill"))

    [record] = ledger.records(kinds=["drill.filed"])
    assert not read_payload(record, kinds.DrillFiled).passed
    said = [line for line in capsys.readouterr().out.splitlines() if " boundary." in line]
    assert ["training", "platform", "storage", "network"] == [
        line.partition("boundary.")[2].partition(":")[0] for line in said
    ]
    assert "verified boundary.storage: sam: the volume" in said[2]
    assert "unrecorded boundary.network: " in said[3]
