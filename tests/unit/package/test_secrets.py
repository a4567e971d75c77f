"""The secret scan: finds the usual tokens, leaves digests and ids alone."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import time

import pytest

from pretrain_archive.package.secrets import ANY_CASE, MARKS, SHAPES, scan, scan_all, scan_name

# Put together at run time, so that no scanner of this repository takes them for real ones.
SECRETS = [
    pytest.param("AKIA" + "ABCDEFGH12345678", "AWS access key", id="AWS"),
    pytest.param("ghp_" + "aB3" * 12, "GitHub token", id="GitHub"),
    pytest.param("glpat-" + "aB3_" * 5, "GitLab token", id="GitLab"),
    pytest.param("hf_" + "aBcDe" * 6 + "fGhI", "Hugging Face token", id="Hugging Face"),
    pytest.param("xoxb-" + "123456789012-abc", "Slack token", id="Slack"),
    pytest.param("AIza" + "aB3_-" * 7, "Google API key", id="Google"),
    pytest.param("sk-ant-" + "aB3" * 12, "OpenAI or Anthropic key", id="model API"),
    pytest.param("eyJhbGciOiJI.eyJzdWIiOiIx" + ".SflKxwRJSM", "JSON web token", id="JWT"),
    pytest.param("-----BEGIN OPENSSH " + "PRIVATE KEY-----", "private key", id="private key"),
    pytest.param("s3://user:" + "pa55word@host/x", "password in a URL", id="URL"),
    pytest.param('{"password":"' + 'hunter2hunter2"}', "password or secret", id="JSON"),
    pytest.param("AWS_SECRET_" + "ACCESS_KEY=wJalrXUtnFEMI", "password or secret", id="variable"),
    pytest.param("passwo" + "rd：hunter2hunter2", "password or secret", id="wide colon"),
    pytest.param("HUB_TO" + "KEN=abcdefghijk1234567890", "token or secret", id="token variable"),
    pytest.param(
        "Authoriza" + "tion: Bearer abcdef0123456789ABCDEF", "authorization header", id="authorization header"
    ),
]


@pytest.mark.parametrize(("text", "kind"), SECRETS)
def test_secret_is_found_by_kind_and_line(text: str, kind: str) -> None:
    """The finding names kind, file and line, and never holds the secret."""
    found = list(scan("a.log", f"first\nvalue {text} end\n".encode()))

    assert (kind, 2) in {(secret.kind, secret.line) for secret in found}
    assert all(text not in str(secret) for secret in found)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("sha256:" + hashlib.sha256(b"x").hexdigest(), id="digest"),
        pytest.param("run_019a0000-0000-7000-8000-000000000001", id="id"),
        pytest.param("postgresql://archive@db.example/ledger", id="URL without password"),
        pytest.param("postgresql://archive:***@db/ledger", id="masked URL"),
        pytest.param('"password": null, "api_key": ""', id="empty values"),
        pytest.param('"secret_key": "***"', id="masked value"),
        pytest.param("tokens=4096 token_digest=sha256:ab", id="tokens of a model"),
        pytest.param("log.example+1a2b3c4d+AQICAwQFBgcICQoLDA0ODw==", id="public key"),
        pytest.param("file:///tmp/a:b@c/d", id="path with colon and at"),
        pytest.param("2026-11-29T10:00:00.000000Z", id="time"),
        pytest.param(
            'PAD_TOKEN="[PAD]" EOS_TOKEN=<|endoftext|> MAX_TOKEN=10000000000000000', id="tokens of a text"
        ),
        pytest.param(r"{\"password\": \"\", \"api_key\": \"***\"}", id="empty values of JSON inside of JSON"),
    ],
)
def test_harmless_text_passes(text: str) -> None:
    """False alarms would block every close."""
    assert [] == list(scan("a.json", text.encode()))


@pytest.mark.parametrize(("text", "kind"), SECRETS)
@pytest.mark.parametrize("before", ["", "x", "xy"], ids=["aligned", "by one", "by two"])
def test_secret_inside_base64_is_found(text: str, kind: str, before: str) -> None:
    """However it lies in the three bytes that make four characters, and in both alphabets."""
    raw = f"{before} {text} and more text behind it".encode()
    for wrapped in (base64.b64encode(raw), base64.urlsafe_b64encode(raw), base64.b64encode(raw).rstrip(b"=")):
        found = list(scan("a.json", b'line\n{"data": "' + wrapped + b'"}'))

        assert (f"{kind}, in base64", 2) in {(secret.kind, secret.line) for secret in found}


@pytest.mark.parametrize("path", ["x/", "xy/", "xyz/", "path/"])
def test_base64_behind_a_path_is_found(path: str) -> None:
    """A slash belongs to the alphabet: what stands before the token is no reason to miss it."""
    wrapped = base64.b64encode(b"the token is ghp_" + b"aB3" * 12).decode()

    assert list(scan("a.txt", f"{path}{wrapped}".encode()))


@pytest.mark.parametrize(("text", "kind"), SECRETS)
def test_many_files_are_scanned_like_each_of_them(text: str, kind: str) -> None:
    """Files are looked at together, and the finding names the one file, its line and the kind."""
    files = [(f"records/{n:06d}.json", b'{"value": 1}') for n in range(500)]
    files[321] = (files[321][0], f"a\nb {text} c".encode())
    found = {str(secret) for secret in scan_all(files)}

    assert f"records/000321.json line 2: {kind}" in found
    assert all(name.startswith("records/000321.json") for name in found)


def test_two_files_make_no_secret_together() -> None:
    """What begins in one file and ends in the next is no secret of either."""
    assert [] == list(scan_all([("a", b"password="), ("b", b"correct-horse-battery")]))


def test_secret_in_a_name_is_found_and_not_repeated() -> None:
    """A token as a file name blocks like one in a file, and the message does not carry it."""
    token = "ghp_" + "aB3" * 12
    [secret] = scan_all([("evidence/ok.json", b"{}"), (f"attachments/{token}.txt", b"{}")])

    assert "GitHub token" == secret.kind
    assert token not in str(secret)
    assert [] == list(scan_name("records/000001-run.opened.json"))


def test_the_quick_look_misses_nothing() -> None:
    """A text that a shape matches holds one of its marks: drawn at random around every secret above."""
    rng = random.Random(3)
    letters = string.ascii_letters + string.digits + "_-./+:= @"
    for case in SECRETS:
        for _ in range(50):
            ends = ["".join(rng.choices(letters, k=rng.randrange(9))) for _ in range(2)]
            data = f"{ends[0]} {case.values[0]} {ends[1]}".encode()
            for kind, shape in SHAPES.items():
                text = data.lower() if kind in ANY_CASE else data
                assert not shape.search(data) or any(mark in text for mark in MARKS[kind])


def test_random_bytes_in_base64_are_no_secret() -> None:
    """Signatures, keys and hashes are base64 too."""
    rng = random.Random(5)
    data = "\n".join(base64.b64encode(rng.randbytes(64)).decode() for _ in range(3_000)).encode()

    assert [] == list(scan("a.txt", data))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_secret_in_json_inside_of_json_is_found(depth: int) -> None:
    """A person pastes a configuration into a note: its quotes are escaped, and it still blocks."""
    text = json.dumps({"password": "hunter2hunter2"})
    for _ in range(depth):
        text = json.dumps({"text": text})

    assert ["password or secret"] == [secret.kind for secret in scan("a.json", text.encode())]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_secret_in_utf_16_is_found(encoding: str) -> None:
    """Logs of other systems have two bytes a letter, in files and inside of base64."""
    data = ("first\nAKIA" + "ABCDEFGH12345678 end").encode(encoding)

    assert ["a.log line 2: AWS access key"] == [str(secret) for secret in scan("a.log", data)]
    assert list(scan("a.log", base64.b64encode(data)))


@pytest.mark.parametrize("before", range(0, 140, 7))
def test_a_secret_across_lines_of_base64_is_found(before: int) -> None:
    """As ``base64`` breaks its lines, also where JSON escaped the breaks."""
    lines = base64.encodebytes(b"x" * before + b" ghp_" + b"aB3" * 12 + b" and more text behind it" * 3)

    for data in (lines, lines.replace(b"\n", b"\r\n"), json.dumps({"text": lines.decode()}).encode()):
        assert "GitHub token, in base64" in {secret.kind for secret in scan("a.txt", data)}


def test_long_base64_is_read_in_one_pass() -> None:
    """The work grows with the bytes: four times the text takes about four times as long."""

    def seconds(size: int) -> float:
        data = base64.b64encode(random.Random(1).randbytes(size))
        took = []
        for _ in range(3):
            start = time.process_time()
            assert [] == list(scan("a.txt", data))
            took.append(time.process_time() - start)
        return min(took)

    assert seconds(1 << 20) < 10 * seconds(1 << 18)
