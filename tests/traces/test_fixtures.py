"""Fixtures are faithful to their recordings, redacted and stable."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from tests.normalizers.stream.test_contract import RECORDINGS, SMALL, dialect_of, name_of
from tests.traces.tracing import record, trace
from tooltap.normalizers.stream.contract import read_recording
from tooltap.normalizers.wire.framing import LongLine
from tooltap.normalizers.wire.recording import Line
from tooltap.traces.fixtures.examples import Example, events_of_lines, meaning, read_line, store_line
from tooltap.traces.fixtures.extracting import count_keys, find_examples
from tooltap.traces.fixtures.fixtures import FixtureError, Fixtures
from tooltap.traces.fixtures.keys import ALLOWLIST, Allowlist
from tooltap.traces.recording.redact import Redactor
from tooltap.traces.recording.streams import TracedStream, read_streams

FIXTURES = Path(__file__).parent.parent / "fixtures"
CURATED = FIXTURES / "curated"
GEMINI = FIXTURES / "gemini-stream/gemini-0.61.0"
SHELL = GEMINI / "shell-fails.jsonl"
"""One call of `run_shell_command`, in line 3, whose result is in line 4."""
OLD, NEW = (FIXTURES / f"claude-stream/claude-code-{version}/read.jsonl" for version in ("1.0.128", "2.1.330"))
ANCESTORS = FIXTURES / "happier-trace/happier-1-written"
RESULT = "gemini/gemini/tool-result/run_shell_command"


def streams_of(paths: Iterable[Path]) -> list[TracedStream]:
    """Fixtures from recordings in this repository, whose folder names the dialect."""
    return [stream for path in paths for stream in read_streams([path], dialect_of(path))]


RECORDED = [path for path in SMALL if dialect_of(path) != "tooltap-trace"]
"""Recordings without lines of arbitrary length."""


def redacted(line: bytes | LongLine) -> bytes:
    assert isinstance(line, bytes)
    return Redactor().redact(line)


def every_key(folder: Path, streams: list[TracedStream]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / ALLOWLIST).write_text("\n".join(count_keys(streams)))
    return folder


def wanting(folder: Path, *keys: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / ALLOWLIST).write_text("\n".join(keys))
    return folder


def extract(folder: Path, streams: list[TracedStream], maximum: int = 3) -> Fixtures:
    fixtures = Fixtures.load(folder)
    fixtures.extract(streams, maximum)
    fixtures.save()
    return fixtures


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- what an example is -----------------------------------------------------------------------------------------------


def test_example_has_lines_of_call_and_result(tmp_path: Path) -> None:
    [example] = extract(wanting(tmp_path, RESULT), streams_of([SHELL])).examples
    lines = SHELL.read_bytes().split(b"\n")
    call, result = [event for event in example.events if event["kind"].startswith("tool-")]

    assert [line["line"] for line in example.lines] == [json.loads(lines[2]), json.loads(lines[3])]
    assert (call["name"], call["input"]["command"]) == (
        "Bash",
        "echo partial output; echo 'boom: something broke' >&2; exit 3",
    )
    assert (result["kind"], result["callId"]) == ("tool-result", call["callId"])
    assert "boom: something broke" in result["output"]["stdout"]
    assert "_raw" not in result["output"]
    assert result["output"]["_happy"]["rawToolName"] == "run_shell_command"


@pytest.mark.parametrize("path", RECORDED[::7], ids=name_of)
def test_example_is_faithful_and_minimal(path: Path, tmp_path: Path) -> None:
    streams = streams_of([path])
    lines = [line._replace(data=redacted(line.data)) for line in streams[0].lines]
    facts = {meaning(event) for events in events_of_lines(lines, dialect_of(path), None) for event in events}
    found = find_examples(streams, Allowlist.read(every_key(tmp_path, streams) / ALLOWLIST), 1)

    for key, examples in found.items():
        for example in examples:
            assert example.key == key
            assert {meaning(event) for event in example.kept_for()} <= facts
            assert all(without(example, n) != what_it_says(example) for n in range(len(example.lines) - 1))


def what_it_says(example: Example) -> list[tuple[bytes, bytes]]:
    """The events an example is kept for, and their calls."""
    calls = {event["callId"]: meaning(event) for event in example.events if event["kind"] == "tool-call"}
    return [(meaning(event), calls.get(event.get("callId", ""), b"")) for event in example.kept_for()]


def without(example: Example, line: int) -> list[tuple[bytes, bytes]]:
    """The facts that remain if a line is removed."""
    rest = msgspec.structs.replace(example, lines=example.lines[:line] + example.lines[line + 1 :])
    rest.events = rest.run()
    return what_it_says(rest)


@pytest.mark.parametrize("path", RECORDINGS[::9], ids=name_of)
def test_stored_line_round_trip(path: Path) -> None:
    for line in read_recording(path.read_bytes()):
        assert read_line(json.loads(json.dumps(store_line(line)))) == line._replace(t=None)


def test_non_canonical_json_is_stored_as_text() -> None:
    [spaced] = read_recording(b'{"a": 1}')
    [plain] = read_recording(b'{"a":1}')
    [binary] = read_recording(b"\xff")

    assert store_line(spaced) == {"line": '{"a": 1}'}
    assert store_line(plain) == {"line": {"a": 1}}
    assert store_line(binary) == {"b64": "/w=="}


# -- from where -------------------------------------------------------------------------------------------------------


def test_trace_and_recordings_give_the_same_fixtures(tmp_path: Path) -> None:
    """Five recordings in one trace, their lines alternating, as written by a daemon."""
    paths = sorted(GEMINI.glob("*.jsonl"))[:5]
    streams = streams_of(paths)
    records = [
        record(
            n, line.data, stream=stream.name, dialect="gemini-stream", agent_version=None, t=line.t, dir=line.direction
        )
        for stream in streams
        for n, line in enumerate(stream.lines, 1)
        if isinstance(line.data, bytes)
    ]
    trace(tmp_path / "trace.jsonl", *sorted(records, key=lambda one: one.n))
    traced = read_streams([tmp_path / "trace.jsonl"])
    extract(every_key(tmp_path / "a", streams), streams)
    extract(every_key(tmp_path / "b", traced), traced)

    assert len(traced) == 5
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_ancestor_traces_give_fixtures_of_every_agent(tmp_path: Path) -> None:
    streams = read_streams(sorted(ANCESTORS.glob("*.jsonl")))
    fixtures = extract(every_key(tmp_path, streams), streams)

    assert {"acp/gemini/tool-call/replace", "claude/claude/tool-call/MultiEdit"} < set(fixtures.allowlist.lines)
    assert {example.dialect for example in fixtures.examples} == {"happier-trace"}
    assert {"acp/gemini.json", "acp/opencode.json", "claude/claude.json", "codex/codex.json"} < set(files(tmp_path))
    assert list(Fixtures.load(tmp_path).problems()) == []


def test_two_versions_have_separate_examples(tmp_path: Path) -> None:
    folder = wanting(tmp_path, "claude/claude/tool-result/Read")
    old, new = streams_of([OLD, NEW])
    old.agent_version = "1.0.128"  # from a trace; this version did not state it itself
    extract(folder, [old])
    extract(folder, [new], maximum=2)

    assert [example.agent_version for example in Fixtures.load(folder).examples] == ["1.0.128", "2.1.330"]


def test_lines_before_recognition_are_not_examples(tmp_path: Path) -> None:
    """After twenty undecided lines the stream is unparsed, so an example would have no dialect."""
    late = TracedStream("late", "auto", lines=[*[Line(b'{"a":1}')] * 20, *streams_of([SHELL])[0].lines])
    extract(every_key(tmp_path / "late", [late]), [late])
    extract(every_key(tmp_path / "whole", streams_of([SHELL])), streams_of([SHELL]))

    assert files(tmp_path / "late") == files(tmp_path / "whole")


def test_fixtures_are_redacted(tmp_path: Path) -> None:
    token = "ghp_" + "aB3d" * 9
    secret = f"alice@corp.example on alice@buildbox7:/home/alice/src$ has {token} in /home/alice/.env, says alice"
    lines = SHELL.read_text().replace("partial output", secret)
    (tmp_path / "shell.jsonl").write_text(lines)
    extract(wanting(tmp_path / "out", RESULT), read_streams([tmp_path / "shell.jsonl"]))
    written = (tmp_path / "out/gemini/gemini.json").read_text()

    assert lines.count("alice") > 5
    assert not [word for word in ("alice", "buildbox7", "corp.example", "ghp_") if word in written]
    assert "user@example.com on user@host:/home/user/src$ has [masked github-token] in /home/user/.env" in written


# -- a fixed point ----------------------------------------------------------------------------------------------------


def test_extraction_is_deterministic(tmp_path: Path) -> None:
    streams = streams_of([*sorted(GEMINI.glob("*.jsonl")), OLD, NEW, *sorted(ANCESTORS.glob("*.jsonl"))])
    extract(every_key(tmp_path / "a", streams), streams)
    first = files(tmp_path / "a")

    fixtures = Fixtures.load(tmp_path / "a")
    assert (fixtures.update(), fixtures.save(), list(fixtures.problems())) == ([], [], [])
    extract(tmp_path / "a", streams)
    assert files(tmp_path / "a") == first
    for seed in range(3):
        shuffled = random.Random(seed).sample(streams, len(streams))
        folder = every_key(tmp_path / str(seed), streams)
        extract(folder, shuffled[:10])
        extract(folder, shuffled[10:])
        assert files(folder) == first


def test_maximum_of_examples_is_respected(tmp_path: Path) -> None:
    streams = streams_of(sorted(GEMINI.glob("*.jsonl")))
    for maximum in (1, 2, 3):
        keys = [example.key for example in extract(every_key(tmp_path, streams), streams, maximum).examples]

        assert max(map(keys.count, keys)) == maximum


# -- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One example: a failing shell command of Gemini."""
    extract(wanting(tmp_path / "fixtures", RESULT), streams_of([SHELL]))
    return tmp_path / "fixtures"


def change(folder: Path, before: str, after: str) -> None:
    path = folder / "gemini/gemini.json"
    text = path.read_text()
    assert text.count(before) >= 1
    path.write_text(text.replace(before, after))


def problems(folder: Path) -> list[str]:
    return [problem.replace(f"{folder}/", "") for problem in Fixtures.load(folder).problems()]


def test_changed_events_are_shown_and_updated(folder: Path) -> None:
    good = files(folder)
    change(folder, '"name":"Bash"', '"name":"execute"')
    [problem] = problems(folder)

    assert problem.startswith(f"gemini/gemini.json: {RESULT}, example 1: its lines give other events\n")
    assert '\n    -  "name": "execute",\n    +  "name": "Bash",\n' in problem
    fixtures = Fixtures.load(folder)
    [updated] = fixtures.update()
    assert '+  "name": "Bash"' in updated
    fixtures.save()
    assert files(folder) == good


def test_unmatched_keys_and_examples_are_problems(folder: Path) -> None:
    other = "gemini/gemini/tool-result/replace"
    wanting(folder, "", other)

    assert problems(folder) == [
        f"allowlist.txt:2: there is no example of {other}",
        f"gemini/gemini.json: {RESULT} is not in allowlist.txt",
    ]
    fixtures = Fixtures.load(folder)
    assert fixtures.update() == [f"{folder}/gemini/gemini.json: {RESULT} dropped, it is not in {folder / ALLOWLIST}"]
    assert fixtures.save() == [folder / "gemini/gemini.json"]
    assert set(files(folder)) == {ALLOWLIST}


def test_example_without_event_of_its_key_is_a_problem(folder: Path) -> None:
    change(folder, f'"key":"{RESULT}"', '"key":"gemini/gemini/tool-result/other"')
    wanting(folder, "gemini/gemini/tool-result/other")

    assert problems(folder) == [
        "gemini/gemini.json: gemini/gemini/tool-result/other, example 1: its last line gives no event of that key"
    ]


def test_update_keeps_unknown_dialects_and_invalid_lines_as_problems(folder: Path) -> None:
    change(folder, '"dialect":"gemini-stream","provider":"gemini",\n', '"dialect":"babel","provider":"gemini",\n')
    [unknown] = problems(folder)
    change(folder, '"dialect":"babel"', '"dialect":"gemini-stream"')
    change(folder, '{"line":{"type":"tool_use"', '{"lime":{"type":"tool_use"')
    [no_line] = problems(folder)

    assert unknown.startswith(f"gemini/gemini.json: {RESULT}, example 1: there is no dialect 'babel'")
    assert no_line == f'gemini/gemini.json: {RESULT}, example 1: neither "line" nor "b64"'
    assert Fixtures.load(folder).update() == []


def test_file_formatted_by_hand_is_a_problem(folder: Path) -> None:
    change(folder, '"key":', '"key": ')

    assert problems(folder) == ["gemini/gemini.json: not formatted by `tooltap fixtures update`; run it"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[", "unexpected end of data"),
        ("{}", "Expected `array`, got `object`"),
        ('[{"key":"a/b/turn","dialect":"acp","provider":"b","lines":[],"events":[],"x":1}]', "unknown field `x`"),
        ('[{"key":"a","dialect":"acp","provider":"b","lines":[],"events":[]}]', "'a' is not a key"),
    ],
)
def test_unreadable_fixture_file_is_one_sentence(folder: Path, content: str, fault: str) -> None:
    (folder / "gemini/gemini.json").write_text(content)

    with pytest.raises(FixtureError) as error:
        Fixtures.load(folder)
    assert str(error.value).startswith(f"{folder / 'gemini/gemini.json'}: ")
    assert fault in str(error.value)


# -- those of this repository -----------------------------------------------------------------------------------------


def test_curated_fixtures_have_no_problem() -> None:
    assert list(Fixtures.load(CURATED).problems()) == [], "run `make fixtures` and review what changed"


def test_curated_fixtures_are_small_and_redacted() -> None:
    redactor = Redactor()

    assert sum(map(len, files(CURATED).values())) < 250_000
    for example in Fixtures.load(CURATED).examples:
        for line in map(read_line, example.lines):
            assert isinstance(line.data, bytes)
            assert redactor.redact(line.data) is line.data
