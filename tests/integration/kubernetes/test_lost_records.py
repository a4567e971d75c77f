"""The last records of an attempt cannot be written, or the job goes by itself: what is then said of its end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.cluster import FakeCluster
from tests.integration.kubernetes.playground import Run, origin

from pretrain_archive.domain.errors import LedgerUnavailableError
from pretrain_archive.domain.kinds import JobEnded


class NoAppendOf:
    """A ledger that is lost at the appends of one kind while ``away`` is set."""

    def __init__(self, inner: Any, kind: str) -> None:
        self.inner, self.kind, self.away = inner, kind, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(self, drafts: Any, **options: Any) -> Any:
        """Refuse as a database does that cannot be reached."""
        drafts = list(drafts)
        if self.away and any(draft.kind == self.kind for draft in drafts):
            raise LedgerUnavailableError("the database cannot be reached")
        return self.inner.append(drafts, **options)


@pytest.mark.parametrize("kind", ["job.ended", "job.removed", "attempt.ended"])
def test_the_ledger_is_lost_while_the_job_is_taken_away(run: Run, cluster: FakeCluster, kind: str) -> None:
    """Whichever of the last records cannot be written: another process ends a completed attempt as completed."""
    gone = NoAppendOf(run.ledger, kind)
    with pytest.raises(LedgerUnavailableError):
        run.launch(ledger=gone).run()
    assert [] == run.records("attempt.ended")
    assert (kind == "job.ended") == bool(cluster.list("jobs"))

    again = run.launch(task=origin(2))
    assert "ended" == again.visit().state
    ended = again.end()

    assert ("completed", "completed", True) == (ended.state, ended.exit_class, ended.counted), ended
    assert [True] == [over.succeeded for over in run.facts("job.ended", JobEnded)]
    assert [] == [*cluster.list("jobs"), *cluster.list("pods")]


def test_a_job_that_somebody_else_takes_away_is_no_success(run: Run, cluster: FakeCluster) -> None:
    """Nobody saw the job's own end: however well its program ended, the attempt is lost."""
    launch = run.launch()
    launch.create()
    cluster.wait(lambda: any(job["status"].get("completionTime") for job in cluster.list("jobs")))
    [job] = cluster.list("jobs")
    run.api.delete("Job", job["metadata"]["namespace"], job["metadata"]["name"], foreground=True)
    cluster.wait(lambda: not cluster.list("jobs"))

    assert "ended" == launch.visit().state
    assert "lost" == launch.end().state
    assert [] == run.records("job.ended")
