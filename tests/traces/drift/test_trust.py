"""Drift detection can be trusted: silent over recordings that it has not seen, and it finds what was renamed."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here
from tests.kit import renames
from tests.kit.renames import main, render
from tests.traces.drift.altering import FIXTURES
from tests.traces.drift.test_drift import RECORDED
from tooltap.traces.drift.baselines import PACKAGED, UNKNOWN, Baseline, Observed, Origin, load, observe
from tooltap.traces.drift.drift import Drift, Finding
from tooltap.traces.drift.watch import watch_stream
from tooltap.traces.recording.reader import read_stream

AGENTS = [folder for folder in RECORDED if len(list(folder.glob("*.jsonl"))) > 2]
KIMI = FIXTURES / "kimi-json" / "kimi-1.40.0"


def observed(path: Path) -> Observed:
    return observe(read_stream(path, path.parts[-3]))


def knowing(baseline: Baseline, dialect: str) -> list[Baseline]:
    return [baseline]


def alarms_of(drift: Drift, path: Path) -> list[Finding]:
    watch_stream(drift, read_stream(path, path.parts[-3]))
    return [finding for finding in drift.report().findings if finding.severity == "alarm"]


@pytest.mark.parametrize("folder", AGENTS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_recording_that_was_not_learned_from_raises_no_alarm(folder: Path) -> None:
    paths = sorted(folder.glob("*.jsonl"))
    seen = {path.stem: observed(path) for path in paths}
    for left_out in paths:
        rest = {name: one for name, one in seen.items() if name != left_out.stem}
        if not seen[left_out.stem].traits <= set().union(*(one.traits for one in rest.values())):
            continue  # it does what no other recording does, for example run a subagent
        baseline = Baseline(next(iter(rest.values())).agent)
        baseline.record(rest)
        learned = Baseline.read(baseline.write(), "learned")

        assert alarms_of(Drift(partial(knowing, learned)), left_out) == [], left_out


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_each_recording_alone_raises_no_alarm(folder: Path) -> None:
    """Alone, as the first stream that a user has; the others would show that what is missing here is not gone."""
    known = cache(partial(load, PACKAGED))
    for path in sorted(folder.glob("*.jsonl")):
        assert alarms_of(Drift(known), path) == [], path


def manifest(folder: Path, rows: list[dict[str, Any]]) -> Path:
    (folder / "manifest.json").write_text(json.dumps(rows))
    return folder


@pytest.mark.lab
def test_what_is_renamed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renames, "STREAMS", 1)
    files = [path for folder in RECORDED for path in sorted(folder.glob("*.jsonl"))]
    folder = manifest(tmp_path, [{"file": str(path), "dialect": path.parts[-3]} for path in files])

    report = renames.run([folder])

    assert report.alarms == []
    expected, types, others = "expected fields", "types", "other fields"
    assert report.renames[expected] > 1500
    assert report.found[expected] == report.renames[expected], report.missed
    # Among keys of any name, a new name is not noticed: there, it takes several streams to be an alarm.
    assert report.alarmed[expected] >= 0.999 * report.renames[expected], report.missed
    assert report.found[types] == report.renames[types], report.missed
    assert report.found[others] >= 0.99 * report.renames[others], report.missed


def test_renaming_is_reported(tmp_path: Path) -> None:
    path = FIXTURES / "codex-exec/codex-0.169/shell-fails.jsonl"
    report = renames.run(
        [manifest(tmp_path, [{"file": str(path), "dialect": "codex-exec"}, {"file": "no", "dialect": "hal"}])]
    )

    assert list(render(report))[-1] == "0 alarms of streams as they are"
    assert [line.split(" renamed, ")[0].rstrip("0123456789") for line in render(report)][-4:-1] == [
        "expected fields: ",
        "other fields: ",
        "types: ",
    ]
    assert main([]) == main([str(tmp_path / "nothing")]) == 2
    assert main([str(tmp_path)]) == 0


def test_newer_agent_is_reported_line_by_line(tmp_path: Path) -> None:
    """Kimi Code 2.1.0 begins and ends with lines of its own, and has other tools than Kimi 1.40."""
    call = {"type": "function", "id": "c1", "function": {"name": "Probe", "arguments": "{}"}}
    lines: list[dict[str, Any]] = [
        {"role": "meta", "type": "system.version", "version": "2.1.0"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "1\tx"},
        {"role": "assistant", "content": "Done."},
        {"role": "meta", "type": "session.hint", "session_id": "s", "command": "kimi -r s", "content": "Resume it."},
    ]
    new = tmp_path / "new.jsonl"
    new.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorded = here("baseline", "record", KIMI, "--agent-version", "1.40.0", "--out", tmp_path / "baselines")
    assert recorded.returncode == 0, recorded.stderr

    finished = here("drift", "--json", "--baselines", tmp_path / "baselines", "--dialect", "kimi-json", new)
    findings = json.loads(finished.stdout)["findings"]

    assert {(one["kind"], *one["lines"]) for one in findings} >= {
        ("new-variant", "new:1"),
        ("new-variant", "new:5"),
        ("unnamed-tool", "new:2"),
    }


def test_what_only_the_setup_of_one_user_has_is_not_expected(tmp_path: Path) -> None:
    """A server that all recordings had, and a field that all recordings of one setup had."""
    line = {"type": "thread.started", "thread_id": "t"}

    def learn(*lines: dict[str, Any]) -> Baseline:
        scenarios = {}
        for number, one in enumerate(lines):
            path = tmp_path / f"{number}.jsonl"
            path.write_text(json.dumps(one) + "\n")
            scenarios[f"exec/{number}" if number < 9 else f"mcp/{number}"] = observe(read_stream(path, "codex-exec"))
        baseline = Baseline(Origin("codex-exec", "codex", "1.0"))
        baseline.record(scenarios)
        return Baseline.read(baseline.write(), "learned")

    tools = {"mcp__fixture": {"n": 1}, "shell": {"n": 2}}
    one_setup = learn(*[{**line, "tools": tools, "profile": "mine"}] * 9)
    two_setups = learn(*[{**line, "tools": tools, "profile": "mine"}] * 10)
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({**line, "tools": {"mcp__mine": {"n": 1}, "shell": {"n": 3}}}) + "\n")

    def found(baseline: Baseline) -> list[tuple[str, str, str]]:
        drift = Drift(lambda dialect: [baseline])
        watch_stream(drift, read_stream(other, "codex-exec"))
        return [(one.severity, one.kind, one.place) for one in drift.report().findings]

    assert found(one_setup) == []
    assert found(two_setups) == [("notice", "vanished-key", "$<thread.started>.profile")]


def test_field_without_a_new_name_is_gone_if_several_streams_lack_it(tmp_path: Path) -> None:
    started = {"type": "thread.started", "thread_id": "t", "profile": "mine"}
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    path.write_text(json.dumps(started) + "\n")
    scenarios = {f"{number}/a": observe(read_stream(path, "codex-exec")) for number in range(3)}
    baseline = Baseline(Origin("codex-exec", "codex", UNKNOWN))
    baseline.record(scenarios)
    without = '{"type":"thread.started","thread_id":"t"}\n'
    path.write_text(without * 2)
    other.write_text(without)
    drift = Drift(lambda dialect: [baseline])

    def found() -> list[tuple[str, str]]:
        return [(one.severity, one.text.rpartition(" (")[2]) for one in drift.report().findings]

    watch_stream(drift, read_stream(path, "codex-exec"))
    watch_stream(drift, read_stream(path, "codex-exec"))
    assert [severity for severity, _ in found()] == ["notice"]
    watch_stream(drift, read_stream(other, "codex-exec"))
    assert [severity for severity, _ in found()] == ["alarm"]
    other.write_text(json.dumps(started) + "\n")
    watch_stream(drift, read_stream(other, "codex-exec"))
    assert found() == [("notice", "from some)")]


def test_version_between_two_known_ones_is_expected_to_have_what_both_have(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = {"type": "thread.started", "thread_id": "t", "both": 1}

    def baseline(version: str, **more: Any) -> Baseline:
        path.write_text(json.dumps({**lines, **more}) + "\n")
        one = Baseline(Origin("codex-exec", "codex", version))
        one.record({f"{number}/a": observe(read_stream(path, "codex-exec")) for number in range(3)})
        return one

    known = [baseline("1.0", old=1), baseline("3.0", new="x")]
    path.write_text('{"type":"thread.started","thread_id":"t"}\n')

    def gone(version: str | None) -> set[str]:
        drift = Drift(lambda dialect: known)
        watch_stream(drift, read_stream(path, "codex-exec"), version=version)
        return {one.place.rpartition(".")[2] for one in drift.report().findings}

    assert gone("2.0") == {"both"}
    assert gone("1.0") == gone("0.9") | {"both", "old"} == {"both", "old"}
    assert gone("3.0") == gone("4.0") == {"both", "new"}


def test_version_that_a_later_line_states_holds_for_the_whole_stream(tmp_path: Path) -> None:
    """Of a stream that states none, all lines are compared with the version that they are closest to together."""
    path = tmp_path / "a.jsonl"
    told = {"type": "rate_limit_event", "session_id": "s", "uuid": "u"}
    begun = {"type": "system", "subtype": "init", "session_id": "s", "uuid": "v", "cwd": "/w"}

    def write(*lines: dict[str, Any]) -> Path:
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return path

    def baseline(version: str, **more: Any) -> Baseline:
        write({**told, **more}, {**begun, **more})
        one = Baseline(Origin("claude-stream", "claude", version))
        one.record({f"{number}/a": observe(read_stream(path, "claude-stream")) for number in range(3)})
        return one

    known = [baseline("1.0"), baseline("3.0", first=1, second=2)]

    def gone(*lines: dict[str, Any]) -> list[tuple[str, str]]:
        drift = Drift(lambda dialect: known)
        watch_stream(drift, read_stream(write(*lines), "claude-stream"))
        return sorted((one.version, one.place) for one in drift.report().findings if one.kind == "vanished-key")

    assert gone(told, {**begun, "claude_code_version": "1.0"}) == []
    assert gone(told, {**begun, "claude_code_version": "3.0", "first": 1, "second": 2}) == [
        ("3.0", "$<rate_limit_event>.first"),
        ("3.0", "$<rate_limit_event>.second"),
    ]
    of_three = {**begun, "first": 1, "second": 2}
    assert gone({**told, "first": 1}, of_three, of_three) == [("unknown", "$<rate_limit_event>.second")]
    assert gone({**told, "first": 1}, begun, begun) == []


def test_what_agents_share_is_known_of_each() -> None:
    """Blocks, updates and fields of ACP are ordinary, whichever agent the baselines have seen them from."""
    own = [one for one in load(PACKAGED, "acp") if one.agent.provider == "opencode"]
    others = [one for one in load(PACKAGED, "acp") if one.agent.provider != "opencode"]
    streams = [read_stream(path, "acp") for path in sorted(FIXTURES.glob("acp/opencode-*/*.jsonl"))]

    def noticed(known: list[Baseline]) -> set[str]:
        drift = Drift(lambda dialect: known)
        for stream in streams:
            watch_stream(drift, stream)
        return {finding.place for finding in drift.report().findings if finding.severity == "alarm"}

    assert noticed(own) == noticed(others) == set()
