"""Values that are secret because of their name: `password=`, `"api_key": `, `--token `.

Lines are JSON, with text in it that may be JSON itself, so quotes may be escaped, any number of times. What is taken
away reaches from one quote to the same quote, or contains none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from math import log2
from typing import NamedTuple, TypeAlias

Span: TypeAlias = tuple[int, int, str]
"""First byte, end, and what it is."""
Look: TypeAlias = Callable[[bytes, int, int], "Span | None"]
"""Look at a text for a secret, where a literal begins, in a line that ends there."""

MAX_VALUE = 4_096
MAX_JUDGED = 64
"""Characters of a value that say what it is."""
MAX_PLACEHOLDER = 200
MIN_STRONG = 4
MIN_BARE = 6
MIN_WEAK = 10
"""Characters of a value whose name alone does not make it a secret, like that of a token …"""
LEAST_ENTROPY = 2.9
LEAST_OF_LONG = 2.3
"""… and bits for each of its characters."""

STRONG = (b"passw", b"passphrase", b"_pwd", b"pwd=", b'pwd"', b"pwd\\", b"_pass", b'"pass"', b'pass\\"', b"secret")
_QUALIFIED = (
    b"api",
    b"access",
    b"private",
    b"auth",
    b"account",
    b"encryption",
    b"signing",
    b"master",
    b"subscription",
    b"service",
    b"license",
    b"licence",
    b"client",
    b"app",
    b"admin",
    b"storage",
    b"consumer",
    b"shared",
    b"webhook",
    b"session",
    b"deploy",
    b"ssh",
    b"secret",
    b"function",
    b"device",
    b"functions",
    b"sdk",
    b"write",
    b"read",
    b"live",
    b"server",
    b"integration",
    b"rest",
    b"bot",
    b"user",
    b"team",
    b"org",
    b"personal",
    b"root",
    b"sharedaccess",
)
_TAILS = (b'"', b"'", b"\\", b"=", b":", b" ", b"_")
NAMES: tuple[bytes, ...] = (
    *STRONG,
    *(one + joint + b"key" for one in _QUALIFIED for joint in (b"", b"_", b"-")),
    *(
        word + tail
        for word in (b"token", b"credential", b"credentials", b"authkey", b"_auth", b"jwt")
        for tail in _TAILS
    ),
    b'auth"',
    b"auth\\",
    b"sig=",
    b"signature=",
    b"_key=",
    b'_key"',
    b"_key\\",
    b"_key'",
    b"_key:",
    b"_key =",
)
"""In lower case. The name of a value contains one of these."""

_REST = re.compile(rb"([A-Za-z0-9_.-]{0,40}+)(?:[ ](?i:key|token|phrase))?")
_SIGN = re.compile(
    rb"(?P<quote>\\*[\"'`])?\]?[ \t]{0,8}"
    rb"(?P<sign>:=|=>|={1,3}|:|,(?=[ ]{0,2}\\*[\"'])|>|(?<=[A-Za-z0-9])(?=[ ]))[ \t]{0,8}"
)
_OPENING = re.compile(rb"(\\{0,15})([\"'`])")
_BARE = re.compile(rb"[^\s\"'`\\,;&<>(){}\[\]|=]{4,4096}={0,3}")
_CODE = re.compile(rb"[A-Za-z_$][A-Za-z0-9_]*(?:(?:\.|::|->)[A-Za-z_][A-Za-z0-9_]*)+")
_WORDS = re.compile(rb"[a-z]+(?:[_-][a-z]+)*\d?|[A-Z]+(?:_[A-Z]+)*|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*")
_BACKWARDS = re.compile(rb"[A-Za-z0-9_.-]*")
_NOT_SECRET = tuple(
    b"public primary foreign cache page next continuation pagination idempotency sort partition csrf_field csrffield "
    b"cancellation stop end begin special pad unk eos bos input output max total num count old".split()
)
"""How names begin, before the word, that name no secret."""
_SUFFIX = re.compile(
    rb"(?i)[_.-]?(?:s|id|ids|name|names|type|types|count|counts|url|uri|endpoint|file|path|dir|env|var|field|fields|length|len|size"
    rb"|limit|expiry|expires\w*|ttl|ref|arn|version|manager|provider|store|usage|budget|policy|scopes?|hint|label|format|"
    rb"prompt|hash_algo\w*|algorithm|input|stdin|is\w*|required|enabled|valid\w*|status|state|error|errors|index|source|details?|mode|kind)\b"
)
_PLACEHOLDER = re.compile(
    rb"(?i)(?:(?:your|my|the|some|example|sample|dummy|test|fake|insert|enter|put|set|use"
    rb"|replace|change|add|todo)[-_ ].*|x{3,}.*|.*x{6,}"
    rb"|.*(?:\*{3}|\.{3}|\xe2\x80\xa6|redacted|masked|removed|placeholder|change-?_?me|your[-_]?(?:api|token|key|secret|pass)|-here|_here).*"
    rb"|[<$%{\[(#@].*|.*\$\{.*|.*\{\{.*|(?:/|\./|~/|\.\./|https?://|[a-z]:\\).*|(?:sha|md)\d+[-:].*"
    rb"|string|str|text|bool(?:ean)?|number|integer|int|object|array|any|unknown|password|passwd|pass|passphrase|secret|token|key|api_?key"
    rb"|apikey|required|optional|hidden|yes|no|on|off|true|false|none|null|nil|undefined|void|bearer|basic|oauth2?|jwt|cookie"
    rb"|default|disabled|enabled|auto|user|username|value|invalid|missing|expired|return|await|example|test|prompt|env|file|stdin)"
)
_LETTERS_AND_MORE = re.compile(rb"(?=[^A-Za-z]*+[A-Za-z])[^0-9!@#$%^&*?~]*+[0-9!@#$%^&*?~]")
_DIGITS = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def entropy(value: bytes) -> float:
    """Bits for each character."""
    size = len(value)
    return -sum(count / size * log2(count / size) for count in Counter(value).values())


def is_placeholder(value: bytes) -> bool:
    if len(value) > MAX_PLACEHOLDER:
        return False
    return _PLACEHOLDER.fullmatch(value) is not None or len(set(value)) < 4


def named(literal: bytes) -> Look:
    """Look for the value after a name that contains the literal."""
    strong = literal.startswith(STRONG) or b"private" in literal
    kind = "password" if literal.lstrip(b'_"').startswith((b"pass", b"pwd")) else "secret" if strong else "token"
    if b"key" in literal:
        kind = "key"
    stem = len(literal.rstrip(b" =:\"'\\_"))

    def look(text: bytes, start: int, end: int) -> Span | None:
        rest = _REST.match(text, start + stem, end)
        if rest is None or _SUFFIX.fullmatch(rest[1]):
            return None
        sign = _SIGN.match(text, rest.end(), end)
        if sign is None:
            return None
        before = _BACKWARDS.match(text[max(0, start - 40) : start][::-1])
        prefix = b"" if before is None else before[0][::-1]
        if prefix.rstrip(b"_.-").lower().endswith(_NOT_SECRET):
            return None
        is_option = prefix.startswith(b"-")  # which has its value after a blank
        sure = is_option if not sign["sign"] else sign["sign"] not in (b",", b">")
        is_variable = sign["sign"] == b"=" and (prefix + text[start : rest.end()]).isupper()
        return _value(text, sign.end(), end, Named(kind, strong, sure, is_variable, sign["quote"]))

    return look


class Named(NamedTuple):
    kind: str
    strong: bool
    """Whatever has this name is secret."""
    sure: bool
    """What follows is certainly its value."""
    variable: bool
    """It is a variable of an environment."""
    quote: bytes | None
    """That of the name."""


def _value(text: bytes, start: int, end: int, named: Named) -> Span | None:
    opening = _OPENING.match(text, start, end)
    if opening is not None:
        closing = _closing(text, opening, end)
        if closing is None:
            return None
        value = text[opening.end() : closing]
        hides = _hides(value, named.strong) and (named.sure or _mixed(value))
        return (opening.end(), closing, named.kind) if hides else None
    bare = _BARE.match(text, start, min(end, start + MAX_JUDGED))
    if bare is None:
        return None
    value, after = bare.group().rstrip(b".:"), text[bare.end() : min(bare.end() + 1, end)]
    if not _is_bare_secret(value, after, named):
        return None
    whole = _BARE.match(text, start, end)
    return start, start + len((whole or bare).group().rstrip(b".:")), named.kind


def _is_bare_secret(value: bytes, after: bytes, named: Named) -> bool:
    if named.quote is not None and _DIGITS.fullmatch(value):  # a number in JSON
        return named.strong and len(value) >= MIN_STRONG
    if after in (b"(", b"[", b"{") or (named.quote is not None and named.quote.endswith(b'"') and not named.strong):
        return False
    if not named.sure:
        return _is_random(value)
    if named.strong and len(value) >= MIN_BARE:
        if after == b";" and value[0] not in b"$#%{<(":  # of the address of a database
            return True
        if named.variable and not is_placeholder(value):
            return True
    if (_CODE.fullmatch(value) and len(value) < 60) or _WORDS.fullmatch(value):
        return False
    return len(value) >= MIN_BARE and _mixed(value) and _hides(value, named.strong)


def _closing(text: bytes, opening: re.Match[bytes], end: int) -> int | None:
    """Where the string ends that begins so.

    A quote of JSON within JSON has 0, 1, 3, 7 … backslashes before it. With the backslashes that end the value, their
    number and one is divisible by as many powers of two as the quote is deep; a deeper quote belongs to the value."""
    depth, mark, at = len(opening[1]) + 1, opening[2], opening.end()
    limit = min(end, at + MAX_VALUE)
    while (at := text.find(mark, at, limit)) >= 0:
        backslashes = at
        while backslashes > opening.end() and text[backslashes - 1] == 0x5C:
            backslashes -= 1
        before = at - backslashes + 1
        if (its_depth := before & -before) <= depth:
            closing = at - its_depth + 1
            value = text[opening.end() : closing]
            return closing if mark == b'"' or (b'"' not in value and not value.endswith(b"\\")) else None
        at += 1
    return None


def _hides(value: bytes, strong: bool) -> bool:
    if not strong and (len(value) < MIN_WEAK or _WORDS.fullmatch(value[:MAX_JUDGED])):
        return False  # the cheapest question first: most values are words
    if is_placeholder(value):
        return False
    value = value[:MAX_JUDGED]
    if b" " in value or b"\\n" in value:
        return strong and len(value) < 64 and any(48 <= one < 58 for one in value) and value.count(b" ") < 4
    least = LEAST_ENTROPY if len(value) < 32 else LEAST_OF_LONG
    if strong:
        return len(value) >= MIN_STRONG and not (value.isalpha() and value.istitle()) and not _CODE.fullmatch(value)
    return _mixed(value) and entropy(value) >= least


def _is_random(value: bytes) -> bool:
    """Nobody would write it: long, with digits and letters in no order."""
    digits = sum(48 <= one < 58 for one in value)
    return (
        len(value) >= 16
        and 2 <= digits < len(value)
        and not is_placeholder(value)
        and entropy(value) >= 3.2
        and not _CODE.fullmatch(value)
    )


def _mixed(value: bytes) -> bool:
    """It has letters and something else."""
    return _LETTERS_AND_MORE.match(value) is not None or (len(value) >= 20 and entropy(value) > 3.6)
