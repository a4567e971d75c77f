"""Shares of domains, and how many a report names."""

from __future__ import annotations

import pytest

from pretrain_archive.data.quality import mixture
from pretrain_archive.data.quality.mixture import domains_of, named_domains

DOMAINS = {"web": (2, 30, 6), "books": (1, 60, 3), "odd": (1, 10, 1)}


@pytest.mark.requirement("R061")
@pytest.mark.parametrize(
    ("unit", "shares"),
    [
        pytest.param("bytes", {"books": 0.6, "odd": 0.1, "web": 0.3}, id="bytes"),
        pytest.param("tokens", {"books": 0.3, "odd": 0.1, "web": 0.6}, id="tokens"),
    ],
)
def test_shares_by_unit(unit, shares):
    """Shares follow the unit of the policy; what is declared stands beside them."""
    rows = domains_of(DOMAINS, [("web", 0.5, 0.2)], unit)

    assert shares == {row["domain"]: row["share"] for row in rows}
    assert {"books": None, "odd": None, "web": 0.5} == {row["domain"]: row["declared"] for row in rows}


def test_nothing_has_no_share():
    """Domains without a token have no share: a share of 0 would be made up."""
    assert [None] == [row["share"] for row in domains_of({"a": (1, 0, 0)}, [], "tokens")]


def test_a_report_names_the_largest_and_the_declared(monkeypatch):
    """However many domains records declare: the rest is summed up and counted."""
    monkeypatch.setattr(mixture, "NAMED", 3)
    many = DOMAINS | {f"x{number:03}": (1, 2, number % 2) for number in range(500)}

    named, rest = named_domains(domains_of(many, [("x000", 0.5, 0.2)], "bytes"))

    assert ["books", "web", "x000"] == [row["domain"] for row in named]
    assert {"domains": 500, "documents": 500, "bytes": 10 + 499 * 2, "tokens": 1 + 250} == rest
    assert named_domains(domains_of(DOMAINS, [], "bytes"))[1]["domains"] == 0
