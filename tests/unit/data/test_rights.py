"""Licences: SPDX expressions in their canonical form, anything else as the words of a contract."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.data.rights import CONTRACT, Licence, moment, read_licence, stated_licence
from pretrain_archive.domain.errors import InputError


@pytest.mark.requirement("R037")
@pytest.mark.parametrize(
    ("given_text", "text", "page"),
    [
        pytest.param(
            "cc-by-4.0", "CC-BY-4.0", "https://spdx.org/licenses/CC-BY-4.0.html", id="an id, any case"
        ),
        pytest.param(" PSF-2.0\n", "PSF-2.0", "https://spdx.org/licenses/PSF-2.0.html", id="spaces around"),
        pytest.param("mit or apache-2.0", "MIT OR Apache-2.0", None, id="a choice"),
        pytest.param("mit and (bsd-3-clause or isc)", "MIT AND (BSD-3-Clause OR ISC)", None, id="brackets"),
        pytest.param(
            "GPL-2.0-only with classpath-exception-2.0",
            "GPL-2.0-only WITH Classpath-exception-2.0",
            None,
            id="an exception",
        ),
        pytest.param("LicenseRef-Our-Terms", "LicenseRef-Our-Terms", None, id="an id of one's own"),
    ],
)
def test_spdx_expressions(given_text: str, text: str, page: str | None) -> None:
    """The expression is canonical; a single listed id has a page."""
    licence = read_licence(given_text)

    assert (text, text, page) == (licence.text, licence.spdx, licence.page)


@pytest.mark.requirement("R037")
@pytest.mark.parametrize(
    ("given_text", "words"),
    [
        pytest.param(
            "Contract 2024-17 with the library", "Contract 2024-17 with the library", id="a contract"
        ),
        pytest.param("CC-BY", "CC-BY", id="an id that is none"),
        pytest.param("proprietary", "proprietary", id="a word"),
        pytest.param("与图书馆的合同\n第 7 号", "与图书馆的合同 第 7 号", id="Chinese, two lines"),
        pytest.param("MIT AND (", "MIT AND (", id="a broken expression"),
        pytest.param("contract: MIT", "MIT", id="said to be a contract"),
        pytest.param("(" * 5000, "(" * 5000, id="very many brackets"),
    ],
)
def test_contracts(given_text: str, words: str) -> None:
    """What is no expression is kept as it was written, and marked; nothing is rejected."""
    licence = read_licence(given_text)

    assert (CONTRACT + words, words, None, None) == (licence.text, licence.words, licence.spdx, licence.page)


@given(st.text())
def test_reading_what_was_recorded_changes_nothing(text: str) -> None:
    """The recorded text reads as the same licence again, whatever somebody wrote."""
    first = read_licence(text)

    assert first == read_licence(first.text)
    assert isinstance(first, Licence)


def test_moments() -> None:
    """A moment is recorded in UTC; nothing said is nothing recorded."""
    assert "2026-11-29T02:00:00.000000Z" == moment("f", " 2026-11-29T10:00:00+08:00 ")
    assert (None, None) == (moment("f", None), moment("f", " "))


@pytest.mark.parametrize("text", ["yesterday", "2026-11-29", "2026-11-29T10:00:00", "29/11/2026"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    """The field is named, with what to write instead."""
    with pytest.raises(InputError, match="collected") as error:
        moment("collected", text)

    assert "2026-11-29T10:00:00Z" in error.value.hint


@pytest.mark.requirement("R037")
@pytest.mark.parametrize("slip", ["Apache2", "CC-BY", "GPLv3", "MlT", "proprietary"])
def test_one_word_that_is_no_id_is_a_slip(slip: str) -> None:
    """A mistyped id is refused where it is typed, and not kept as a contract of that name."""
    with pytest.raises(InputError, match=r"licence: .*no SPDX id"):
        stated_licence(slip)


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        pytest.param("apache-2.0", "Apache-2.0", id="an id"),
        pytest.param("contract: C-2024-17", "contract: C-2024-17", id="said to be a contract"),
        pytest.param("合同2024-17", "contract: 合同2024-17", id="Chinese needs no blanks"),
        pytest.param("Contract 7 with X", "contract: Contract 7 with X", id="several words"),
    ],
)
def test_what_is_stated_otherwise_is_kept(given_text: str, expected: str) -> None:
    """An expression, and a contract that can be told from a slip."""
    assert expected == stated_licence(given_text).text
