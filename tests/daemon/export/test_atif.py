"""ATIF exports: valid by the format's own package, and the same session when our own dialect reads them."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory

from tests.attacks.masked import kept, lines
from tests.cli.command import here
from tests.daemon.events import call, event, message, result
from tests.daemon.export.exporting import exported, written
from tests.normalizers.reading import FIXTURES
from tooltap.daemon.export import atif
from tooltap.daemon.export.source import Bodies, MissingRange
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.wire.recording import Line
from tooltap.protocol.events import (
    Event,
    Message,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolCall,
    Usage,
    decode,
)
from tooltap.testing import normalize

RECORDINGS = sorted(path for path in FIXTURES.glob("*/*/*.jsonl") if path.parts[-3] != "curated")
SUBAGENTS = FIXTURES / "claude-stream" / "claude-code-2.1.330" / "subagents-parallel.jsonl"


def prompt(text: str, **fields: Any) -> Produced:
    return event(Message, **{"role": "user", "text": text, **fields})


def trajectory(*made: Produced) -> Any:
    document = written("atif", *made)
    Trajectory.model_validate_json(document)
    return json.loads(document)


def said_and_called(events: Sequence[Event]) -> list[tuple[str, str]]:
    """The texts of each side without spaces, and the calls, of the main agent."""
    main = [one for one in events if one.agent is None and not one.replay]
    found = []
    for role in ("user", "assistant"):
        texts = [one.text for one in main if isinstance(one, Message) and one.role == role]
        found.append((role, "".join("".join(texts).split())))
    return found + sorted((one.call_id, one.name) for one in main if isinstance(one, ToolCall))


@pytest.mark.parametrize("folder", sorted({path.parts[-3] for path in RECORDINGS}))
def test_every_recording_is_valid_and_read_again_as_it_was(folder: str) -> None:
    for path in (one for one in RECORDINGS if one.parts[-3] == folder):
        events, document = exported("atif", path)
        Trajectory.model_validate_json(document)
        again = normalize("atif", [Line(line.encode()) for line in document.splitlines()])
        assert said_and_called(again) == said_and_called(events), path


def test_subagents_are_inside_and_their_calls_refer_to_them() -> None:
    _, document = exported("atif", SUBAGENTS)
    found = json.loads(document)
    refs = {
        result["source_call_id"]: result["subagent_trajectory_ref"][0]["trajectory_id"]
        for step in found["steps"]
        for result in step.get("observation", {}).get("results", [])
        if "subagent_trajectory_ref" in result
    }

    inside = {one["extra"]["parent_tool_call_id"]: one["trajectory_id"] for one in found["subagent_trajectories"]}
    assert len(inside) == 2
    assert refs == inside
    assert all(one["steps"] for one in found["subagent_trajectories"])


def test_step_has_what_the_model_said_called_and_used() -> None:
    [step] = trajectory(
        event(SessionEvent, state="started", model="model-a"),
        event(Reasoning, text="wc does it."),
        message("Counting."),
        call("c"),
        event(PermissionResponse, permission_id="p", outcome="allowed", call_id="c"),
        event(Usage, scope="step", input_tokens=12, output_tokens=3, cache_read_tokens=10, cost_usd=0.5),
        result("c", output={"stdout": "12"}),
    )["steps"]

    assert (step["message"], step["reasoning_content"], step["model_name"]) == ("Counting.", "wc does it.", "model-a")
    assert [(one["tool_call_id"], one["function_name"]) for one in step["tool_calls"]] == [("c", "Bash")]
    assert step["tool_calls"][0]["extra"] == {"permission": "allowed"}
    assert step["observation"]["results"] == [{"source_call_id": "c", "content": '{"stdout":"12"}'}]
    assert step["metrics"] == {"prompt_tokens": 12, "completion_tokens": 3, "cached_tokens": 10, "cost_usd": 0.5}


def test_sums_are_of_the_narrowest_scope_that_is_stated() -> None:
    step: dict[str, Any] = {"scope": "step", "input_tokens": 5, "output_tokens": 1}
    found = trajectory(
        message("a"),
        event(Usage, **step),
        event(Usage, **step),
        event(Usage, scope="turn", input_tokens=10, output_tokens=2, cost_usd=0.25),
    )

    figures = {"total_prompt_tokens": 10, "total_completion_tokens": 2, "total_cost_usd": 0.25, "total_steps": 1}
    assert found["final_metrics"] == figures
    assert found["steps"][0]["llm_call_count"] == 2


def test_what_follows_a_result_is_the_next_step() -> None:
    found = trajectory(message("a"), call("c"), result("c"), message("b"), prompt("Go on"))

    assert [(one["source"], one["message"]) for one in found["steps"]] == [
        ("agent", "a"),
        ("agent", "b"),
        ("user", "Go on"),
    ]


def test_steps_wait_for_a_result_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atif, "HELD", 3)
    many = [prompt(f"Prompt {number}") for number in range(9)]
    found = trajectory(call("c"), *many, result("c", output={"stdout": "late"}))

    assert [one["step_id"] for one in found["steps"]] == list(range(1, 12))
    assert "observation" not in found["steps"][0]
    assert found["steps"][-1]["observation"]["results"][0]["source_call_id"] == "c"


def test_failure_is_noted_beside_the_result() -> None:
    failed = result("c", status="failed", is_error=True)
    [step] = trajectory(call("c"), failed)["steps"]

    assert step["observation"]["results"][0]["extra"] == {"status": "failed"}


def test_missing_events_are_named_in_the_notes() -> None:
    exporter = atif.Trajectories("A session", bodies=Bodies(0, 0))
    exporter.add_gap(MissingRange(1, 3, is_deleted=True))
    document = exporter.add(decode(message("a").body), {}) + "".join(exporter.end("Nothing is masked."))

    assert json.loads(document)["notes"] == "Events between 1 and 3 were not kept. Nothing is masked."


def peak(steps: int) -> int:
    """The most bytes in use while a session is written, of which the main agent and a subagent have so many steps."""
    atif.HELD, atif.IN_MEMORY = 50, 65_536
    exporter = atif.Trajectories("A session", bodies=Bodies(0, 0))
    tracemalloc.start()
    for number in range(steps):
        for agent in (None, "sub"):
            for one in (prompt("x" * 1_000, agent=agent), call(f"{agent}{number}", agent=agent)):
                exporter.add(decode(one.body), {})
    for _ in exporter.end():
        pass
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return used


def test_memory_does_not_grow_with_the_session() -> None:
    """Measured in a process of its own, as other threads would be counted, too."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        _, few, many = process.map(peak, (100, 250, 1_000))

    assert many < 1.5 * few


def test_secrets_are_masked_unless_the_user_wants_them(tmp_path: Path) -> None:
    (tmp_path / "recording.jsonl").write_bytes(lines())
    events = here("normalize", "--dialect", "claude-stream", tmp_path / "recording.jsonl").stdout
    (tmp_path / "session.jsonl").write_bytes(events)
    for options, is_masked in (((), True), (("--no-redact",), False)):
        finished = here("export", "--format", "atif", tmp_path / "session.jsonl", "-o", tmp_path / "out.json", *options)
        document = (tmp_path / "out.json").read_bytes()
        Trajectory.model_validate_json(document)

        assert finished.returncode == 0, finished
        assert (kept(document) == []) == is_masked
