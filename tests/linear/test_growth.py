"""What there may be much of in one line or in one stream takes time that grows with it and no faster.

Twice as much takes twice as long, and a megabyte half a second at most. Each case is measured from its first line to
the end of the stream, with partials.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson
import pytest

from tests.linear.timing import grows
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.traces.drift.drift import Drift
from tooltap.traces.drift.watch import StreamWatch
from tooltap.traces.recording.redact import Redactor
from tooltap.traces.recording.secrets import mask_secrets

WHOLE = os.environ.get("TOOLTAP_LINEAR") == "whole"
SIZES = (1_000_000, 8_000_000) if WHOLE else (100_000, 400_000)
"""Bytes."""


class Case(NamedTuple):
    dialect: str
    lines: Callable[[int], list[bytes]]
    """So many of it."""


def _line(**keys: Any) -> bytes:
    return orjson.dumps(keys)


def _claude(kind: str, content: list[Any], number: int = 0) -> bytes:
    message = {"id": f"m{number}", "role": kind, "content": content}
    return _line(type=kind, session_id="x", message=message, parent_tool_use_id=None)


def _use(given: Any, name: str = "Bash", call_id: str = "t") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def _called(given: Any, name: str = "Bash") -> list[bytes]:
    return [_claude("assistant", [_use(given, name)])]


def _answered(content: Any, name: str) -> list[bytes]:
    return [*_called({}, name), _claude("user", [{"type": "tool_result", "tool_use_id": "t", "content": content}])]


def _acp(update: dict[str, Any], session: str = "x") -> bytes:
    return _line(jsonrpc="2.0", method="session/update", params={"sessionId": session, "update": update})


def _chunk(text: str, session: str = "x") -> bytes:
    return _acp({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}, session)


def _delta(text: str) -> bytes:
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return _line(type="stream_event", session_id="x", parent_tool_use_id=None, event=event)


def _ask(number: int) -> bytes:
    call = {"toolCallId": f"t{number}", "title": "a", "kind": "execute"}
    options = [{"optionId": "a", "name": "A", "kind": "allow_once"}]
    params = {"sessionId": "x", "toolCall": call, "options": options}
    return _line(jsonrpc="2.0", id=number, method="session/request_permission", params=params)


def _many(n: int, of: str) -> dict[str, int]:
    return {f"{of}{number}": number for number in range(n)}


def _open_calls(n: int) -> list[bytes]:
    return [_claude("assistant", [_use({"command": "ls"}, call_id=f"t{one}")], one) for one in range(n)]


def _results(n: int) -> list[bytes]:
    return [_claude("user", [{"type": "tool_result", "tool_use_id": f"t{one}", "content": "a"}]) for one in range(n)]


def _turns_beside_open_calls(n: int) -> Iterator[bytes]:
    """Background agents that run on while turns end."""
    for one in range(n):
        yield _claude("assistant", [_use({"prompt": "a"}, "Task", f"t{one}")], one)
        launched = f"Async agent launched successfully\nagentId: a{one}"
        yield _claude("user", [{"type": "tool_result", "tool_use_id": f"t{one}", "content": launched}])
    for one in range(n):
        yield _line(type="result", subtype="success", session_id="x", result="a", uuid=f"u{one}")


CASES: dict[str, Case] = {
    "keys": Case("claude-stream", lambda n: [_line(type="assistant", session_id="x", message=_many(n, "k"))]),
    "keys at the top": Case("claude-stream", lambda n: [_line(type="system", session_id="x", **_many(n, "k"))]),
    "keys of an input": Case("claude-stream", lambda n: _called(_many(n, "k"))),
    "keys with spaces": Case(
        "claude-stream", lambda n: [_line(type="assistant", session_id="x", message=_many(n, "k")).replace(b":", b": ")]
    ),
    "escaped keys": Case(
        "claude-stream", lambda n: [b'{"m":{%s}}' % b",".join([b'"a\\u003a%d":1' % i for i in range(n)])]
    ),
    "a key many times": Case("claude-stream", lambda n: [b'{"m":{%s}}' % b",".join([b'"a":1'] * n)]),
    "numbers that are none": Case("claude-stream", lambda n: [b'{"m":[%s]}' % b",".join([b"NaN"] * n)]),
    "digits": Case("claude-stream", lambda n: [b'{"type":"system","session_id":"x","n":%s}' % (b"1" * n)]),
    "long numbers": Case("claude-stream", lambda n: [b'{"m":[%s,NaN]}' % b",".join([b"1" * 40] * n)]),
    "objects torn onto a line": Case("claude-stream", lambda n: [b'{"a":1}' * n]),
    "torn records on a line": Case("claude-stream", lambda n: [b'{"a":"x' * n]),
    "long torn records on a line": Case("claude-stream", lambda n: [(b'{"a":"' + b"x" * (n // 16)) * 16 + b'{"b":1}']),
    "records torn before values": Case("claude-stream", lambda n: [b'{"type":{"type":1}' * n]),
    "a long record torn before a value": Case("claude-stream", lambda n: [b'{"type":[%s{"type":1}' % (b"{}," * n)]),
    "lines behind a truncated one": Case("claude-stream", lambda n: [b'{"a":"x', *[b"}" * 50] * (n // 50)]),
    "objects of an array": Case("claude-stream", lambda n: [b"[%s]" % b",".join([b"{}"] * n)]),
    "depth": Case("claude-stream", lambda n: [b'{"m":[%s]}' % b",".join([b"[" * 150 + b"]" * 150] * (n // 100))]),
    "too much depth": Case("claude-stream", lambda n: [b'{"a":' * n + b"1" + b"}" * n]),
    "brackets that do not close": Case("claude-stream", lambda n: [b'{"a":[' * n]),
    "numbers of an array": Case("claude-stream", lambda n: _called({"a": list(range(n))})),
    "blocks of a message": Case("claude-stream", lambda n: [_claude("assistant", [{"type": "text", "text": "a"}] * n)]),
    "calls of a line": Case(
        "claude-stream", lambda n: [_claude("assistant", [_use({}, call_id=f"t{one}") for one in range(n)])]
    ),
    "calls of a line with one id": Case(
        "claude-stream", lambda n: [_claude("assistant", [_use({"command": f"ls {one}"}) for one in range(n)])]
    ),
    "open calls": Case("claude-stream", _open_calls),
    "calls and results": Case("claude-stream", lambda n: _open_calls(n) + _results(n)),
    "results without calls": Case("claude-stream", _results),
    "turns beside open calls": Case("claude-stream", lambda n: list(_turns_beside_open_calls(n))),
    "tiny deltas": Case("claude-stream", lambda n: [_delta("ab ") for _ in range(n)]),
    "tiny chunks": Case("acp", lambda n: [_chunk("ab ") for _ in range(n)]),
    "sessions": Case("acp", lambda n: [_chunk("a", f"s{one}") for one in range(n)]),
    "permissions": Case("acp", lambda n: [_ask(one) for one in range(n)]),
    "entries of a plan": Case(
        "acp", lambda n: [_acp({"sessionUpdate": "plan", "entries": [{"content": f"c{one}"} for one in range(n)]})]
    ),
    "a document": Case("gemini-chat", lambda n: [b"{", *(b' "k%d": 1,' % one for one in range(n)), b' "a": 1', b"}"]),
    "to-do entries": Case(
        "claude-stream",
        lambda n: _called({"todos": [{"content": f"c{one}", "status": "pending"} for one in range(n)]}, "TodoWrite"),
    ),
    "hunks": Case(
        "codex-exec",
        lambda n: [
            _line(
                type="item.completed",
                item={
                    "id": "i",
                    "type": "file_change",
                    "status": "completed",
                    "changes": [{"path": "a", "kind": "update", "diff": "@@ -1 +1 @@\n-a\n+b\n" * n}],
                },
            )
        ],
    ),
    "hunks of a patch": Case(
        "claude-stream",
        lambda n: _called(
            {"patch": "*** Begin Patch\n*** Update File: a\n" + "@@\n-a\n+b\n" * n + "*** End Patch"}, "apply_patch"
        ),
    ),
    "files of a diff": Case(
        "claude-stream",
        lambda n: _called(
            {"patch": "".join(f"--- a/f{one}\n+++ b/f{one}\n@@ -1 +1 @@\n-a\n+b\n" for one in range(n))}, "apply_patch"
        ),
    ),
    "long values": Case("claude-stream", lambda n: _called({f"k{one}": "x" * 3_000 for one in range(n)}, "Foo")),
    "long lists": Case("claude-stream", lambda n: _called({f"k{one}": ["x" * 1_000] * 4 for one in range(n)}, "Foo")),
    "blocks of a result": Case(
        "claude-stream",
        lambda n: _answered([{"type": "text", "text": f"text number {one} is here"} for one in range(n)], "Foo"),
    ),
    "matches": Case(
        "claude-stream", lambda n: _answered("\n".join(f"a/f{one}.py:{one}:text" for one in range(n)), "Grep")
    ),
    "tags of an answer": Case(
        "claude-stream", lambda n: _answered("".join(f"<a{one}>" for one in range(n)) + "</a>", "TaskOutput")
    ),
}


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", CASES)
def test_it_is_read_in_linear_time(name: str) -> None:
    why = grows(lambda size: _reading(CASES[name], size), SIZES)

    assert why is None, f"{name}: {why}"


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", ["keys", "keys of an input", "numbers of an array", "blocks of a message"])
def test_it_is_watched_in_linear_time(name: str) -> None:
    """By what learns shapes and looks for drift."""
    why = grows(lambda size: _reading(CASES[name], size, watched=True), SIZES)

    assert why is None, f"{name}: {why}"


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    "repeated",
    [
        "a@b ",
        "/home/a/",
        "user@host:~ ",
        "eyJa.",
        "://a:b@",
        "a_API_KEY=1 ",
        'password="',
        "password=\\\\",
        "Cookie: a=b",
        "curl -u a:b",
        "\\n",
        "{[",
        "ab ",
    ],
)
def test_a_line_is_redacted_in_linear_time(repeated: str) -> None:
    def redact(size: int) -> Callable[[], Any]:
        count = size // len(repeated) // 2
        line = orjson.dumps({"text": repeated * count, "list": [repeated * 100] * (count // 100)})

        def work() -> None:
            redactor = Redactor()
            redactor.learn(line)
            redactor.redact(line)
            mask_secrets(line)

        return work

    why = grows(redact, SIZES)

    assert why is None, why


def _reading(case: Case, size: int, *, watched: bool = False) -> Callable[[], Any]:
    """Read so many bytes of it."""
    each = (sum(map(len, case.lines(2_000))) - sum(map(len, case.lines(1_000)))) / 1_000
    lines = case.lines(int(size / each))

    def work() -> None:
        normalizer = StreamNormalizer(Context(stream="s", partials=True), case.dialect)
        normalizer.want_partials(True)
        watch = StreamWatch(Drift(lambda _: [], thorough=True), normalizer, None) if watched else None
        for line in lines:
            outputs = normalizer.feed(line)
            if watch is not None:
                watch.add(outputs)
        StreamNormalizer.load(normalizer.dump(), normalizer.context)
        normalizer.close("end")

    return work
