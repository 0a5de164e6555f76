"""Rules that recognize secrets: a table derived from a scanner's rules (`static/secret_rules.jsonl`), and our own for
lines of agents, such as values whose name says that they are secret (`password=`, `"api_key": `, `--token `).

Each rule begins with one of a few literals, and is tried only where its literal occurs in a line. So a line costs one
search for literals, and for each occurrence a lookup of bounded length. Hyperscan searches for all literals in one
pass, at memory speed. Where it has no wheel, a regular expression finds the same places, forty times slower.

Lines are JSON, with text in it that may be JSON itself, so quotes may be escaped, any number of times. A span to mask
reaches from one quote to the matching quote, or contains none.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from math import log2
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import orjson

Span: TypeAlias = tuple[int, int, str]
"""Secret in a line: (first byte, end, kind)."""
Look: TypeAlias = Callable[[bytes, int, int], "Span | None"]
"""Lookup: (text, start of a literal, end of the line) -> the secret there, or None."""

MAX_VALUE = 4_096
MAX_JUDGED_NAMED = 64
"""Bytes at the beginning of a named value by which it is judged."""
MAX_PLACEHOLDER = 200
MIN_STRONG = 4
MIN_BARE = 6
MIN_WEAK = 10
"""Minimum length in bytes of a secret whose name alone is not proof (a token's), …"""
LEAST_ENTROPY = 2.9
LEAST_OF_LONG = 2.3
"""… and its minimum entropy in bits per byte from 32 bytes on; shorter ones need `LEAST_ENTROPY`."""

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
    *(one + joint + b"key" for one in _QUALIFIED for joint in (b"", b"_", b"-", b" ")),
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
"""Literals in lower case, one of which the name of a secret value contains."""

_PREFIX = (
    rb"(?:(?i:[bruft]|[bft]r|r[bft])|[LUNEcs]|u8|raw|[bc]?r?#{1,3}|@\$?|\$@?|\[\]byte\("
    rb"|(?:[a-z_]{1,20}+(?:\.|::))?+(?:Secret(?:Str|Bytes|String)(?:::(?:new|from))?+|Secret::new)\((?:String::from\()?+[bru]?+"
    rb"|(?:std::)?+string\(|String::from\()"
)
"""What languages write before the quote of a string: for bytes in Python, Rust and Go, for raw, formatted and wide
strings, and types whose constructor takes the text itself."""
_REST = re.compile(rb"([A-Za-z0-9_.-]{0,40}+)(?:[ ](?i:key|token|phrase))?")
_SIGN = re.compile(
    rb"(?P<quote>\\*[\"'`])?\]?[ \t]{0,32}(?:(?:string|\[\]byte)[ \t]{1,8}(?==[ ]))?+"
    rb"(?P<sign>:=|=>|={1,3}|:|,(?=[ ]{0,2}" + _PREFIX + rb"?\\*[\"'])|>|(?<=[A-Za-z0-9])(?=[ ]))[ \t]{0,32}"
)
_TYPE = re.compile(
    rb"&?+(?:'[a-z_]{1,20}+ )?+"
    rb"(?:\[[a-z0-9]{1,8}+\]|[A-Za-z_][A-Za-z0-9_.]{0,40}+(?:[\[<][A-Za-z0-9_.,| ]{0,40}+[\]>])?+)"
    rb"(?:[ ]\|[ ][A-Za-z]{1,20}+|\?)?+[ ]{0,2}+=(?![=>])[ ]{0,2}+(?=" + _PREFIX + rb"?\\{0,15}[\"'`])"
)
"""The type between a name and its value, which is a string: `str = ` in `password: str = "…"`."""
_OPENING = re.compile(
    rb"(?P<prefix>" + _PREFIX + rb")?(?P<quote>(?P<depth>\\{0,15})(?P<mark>[\"'`])"
    rb"(?:(?P=depth)(?P=mark)(?P=depth)(?P=mark))?)"
)
"""The beginning of a string: with one quote, or with three, each after as many backslashes."""
_FORMATTED = re.compile(rb"[fFtTs$][^(]*+\Z")
_FILLED = re.compile(rb"[^{}]*+\{[^{}]+\}")
"""Matches the text of a formatted string, if an expression stands in it."""
_BARE = re.compile(rb"[^\s\"'`\\,;&<>(){}\[\]|=]{4,4096}={0,3}")
_CODE = re.compile(rb"[A-Za-z_$][A-Za-z0-9_]*(?:(?:\.|::|->)[A-Za-z_][A-Za-z0-9_]*)+")
_WORDS = re.compile(rb"[a-z]+(?:[_-][a-z]+)*\d?|[A-Z]+(?:_[A-Z]+)*|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*")
_NAME_WORD = (
    rb"(?:(?:[a-z]{1,20}+|[A-Z]{1,20}+)\d{0,4}+|[a-z]*+(?:[A-Z]++[a-z]{2,}+)++[A-Z]*+|(?<=_)\d{1,3}+|\{\w{0,16}+\})"
    rb"(?![A-Za-z0-9])"
)
_NAME = re.compile(rb"_{0,2}+" + _NAME_WORD + rb"(?:(?:[_./\\]{1,8}+|::|-(?=[a-z{]))" + _NAME_WORD + rb")*+")
"""What code calls something: words with a few digits at their ends, alone (`ucontext64`) or joined to an identifier, a
dotted name or a path (`rc2_key_st`, `python.xml.parser`)."""
_ALIKE = re.compile(
    rb"[a-z]++(?:_[a-z]++)++,[a-z]++(?:_[a-z]++)++|[A-Z]++(?:_[A-Z]++)++,[A-Z]++(?:_[A-Z]++)++"
    rb"|(?:[a-z]++|[A-Z]++[a-z]++)(?:[A-Z]++[a-z]++)++,(?:[a-z]++|[A-Z]++[a-z]++)(?:[A-Z]++[a-z]++)++"
)
"""Two identifiers of several words, written in the same style."""
_ITEM = re.compile(rb"--?[A-Za-z][A-Za-z0-9-]*+|[A-Za-z][A-Za-z0-9-]*+(?:\.[A-Za-z0-9-]++)*+:\d{1,5}+")
"""An option, or a host with its port."""
_BACKWARDS = re.compile(rb"[A-Za-z0-9_.-]*")
_BEGINS = rb"(?=[ \t]{0,80}+(?:\Z|[ntr]?\\|[\r\n\"'`;:{}+#/>-])|[ \t]{1,8}+[A-Za-z])"
"""Looks at what precedes a statement, read from its end: nothing, the end of another, a keyword, the sign of a diff."""
_NAMES_BEFORE = re.compile(rb"[@$]{0,2}+(?:[ ]{0,2}+,[ ]{0,2}+[A-Za-z0-9_.@$]{1,40}+){0,5}+" + _BEGINS)
"""Names with which a statement begins, read from their end: `user, ` in `user, password = "a", "b"`."""
_NAMES_IN_BRACKETS_BEFORE = re.compile(
    rb"[@$]{0,2}+(?:[ ]{1,2}+[A-Za-z]{1,20}+)?+"
    rb"(?:[ ]{0,2}+,[ ]{0,2}+[A-Za-z0-9_.@$]{1,40}+(?:[ ][A-Za-z]{1,20}+)?+){0,5}+"
    rb"[ ]{0,2}+[(\[{](?:tsil)?+" + _BEGINS
)
"""The same of names in brackets, which may have types: `(int id, string ` in `(int id, string password) =`."""
_NAMES_AFTER = re.compile(
    rb"(?P<names>"
    rb"(?:[ ]{0,2}+,[ ]{0,2}+[@$]{0,2}+[A-Za-z_][A-Za-z0-9_.]{0,40}+(?:[ ][A-Za-z_][A-Za-z0-9_]{0,40}+)?+){0,5}+)"
    rb"(?P<bracket>[ ]{0,2}+[)\]}](?::[ ]{0,2}+[(\[][^()\[\]{}=\"'\\\n]{1,60}+[)\]])?+)?+"
    rb"[ ]{0,2}+:?={1,3}+[ ]{0,2}+"
)
_ROW_BEGINS = re.compile(
    rb"(?:(?:[a-z]{1,8}::[a-z_]{0,8}|)(?i:pair|tuple|array|list)(?:\.(?i:create|of))?)?+[(\[{][ ]{0,2}+"
)
_BEFORE_NAME = (b",", b" ", b"@", b"$")
_ENDS_NAME_IN_ROW = (b",", b")", b"]", b"}")
MAX_NAMES_BEFORE = 120
_VALUE_OF_ROW = re.compile(rb"[^\s\"'`\\,;&<>(){}\[\]|=]{1,100}+")
_COMMA = re.compile(rb"[#)]{0,3}+[ ]{0,2}+,[ ]{0,2}+")
_NOT_SECRET = tuple(
    b"public primary foreign cache page next continuation pagination idempotency sort partition csrf_field csrffield "
    b"cancellation stop end begin special pad unk eos bos input output max total num count old".split()
)
"""Words that, right before the literal in a name, mean that the value is not secret: `public_key`."""
_SUFFIX = re.compile(
    rb"(?i)[_.-]?(?:s|id|ids|name|names|type|types|count|counts|url|uri|endpoint|file|path|dir|env|var|field|fields|length|len|size"
    rb"|limit|expiry|expires\w*|ttl|ed|es|ing|ref|arn|version|manager|provider|store|usage|budget|policy|scopes?|hint|label|format|"
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
_FOUR_GROUPS = re.compile(rb"[a-z]{4}(?: [a-z]{4}){3}(?![^\"'`\\\s,;])")
"""A password of an app as Google shows it: four groups of four letters."""
_DIGITS = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def entropy(value: bytes) -> float:
    """Shannon entropy in bits per byte."""
    size = len(value)
    return -sum(count / size * log2(count / size) for count in Counter(value).values())


def is_placeholder(value: bytes) -> bool:
    if len(value) > MAX_PLACEHOLDER:
        return False
    return _PLACEHOLDER.fullmatch(value) is not None or len(set(value)) < 4


def named(literal: bytes) -> Look:
    """Return a lookup for the value after a name that contains the literal."""
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
        ends_row = text[rest.end() : rest.end() + 2].lstrip(b" ")[:1] in _ENDS_NAME_IN_ROW
        if sign is None and not ends_row:
            return None
        before = _BACKWARDS.match(text[max(0, start - 40) : start][::-1])
        prefix = b"" if before is None else before[0][::-1]
        if prefix.rstrip(b"_.-").lower().endswith(_NOT_SECRET):
            return None
        begin = start - len(prefix)
        name = text[begin : rest.end()]
        if ends_row and (place := _place_in_row(text, begin, rest.end(), end, True)) is not None:
            return _value(text, place, end, Named(name, kind, strong, True, False, None))
        if sign is None:
            return None
        place = None
        if sign["sign"] in (b"=", b":=") and text[begin - 1 : begin] in _BEFORE_NAME:
            place = _place_in_row(text, begin, sign.end(), end, False)
        is_option = prefix.startswith(b"-")  # which has its value after a blank
        sure = is_option if not sign["sign"] else sign["sign"] not in (b",", b">")
        is_variable = sign["sign"] == b"=" and name.isupper()
        if sign["sign"] == b":" and sign["quote"] is None and (type_ := _TYPE.match(text, sign.end(), end)):
            place = type_.end()
        place = sign.end() if place is None else place
        return _value(text, place, end, Named(name, kind, strong, sure, is_variable, sign["quote"]))

    return look


class Named(NamedTuple):
    name: bytes
    kind: str
    strong: bool
    """Whether the name alone is proof of a secret (`password`); other values must look random."""
    sure: bool
    """Whether the value certainly belongs to the name: after `=` or `:`, say, rather than after `,` or `>`."""
    variable: bool
    """Whether it is an environment variable (`NAME=` in capitals)."""
    quote: bytes | None
    """The quote that ends the name, with its backslashes; None if the name is not quoted."""


def _value(text: bytes, start: int, end: int, named: Named) -> Span | None:
    opening = _OPENING.match(text, start, end)
    if opening is not None:
        closing = _closing(text, opening, end)
        if closing is None:
            return None
        value = text[opening.end() : closing]
        if opening["prefix"] is not None and _FORMATTED.search(opening["prefix"]) and _FILLED.match(value):
            return None
        hides = _hides(value, named.strong) and (named.sure or (_mixed(value) and not _is_next(value, named.name)))
        return (opening.end(), closing, named.kind) if hides else None
    if named.strong and named.sure and (groups := _FOUR_GROUPS.match(text, start, end)):
        return start, groups.end(), named.kind
    bare = _BARE.match(text, start, min(end, start + MAX_JUDGED_NAMED))
    if bare is None:
        return None
    value, after = bare.group().rstrip(b".:"), text[bare.end() : min(bare.end() + 1, end)]
    if not _is_bare_secret(value, after, named):
        return None
    whole = _BARE.match(text, start, end)
    return start, start + len((whole or bare).group().rstrip(b".:")), named.kind


def _place_in_row(text: bytes, name: int, place: int, end: int, names_follow: bool) -> int | None:
    """Return where the value of a name begins if a row of values is assigned to a row of names: the value that has the
    same position as the name. None if they are no such rows.

    `name`: where the name begins. `place`: where it ends, if other names or a bracket follow, or else where the values
    begin.
    """
    before, names_after = _NAMES_BEFORE, False
    if names_follow:
        after = _NAMES_AFTER.match(text, place, end)
        if after is None:
            return None
        place, names_after = after.end(), bool(after["names"])
        if after["bracket"]:
            before = _NAMES_IN_BRACKETS_BEFORE
    names_before = before.match(text[max(0, name - MAX_NAMES_BEFORE) : name][::-1])
    position = 0 if names_before is None else names_before[0].count(b",")
    if names_before is None or not (position or names_after):
        return None
    if row := _ROW_BEGINS.match(text, place, end):
        place = row.end()
    found = place
    for passed in range(max(position, 1)):
        opening = _OPENING.match(text, place, end)
        if opening is None:
            value = _VALUE_OF_ROW.match(text, place, end)
            closing = None if value is None else value.end()
        elif (closing := _closing(text, opening, end)) is not None:
            closing += len(opening["quote"])
        comma = None if closing is None else _COMMA.match(text, closing, end)
        if comma is None:
            return None
        place = comma.end()
        if passed < position:
            found = place
    return found


def _is_next(value: bytes, name: bytes) -> bool:
    """Whether the string after a name and a comma is no value of it, but the next item of the same list."""
    return _ITEM.fullmatch(value) is not None or _ALIKE.fullmatch(b"%b,%b" % (name, value)) is not None


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
    """Return where the string with this opening quote ends, or None.

    A quote of JSON nested n levels deep has 2**n - 1 backslashes before it: 0, 1, 3, 7 … The value may end in
    backslashes of its own, so the depth of a quote is given by the largest power of two that divides the number of its
    backslashes plus one. A deeper quote is part of the value.
    """
    depth, mark, at = len(opening["depth"]) + 1, opening["mark"], opening.end()
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
    if not strong and (len(value) < MIN_WEAK or _WORDS.fullmatch(value[:MAX_JUDGED_NAMED])):
        return False  # the cheapest question first: most values are words
    if not strong and len(value) <= MAX_JUDGED_NAMED and _NAME.fullmatch(value):
        return False
    if is_placeholder(value):
        return False
    value = value[:MAX_JUDGED_NAMED]
    if b" " in value or b"\\n" in value:
        if strong and _FOUR_GROUPS.fullmatch(value):
            return True
        return strong and len(value) < 64 and any(48 <= one < 58 for one in value) and value.count(b" ") < 4
    least = LEAST_ENTROPY if len(value) < 32 else LEAST_OF_LONG
    if strong:
        return len(value) >= MIN_STRONG and not (value.isalpha() and value.istitle()) and not _CODE.fullmatch(value)
    return _mixed(value) and entropy(value) >= least


def _is_random(value: bytes) -> bool:
    """Whether a value looks generated: at least 16 bytes, with digits, of high entropy, and neither a placeholder nor
    code."""
    digits = sum(48 <= one < 58 for one in value)
    return (
        len(value) >= 16
        and 2 <= digits < len(value)
        and not is_placeholder(value)
        and entropy(value) >= 3.2
        and not _CODE.fullmatch(value)
    )


def _mixed(value: bytes) -> bool:
    """Whether a value mixes letters with digits or symbols, or is long and of high entropy."""
    return _LETTERS_AND_MORE.match(value) is not None or (len(value) >= 20 and entropy(value) > 3.6)


# -- all rules ----------------------------------------------------------------------------------------------------

Find = Callable[[bytes], list[tuple[int, int]]]
"""Function that returns (start of a literal, its index) for each occurrence, in order; occurrences may overlap."""


class Literal(NamedTuple):
    text: bytes
    caseless: bool
    """Match upper and lower case; `text` is then in lower case."""
    tail: bytes = b""
    """Character class, as a regular expression, of the bytes that must follow `text` …"""
    times: int = 0
    """… and their number."""

    @property
    def pattern(self) -> bytes:
        return re.escape(self.text) + (b"%b{%d}" % (self.tail, self.times) if self.times else b"")


def finder(literals: Sequence[Literal]) -> Find:
    try:
        return find_with_hyperscan(literals)
    except ImportError:
        return find_with_re(literals)


def find_with_hyperscan(literals: Sequence[Literal]) -> Find:
    """Search with Hyperscan. Raises `ImportError` if it is not installed, or does not support this processor."""
    import hyperscan

    try:
        database = hyperscan.Database()
        database.compile(
            expressions=[one.pattern for one in literals],
            ids=list(range(len(literals))),
            elements=len(literals),
            flags=[hyperscan.HS_FLAG_CASELESS if one.caseless else 0 for one in literals],
        )
    except hyperscan.HyperscanError as error:
        raise ImportError(str(error)) from None
    lengths = [len(one.text) + one.times for one in literals]
    lock = Lock()

    def find(text: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []

        def add(number: int, _start: int, end: int, _flags: int, _context: Any) -> None:
            found.append((end - lengths[number], number))

        with lock:  # the memory in which it works belongs to the database
            database.scan(text, match_event_handler=add)
        found.sort()
        return found

    return find


def find_with_re(literals: Sequence[Literal]) -> Find:
    starts: dict[bytes, list[tuple[int, bytes, re.Pattern[bytes]]]] = {}
    """First two bytes in lower case -> (index of the literal, literal in lower case, its expression)."""
    for number, one in enumerate(literals):
        lower = one.text.lower()
        exact = re.compile(one.pattern, re.IGNORECASE if one.caseless else 0)
        starts.setdefault(lower[:2], []).append((number, lower, exact))
    tree: _Tree = {}
    shorter = b"\0"
    for lower in sorted({lower for of_start in starts.values() for _, lower, _ in of_start}):
        if lower.startswith(shorter):
            continue  # which is found in its place, and then all that begin so are tried
        shorter, node = lower, tree
        for at in range(len(lower)):
            node = node.setdefault(lower[at : at + 1], {})
    pattern = re.compile(
        b"|".join(re.escape(first) + b"(?=" + _of_tree(after) + b")" for first, after in sorted(tree.items()))
    )

    def find(text: bytes) -> list[tuple[int, int]]:
        lower = text.lower()
        found = []
        for match in pattern.finditer(lower):
            at = match.start()
            for number, literal, exact in starts[lower[at : at + 2]]:
                if lower.startswith(literal, at) and exact.match(text, at):
                    found.append((at, number))
        found.sort()
        return found

    return find


_Tree: TypeAlias = "dict[bytes, _Tree]"


def _of_tree(tree: _Tree) -> bytes:
    """Return a regular expression for all literals of a trie, which tests each byte once."""
    if not any(tree.values()):
        return b"[" + b"".join(map(re.escape, sorted(tree))) + b"]"
    branches = [re.escape(char) + (_of_tree(after) if after else b"") for char, after in sorted(tree.items())]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"


class SecretRule(NamedTuple):
    kind: str
    literals: tuple[Literal, ...]
    look: Look
    pattern: bytes | None
    weight: int
    """Budget that a failed lookup consumes, in units of about eight microseconds."""


_HARMLESS = re.compile(rb"[^\"\\\x00-\x1f]*").fullmatch
"""Matches a secret whose removal keeps the JSON around it valid: no quotes, backslashes or control characters."""


def _of_pattern(kind: str, pattern: bytes, least: float = 0.0, placeholders: bool = False) -> Look:
    """Return a lookup for a pattern. `least`: minimum entropy of the secret in bits per byte. `placeholders`: mask
    placeholders, too."""
    compiled: re.Pattern[bytes] | None = None

    def look(text: bytes, start: int, end: int) -> Span | None:
        nonlocal compiled
        if compiled is None:  # most are never needed
            compiled = re.compile(pattern)
        match = compiled.match(text, start, end)
        if match is None:
            return None
        group = 1 if compiled.groups and match[1] is not None else 0
        secret = match[group]
        if pattern is not _PRIVATE_KEY and not _HARMLESS(secret):
            return None
        judged = least and len(secret) <= MAX_JUDGED  # to judge a long one, and then look at all of it again, is dear
        if judged and (entropy(secret) < least or not any(48 <= one < 58 for one in secret)):
            return None
        if group and kind != "url-password" and not placeholders and is_placeholder(secret):
            return None
        return match.start(group), match.end(group), kind

    return look


_BACKWARDS_IN_KEY = re.compile(
    rb"(?:(?:[nr]\\{1,8}|[\r\n]){1,4}(?:[A-Za-z0-9+/=](?!\\)){1,100}(?=[nr]\\|[\r\n\"'`]|\Z)){1,400}"
)
"""Lines of Base64, read from their end."""
MAX_KEY = 16_000


def _end_of_key(text: bytes, start: int, end: int) -> Span | None:
    """Look up the lines before the last one of a private key, whose first one is missing, as `tail` prints it."""
    if not _KEY_END.match(text, start, end):
        return None
    before = _BACKWARDS_IN_KEY.match(text[max(0, start - MAX_KEY) : start][::-1])
    return None if before is None or before.end() < MIN_KEY_END else (start - before.end(), start, "private-key")


def _from_before(kind: str, before: int, pattern: bytes) -> Look:
    """Return a lookup for a pattern that begins so many bytes before the literal."""
    compiled = re.compile(pattern)

    def look(text: bytes, start: int, end: int) -> Span | None:
        match = compiled.match(text, start - before, end) if start >= before else None
        if match is None or entropy(match[1]) < LEAST_OF_LENGTH:
            return None
        return match.start(1), match.end(1), kind

    return look


_KEY_END = re.compile(rb"-----END (?:[A-Z0-9]{2,10} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
MIN_KEY_END = 16


def _literal(stored: str | list[Any], caseless: bool) -> Literal:
    if isinstance(stored, str):
        return Literal(stored.encode(), caseless)
    text, tail, times = stored
    return Literal(text.encode(), caseless, tail.encode(), times)


@cache
def rules() -> tuple[SecretRule, ...]:
    from importlib.resources import files  # dear, and most commands mask nothing

    table = (files("tooltap.traces") / "static" / "secret_rules.jsonl").read_bytes().splitlines()[1:]
    found = []  # ours first: where several begin at the same place, the first one looks first
    for kind, literals, pattern in OWN:
        least = LEAST_OF_OWN if kind in ("key", "token") else 0.0
        texts = tuple(Literal(one.lower(), True) if one.islower() else Literal(one, False) for one in literals)
        found.append(SecretRule(kind, texts, _of_pattern(kind, pattern, least), pattern, 1))
    found.append(SecretRule("private-key", (Literal(b"-----END ", False),), _end_of_key, None, 1))
    for kind, literal, before, pattern in OF_LENGTH:
        found.append(SecretRule(kind, (literal,), _from_before(kind, before, pattern), pattern, 1))
    for line in table:
        kind, least, exact, literals, pattern = orjson.loads(line)
        texts = tuple(_literal(one, not exact) for one in literals)
        look = _of_pattern(kind, pattern.encode(), least, placeholders=True)
        found.append(SecretRule(kind, texts, look, pattern.encode(), 1 + pattern.count(_ANYTHING)))
    found += [SecretRule("named", (Literal(one, True),), named(one), None, 3) for one in dict.fromkeys(NAMES)]
    return tuple(found)


_ANYTHING = r"[\s\S]{0,"
LEAST_OF_OWN = 2.8
MAX_JUDGED = 256
"""Maximum length in bytes of a secret whose entropy is checked."""
_SPACE = rb"(?:[ \t]|\\+[nrt]|\r?\n)"
_QUOTE = rb"(?:" + _PREFIX + rb"?\\*[\"'`])?"
_TEXT = rb"(?:(?!-----[BE])(?:[^\"\\]|\\+[^\"\\]))"
"""A character or an escape inside a JSON string, unless a PEM boundary starts there."""
_BEFORE = rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=[0-9]m))"
"""Left boundary of a token: no letter, digit, `_` or `-` before it, unless they end an escape (a newline) or a color
code."""
_PRIVATE_KEY = (
    rb"-----BEGIN (?:[A-Z0-9]{2,10} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?=[^\"]{0,120}?[A-Za-z0-9+/=]{32})"
    + _TEXT
    + rb"{0,16000}(?:-----END (?:[A-Z0-9]{2,10} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
)
_VALUE = rb"(?=[^\s\"'\\]{0,100}?[0-9])(?=[^\s\"'\\]{0,100}?[A-Za-z])[A-Za-z0-9+/=_.~-]"
"""A character of a value that contains a letter and a digit. The pattern that uses it adds the repetition."""
_RUN = rb"[^\s\"'`\\,;<>(){}\[\]]"

_ELSEWHERE = (
    *("contraseña", "senha", "parola", "hasło", "heslo", "jelszó", "lösenord", "adgangskode", "wachtwoord", "şifre"),
    *("mot de passe", "пароль", "Пароль", "密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호"),
)
"""“Password” in other languages. The stem of the English word finds the German and the Norwegian one, too."""


def _literals(word: str) -> tuple[bytes, ...]:
    """Return a word in UTF-8, and as JSON may escape it, up to four times."""
    escaped = json.dumps(word).strip('"')
    return tuple(dict.fromkeys([word.encode(), *(escaped.replace("\\", "\\" * n).encode() for n in (1, 2, 4, 8))]))


_JOINTS = (b"", b"_", b"-", b" ")

OWN: tuple[tuple[str, tuple[bytes, ...], bytes], ...] = (
    ("private-key", (b"-----BEGIN ",), _PRIVATE_KEY),
    ("age-key", (b"age-secret-key-",), rb"(?i:AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{20,})"),
    ("anthropic-key", (b"sk-ant-",), rb"sk-ant-[A-Za-z0-9_-]{20,}"),
    ("openai-key", (b"sk-proj-", b"sk-svcacct-", b"sk-admin-"), rb"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}"),
    (
        "key",
        (b"sk-",),
        rb"sk-(?<![A-Za-z0-9]sk-)(?:[A-Za-z0-9]{1,8}-){0,2}[A-Za-z0-9_]{20,}",
    ),
    (
        "key",
        (b"key_", b"live_", b"test_", b"sk_"),
        rb"(?:key|live|test|sk)_(?<![A-Za-z0-9]key_)(?<![A-Za-z0-9]live_)(?<![A-Za-z0-9]test_)(?<![A-Za-z0-9]sk_)(?:[a-z]{2,8}_)?(?:[0-9a-f]{28,}|[A-Za-z0-9]{32,})",
    ),
    ("github-token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"gh[pousr]_[A-Za-z0-9]{36,}"),
    ("github-token", (b"github_pat_",), rb"github_pat_[A-Za-z0-9_]{22,}"),
    (
        "gitlab-token",
        (b"glpat-", b"glrt-", b"gldt-", b"glcbt-", b"glptt-"),
        rb"gl(?:pat|rt|dt|cbt|ptt)-[A-Za-z0-9_-]{20,}",
    ),
    ("aws-key-id", (b"AKIA", b"ASIA"), rb"A(?:KI|SI)A[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("google-key", (b"AIza",), rb"AIza[0-9A-Za-z_-]{35}"),
    ("google-oauth", (b"ya29.", b"GOCSPX-"), rb"(?:ya29\.|GOCSPX-)[0-9A-Za-z_-]{20,}"),
    ("slack-token", (b"xox",), rb"xox[abcdeoprs](?:\.xox[bp])?-[0-9A-Za-z%-]{10,}"),
    ("slack-token", (b"xapp-",), rb"xapp-\d-[0-9A-Za-z-]{10,}"),
    (
        "slack-webhook",
        (b"hooks.slack.com",),
        rb"hooks\.slack\.com\\?/(?:services|workflows|triggers)\\?/([A-Za-z0-9+/]{20,})",
    ),
    ("webhook", (b"webhooks/",), rb"webhooks/\d{17,20}/([A-Za-z0-9_-]{40,})"),
    ("stripe-key", (b"k_live_", b"k_test_"), rb"k_(?<=[rs]k_)(?:live|test)_([0-9A-Za-z]{16,})"),
    ("webhook-secret", (b"whsec_",), rb"whsec_[A-Za-z0-9+/=]{16,}"),
    ("npm-token", (b"npm_",), rb"npm_[A-Za-z0-9]{36}"),
    ("pypi-token", (b"pypi-AgE",), rb"pypi-AgE[A-Za-z0-9_-]{50,}"),
    ("huggingface-token", (b"hf_",), rb"hf_(?<![A-Za-z]hf_)[A-Za-z]{30,40}(?![A-Za-z0-9])"),
    (
        "token",
        (
            b"gsk_",
            b"xai-",
            b"pplx-",
            b"r8_",
            b"shpat_",
            b"shpss_",
            b"lin_api_",
            b"dop_v1_",
            b"hvs.",
            b"dckr_pat_",
            b"figd_",
            b"ntn_",
            b"tskey-",
            b"glsa_",
            b"sntrys_",
            b"rubygems_",
            b"pscale_tkn_",
            b"nvapi-",
            b"fw_",
            b"csk-",
            b"tvly-",
            b"phx_",
            b"sbp_",
            b"ctx7sk-",
            b"jina_",
            b"rnd_",
            b"e2b_",
        ),
        _BEFORE + rb"[a-z0-9]{2,9}[_.-](?:api_|pat_|v1_|tkn_)?"
        rb"[A-Za-z0-9_-]{24,}",
    ),
    ("google-oauth", (b"1//0",), _BEFORE + rb"1//0[A-Za-z0-9_-]{35,}"),
    ("notion-token", (b"secret_",), _BEFORE + rb"secret_[A-Za-z0-9]{43}(?![A-Za-z0-9])"),
    ("mailgun-key", (b"key-",), _BEFORE + rb"key-[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("new-relic-key", (b"NRAK-", b"NRII-", b"NRIQ-"), rb"NR[AI][KIQ]-[A-Za-z0-9_-]{27,}"),
    ("facebook-token", (b"EAACEdEose0cBA",), rb"EAACEdEose0cBA[A-Za-z0-9]{20,}"),
    ("telegram-token", (b":AA",), rb":(?<=\d{8}:)(AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])"),
    ("databricks-token", (b"dapi",), rb"dapi[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("sendgrid-key", (b"SG.",), rb"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("jwt", (b"eyJ",), rb"eyJ(?:(?!eyJ)[A-Za-z0-9_-]){8,2000}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{16,})"),
    ("azure-secret", (b"Q~",), rb"Q~(?<=[A-Za-z0-9_~.]{3}\dQ~)([A-Za-z0-9_~.-]{31,34})(?![A-Za-z0-9_~.-])"),
    ("password-hash", (b"$2a$", b"$2b$", b"$2y$"), rb"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}"),
    ("password-hash", (b"$6$", b"$5$", b"$y$"), rb"\$(?:[56]|y)\$[./A-Za-z0-9=$]{4,40}\$[./A-Za-z0-9]{40,90}"),
    ("bearer", (b"bearer ",), rb"(?i:bearer) +((?=[^\s\"'\\]{16})" + _VALUE + rb"+)"),
    (
        "authorization",
        (
            b'authorization"',
            b"authorization\\",
            b"authorization'",
            b"authorization:",
            b"authorization=",
            b"authorization ",
            b"x-auth-key:",
            b"x-auth-token:",
        ),
        rb"[A-Za-z-]{5,20}"
        + _QUOTE
        + rb"[ ]{0,3}[:=][ ]{0,3}"
        + _QUOTE
        + rb"(?:(?i:basic|bearer|token|apikey|api-key|digest|bot|key|negotiate|aws|ssws|oauth)[ ]+)?((?="
        + _RUN
        + rb"{0,40}?[0-9=])"
        + _RUN
        + rb"{8,4096}+)(?![(\[])",
    ),
    (
        "cookie",
        (b'cookie"', b"cookie\\", b"cookie'", b"cookie:"),
        rb"(?i:cookie)(?:" + _QUOTE + rb"[ ]{0,3}:[ ]{0,3}" + _QUOTE + rb")([^\s=\"'\\;]{1,80}=[^\"'\\\r\n]{6,4096})",
    ),
    (
        "password",
        (b"-u ", b"-u'", b'-u"', b"-u\\", b"--user ", b"--user=", b"--proxy-user "),
        rb"-(?:(?<=[\s-]-)|(?<=\\[nt]-))(?:u|-?(?:proxy-)?user)[ =]{0,3}"
        + _QUOTE
        + rb"[^\s:\"'\\/$]{1,64}:(?!\d+(?![\w]))([^\s\"'\\$:/]{3,200})(?![/:])",
    ),
    (
        "password",
        (b"login ",),
        rb"login"
        + _SPACE
        + rb"{1,8}[^\s\"\\]{1,100}"
        + _SPACE
        + rb"{1,8}(?:password|passwd)"
        + _SPACE
        + rb"{1,8}([^\s\"\\]{3,200})",
    ),
    (
        "password",
        tuple(literal for word in _ELSEWHERE for literal in _literals(word)),
        rb"[^\s\"'`:=\xef]{1,120}?(?: de passe)?"
        + _QUOTE
        + rb"[ ]{0,2}(?:[:=]|\xef\xbc\x9a|\\+uff1a)[ ]{0,2}"
        + _QUOTE
        + rb"((?="
        + _RUN
        + rb"{0,60}?[0-9!@#$%^&*?~])(?="
        + _RUN
        + rb"{0,60}?[A-Za-z])"
        + _RUN
        + rb"{6,200})",
    ),
    (
        "password",
        (b"convertto-securestring ",),
        rb"(?i:convertto-securestring)[ ]{1,4}(?:(?i:-string)[ ]{1,4})?\\*[\"']([^\s\"'\\$][^\"'\\]{3,200})",
    ),
    (
        "seed-phrase",
        (
            b"mnemonic",
            *(one + joint + b"phrase" for one in (b"seed", b"recovery") for joint in (b"", b"_", b"-", b" ")),
        ),
        rb"[A-Za-z_ -]{8,32}"
        + _QUOTE
        + rb"[ ]{0,2}[:=][ ]{0,2}"
        + _QUOTE
        + rb"((?:[a-z]{3,8} ){11}(?:[a-z]{3,8} ){0,12}[a-z]{3,8})(?![A-Za-z])",
    ),
    ("password", (b"sshpass ",), rb"sshpass +-p *" + _QUOTE + rb"([^\s\"'\\$]{3,200})"),
    (
        "password",
        (b"mysql",),
        rb"mysql(?:dump|admin)?\b[^\"|;\n\\]{0,120}? -p" + _QUOTE + rb"([^\s\"'\\$-][^\s\"'\\]{2,200})",
    ),
    ("password", (b"-passin ", b"-passout "), rb"-pass(?:in|out) +" + _QUOTE + rb"pass:([^\s\"'\\$]{3,200})"),
    ("password", (b"redis-cli ",), rb"redis-cli\b[^\"|;\n\\]{0,120}? -a +" + _QUOTE + rb"([^\s\"'\\$]{4,200})"),
    ("password", (b"requirepass ",), rb"requirepass +([^\s\"'\\]{4,200})"),
    (
        "password",
        (b"docker login", b"podman login", b"helm login"),
        rb"[a-z]+ login\b[^\"|;\n\\]{0,120}? -p +" + _QUOTE + rb"([^\s\"'\\$]{4,200})",
    ),
    (
        "password",
        (b"htpasswd ",),
        rb"htpasswd +-[a-zA-Z]*b[a-zA-Z]* +[^\s\"\\]{1,200} +[^\s\"\\]{1,64} +([^\s\"'\\$]{3,200})",
    ),
    (
        "url-password",
        (b"://", b":\\/\\/"),
        rb":\\*/\\*/[^\s/:@\"'\\]{0,80}:([^\s/:@\"'\\{$<][^\s/@\"'\\]{2,400})@[A-Za-z0-9\[]",
    ),
    ("password", (b"<pass",), rb"(?i:<pass(?:word)?)\b[^<>]{0,60}>([^<>\s\"'\\${}]{4,200})<"),
    ("token", (b"fm2_", b"fm1r_", b"fm1a_"), _BEFORE + rb"fm[12][ra]?_[A-Za-z0-9=_\-,/+]{60,}"),
    ("webhook", (b"incomingwebhook/",), rb"(?i:IncomingWebhook)/([A-Za-z0-9]{20,}/[A-Za-z0-9-]{20,})"),
    ("webhook", (b".webhook.office.com/",), rb"\.webhook\.office\.com/webhookb2/([A-Za-z0-9@/-]{40,300})"),
    ("session", (b"00D",), rb"00D[A-Za-z0-9]{12}!([A-Za-z0-9._]{60,260})"),
    (
        "key",
        (b".infura.io/v3/", b".alchemyapi.io/v2/", b".alchemy.com/v2/"),
        rb"\.[a-z]+\.(?:io|com)/v\d/([A-Za-z0-9_-]{30,})",
    ),
    (
        "truenas-key",
        (b"login_with_api_key",),
        rb"login_with_api_key\\*\"(?:[^A-Za-z0-9]|(?<=\\)[nrt]){1,40}params(?:[^A-Za-z0-9]|(?<=\\)[nrt]){1,40}"
        rb"([0-9]{1,4}-[A-Za-z0-9]{64})(?![A-Za-z0-9])",
    ),
    ("atlas-token", (b".atlasv1.",), rb"\.atlasv1\.([A-Za-z0-9\-_=]{60,70})"),
)
"""(kind, literals, pattern). A literal in lower case also matches capitals; group 1 of the pattern, if any, is the
secret."""

LEAST_OF_LENGTH = 3.3
OF_LENGTH: tuple[tuple[str, Literal, int, bytes], ...] = (
    (
        "azure-devops-token",
        Literal(b"AZDO", False, b"[A-Za-z0-9]", 4),
        76,
        _BEFORE + rb"([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4,5})(?![A-Za-z0-9])",
    ),
    (
        "azure-registry-key",
        Literal(b"+ACR", False, b"[A-Za-z0-9]", 6),
        42,
        _BEFORE + rb"([A-Za-z0-9+/]{42}\+ACR[A-Za-z0-9]{6})(?![A-Za-z0-9])",
    ),
    (
        "maxmind-key",
        Literal(b"_mmk", False),
        36,
        _BEFORE + rb"([A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)(?![A-Za-z0-9])",
    ),
    ("ionic-token", Literal(b"ion_", False, b"[A-Za-z0-9]", 42), 0, _BEFORE + rb"(ion_[A-Za-z0-9]{42})(?![A-Za-z0-9])"),
)
"""Tokens without a telling beginning, of a certain length: (kind, literal with what must follow it, number of bytes
before the literal, pattern from there). Group 1 of the pattern is the secret."""
