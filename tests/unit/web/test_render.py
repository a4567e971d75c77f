"""Addresses, sizes, digests and commands as pages print them."""

from __future__ import annotations

import shlex

import pytest
from starlette.requests import Request

from pretrain_archive.web.render import Links, duration, first_language, moment, short, size, verify_command


def request(*, root: str = "/af/pretrain-archive", languages: str = "") -> Request:
    """A request as Airflow hands it to a mounted application."""
    headers = [(b"accept-language", languages.encode())]
    return Request({"type": "http", "method": "GET", "path": "/", "root_path": root, "headers": headers})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param(0, "0 B", id="nothing"),
        pytest.param(1023, "1023 B", id="below a KiB"),
        pytest.param(1536, "1.5 KiB", id="KiB"),
        pytest.param(5 * 1024**4, "5.0 TiB", id="TiB"),
        pytest.param(None, "unrecorded", id="unrecorded"),
    ],
)
def test_sizes(value: int | None, words: str) -> None:
    """Bytes are shown in the largest unit; a missing size is unrecorded, not nothing."""
    assert words == size(value).en


def test_durations() -> None:
    """Seconds below a minute keep a decimal, longer ones read as a clock."""
    assert ["31.5 s", "1:01:05", "unrecorded"] == [duration(v).en for v in (31.5, 3665.0, None)]


def test_a_digest_is_shown_by_its_ends() -> None:
    """Eight and eight characters, as in Airflow's form."""
    assert "01234567…89abcdef" == short("sha256:" + "0123456789abcdef" * 4)


def test_a_time_keeps_its_exact_value() -> None:
    """The attribute holds the recorded text; what is shown without a script is UTC."""
    html = str(moment("2026-11-29T18:46:45.123456Z"))

    assert 'datetime="2026-11-29T18:46:45.123456Z"' in html
    assert "2026-11-29 18:46:45 UTC" in html


@pytest.mark.case("S01")
def test_names_are_bytes_in_addresses() -> None:
    """Slash, percent, plus, newline and quotes of an id stay one segment of an address, below a base path."""
    links = Links(request())
    odd = "a/b%2F+ \n?#\"'é"

    assert "/af/dags/a%2Fb%252F%2B%20%0A%3F%23%22%27%C3%A9/runs/r" == links.dag_run(odd, "r")
    assert links.answer("d", odd, "t", -1).startswith("/af/api/v2/dags/d/dagRuns/a%2Fb%252F%2B%20%0A")
    assert links.answer("d", "r", "t", -1).endswith("/taskInstances/t/-1/hitlDetails")
    assert "/pretrain-archive/runs?q=a%26b&state=open" == Links(request(root="/pretrain-archive")).runs(
        q="a&b", state="open", before=None
    )


def test_the_verify_command_survives_odd_folders() -> None:
    """Pasted into a shell, the command names exactly the package's folder."""
    words = shlex.split(verify_command("file:///srv/it's%20here;%20rm%20-rf%20x"))

    assert ["python3", "-I", "-S", "/srv/it's here; rm -rf x/verify.py"] == words[:4]
    assert "/srv/it's here; rm -rf x" == words[-1]


@pytest.mark.parametrize(
    ("header", "language"),
    [
        pytest.param("zh-TW,zh;q=0.9", "zh-CN", id="Chinese"),
        pytest.param("fr-FR,zh;q=0.5", "zh-CN", id="first that we have"),
        pytest.param("de", "en", id="none that we have"),
        pytest.param("", "en", id="nothing said"),
    ],
)
def test_the_first_language(header: str, language: str) -> None:
    """Before the script runs, the page speaks the browser's first language that it knows."""
    assert language == first_language(request(languages=header))
