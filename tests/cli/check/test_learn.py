"""`tooltap learn`: what it recognises in recordings of agents, with their own dialects left out, is what these read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.check.plugged import plug
from tests.cli.command import here, sentence
from tests.test_layout import ROOT
from tooltap.testing import normalize, read_recording
from tooltap.traces.learning.review import TRIED, Reading, closest, is_said, read
from tooltap.traces.learning.sketch import MAX_DEPTH, MAX_PLACES, MAX_TYPES, find, sketch

FIXTURES = ROOT / "tests" / "fixtures"


class Share(NamedTuple):
    """How much of what a dialect reads is recognised, or read by a dialect that was learned."""

    found: int
    of: int

    @classmethod
    def of_ids(cls, wanted: set[str], found: set[str]) -> Share:
        return cls(len(wanted & found), len(wanted))


def shares_of(made: Reading, calls: set[str], results: set[str], texts: list[str]) -> tuple[Share, Share, Share]:
    """Calls, results, texts."""
    said = {text.strip() for text in made.texts}
    return (
        Share.of_ids(made.calls, calls),
        Share.of_ids(made.results, results),
        Share(sum(is_said(text, texts) for text in said), len(said)),
    )


def recordings(dialect: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((FIXTURES / dialect).rglob("*.jsonl"))]


def total(dialect: str) -> tuple[float, float, float]:
    """The shares of all recordings of a dialect together."""
    sums = [[0, 0], [0, 0], [0, 0]]
    for data in recordings(dialect):
        seen = sketch(data)
        shares = shares_of(
            read(dialect, data), seen.calls.keys() | seen.calls_in_texts, seen.results, [text for _, text in seen.texts]
        )
        for one, share in zip(sums, shares, strict=True):
            one[0] += share.found
            one[1] += share.of
    calls, results, texts = (found / of if of else 1.0 for found, of in sums)
    return calls, results, texts


@pytest.mark.parametrize(
    "dialect",
    [
        *("mini-trajectory", "openhands-json", "gptme-log", "openai-agents", "pydantic-ai", "langgraph"),
        *("droid-stream", "vibe-json", "cursor-stream"),
    ],
)
def test_everything_of_an_unknown_agent_is_recognised(dialect: str) -> None:
    assert total(dialect) == (1, 1, 1)


@pytest.mark.parametrize(
    ("dialect", "calls", "results", "texts"),
    [
        ("claude-stream", 0.95, 0.95, 0.95),
        ("kimi-json", 0.75, 0.7, 0.7),
        ("codex-exec", 0.55, 0.4, 0.95),
        ("gemini-stream", 0.95, 0.6, 0.95),
        ("opencode-run", 0.9, 0.9, 0.9),
        ("pi-json", 0.9, 0.9, 0.9),
    ],
)
def test_most_of_a_known_agent_is_recognised(dialect: str, calls: float, results: float, texts: float) -> None:
    found = total(dialect)

    assert (found[0] >= calls, found[1] >= results, found[2] >= texts) == (True, True, True), found


ATIF = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s-77",
    "agent": {"name": "harbor", "version": "1.0", "model_name": "m1"},
    "steps": [
        {"step_id": 1, "timestamp": "2026-11-26T10:00:00Z", "source": "user", "message": "List the files"},
        {
            "step_id": 2,
            "timestamp": "2026-11-26T10:00:02Z",
            "source": "agent",
            "message": "I list them.",
            "reasoning_content": "A listing is enough.",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.py\nb.py"}]},
            "metrics": {"prompt_tokens": 120, "completion_tokens": 8, "cached_tokens": 100, "cost_usd": 0.01},
        },
        {"step_id": 3, "timestamp": "2026-11-26T10:00:04Z", "source": "agent", "message": "There are two."},
    ],
}
AG_UI: tuple[dict[str, Any], ...] = (
    {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", "timestamp": 1795692032123},
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant", "timestamp": 1795692032124},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "I list ", "timestamp": 1795692032125},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "them.", "timestamp": 1795692032126},
    {"type": "TEXT_MESSAGE_END", "messageId": "m1", "timestamp": 1795692032127},
    {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "bash", "timestamp": 1795692032128},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"command": "ls"}', "timestamp": 1795692032129},
    {"type": "TOOL_CALL_END", "toolCallId": "c1", "timestamp": 1795692032130},
    {"type": "TOOL_CALL_RESULT", "messageId": "m2", "toolCallId": "c1", "content": "a.py", "timestamp": 1795692032131},
    {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1", "timestamp": 1795692032132},
)


def test_document_of_steps_is_recognised() -> None:
    seen = sketch(json.dumps(ATIF, indent=1).encode())

    assert (seen.framing, seen.each, seen.key) == ("one JSON document", ("steps", "*"), "source")
    assert (seen.calls, seen.results, seen.usages) == ({"c1": "bash"}, {"c1"}, 1)
    assert set(seen.texts) == {
        ("user", "List the files"),
        ("assistant", "I list them."),
        ("reasoning", "A listing is enough."),
        ("assistant", "There are two."),
    }
    assert seen.times == {("timestamp", "ISO 8601"): 3}


@pytest.mark.parametrize(
    "holder",
    [
        {"tokens": {"input": 9, "output": 2, "reasoning": 1, "cache": {"read": 5, "write": 3}}},
        {"usage": {"input": 9, "output": 2, "reasoning": 1, "cacheRead": 5, "cacheWrite": 3}},
        {"usage": {"inputTokens": 9, "outputTokens": 2, "reasoningTokens": 1, "cacheReadTokens": 5, "cacheWrite": 3}},
    ],
)
def test_numbers_below_a_key_for_tokens_are_such(holder: dict[str, Any]) -> None:
    [(place, _)] = sketch(json.dumps({"type": "end", **holder}).encode()).places.values()

    counts = {part: find(holder, (*holder, *keys)) for part, keys in place.keys.items()}
    assert counts == {"prompt": [9], "output": [2], "reasoning": [1], "read": [5], "write": [3]}


@pytest.mark.parametrize("holder", [{"input": 9, "output": 2}, {"size": {"input": 9, "output": 2}}])
def test_other_numbers_are_no_tokens(holder: dict[str, Any]) -> None:
    assert sketch(json.dumps({"type": "end", **holder}).encode()).usages == 0


def test_id_of_a_tool_is_not_that_of_its_call() -> None:
    call = {"type": "tool_call", "toolId": "Read", "toolName": "Read", "id": "c1", "parameters": {"path": "a"}}
    result = {"type": "tool_result", "toolId": "Read", "id": "c1", "value": "text"}
    seen = sketch(f"{json.dumps(call)}\n{json.dumps(result)}\n".encode())

    assert (seen.calls, seen.results) == ({"c1": "Read"}, {"c1"})


def test_key_that_holds_a_call_is_the_name_of_its_tool() -> None:
    lines = [
        {"type": "tool_call", "call_id": "c1", "tool_call": {"readToolCall": {"args": {"path": "a"}}}},
        {"type": "tool_call", "call_id": "c1", "tool_call": {"readToolCall": {"args": {}, "result": {"text": "x"}}}},
    ]
    seen = sketch(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    assert (seen.calls, seen.results) == ({"c1": "readToolCall"}, {"c1"})


@pytest.mark.parametrize(
    "held",
    [
        {"a": {"args": {}}, "b": {"args": {}}},
        {"arguments": {"input": "a"}},
        {"two words": {"args": {"path": "a"}}},
        {"readToolCall": {"path": "a"}},
        {"readToolCall": "args"},
    ],
)
def test_other_key_is_no_name_of_a_tool(held: dict[str, Any]) -> None:
    seen = sketch(json.dumps({"type": "progress", "call_id": "c1", "data": held}).encode() + b"\n")

    assert seen.calls == {}


def test_stream_of_pieces_is_recognised() -> None:
    seen = sketch("".join(f"data: {json.dumps(line)}\n\n" for line in AG_UI).encode())

    assert (seen.framing, seen.key, seen.sessions["threadId"]) == ("server-sent events", "type", 2)
    assert (seen.calls, seen.results) == ({"c1": "bash"}, {"c1"})
    assert [text for _, text in seen.texts] == ["I list them."]
    assert seen.times == {("timestamp", "ms"): 10}


@pytest.mark.parametrize(
    ("dialect", "known"),
    [
        ("claude-stream", "cursor-stream"),
        ("mini-trajectory", "openai-chat"),
        ("codex-exec", None),
        ("pydantic-ai", None),
    ],
)
def test_closest_dialect_is_found(dialect: str, known: str | None) -> None:
    data = recordings(dialect)[0]
    seen = sketch(data)

    assert dialect in {one.dialect for one in closest(data, seen) if one.score > 0.9}
    others = {one.dialect for one in closest(data, seen, {dialect}) if one.score > 0.9}
    assert known in others if known else not others


def test_document_over_many_lines_is_compared_as_a_whole() -> None:
    document = json.loads(recordings("mini-trajectory")[0])
    document["info"]["padding"] = list(range(TRIED))
    data = json.dumps(document, indent=1).encode()

    assert closest(data, sketch(data))[0].dialect == "mini-trajectory"


def test_text_is_like_no_dialect() -> None:
    """Some dialects skip all lines that are no JSON objects."""
    data = b"Initializing\nRunning it.\n\nDone.\n"

    assert closest(data, sketch(data)) == []


# -- the dialect that is written --------------------------------------------------------------------------------------


class Learned(NamedTuple):
    name: str
    folder: Path

    @property
    def fixture(self) -> Path:
        [path] = (self.folder / "fixtures").iterdir()
        return path


def learn(name: str, recording: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Learned:
    finished = here("learn", recording, "--write", folder / name)
    assert finished.returncode == 0, finished.stderr
    [source] = (folder / name).glob("tooltap_*.py")
    plug(source, name, monkeypatch)
    return Learned(name, folder / name)


@pytest.mark.parametrize(
    ("dialect", "calls", "results", "texts"),
    [
        ("mini-trajectory", 1, 1, 1),
        ("openhands-json", 1, 1, 1),
        ("gptme-log", 1, 1, 1),
        ("openai-agents", 1, 1, 1),
        ("pydantic-ai", 1, 1, 1),
        ("langgraph", 1, 1, 1),
        ("claude-stream", 1, 1, 0.5),
        ("codex-exec", 1, 1, 1),
        ("droid-stream", 1, 1, 1),
        ("vibe-json", 1, 1, 1),
        ("cursor-stream", 1, 1, 0.75),
    ],
)
def test_written_dialect_keeps_the_rules_and_reads_the_same(
    dialect: str, calls: float, results: float, texts: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = min((FIXTURES / dialect).rglob("*.jsonl"))
    learned = learn(f"learned-{dialect}", recording, tmp_path, monkeypatch)
    finished = here("dialect", "check", learned.name, learned.fixture)
    data = learned.fixture.read_bytes()
    made = read(learned.name, data)
    found = shares_of(read(dialect, data), made.calls, made.results, made.texts)

    assert finished.returncode == 0, finished.stdout.decode()
    shares = [share.found / share.of if share.of else 1 for share in found]
    assert all(share >= least for share, least in zip(shares, (calls, results, texts), strict=True)), found


@pytest.mark.parametrize("name", ["written-steps", "written-pieces"])
def test_format_of_another_dialect_is_read_by_the_written_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = tmp_path / "recording"
    lines = [ATIF] if name == "written-steps" else AG_UI
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
    learned = learn(name, recording, tmp_path, monkeypatch)
    events = normalize(name, read_recording(recording.read_bytes()))

    assert here("dialect", "check", name, learned.fixture).returncode == 0
    assert {event.dialect for event in events} == {name}
    made = read(name, recording.read_bytes())
    assert (made.calls, made.results, made.times) == ({"c1"}, {"c1"}, True)
    assert any("I list them." in text for text in made.texts)


def test_gaps_are_listed(tmp_path: Path) -> None:
    recording = min((FIXTURES / "gptme-log").rglob("*.jsonl"))
    assert here("learn", recording, "--write", tmp_path / "tooltap-gaps").returncode == 0

    for file in ("README.md", "tooltap_gaps.py"):
        text = (tmp_path / "tooltap-gaps" / file).read_text()
        assert "- 1 calls that are in the texts of the model." in text
        assert "- 7 records of the type 'system', in which nothing was recognised." in text


def test_what_is_found_is_printed() -> None:
    recording = min((FIXTURES / "langgraph").rglob("*.jsonl"))
    printed = here("learn", recording, "--without", "langgraph").stdout.decode()

    for wanted in (
        "framing: JSON lines; 3 records",
        "types: node: agent 2, tools 1",
        "calls: 1\n",
        "results: 1, of 1 of these calls",
        "tool_calls.*[type=tool_call]: id `id`, name `name`, input `args`",
        "texts: assistant 2",
        "tokens: stated 2 times",
        "like no known dialect",
        "not found: times",
    ):
        assert wanted in printed
    assert (
        "like langgraph: 100% (lines 100%, calls 100%, results 100%, texts 100%)"
        in here("learn", recording).stdout.decode()
    )


# -- bounds, secrets, hostile input -----------------------------------------------------------------------------------

KEY = "sk-ant-api03-" + "Zq7Rk2Xw9T" * 9 + "AA"


def test_secrets_are_masked_in_the_fixture(tmp_path: Path) -> None:
    recording = tmp_path / "run.jsonl"
    call = {
        "type": "tool_use",
        "id": "c1",
        "name": "bash",
        "input": {"command": f"ANTHROPIC_API_KEY={KEY} ls /home/alice"},
    }
    recording.write_text("".join(json.dumps(one) + "\n" for one in ({"type": "user", "text": f"Use {KEY}"}, call)))
    assert here("learn", recording, "--write", tmp_path / "masked").returncode == 0

    written = b"".join(path.read_bytes() for path in (tmp_path / "masked").rglob("*") if path.is_file())
    assert KEY.encode() not in written
    assert b"alice" not in written
    assert b"masked" in written


HOSTILE = {
    "empty": b"",
    "binary": bytes(range(256)) * 50,
    "deep": b'{"type":"a","x":' * 500 + b"1" + b"}" * 500,
    "depth that decodes": b'{"x":' * 60 + b"1" + b"}" * 60,
    "array of numbers": b"[1,2,3]",
    "text": b"no\nJSON\nhere\n",
    "many types": b"".join(b'{"type":"t%d"}\n' % n for n in range(500)),
    "many keys": json.dumps({f"k{n}": {"id": str(n), "name": "x", "input": {}} for n in range(2_000)}).encode(),
    "code": b'{"type":"\\"\\"\\"); import os; (\\"","text":"x","role":"user"}\n' * 3,
    "escapes": b'{"type":"user","text":"\\u001b[2Jx","\\u001b[31m":1}\n' * 3,
    "surrogates": b'{"type":"user","text":"\\ud800","\\udc00":"x"}\n' * 3,
    "wrong types": b'{"type":[],"role":{},"id":1,"name":null,"input":0,"content":[[],{}],"tool_call_id":"x"}\n' * 3,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_is_harmless(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = tmp_path / "run.jsonl"
    recording.write_bytes(HOSTILE[name])
    finished = here("learn", recording)
    assert (finished.returncode, finished.stderr) == (0, b"")
    assert b"\x1b" not in finished.stdout

    written = here("learn", recording, "--write", tmp_path / f"hostile-{len(name)}")
    if written.returncode:
        assert "nothing was recognised" in sentence(written)
    else:
        [source] = (tmp_path / f"hostile-{len(name)}").glob("tooltap_*.py")
        plug(source, f"hostile-{len(name)}", monkeypatch)


def test_what_is_looked_at_is_bounded() -> None:
    types = sketch(HOSTILE["many types"])
    assert len(types.types) <= MAX_TYPES + 1
    assert types.types.total() == 500

    keys = sketch(HOSTILE["many keys"])
    assert keys.too_deep
    assert len(keys.places) <= MAX_PLACES

    deep = sketch(HOSTILE["depth that decodes"])
    assert deep.too_deep
    assert MAX_DEPTH < 60


@pytest.mark.parametrize(
    ("arguments", "code", "wanted"),
    [
        (["/no/such"], 1, "/no/such: No such file or directory"),
        (["/no/such", "--without", "langgraf"], 2, "there is no dialect 'langgraf'; did you mean 'langgraph'?"),
        (["/no/such", "--write", "Bad Name"], 2, "cannot be the name of a dialect"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], code: int, wanted: str) -> None:
    finished = here("learn", *arguments)

    assert finished.returncode == code
    assert wanted in sentence(finished)
