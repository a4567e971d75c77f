"""Keys, tokens and passwords, by the patterns of detect-secrets and of providers that it does not know yet.

The plugins' own expressions are used; its scanner reads files, loads settings of a process and may ask a
service whether a key works, none of which is wanted here. A text that has none of an expression's fixed parts
is not searched with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """Search with ``pattern`` if one of ``parts`` is in the text (in its lower case where ``lower``)."""

    name: str
    parts: tuple[str, ...]
    pattern: re.Pattern[str]
    group: int = 0
    lower: bool = False
    accept: Callable[[str], bool] | None = None


# Module and class of the plugin, fixed parts of its expressions, whether they stand for any case.
_PLUGINS: Final = (
    ("artifactory", "ArtifactoryDetector", ("AKC", "AP"), False),
    ("aws", "AWSKeyDetector", ("A3T", "ABIA", "ACCA", "AKIA", "ASIA"), False),
    ("azure_storage_key", "AzureStorageKeyDetector", ("AccountKey=",), False),
    ("basic_auth", "BasicAuthDetector", ("://",), False),
    ("github_token", "GitHubTokenDetector", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), False),
    ("gitlab_token", "GitLabTokenDetector", ("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "GR1348941",
                                              "glcbt-", "glimt-", "glptt-", "glagent-", "gloas-"), False),
    ("jwt", "JwtTokenDetector", ("eyJ",), False),
    ("mailchimp", "MailchimpDetector", ("-us",), False),
    ("npm", "NpmDetector", (":_authToken=",), False),
    ("openai", "OpenAIDetector", ("T3BlbkFJ",), False),
    ("pypi_token", "PypiTokenDetector", ("pypi-Ag",), False),
    ("sendgrid", "SendGridDetector", ("SG.",), False),
    ("slack", "SlackDetector", ("xox", "hooks.slack.com"), True),
    ("square_oauth", "SquareOAuthDetector", ("sq0csp-",), False),
    ("stripe", "StripeDetector", ("k_live_",), False),
    ("twilio", "TwilioKeyDetector", ("AC", "SK"), False),
)  # fmt: skip

# Published forms of providers' own documents.
_OWN: Final = (
    ("github fine-grained", ("github_pat_",), r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("google api", ("AIza",), r"AIza[0-9A-Za-z_-]{35}"),
    ("hugging face", ("hf_",), r"hf_[A-Za-z]{34}"),
    ("anthropic", ("sk-ant-",), r"sk-ant-[a-z0-9]{3,8}-[A-Za-z0-9_-]{32,}"),
    ("alibaba cloud", ("LTAI",), r"LTAI[A-Za-z0-9]{12,26}"),
    ("tencent cloud", ("AKID",), r"AKID[A-Za-z0-9]{32}"),
)
# The plugin's own expression ends a token before its signature, and looks at each "eyJ" within one again.
_WEB_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9_=-])eyJ[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+(?:\.[A-Za-z0-9_+/=-]+)?"
)
# RFC 7468 and OpenPGP armour: a header alone (in prose) is no key, so some of the key must follow. Each line of the
# header reaches to the line's end, so that there is one way only to read many of them: a search never runs away.
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:\s|\\[nr]|(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\]*(?=[\n\\]))*[A-Za-z0-9+/]{16,}[A-Za-z0-9+/=\s\\]*"
    r"(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----)?"
)
LEAST: Final = 16
_RUN = re.compile(f"[!-~]{{{LEAST},}}")
_VISIBLE = bytes(ord("x") if 0x21 <= byte <= 0x7E else ord(" ") for byte in range(256))
_RUN_OF_BYTES = b"x" * LEAST
_JOINED = re.compile(r"[A-Za-z0-9_]")


def secrets(text: str, *, high_entropy: bool = False) -> Iterator[Span]:
    """Where secrets stand. All but a private key are at least :data:`LEAST` visible characters in a row."""
    if "PRIVATE KEY" in text:
        for match in _PRIVATE_KEY.finditer(text):
            yield match.span()
    if _RUN_OF_BYTES in text.encode("utf-8", "replace").translate(_VISIBLE):
        # The long runs together are far shorter than the text, and most hold no part of any secret.
        runs = "\n".join(_RUN.findall(text))
        low = runs.lower()
        likely = [(part, rule) for part, rule in _parts() if part in (low if rule.lower else runs)]
        for run in _RUN.finditer(text) if likely else ():
            yield from _in_run(text, run.start(), run.end(), likely)
    if high_entropy:
        for rule in _entropy_rules():
            yield from _matches(rule, text, 0, len(text))


def _in_run(text: str, start: int, end: int, likely: Sequence[tuple[str, Rule]]) -> Iterator[Span]:
    run = text[start:end]
    low = run.lower()
    for part, rule in likely:
        if part in (low if rule.lower else run):
            # One character more before it: some expressions want a mark or a blank there.
            yield from _matches(rule, text, max(0, start - 1), end)


def _matches(rule: Rule, text: str, start: int, end: int) -> Iterator[Span]:
    for match in rule.pattern.finditer(text, start, end):
        first, last = match.span(rule.group)
        if _alone(text, first, last) and (rule.accept is None or rule.accept(match.group(rule.group))):
            yield first, last


def _alone(text: str, start: int, end: int) -> bool:
    """Whether the match is no part of a longer word, such as a key's form within encoded data."""
    head, tail = text[start], text[end - 1]
    if _JOINED.match(head) and start and _JOINED.match(text[start - 1]):
        return False
    return not (_JOINED.match(tail) and end < len(text) and _JOINED.match(text[end]))


@lru_cache(maxsize=1)
def _rules() -> tuple[Rule, ...]:
    own = [Rule(name=name, parts=parts, pattern=re.compile(pattern)) for name, parts, pattern in _OWN]
    return (*own, *_plugin_rules())


@lru_cache(maxsize=1)
def _parts() -> tuple[tuple[str, Rule], ...]:
    return tuple((part, rule) for rule in _rules() for part in rule.parts)


def _plugin_rules() -> list[Rule]:
    rules = []
    for module, name, parts, lower in _PLUGINS:
        plugin = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        # Of the cloud key's two expressions the second guesses from a variable's name.
        for number, pattern in enumerate(plugin.denylist[:1] if module == "aws" else plugin.denylist):
            rule = Rule(name=f"{module} {number}", parts=parts, pattern=pattern, lower=lower)
            if module == "jwt":
                rule = replace(rule, pattern=_WEB_TOKEN, accept=plugin.is_formally_valid)
            if module == "basic_auth":
                rule = replace(rule, group=1, accept=_is_password)
            rules.append(rule)
    return rules


def _is_password(found: str) -> bool:
    """Whether the password of a URL is a word and no stand-in such as ``$PASSWORD``, ``<password>``, ``***``."""
    return not (
        found[:1] in "$<[{%" or set(found) <= set("*x.…") or found.lower() in ("password", "pass", "passwd")
    )


@lru_cache(maxsize=1)
def _entropy_rules() -> tuple[Rule, ...]:
    from detect_secrets.plugins import high_entropy_strings as entropy  # noqa: PLC0415 (heavy)

    rules = []
    for plugin in (entropy.Base64HighEntropyString(), entropy.HexHighEntropyString()):

        def accept(found: str, plugin: Any = plugin) -> bool:
            return bool(plugin.calculate_shannon_entropy(found) > plugin.entropy_limit)

        rules.append(Rule(name=plugin.secret_type, parts=(), pattern=plugin.regex, group=2, accept=accept))
    return tuple(rules)
