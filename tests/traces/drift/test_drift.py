"""`tooltap drift` over recorded streams: silent if nothing has changed, and precise if something has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.cli.command import here
from tests.traces.drift.altering import FIXTURES, altered, objects, pascal, rename, replaced
from tooltap.cli.check.drift import FINDINGS
from tooltap.traces.drift.baselines import PACKAGED, UNKNOWN, Baseline, Origin, load
from tooltap.traces.drift.drift import MAX_AGENTS, MAX_FINDINGS, Drift, Finding, NewFindings, Report
from tooltap.traces.drift.watch import watch_stream
from tooltap.traces.recording.reader import read_stream
from tooltap.traces.recording.reader import sources as sources_of

RECORDED = sorted(
    folder
    for folder in FIXTURES.glob("*/*-*")
    if not folder.name.endswith("-written") and folder.parent.name not in ("curated", "happier-trace", "tooltap-trace")
)


def drift(*arguments: object) -> tuple[int, dict[str, Any]]:
    finished = here("drift", "--json", *arguments)
    return finished.returncode, json.loads(finished.stdout)


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_recordings_of_known_versions_raise_no_alarm(folder: Path) -> None:
    code, report = drift(folder)

    assert code == 0
    assert [finding for finding in report["findings"] if finding["severity"] == "alarm"] == []
    assert report["agents"] != []


def wrap_items(line: dict[str, Any]) -> dict[str, Any]:
    if "item" in line:
        line["item"] = {"entry": line["item"]}
    return line


def fold(line: dict[str, Any]) -> dict[str, Any]:
    """Codex 0.153 moved its messages into `item_completed`."""
    if line["type"] == "response_item":
        return {**line, "type": "event_msg", "payload": {"type": "entry_completed", "entry": line["payload"]}}
    return line


def new_tool(line: dict[str, Any]) -> dict[str, Any]:
    for one in objects(line):
        if one.get("type") == "tool_use":
            one["name"] = "QuantumShell"
    return line


def without_results(line: dict[str, Any]) -> dict[str, Any] | None:
    return None if any(one.get("type") == "tool_result" for one in objects(line)) else line


class Case(NamedTuple):
    name: str
    source: str
    change: Callable[[dict[str, Any]], dict[str, Any] | None]
    provider: str
    version: str
    kind: str
    place: str
    example: str
    """Part of the finding's example."""
    severity: str = "alarm"


CASES = [
    Case(
        "rename-a-field-of-an-item",
        "codex-exec/codex-0.169/shell-fails.jsonl",
        rename("aggregated_output", "output"),
        "codex",
        "0.169.0",
        "vanished-key",
        "$<item.completed>.item<command_execution>.aggregated_output",
        '"command_execution"',
    ),
    Case(
        "rename-an-argument",
        "claude-stream/claude-code-2.1.330/shell-fails.jsonl",
        rename("command", "shell_line"),
        "claude",
        "2.1.330",
        "vanished-key",
        "claude/claude/tool-call/Bash $.command",
        '"shell_line"',
    ),
    Case(
        "rename-a-field-of-an-update",
        "acp/opencode-1.18.33/shell-fails.jsonl",
        rename("toolCallId", "callId"),
        "opencode",
        "1.18.33",
        "vanished-key",
        "$<session/update>.params.update<tool_call>.toolCallId",
        '"sessionUpdate":"tool_call"',
    ),
    Case(
        "wrap-items",
        "codex-exec/codex-0.169/shell-fails.jsonl",
        wrap_items,
        "codex",
        "0.169.0",
        "new-variant",
        "$<item.completed>.item",
        '{"entry":{',
    ),
    Case(
        "fold-messages",
        "codex-rollout/codex-0.169/patch.jsonl",
        fold,
        "codex",
        "0.169.0",
        "new-variant",
        "$<event_msg>.payload<entry_completed>",
        '"entry"',
    ),
    Case(
        "snake-to-pascal",
        "codex-rollout/codex-0.120/shell-fails.jsonl",
        replaced("type", pascal),
        "codex",
        "0.120.0",
        "new-variant",
        "$<ResponseItem>",
        '"ResponseItem"',
    ),
    Case(
        "string-to-array",
        "gemini-stream/gemini-0.61.0/read.jsonl",
        replaced("content", lambda text: [text]),
        "gemini",
        "0.61.0",
        "other-type",
        "$<message/assistant>.content",
        "[",
    ),
    Case(
        "string-to-array-on-the-bus",
        "opencode-bus/opencode-1.18.33/shell.jsonl",
        replaced("text", lambda text: [{"value": text}]),
        "opencode",
        "1.18.33",
        "other-type",
        "$<message.part.updated>.properties.part<text>.text",
        '"value"',
    ),
    Case(
        "a-new-tool",
        "claude-stream/claude-code-2.1.330/shell-fails.jsonl",
        new_tool,
        "claude",
        "2.1.330",
        "unnamed-tool",
        "QuantumShell",
        '"command"',
        "notice",
    ),
    Case(
        "dropped-results",
        "claude-stream/claude-code-2.1.330/shell-fails.jsonl",
        without_results,
        "claude",
        "2.1.330",
        "dropped-result",
        "Bash",
        "toolu_",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_change_is_reported_with_version_place_and_example(case: Case, tmp_path: Path) -> None:
    dialect = case.source.split("/")[0]
    names = ("altered", "altered-again", "altered-once-more")
    recordings = [altered(tmp_path / f"{name}.jsonl", FIXTURES / case.source, case.change) for name in names]
    code, report = drift(
        *recordings, "--dialect", dialect, "--agent-version", case.version, "--provider", case.provider
    )

    found = [one for one in report["findings"] if (one["kind"], one["place"]) == (case.kind, case.place)]
    assert [(one["severity"], one["provider"], one["version"], one["dialect"]) for one in found] == [
        (case.severity, case.provider, case.version, dialect)
    ]
    assert case.example in found[0]["example"]
    assert found[0]["first"].startswith("altered:")
    assert code == (case.severity == "alarm")
    assert "parser-error" not in json.dumps(report["findings"])


def tapped(path: Path, *lines: tuple[str, dict[str, Any]]) -> Path:
    records = [{"dir": way, "t": number, "line": line} for number, (way, line) in enumerate(lines)]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in records))
    return path


def test_what_a_client_writes_wrongly_is_no_drift_of_the_agent(tmp_path: Path) -> None:
    prompt = {"type": "user", "message": {"role": "user", "content": "Hi."}}
    wrong = [("in", {"subtype": "interrupt"}), ("in", {"type": "bogus"})]
    recorded = tapped(tmp_path / "s.jsonl", ("in", prompt), *wrong, ("out", {"type": "bogus"}))
    _, report = drift(recorded, "--dialect", "claude-stream")

    found = [one for one in report["findings"] if one["kind"] == "unparsed"]
    assert [(one["severity"], one["count"], one["first"]) for one in found] == [
        ("notice", 2, "s:2"),
        ("notice", 1, "s:4"),
    ]


def test_result_that_comes_after_its_turn_is_not_dropped(tmp_path: Path) -> None:
    def update(number: int, **fields: Any) -> tuple[str, dict[str, Any]]:
        told = {"toolCallId": f"c{number}", **fields}
        return "out", {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": told}}

    def lines(number: int, *, late: bool) -> list[tuple[str, dict[str, Any]]]:
        asked = {"sessionId": "s1", "prompt": [{"type": "text", "text": "Go"}]}
        call = {"sessionUpdate": "tool_call", "kind": "execute", "title": "ls", "rawInput": {"command": "ls"}}
        done = {"sessionUpdate": "tool_call_update", "status": "completed", "rawOutput": {"output": "a"}}
        return [
            ("in", {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": asked}),
            update(number, **call),
            ("out", {"jsonrpc": "2.0", "id": number, "result": {"stopReason": "end_turn"}}),
            *([update(number, **done)] if late else []),
        ]

    for late in (True, False):
        recorded = [line for number in range(4) for line in lines(number, late=late)]
        _, report = drift(tapped(tmp_path / "s.jsonl", *recorded), "--dialect", "acp")
        dropped = [one["count"] for one in report["findings"] if one["kind"] == "dropped-result"]
        assert dropped == ([] if late else [4])


def test_change_of_a_single_line_is_a_notice(tmp_path: Path) -> None:
    source = FIXTURES / "codex-exec/codex-0.169/shell-fails.jsonl"
    last, done = tmp_path / "last.jsonl", False

    def wrap_first(line: dict[str, Any]) -> dict[str, Any]:
        nonlocal done
        is_first, done = not done and line["type"] == "item.completed", done or line["type"] == "item.completed"
        return wrap_items(line) if is_first else line

    code, report = drift(altered(last, source, wrap_first), "--dialect", "codex-exec")

    assert ("new-variant", "notice") in [(one["kind"], one["severity"]) for one in report["findings"]]
    assert code == 0


def test_type_that_only_some_values_have_is_a_notice(tmp_path: Path) -> None:
    """The model may give an argument a type that the tool does not take."""
    source, recordings = FIXTURES / "claude-stream/claude-code-2.1.330/shell-fails.jsonl", []
    for number, by in enumerate([lambda text: text, *[lambda text: 7] * 3]):
        recordings.append(altered(tmp_path / f"{number}.jsonl", source, replaced("description", by)))

    def severities(*files: Path) -> set[str]:
        place = "claude/claude/tool-call/Bash $.description"
        found = drift(*files, "--dialect", "claude-stream")[1]["findings"]
        return {one["severity"] for one in found if one["place"] == place}

    assert severities(*recordings[1:]) == {"alarm"}
    assert severities(*recordings) == {"notice"}


def test_argument_that_the_model_may_leave_out_is_not_expected(tmp_path: Path) -> None:
    """All recordings of Grep state `output_mode`, and none states `type`."""

    def another_choice(line: dict[str, Any]) -> dict[str, Any]:
        for one in objects(line):
            if one.get("type") == "tool_use" and one.get("name") == "Grep":
                one["input"].pop("output_mode", None)
                one["input"] |= {"type": "py", "path": "src"}
        return line

    source = FIXTURES / "claude-stream/claude-code-2.1.330/grep.jsonl"
    recordings = [altered(tmp_path / f"{name}.jsonl", source, another_choice) for name in "abc"]
    _, report = drift(*recordings, "--dialect", "claude-stream")

    assert b'"type":"py"' in recordings[0].read_bytes()
    assert [one["place"] for one in report["findings"] if one["severity"] == "alarm"] == []
    assert not [one for one in report["findings"] if one["kind"] == "vanished-key"]


@pytest.mark.parametrize(("ephemeral", "severity"), [({"ephemeral": True}, "notice"), ({}, "alarm")])
def test_unknown_line_that_its_agent_calls_ephemeral_is_a_notice(
    tmp_path: Path, ephemeral: dict[str, Any], severity: str
) -> None:
    line = {"type": "session.novelty", "data": {"shown": True}, "id": "1", "timestamp": "2026-11-20T10:00:00.000Z"}
    recording = tmp_path / "a.jsonl"
    recording.write_text(f"{json.dumps({**line, **ephemeral})}\n" * 3)
    code, report = drift(recording, "--dialect", "copilot-json", "--agent-version", "1.0.102")

    assert {one["kind"]: one["severity"] for one in report["findings"]} == {
        "new-variant": severity,
        "unparsed": severity,
    }
    assert code == (severity == "alarm")


def test_answer_of_a_tool_may_have_any_type(tmp_path: Path) -> None:
    """`toolResponse` was an object in all recordings of claude-agent-acp; that of an MCP tool is a list (0.101)."""
    source = FIXTURES / "acp/claude-agent-acp-0.100.0/edit.jsonl"
    change = replaced("toolResponse", lambda answer: [{"type": "text", "text": str(answer)}])
    recordings = [altered(tmp_path / f"{name}.jsonl", source, change) for name in "abc"]
    _, report = drift(*recordings, "--dialect", "acp")

    assert b'"toolResponse":[' in recordings[0].read_bytes()
    assert [one["place"] for one in report["findings"] if one["severity"] == "alarm"] == []


def test_argument_renamed_to_known_alias_is_a_notice(tmp_path: Path) -> None:
    source = FIXTURES / "claude-stream/claude-code-2.1.330/shell-fails.jsonl"
    recording = altered(tmp_path / "altered.jsonl", source, rename("command", "cmd"))

    code, report = drift(recording)

    assert [(one["severity"], one["kind"], one["place"]) for one in report["findings"]] == [
        ("notice", "new-key", "claude/claude/tool-call/Bash $.cmd")
    ]
    assert code == 0
    assert drift("--strict", recording)[0] == 1


def test_silent_stream_is_an_alarm(tmp_path: Path) -> None:
    """The most frequent complaint of users was a rollout of 13 MB that gave no events."""
    source = FIXTURES / "codex-rollout/codex-0.169/patch.jsonl"
    recording = altered(tmp_path / "altered.jsonl", source, replaced("type", pascal))
    lines = len(recording.read_bytes().splitlines())
    known = ("--dialect", "codex-rollout", "--agent-version", "0.169.0")

    _, report = drift(recording, *known, "--silent-lines", lines)
    _, patient = drift(recording, *known, "--silent-lines", lines + 1)

    [silent] = [one for one in report["findings"] if one["kind"] == "zero-yield"]
    assert (silent["severity"], silent["provider"], silent["version"]) == ("alarm", "codex", "0.169.0")
    assert silent["text"] == f"{lines} lines gave no message and no call"
    assert "zero-yield" not in {one["kind"] for one in patient["findings"]}


def test_version_before_all_baselines_lacks_no_keys(tmp_path: Path) -> None:
    source = FIXTURES / "codex-exec/codex-0.169/shell-fails.jsonl"
    recording = altered(tmp_path / "altered.jsonl", source, rename("aggregated_output", "output"))

    _, report = drift(recording, "--agent-version", "0.99.0")

    assert "vanished-key" not in {one["kind"] for one in report["findings"]}


def test_examples_are_redacted(tmp_path: Path) -> None:
    source = FIXTURES / "codex-exec/codex-0.169/shell-fails.jsonl"
    secret = "ghp_" + "a1B2" * 9
    change = replaced("aggregated_output", lambda text: {"token": secret, "path": "/home/somebody/x"})

    _, report = drift(altered(tmp_path / "altered.jsonl", source, change))

    place = "$<item.completed>.item<command_execution>.aggregated_output"
    [found] = [one for one in report["findings"] if (one["kind"], one["place"]) == ("other-type", place)]
    assert secret not in json.dumps(report)
    assert "[masked token]" in found["example"]
    assert "somebody" not in found["example"]


def test_printed_report(tmp_path: Path) -> None:
    recording = altered(
        tmp_path / "run.jsonl",
        FIXTURES / "codex-exec/codex-0.169/shell-fails.jsonl",
        rename("aggregated_output", "out"),
    )
    finished = here("drift", recording, "--agent-version", "0.169.0")

    assert finished.returncode == 1
    assert finished.stdout.decode().splitlines()[:3] == [
        "alarm: codex 0.169.0 (codex-exec): vanished key at run:3",
        "  $<item.started>.item<command_execution>.aggregated_output",
        "  was always present, is missing: string; it may be out now",
    ]
    assert b"compared with 0.169.0" in finished.stderr


def test_printed_report_is_a_screenful(tmp_path: Path) -> None:
    """Three agents, of which each line has three new keys."""

    def with_new_keys(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "first_novelty": 1, "second_novelty": "x", "third_novelty": True}

    sources = ("codex-exec/codex-0.169/shell-fails", "pi-json/pi-0.73.1/edit", "kimi-json/kimi-1.40.0/read")
    files = [
        altered(tmp_path / f"{source.partition('/')[0]}.jsonl", FIXTURES / f"{source}.jsonl", with_new_keys)
        for source in sources
    ]
    finished, every = here("drift", *files), here("drift", "--all", *files)

    printed, notes = finished.stdout.decode().splitlines(), finished.stderr.decode().splitlines()
    assert len(printed) == 4 * FINDINGS
    assert len(printed) + len(notes) <= 26
    findings = len(every.stdout.decode().splitlines()) // 4
    assert findings > FINDINGS
    assert notes[-1] == f"not shown: {findings - FINDINGS} notices; --all prints them"
    assert every.stdout.decode().startswith(finished.stdout.decode())


def test_all_names_the_agents_without_findings() -> None:
    finished = here("drift", "--all", FIXTURES / "codex-exec/codex-0.169/shell-fails.jsonl")

    assert finished.stdout == b""
    [line] = finished.stderr.decode().splitlines()
    assert "1 stream, " in line
    assert "compared with 0.169.0" in line


MINE = Origin("acp", "mine", "1")


def new_key(number: int, line: int = 1) -> Finding:
    return Finding("notice", "new-key", *MINE, f"$.key{number}", "new", "{}", f"s:{line}")


def test_findings_and_agents_are_bounded() -> None:
    known = Drift(lambda dialect: [])
    for number in range(MAX_FINDINGS + 5):
        known.add(MINE, new_key(number))
    for number in range(MAX_AGENTS + 5):
        known.totals(Origin("acp", "mine", str(number))).streams += 1

    report = known.report()
    assert (len(report.findings), report.omitted) == (MAX_FINDINGS, 5)
    assert len(report.agents) == MAX_AGENTS + 1


def test_merged_parts_report_what_one_reports() -> None:
    sources = sources_of(path for folder in RECORDED for path in sorted(folder.glob("*.jsonl")))
    one, merged = (Drift(lambda dialect: load(PACKAGED, dialect)) for _ in range(2))
    part = Drift(lambda dialect: load(PACKAGED, dialect), redacts=False)
    for source in sources:
        for watching in (one, part):
            watch_stream(watching, read_stream(source), version="99.0")
        merged.merge(msgspec.msgpack.decode(msgspec.msgpack.encode(part.take()), type=NewFindings))

    assert len(one.report().findings) > 20
    assert merged.report() == one.report()


def test_example_of_a_part_is_redacted_when_it_is_merged() -> None:
    merged, part = Drift(lambda dialect: []), Drift(lambda dialect: [], redacts=False)
    part.add(MINE, msgspec.structs.replace(new_key(1), example="/home/somebody/x"))

    merged.merge(part.take())

    assert [finding.example for finding in merged.findings()] == ["/home/user/x"]


def test_versions_with_the_same_baselines_share_what_is_known() -> None:
    loaded: list[str] = []

    def baselines(dialect: str) -> list[Baseline]:
        loaded.append(dialect)
        return load(PACKAGED, dialect)

    known = Drift(baselines)
    older, newer, newest, unknown = (
        known.known(Origin("claude-transcript", "claude", version)) for version in ("1.0.128", "98.0", "99.0", UNKNOWN)
    )

    assert newest is newer
    assert newest not in (older, unknown)
    assert loaded == ["claude-transcript"]


def test_merged_findings_and_agents_are_bounded() -> None:
    merged = Drift(lambda dialect: [])
    for number in range(MAX_FINDINGS + 5):
        part = Drift(lambda dialect: [])
        for _ in range(2):
            part.add(MINE, new_key(number))
        part.totals(Origin("acp", "mine", str(number))).streams += 1
        merged.merge(part.take())
        assert part.report() == Report([], [])

    report = merged.report()
    assert (len(report.findings), report.omitted) == (MAX_FINDINGS, 10)
    assert {finding.count for finding in report.findings} == {2}
    assert (len(report.agents), sum(agent.streams for agent in report.agents)) == (MAX_AGENTS + 1, MAX_FINDINGS + 5)
