"""What a wrapper reads of its node's network counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretrain_archive.compute.seen import Seen
from pretrain_archive.compute.wrapper import network_between, network_bytes

HEAD = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
"""  # noqa: E501 - as the kernel writes it


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("  eth0: 100 1 0 0 0 0 0 0 30 1 0 0 0 0 0 0\n", {"eth0": (100, 30)}, id="one"),
        pytest.param("    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\nib0:7 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n",
                     {"ib0": (7, 5)}, id="loopback is no network; no blank after the colon"),
        pytest.param("  eth0: many 1 0 0 0 0 0 0 30\n", {}, id="no numbers"),
        pytest.param("  eth0: 1 2 3\n", {}, id="too short"),
    ],
)  # fmt: skip
def test_what_interfaces_counted(tmp_path: Path, text: str, expected: dict[str, tuple[int, int]]) -> None:
    """Received and sent bytes by interface; what cannot be read is nothing."""
    (tmp_path / "dev").write_text(HEAD + text)

    assert expected == network_bytes(str(tmp_path / "dev"))
    assert {} == network_bytes(str(tmp_path / "absent"))


def test_between_two_looks() -> None:
    """Differences are summed; an interface that came or was reset counts from zero; nobody counts: None."""
    before = {"eth0": (100, 30), "eth1": (900, 900), "gone": (5, 5)}
    after = {"eth0": (150, 40), "eth1": (7, 8), "new": (1, 2)}

    assert {"received_bytes": 50 + 7 + 1, "sent_bytes": 10 + 8 + 2} == network_between(before, after)
    assert None is network_between(before, {})


@pytest.mark.parametrize(
    ("first", "second", "starts", "expected"),
    [
        pytest.param({"sent_bytes": 5}, {"sent_bytes": 7}, 1, 12, id="both told"),
        pytest.param({"sent_bytes": 5}, None, 1, None, id="one did not"),
        pytest.param({"sent_bytes": 5}, {"sent_bytes": True}, 1, None, id="no number"),
        pytest.param({"sent_bytes": 5}, {"sent_bytes": -1}, 1, None, id="below zero"),
        pytest.param(
            {"sent_bytes": 5}, {"sent_bytes": 7}, 2, None, id="started twice: its first part is unknown"
        ),
    ],
)
def test_sum_of_the_workers(
    first: dict[str, int], second: dict[str, int] | None, starts: int, expected: int | None
) -> None:
    """A sum of some workers would look like that of all: one that does not tell makes it unrecorded."""
    seen = Seen(ended={"network": first}, starts=1)
    other = seen.of(1)
    other.ended, other.starts = {"network": second}, starts

    assert expected == seen.node_bytes("sent_bytes")
