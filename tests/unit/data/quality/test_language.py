"""The language of a text: identified offline from a bounded beginning."""

from __future__ import annotations

import socket

import pytest

from pretrain_archive.data.quality.language import UNKNOWN, identify, mismatch

TEXTS = {
    "en": "The committee met on Tuesday and agreed that the report should be published before the summer.",
    "zh": "委员会在星期二开会，一致同意在夏天之前公布这份报告，并请各部门提出意见。",
    "de": "Der Ausschuss tagte am Dienstag und beschloss, den Bericht noch vor dem Sommer zu veröffentlichen.",
    "fr": "La commission s'est réunie mardi et a décidé que le rapport devrait être publié avant l'été.",
    "ru": "Комитет собрался во вторник и решил, что доклад должен быть опубликован до начала лета.",
    "ja": "委員会は火曜日に開かれ、報告書を夏までに公表することで合意しました。",
}


@pytest.mark.requirement("R046")
@pytest.mark.parametrize("code", TEXTS)
def test_identify(code):
    """A sentence of a language is identified as it, with a probability."""
    found, probability = identify(TEXTS[code])

    assert code == found
    assert 0.5 < probability <= 1


@pytest.mark.parametrize("text", ["", "12 + 30 = 42", "ok", "x = [1, 2, 3]", "\ufffd" * 100], ids=repr)
def test_too_little_text(text):
    """What has hardly a letter has no language; nothing is guessed."""
    assert (UNKNOWN, 0.0) == identify(text)


def test_bounded_beginning():
    """Only the beginning is looked at, so a long document costs no more than a short one."""
    head = TEXTS["en"] * 20

    assert identify(head[:1000]) == identify(head[:1000] + TEXTS["zh"] * 50_000)


@pytest.mark.parametrize(
    ("text", "declared", "expected"),
    [
        pytest.param(TEXTS["en"], "en", False, id="as declared"),
        pytest.param(TEXTS["en"], "en-GB", False, id="a region"),
        pytest.param(TEXTS["zh"], "zh_Hans_CN", False, id="a script"),
        pytest.param(TEXTS["de"], "en", True, id="another language"),
        pytest.param(TEXTS["zh"], "en", True, id="another script"),
        pytest.param("x = 1", "en", False, id="too little to say"),
        pytest.param(TEXTS["de"], "", False, id="nothing declared"),
        pytest.param(TEXTS["de"], "und", False, id="declared as unknown"),
    ],
)
def test_mismatch(text, declared, expected):
    """Only a text that is surely in another language than the declared one mismatches."""
    assert expected == mismatch(text, declared)


def test_offline(monkeypatch):
    """Nothing is fetched: the model is in the library."""
    monkeypatch.setattr(socket, "socket", None)

    assert "fr" == identify(TEXTS["fr"])[0]
