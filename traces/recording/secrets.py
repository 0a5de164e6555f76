r"""Masks secrets in raw lines before they are written to a trace.

Only unmistakable secrets are masked: an issuer's fixed prefix, a private key under its header, a password in a URL, a
value directly after `Bearer` or after an upper-case variable whose name names a secret. Text that merely looks random
is not masked, because a trace without ids and hashes would be useless.

Three constraints shape the patterns:

- Lines are JSON, and most secrets are inside a JSON string. No pattern matches a quote or half of an escape, so a
masked
  line is still JSON.
- No pattern requires a word boundary (`\b`) on its left, because there an escaped newline (`\n`) ends in a letter.
- Masking is linear in the line: every repetition that could restart inside its own match is bounded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

__all__ = ["RULES", "mask_lines", "mask_secrets"]


class Rule(NamedTuple):
    kind: str
    anchors: tuple[bytes, ...]
    """The pattern can match only in lines that contain one of these, which a substring search finds much faster."""
    pattern: re.Pattern[bytes]
    """Group 1, if there is one, is the secret; otherwise the whole match is."""


def _rule(kind: str, anchors: tuple[bytes, ...], pattern: bytes) -> Rule:
    return Rule(kind, anchors, re.compile(pattern))


_VALUE = rb"(?=[^\s\"'\\]{0,100}?[0-9])(?=[^\s\"'\\]{0,100}?[A-Za-z])[A-Za-z0-9+/=_.~-]"
"""A character of a value that contains a letter and a digit. The pattern that uses it adds the repetition."""
_TEXT = rb"(?:(?!-----[BE])(?:[^\"\\]|\\+[^\"\\]))"
"""A character or an escape inside a JSON string, unless a PEM boundary starts there."""

RULES = (
    _rule(
        "private-key",
        (b"PRIVATE KEY-----",),
        rb"-----BEGIN (?:[A-Z]{2,10} ){0,3}PRIVATE KEY-----(?=[^\"]{0,120}?[A-Za-z0-9+/=]{32})"
        + _TEXT
        + rb"{0,8000}(?:-----END (?:[A-Z]{2,10} ){0,3}PRIVATE KEY-----)?",
    ),
    _rule("anthropic-key", (b"sk-ant-",), rb"sk-ant-[A-Za-z0-9_-]{20,}"),
    _rule(
        "openai-key",
        (b"sk-proj-", b"sk-svcacct-", b"sk-admin-", b"T3BlbkFJ"),
        rb"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9_-]{16,128}T3BlbkFJ[A-Za-z0-9_-]{16,}",
    ),
    _rule("openrouter-key", (b"sk-or-v1-",), rb"sk-or-v1-[0-9a-f]{64}"),
    _rule("github-token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"gh[pousr]_[A-Za-z0-9]{36,}"),
    _rule("github-token", (b"github_pat_",), rb"github_pat_[A-Za-z0-9_]{60,}"),
    _rule("gitlab-token", (b"glpat-",), rb"glpat-[A-Za-z0-9_-]{20,}"),
    _rule("aws-key-id", (b"AKIA", b"ASIA"), rb"A(?:KI|SI)A[0-9A-Z]{16}(?![0-9A-Za-z])"),
    _rule("google-key", (b"AIza",), rb"AIza[0-9A-Za-z_-]{35}"),
    _rule("google-oauth", (b"ya29.", b"GOCSPX-"), rb"(?:ya29\.|GOCSPX-)[0-9A-Za-z_-]{20,}"),
    _rule("slack-token", (b"xox",), rb"xox[abeoprs]-[0-9A-Za-z-]{10,}"),
    _rule("slack-webhook", (b"hooks.slack.com",), rb"hooks\.slack\.com/services/([A-Za-z0-9/]{20,})"),
    _rule("stripe-key", (b"k_live_",), rb"[rs]k_live_[0-9A-Za-z]{16,}"),
    _rule("npm-token", (b"npm_",), rb"npm_[A-Za-z0-9]{36}"),
    _rule("pypi-token", (b"pypi-AgEI",), rb"pypi-AgEI[A-Za-z0-9_-]{50,}"),
    _rule("huggingface-token", (b"hf_",), rb"hf_[A-Za-z]{34}(?![A-Za-z0-9])"),
    _rule("sendgrid-key", (b"SG.",), rb"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _rule("jwt", (b".eyJ",), rb"eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}"),
    _rule("bearer", (b"earer ",), rb"[Bb]earer +((?=[^\s\"'\\]{16})" + _VALUE + rb"+)"),
    _rule("basic", (b"asic ",), rb"uthorization[\\\"]*: *[\\\"]*[Bb]asic +([A-Za-z0-9+/]{8,}=*)"),
    _rule("url-password", (b"://",), rb"://[^\s/:@\"'\\]*:([^\s/:@\"'\\]{3,})@[A-Za-z0-9\[]"),
    _rule(
        "variable",
        (b"_KEY", b"_TOKEN", b"_SECRET", b"_PASSW"),
        rb"_(?<=[A-Z0-9]_)(?:KEY(?:(?<=API_KEY)|(?<=ACCESS_KEY)|(?<=SECRET_KEY)|(?<=PRIVATE_KEY))"
        rb"|TOKEN|SECRET|PASSWORD|PASSWD)(?:=|[\\\"]+: *)[\\\"]*(" + _VALUE + rb"{12,})",
    ),
)

CLUES = tuple(
    re.compile(clue)
    for clue in (
        rb"-(?<=[abeikoprstX-]-)(?:(?<=sk-)|(?<=glpat-)|(?<=GOCSPX-)|(?<=xox[abeoprs]-)|(?<=pypi-)AgEI"
        rb"|(?<=-----)BEGIN )",
        rb"_(?<=[bfhkmoprstuA-Z0-9]_)(?:(?<=gh[pousr]_)|(?<=github_)pat_|(?<=npm_)|(?<=hf_)|(?<=k_)live_"
        rb"|(?<=[A-Z0-9]_)(?:KEY|TOKEN|SECRET|PASSW))",
        rb"\.(?:eyJ|(?<=ya29\.)|(?<=SG\.)|slack\.com/services/)",
        rb"A(?:KIA|SIA|Iza)",
        rb"@(?<=[^\s/:@\"'\\]@)[A-Za-z0-9\[]",
        rb"earer ",
        rb"uthorization",
    )
)
"""A cheaper form of the anchors for a whole batch: if a rule can match in a line, one of these patterns does as well.

Each starts with a literal, mostly a rare byte that `re` finds at the speed of `memchr`, and checks the preceding bytes
with a lookbehind. Together they cost a quarter of searching for every anchor. A new rule in `RULES` needs a clue here
that matches wherever one of its anchors occurs; a test compares the two."""


def mask_lines(lines: Sequence[bytes]) -> list[bytes]:
    """Apply `mask_secrets` to many lines. Only the lines that contain a clue are examined one by one."""
    masked = list(lines)
    text = b"\n".join(lines)
    ends = list(accumulate(len(line) + 1 for line in lines))
    for number in {bisect_right(ends, clue.start()) for pattern in CLUES for clue in pattern.finditer(text)}:
        masked[number] = mask_secrets(masked[number])
    return masked


def mask_secrets(line: bytes) -> bytes:
    """Replace every secret in the line by `[masked <kind>]`. Returns the same object if there is none."""
    for kind, anchors, pattern in RULES:
        if any(anchor in line for anchor in anchors):
            line = pattern.sub(lambda match, kind=kind: _replacement(match, kind), line)  # type: ignore[misc]
    return line


def _replacement(match: re.Match[bytes], kind: str) -> bytes:
    group = 1 if match.re.groups else 0
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    whole = match.group()
    return b"%b[masked %b]%b" % (whole[:start], kind.encode(), whole[end:])
