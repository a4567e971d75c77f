"""Names and labels are legal for every run id, and the same launch has the same name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.compute.kubernetes.objects import RUN, TOKEN

from pretrain_archive.compute.kubernetes.names import (
    check_lengths,
    job_name,
    label_value,
    pod_hostname,
    token_label,
)
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import new_id

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)


@given(run=st.text(min_size=1), attempt=st.integers(1, 10**6), token=st.text())
def test_a_job_name_is_a_label_of_dns(run: str, attempt: int, token: str):
    """Whatever the run is called, job, service, hostname and the pods of a TrainJob get legal names."""
    name = job_name(run, attempt, token)

    assert DNS_1035.fullmatch(name)
    assert len(pod_hostname(name, 4095)) <= 63
    assert len(f"{name}-node-0-4095-abcde") <= 63


@given(text=st.text())
def test_a_label_value_is_legal(text: str):
    """Any text has a legal value."""
    value = label_value(text)

    assert len(value) <= 63
    assert LABEL.fullmatch(value)


@given(left=st.text(min_size=1), right=st.text(min_size=1))
def test_different_texts_have_different_labels(left: str, right: str):
    """No two runs share a label: jobs are found and deleted by it."""
    assert (left == right) == (label_value(left) == label_value(right))


def test_a_run_uid_is_its_own_label():
    """The ids that runs really get are readable in the cluster."""
    uid = new_id("run")

    assert uid == label_value(uid)
    assert "5" * 40 == token_label(TOKEN)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param((RUN.replace("6666", "7777"), 1, TOKEN), id="another run"),
        pytest.param((RUN.replace("1111", "2222"), 1, TOKEN), id="another run with the same end"),
        pytest.param((RUN, 2, TOKEN), id="another attempt"),
        pytest.param((RUN, 1, "sha256:" + "6" * 64), id="another token"),
    ],
)
def test_one_launch_one_name(other: tuple[str, int, str]):
    """The name follows from the launch alone, and no other launch has it."""
    assert job_name(RUN, 1, TOKEN) == job_name(RUN, 1, TOKEN)
    assert job_name(RUN, 1, TOKEN) != job_name(*other)


def test_a_name_that_cannot_be_is_refused():
    """More members than names can count are refused by field, with the remedy."""
    with pytest.raises(InputError, match=r"nodes: .*64 characters"):
        check_lengths("p" * 61, nodes=11, train_job=False)
    check_lengths("p" * 61, nodes=10, train_job=False)
    with pytest.raises(InputError, match=r"nodes: at most 4096"):
        check_lengths("p", nodes=4097, train_job=False)
