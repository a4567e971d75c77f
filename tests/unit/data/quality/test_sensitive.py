"""Personal data, secrets and forbidden terms: what is found, what is left alone, and that no text leaks."""

from __future__ import annotations

import json
import logging
import pickle
import random
import subprocess
import sys
import timeit

import pytest
from stdnum import luhn
from stdnum.cn import ric

from pretrain_archive.data.quality.sensitive import (
    KINDS,
    Detector,
    Finding,
    Settings,
    count_by_kind,
    mask,
    read_terms,
)
from pretrain_archive.data.quality.sensitive.labelled import EXAMPLES
from pretrain_archive.data.quality.sensitive.scoring import Score, detector_scores, score
from pretrain_archive.data.quality.sensitive.terms import Terms
from pretrain_archive.domain.errors import InputError

DETECTOR = Detector()
LABELLED_KINDS = [kind for kind in KINDS if kind != "forbidden_term"]
FILLER = "The committee met again and wrote down in some words what had been agreed. 会议记录如下。\n"


def found(text, settings=None):
    """Kinds and words of the findings, in order."""
    detector = DETECTOR if settings is None else Detector(settings)
    return [(f.kind, text[f.offset : f.end]) for f in detector.find(text)]


@pytest.mark.case("Q11")
@pytest.mark.requirement("R040")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("made by linker 4.11.2.3 on Monday", None, id="four-part tool version"),
        pytest.param("tag v3.1.12.88", None, id="four-part release"),
        pytest.param("accuracy = 0.918273645546372", None, id="long decimal"),
        pytest.param("order 2023-0000-2298-41", None, id="order number"),
        pytest.param("ISBN 978-0-306-40615-7", None, id="isbn"),
        pytest.param("logged 2023-02-28 23:59:58", None, id="date and time"),
        pytest.param("mass 7000000000000.25", None, id="large decimal"),
        pytest.param("commit 91e2d0beef", None, id="short hash"),
        pytest.param("at 48.8584, 2.2945", None, id="coordinates"),
        pytest.param("ask li@post.example.net today", "email", id="mail"),
        pytest.param("a.b+news@eu.shop.example.com", "email", id="sub-domain mail"),
        pytest.param("node 198.51.100.23 answers", "ipv4", id="ipv4"),
        pytest.param("node 2001:db8::1:0:ff:9 answers", "ipv6", id="ipv6"),
        pytest.param("card 5500 0000 0000 0004", "card", id="card"),
        pytest.param("card 5500 0000 0000 0005", None, id="card with a wrong check digit"),
    ],
)
def test_numbers_and_addresses(text, expected):
    """Only what has the form, the check digit and the context of personal data is a hit, of its kind."""
    assert [expected] * (expected is not None) == [kind for kind, _ in found(text)]


@pytest.mark.case("Q11")
@pytest.mark.parametrize("kind", LABELLED_KINDS)
def test_precision_and_recall(kind):
    """On the labelled corpus, with its look-alikes, each kind reaches 0.95 in both."""
    scores = score()

    assert scores[kind].right >= 10
    assert scores[kind].precision >= 0.95
    assert scores[kind].recall >= 0.95


def test_every_example_is_judged_alone():
    """Each labelled text gives exactly its words, each look-alike nothing."""
    missed = [e for e in EXAMPLES if found(e.text) != ([(e.kind, e.words)] if e.kind else [])]

    assert [] == missed


@pytest.mark.parametrize("seed", range(5))
def test_places_within_a_long_document(seed):
    """Findings lie where they are, whatever stands around, and nothing of the filler is one."""
    chance = random.Random(seed)
    chosen = chance.sample([e for e in EXAMPLES if e.kind], 40)
    text, expected = "", []
    for example in chosen:
        text += FILLER * chance.randint(0, 4)
        at = len(text) + example.text.index(example.words)
        expected.append(Finding(example.kind, at, len(example.words)))
        text += example.text + "\n"

    assert expected == DETECTOR.find(text)


def test_generated_check_digits():
    """Of generated cards and identity numbers all right ones are found and none with another check digit."""
    chance = random.Random(7)
    right, wrong = 0, 0
    for _ in range(200):
        body = "4" + "".join(chance.choices("0123456789", k=14))
        card = body + luhn.calc_check_digit(body)
        right += found(f"pay {card} now") == [("card", card)]
        wrong += found(f"pay {body}{(int(card[-1]) + 1) % 10} now") != []
        born = f"{chance.randint(1940, 2010)}{chance.randint(1, 12):02}{chance.randint(1, 28):02}"
        body = f"110105{born}{chance.randint(0, 999):03}"
        person = body + ric.calc_check_digit(body + "0")
        right += found(f"号码{person}。") == [("cn_resident_id", person)]
        other = "X" if person[-1] != "X" else "0"
        wrong += found(f"号码{body}{other}。") != []

    assert (400, 0) == (right, wrong)


def test_generated_look_alikes():
    """Thousands of generated versions, hashes, times, prices and order numbers give no hit."""
    chance = random.Random(11)
    made = []
    for _ in range(500):
        digits = "".join(chance.choices("0123456789", k=16))
        version = ".".join(str(chance.randint(0, 250)) for _ in range(4))
        made += [
            f"version {version}",
            f"lib-{version}.zip",
            f"order no. {digits[:4]} {digits[4:8]} {digits[8:12]} {digits[12:]}",
            f"loss 0.{digits}",
            f"{chance.getrandbits(256):064x}",
            f"{digits[:8]}-{digits[8:12]}-4abc-8def-0123456789ab",
            f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}",
            f"2024-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}T10:00:00.123456Z",
            f"订单号{digits}",
            f"#{chance.getrandbits(24):06x} 0x{chance.getrandbits(32):08x}",
        ]

    assert [] == [text for text in made if found(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("4111 1111 1111 1111 12/27 737", "4111 1111 1111 1111", id="expiry behind a card"),
        pytest.param("Nr 2024 5555 5555 5555 4444", "5555 5555 5555 4444", id="a year before a card"),
        pytest.param(
            "IBAN DE89 3704 0044 0532 0130 00 BIC COBADEFF", "DE89 3704 0044 0532 0130 00", id="words behind"
        ),
        pytest.param("卡号：4111111111111111，有效", "4111111111111111", id="chinese around"),
    ],
)
def test_number_among_others(text, words):
    """A number is found where other groups of digits or letters stand beside it."""
    assert [words] == [found_words for _, found_words in found(text)]


def test_overlaps_are_one_finding():
    """What two kinds claim is the surer one: the password of an address is no mail and no host."""
    text = "db = postgres://admin:hunter2xyz@203.0.113.9:5432/main"

    assert [("secret", "hunter2xyz"), ("ipv4", "203.0.113.9")] == found(text)


def test_private_key_is_one_finding():
    """A key in armour is one finding from its first to its last line; a mention of one is none."""
    armour = "-" * 5
    key = f"{armour}BEGIN EC PRIVATE KEY{armour}\n{'MHcCAQEEIB' * 12}\n{armour}END EC PRIVATE KEY{armour}"

    assert [("secret", key)] == found(f"before\n{key}\nafter")
    assert [] == found(f"Files that begin with {armour}BEGIN EC PRIVATE KEY{armour} are secret.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("The Zorblax idea", ["Zorblax"], id="any case"),
        pytest.param("zorblaxes and prezorblax", [], id="whole words"),
        pytest.param("Blue-Sky, blue-sky!", ["Blue-Sky", "blue-sky"], id="a mark within"),
        pytest.param("该内部机密文件", ["内部机密"], id="chinese within a sentence"),
        pytest.param("İİ zorblax", ["zorblax"], id="letters that grow in lower case"),
        pytest.param("a zorblax plan", ["zorblax plan"], id="the longer of two"),
        pytest.param("C++, xc++", ["C++"], id="a term that ends in marks"),
    ],
)
def test_forbidden_terms(text, expected):
    """Declared terms are whole words without regard to case; Chinese ones stand anywhere."""
    terms = ("zorblax", "BLUE-SKY", "内部机密", "zorblax plan", "c++")
    detector = Detector(Settings(kinds=("forbidden_term",), forbidden_terms=terms))

    assert expected == [text[f.offset : f.end] for f in detector.find(text)]


def test_long_list_of_terms():
    """A list of thousands of terms finds what each alone would."""
    terms = tuple(f"codename{n} alpha" for n in range(5000))
    detector = Detector(Settings(forbidden_terms=terms))

    assert [("forbidden_term", 3, 18)] == [tuple(f) for f in detector.find("on CodeName4321 Alpha we work")]


def test_kinds_off():
    """A kind that is switched off is not found."""
    text = "ana@example.org at host 203.0.113.7"

    assert [("ipv4", "203.0.113.7")] == found(text, Settings(kinds=("ipv4",)))
    assert [] == found(text, Settings(kinds=()))


def test_allowed():
    """What an allowed pattern matches as a whole is no finding."""
    settings = Settings(allow=(r".*@example\.org",))

    assert [("email", "eve@example.net")] == found("ana@example.org, eve@example.net", settings)
    assert [("email", "ana@example.org.uk")] == found("ana@example.org.uk", settings)


def test_high_entropy_is_off():
    """Random-looking strings are secrets only where that is asked for."""
    text = "k = 'q8Zr1Lx0Vt5Nb3Kc7Ym2Jd9Wf6Hs4Pg'"

    assert [] == found(text)
    assert ["secret"] == [kind for kind, _ in found(text, Settings(high_entropy=True))]


@pytest.mark.requirement("R040")
def test_nothing_shows_the_text(caplog):
    """Neither findings nor settings nor logs nor what goes into a report repeat data, terms or patterns."""
    terms, allow = ("projectnightingale",), (r"boss@corp\.example",)
    settings = Settings(forbidden_terms=terms, allow=allow)
    caplog.set_level(logging.DEBUG)

    findings = Detector(settings).find("ana@example.org knows ProjectNightingale 4111111111111111")

    shown = json.dumps(
        [repr(findings), repr(settings), settings.to_json(), count_by_kind(findings), caplog.text]
    )
    assert {"email": 1, "card": 1, "forbidden_term": 1} == count_by_kind(findings)
    assert [] == [t for t in ("ana", "nightingale", "4111", "boss", "corp") if t in shown.lower()]


@pytest.mark.parametrize("kind", KINDS)
def test_mask(kind):
    """An example that must be shown has at most the first letter of an address."""
    shown = mask(kind, "Wx7@hidden.example")

    assert ("W…@…" if kind == "email" else shown) == shown
    assert "hidden" not in shown
    assert not set("x7") & set(shown.replace(kind, ""))


def test_settings_travel():
    """Settings reach worker processes as they are; their digest does not depend on order or repetition."""
    settings = Settings(forbidden_terms=("b", "a"), allow=("x",))
    again = Settings(forbidden_terms=("a", "b", "a"), allow=("x",))

    assert settings == pickle.loads(pickle.dumps(settings))
    assert settings.to_json()["forbidden_terms_digest"] == again.to_json()["forbidden_terms_digest"]
    assert settings.to_json()["forbidden_terms_digest"] != Settings().to_json()["forbidden_terms_digest"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"kinds": ("emails",)}, "not one of email", id="an unknown kind"),
        pytest.param({"forbidden_terms": ("a", " ")}, "blank", id="a blank term"),
        pytest.param({"allow": ("ok", "(boss@corp")}, "pattern 2", id="a pattern that is none"),
    ],
)
def test_bad_settings(changes, message):
    """Settings that cannot mean what was wanted are refused, without spelling out a pattern."""
    with pytest.raises(InputError, match=message) as refused:
        Settings(**changes)
    assert "boss" not in str(refused.value)


def test_read_terms():
    """A list of terms has one a line, comments and blank lines apart; other encodings are refused."""
    assert ("alpha", "内部") == read_terms("\ufeff# list\nalpha\n\n 内部 \nalpha\n".encode())
    with pytest.raises(InputError, match="not UTF-8"):
        read_terms(b"\xff\xfea")


def test_score_counts():
    """Precision and recall are None where there is nothing to divide by."""
    assert (None, None) == (
        Score(right=0, wrong=0, missed=0).precision,
        Score(right=0, wrong=0, missed=0).recall,
    )
    assert (0.5, 0.25) == (
        Score(right=1, wrong=1, missed=3).precision,
        Score(right=1, wrong=1, missed=3).recall,
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("@" * 50_000, id="ats"),
        pytest.param("a@" * 20_000, id="locals"),
        pytest.param("1." * 50_000, id="dots"),
        pytest.param("1 " * 50_000, id="digits apart"),
        pytest.param("9" * 100_000, id="digits"),
        pytest.param(":" * 100_000, id="colons"),
        pytest.param("ab:" * 30_000, id="hex and colons"),
        pytest.param("+1 " * 30_000, id="plus signs"),
        pytest.param("A" * 100_000, id="capitals"),
        pytest.param("eyJ" * 30_000, id="token beginnings"),
        pytest.param("://a:" * 20_000, id="addresses"),
        pytest.param("-----BEGIN PRIVATE KEY-----" * 3_000, id="headers"),
        pytest.param("\ud800 ana@example.org", id="a lone surrogate"),
    ],
)
def test_hostile_texts_end(text):
    """No text makes the search run away: time grows with its length, not with its square."""
    assert len(DETECTOR.find(text)) <= len(text) / 3 + 1


@pytest.mark.case("Q11")
def test_scores_for_the_report():
    """A report states precision and recall of the kinds that were looked for, as strict JSON."""
    scores = detector_scores(("email", "forbidden_term", "secret"))

    assert ["email", "secret"] == list(scores)
    assert {"right", "wrong", "missed", "precision", "recall"} == scores["email"].keys()
    assert scores == json.loads(json.dumps(scores, allow_nan=False))
    assert {} == detector_scores(())


@pytest.mark.parametrize("end", ["!", "\n!", "\\!", ""])
def test_hostile_key_header(end):
    """A short text that can be read in very many ways is searched as fast as any other."""
    program = (
        "import sys; from pretrain_archive.data.quality.sensitive import Detector; "
        "print(len(Detector().find(sys.stdin.read())))"
    )
    text = "-----BEGIN PRIVATE KEY-----" + "Version: " * 400 + end
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True, timeout=60
    )

    assert "0\n" == done.stdout


def test_key_with_header_lines():
    """Lines of a header before the key do not hide it."""
    text = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n" + "MIIE" * 20
    )
    assert ["secret"] == [finding.kind for finding in Detector(Settings(kinds=("secret",))).find(text)]


def test_long_list_of_chinese_terms():
    """Thousands of terms of a script without blanks are all found, longest first, in a time that grows with the list.

    A hundred times as many terms take some hundred times as long; comparing each with each would take thousands.
    """
    chars = [chr(0x4E00 + number) for number in range(20_000)]
    some, many = (
        Terms([a + b for a, b in zip(chars[:count:2], chars[1:count:2], strict=True)])
        for count in (200, 20_000)
    )
    text = "前文" + "".join(chars[100:104]) + "后文"

    assert [(2, 4), (4, 6)] == list(some.find(text)) == list(many.find(text))
    few, lots = (
        min(timeit.repeat(lambda one=one: list(one.find(text)), number=1, repeat=5)) for one in (some, many)
    )
    assert lots < 400 * few + 0.05
