"""The rules by which secrets are recognised: a table made of a scanner's, and our own for lines of agents.

Each rule begins with one of a few literals. Where a literal stands in a line, the rule looks there and nowhere else, so
that a line costs a search for literals, and each of them a lookup of bounded length. Hyperscan searches for all
literals in one pass, at the speed of memory. Where it has no wheel, a regular expression finds the same places, forty
times slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import orjson

from tooltap.traces.recording.secret_names import NAMES, Look, Span, entropy, is_placeholder, named

Find = Callable[[bytes], list[tuple[int, int]]]
"""Returns (where a literal begins, its number) for each place, in order; places may overlap."""


class Literal(NamedTuple):
    text: bytes
    caseless: bool
    """It is in lower case, and the text may be in either."""
    tail: bytes = b""
    """A set of characters as an expression …"""
    times: int = 0
    """… of which so many follow."""

    @property
    def pattern(self) -> bytes:
        return re.escape(self.text) + (b"%b{%d}" % (self.tail, self.times) if self.times else b"")


def finder(literals: Sequence[Literal]) -> Find:
    try:
        return find_with_hyperscan(literals)
    except ImportError:
        return find_with_re(literals)


def find_with_hyperscan(literals: Sequence[Literal]) -> Find:
    """Raises `ImportError` if it is not installed, or this processor is too old for it."""
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
    """The first two bytes in lower case -> numbers, in lower case, and as they are in the text."""
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
    """An expression for every literal of a tree, which tries each character once."""
    if not any(tree.values()):
        return b"[" + b"".join(map(re.escape, sorted(tree))) + b"]"
    branches = [re.escape(char) + (_of_tree(after) if after else b"") for char, after in sorted(tree.items())]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"


class Rule(NamedTuple):
    kind: str
    literals: tuple[Literal, ...]
    look: Look
    pattern: bytes | None
    weight: int
    """How long a look may take, in units of some eight microseconds."""


_HARMLESS = re.compile(rb"[^\"\\\x00-\x1f]*").fullmatch
"""Without it, what is around it is still JSON."""


def _of_pattern(kind: str, pattern: bytes, least: float = 0.0, placeholders: bool = False) -> Look:
    """`least`: bits for each character of the secret. `placeholders`: mask placeholders for a secret, too."""
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


def _literal(stored: str | list[Any], caseless: bool) -> Literal:
    if isinstance(stored, str):
        return Literal(stored.encode(), caseless)
    text, tail, times = stored
    return Literal(text.encode(), caseless, tail.encode(), times)


@cache
def rules() -> tuple[Rule, ...]:
    from importlib.resources import files  # dear, and most commands mask nothing

    table = (files("tooltap.traces") / "static" / "secret_rules.jsonl").read_bytes().splitlines()[1:]
    found = []  # ours first: where several begin at the same place, the first one looks first
    for kind, literals, pattern in OWN:
        least = LEAST_OF_OWN if kind in ("key", "token") else 0.0
        texts = tuple(Literal(one.lower(), True) if one.islower() else Literal(one, False) for one in literals)
        found.append(Rule(kind, texts, _of_pattern(kind, pattern, least), pattern, 1))
    for line in table:
        kind, least, exact, literals, pattern = orjson.loads(line)
        texts = tuple(_literal(one, not exact) for one in literals)
        look = _of_pattern(kind, pattern.encode(), least, placeholders=True)
        found.append(Rule(kind, texts, look, pattern.encode(), 1 + pattern.count(_ANYTHING)))
    found += [Rule("named", (Literal(one, True),), named(one), None, 3) for one in dict.fromkeys(NAMES)]
    return tuple(found)


_ANYTHING = r"[\s\S]{0,"
LEAST_OF_OWN = 2.8
MAX_JUDGED = 256
"""Characters of a secret that may be too regular to be one."""
_SPACE = rb"(?:[ \t]|\\+[nrt]|\r?\n)"
_QUOTE = rb"(?:\\*[\"'`])?"
_TEXT = rb"(?:(?!-----[BE])(?:[^\"\\]|\\+[^\"\\]))"
"""A character or an escape inside a JSON string, unless a PEM boundary starts there."""
_BEFORE = rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=[0-9]m))"
"""No word, except that of an escape: a newline, or a colour."""
_PRIVATE_KEY = (
    rb"-----BEGIN (?:[A-Z0-9]{2,10} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?=[^\"]{0,120}?[A-Za-z0-9+/=]{32})"
    + _TEXT
    + rb"{0,16000}(?:-----END (?:[A-Z0-9]{2,10} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
)
_VALUE = rb"(?=[^\s\"'\\]{0,100}?[0-9])(?=[^\s\"'\\]{0,100}?[A-Za-z])[A-Za-z0-9+/=_.~-]"
"""A character of a value that contains a letter and a digit. The pattern that uses it adds the repetition."""
_RUN = rb"[^\s\"'`\\,;<>(){}\[\]]"

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
        + rb"{8,4096})",
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
    ("atlas-token", (b".atlasv1.",), rb"\.atlasv1\.([A-Za-z0-9\-_=]{60,70})"),
)
"""Kind, literals (in lower case: in any), and what stands there; group 1, if there is one, is the secret."""
