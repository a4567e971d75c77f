"""The secret scan: finds the usual tokens, leaves digests and ids alone."""

from __future__ import annotations

import hashlib

import pytest

from pretrain_archive.package.secrets import scan

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
    ],
)
def test_harmless_text_passes(text: str) -> None:
    """False alarms would block every close."""
    assert [] == list(scan("a.json", text.encode()))
