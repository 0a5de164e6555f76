"""Hostile texts, and strategies for events of every kind that contain them in any place."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.protocol.tools import TOOLS

__all__ = ["HOSTILE", "INPUT_KEYS", "NESTED_KEYS", "OUTPUT_KEYS", "TOOL_NAMES", "events", "payloads"]

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "[go](javascript:alert(1)) ![x](data:text/html;base64,PHNjcmlwdD4=) <javascript:alert(1)>",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "https://example.org/\" onclick='alert(1)",
    "http://[::1",
    "\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07 \x1b[31mred",
    "safe\u202egnp.exe\u2066\x00\x08\x9b",
    "{{ 7 * 7 }} {% raw %}",
    "<!-- --><![CDATA[ ]]><?php ?>",
    "&lt;script&gt; &#x202e;",
    "**bold** `code` | a | b |\n\n| - | - |\n> quote\n\n```html\n<script>\n```",
)
TOOL_NAMES = [*TOOL_CARDS, "mcp__a__b", "mcp__", "Unknown"]


def _keys(which: int) -> list[str]:
    return sorted(
        {field for types in TOOLS.values() for field in types[which].__struct_fields__} - {"raw", "acp", "extra"}
    )


INPUT_KEYS = [*_keys(0), "skill", "args", "model"]
OUTPUT_KEYS = [
    *_keys(1),
    *("statusChange", "agents_states", "task", "matches", "resources", "contents", "tools", "retrieval_status"),
    *("durationSeconds", "codeText", "totalTokens", "questions"),
]
NESTED_KEYS = [
    "content",
    "status",
    "label",
    "question",
    "url",
    "title",
    "id",
    "name",
    "uri",
    "subject",
    "type",
    "options",
    *("file_path", "filePath", "excerpt", "old_string", "new_string", "lines", "unified_diff"),
]

words = st.sampled_from(HOSTILE) | st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NESTED_KEYS) | words, inner, max_size=4)
    ),
    max_leaves=12,
)


def payloads(*keys: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(keys) | words, values, max_size=6)


def _of(kind: str, always: dict[str, st.SearchStrategy[Any]], **sometimes: st.SearchStrategy[Any]) -> Any:
    envelope = {"ts": st.integers(-(2**62), 2**62), "parent": words, "agent": words, "synthetic": st.booleans()}
    return st.fixed_dictionaries({"kind": st.just(kind), **always}, optional={**envelope, **sometimes})


_mime_types = (
    st.sampled_from(["image/png", "text/markdown", "application/json", "text/x-diff", "text/x-python"]) | words
)
_attached = st.lists(
    st.fixed_dictionaries({"mimeType": _mime_types}, optional={"outputId": words, "uri": words, "name": words}),
    max_size=3,
)
_displays = st.fixed_dictionaries(
    {"origin": st.sampled_from(["provider", "rule", "rewriter"])},
    optional={"text": words, "outputId": words, "mimeType": _mime_types, "path": words, "language": words},
)
_call = {"callId": words, "name": st.sampled_from(TOOL_NAMES) | words}

events: st.SearchStrategy[dict[str, Any]] = st.one_of(
    _of(
        "tool-call", {**_call, "input": payloads(*INPUT_KEYS), "status": st.just("running")}, title=words, preview=words
    ),
    _of(
        "tool-result",
        {
            **_call,
            "output": payloads(*OUTPUT_KEYS),
            "status": st.sampled_from(["completed", "failed"]),
            "isError": st.booleans(),
        },
        display=_displays,
        attachments=_attached,
        silent=st.booleans(),
        replaces=words,
    ),
    _of("tool-update", _call, input=payloads(*INPUT_KEYS), progress=payloads("text", "data"), display=_displays),
    _of("message", {"role": st.sampled_from(["user", "assistant", "system"]), "text": words}, attachments=_attached),
    _of("reasoning", {"text": words}),
    _of(
        "permission-request",
        {"permissionId": words, "type": st.sampled_from(["permission", "question", "elicitation"])},
        **_call,
        title=words,
        input=payloads(*INPUT_KEYS),
        options=st.lists(payloads("id", "name", "kind"), max_size=3),
        questions=st.lists(payloads("question", "header", "options", "multiSelect"), max_size=3),
    ),
    _of(
        "permission-response",
        {"permissionId": words, "outcome": st.sampled_from(["answered", "denied"])},
        answers=payloads("a"),
        message=words,
        optionId=words,
        by=st.just("user"),
    ),
    _of(
        "session",
        {"state": st.sampled_from(["started", "updated"])},
        model=words,
        cwd=words,
        title=words,
        tools=st.lists(words, max_size=3),
        mcpServers=st.lists(payloads("name", "status"), max_size=3),
    ),
    _of(
        "usage",
        {"scope": st.just("turn")},
        inputTokens=st.integers(-(2**62), 2**62),
        costUsd=st.floats(-1e300, 1e300),
        contextUsed=st.integers(-(2**62), 2**62),
        contextSize=st.integers(-(2**62), 2**62),
    ),
    _of("notice", {"level": st.just("error"), "code": words, "text": words}, data=payloads("a"), callId=words),
    _of("unparsed", {"reason": words, "text": words, "bytes": st.integers(0, 2**40)}),
    _of("turn", {"state": st.sampled_from(["started", "failed"])}, reason=words, durationMs=st.integers(0, 2**40)),
)
"""Strategy for events, with keys as on the wire, without the envelope."""
