"""Compares the events of a recording with what its scenario means. Facts that the recorded lines do not contain are not
required: an agent that does not print its prompt cannot show it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.scenarios.table import BY_COMMAND, PICTURE, TOOLS, Call, Scenario

__all__ = ["Miss", "held", "misses"]


class Miss(NamedTuple):
    """A fact of the scenario that the events do not state."""

    about: str
    """Kind of fact: text, thought, prompt, call, status, exit-code, output, result, parent, end or error."""
    what: str


class _Made(NamedTuple):
    """A call, assembled from its events."""

    call: dict[str, Any]
    name: str
    input: str
    results: list[dict[str, Any]]


def held(data: bytes) -> str:
    """Return all strings of the recorded lines, including those inside strings that are JSON."""
    found: list[str] = []
    for line in data.splitlines():
        try:
            found += _strings(json.loads(line))
        except ValueError:
            found.append(line.decode("utf-8", "replace"))
    inner = []
    for text in found:
        if text[:1] in ("{", "["):
            try:
                inner += _strings(json.loads(text))
            except ValueError:
                continue
    return "\0".join([*found, *inner])


def misses(scenario: Scenario, mark: str, events: list[dict[str, Any]], wire: str) -> Iterator[Miss]:
    """Yield the facts that are missing or wrong. `mark`: the scenario's name in the prompt; `wire`: what `held` returns
    of the recorded lines."""
    events = [one for one in events if not one.get("partial") and not one.get("replay")]
    yield from _texts(scenario, mark, events, wire)
    made = list(_made(events))
    yield from _calls(scenario, made, wire)
    ended = [one["state"] for one in events if one["kind"] == "turn" and one["state"] != "started"]
    if scenario.error is not None and scenario.error not in wire:
        return  # the recording stops before it
    if scenario.error is not None and not any(scenario.error in text for one in events for text in _strings(one)):
        yield Miss("error", f"{scenario.error!r} is nowhere")
    if scenario.ends and (not ended or ended[-1] not in scenario.ends):
        yield Miss("end", f"the turn {ended[-1]}" if ended else "no turn ended")


def _texts(scenario: Scenario, mark: str, events: list[dict[str, Any]], wire: str) -> Iterator[Miss]:
    for about, kind, wanted in (("text", "message", scenario.says), ("thought", "reasoning", scenario.thinks)):
        told = "\0".join(
            one["text"] for one in events if one["kind"] == kind and one.get("role", "assistant") == "assistant"
        )
        for text in wanted:
            if text in wire or told:
                times = told.count(text)
                if times == 0 and text in wire:
                    yield Miss(about, f"{text[:50]!r} is missing")
                elif times > 1 and text != "Plan":
                    yield Miss(about, f"{text[:50]!r} is there {times} times")
    prompts = [one["text"] for one in events if one["kind"] == "message" and one["role"] == "user"]
    times = sum(f"[[{mark}]]" in text for text in prompts)
    if f"[[{mark}]]" in wire and times != 1:
        yield Miss("prompt", f"the prompt is there {times} times")


def _made(events: list[dict[str, Any]]) -> Iterator[_Made]:
    calls: dict[str, _Made] = {}
    for one in events:
        call_id = one.get("callId")
        if one["kind"] == "tool-call" and call_id not in calls:
            calls[str(call_id)] = _Made(one, one["name"], "\n".join(_strings(one["input"])), [])
        elif one["kind"] == "tool-update" and call_id in calls:
            made = calls[call_id]
            text = "\n".join(_strings(one["input"])) if one.get("input") else made.input
            calls[call_id] = made._replace(name=one.get("name", made.name), input=text)
        elif one["kind"] == "tool-result" and call_id in calls:
            calls[call_id].results.append(one)
    yield from calls.values()


def _calls(scenario: Scenario, made: list[_Made], wire: str) -> Iterator[Miss]:
    left = list(made)
    tasks = {one.call["callId"] for one in made if one.name == "Task"}
    for wanted in scenario.calls:
        one = next((each for each in left if _is(wanted, each)), None)
        if one is None:
            if not wanted.optional and all(_without_json(text) in wire for text in wanted.with_):
                others = [f"{each.name} {each.input[:40]!r}" for each in left]
                yield Miss("call", f"{wanted.does} {wanted.with_} among {others}")
            continue
        left.remove(one)
        yield from _answer(wanted, one, wire)
        if wanted.by_subagent and tasks and one.call.get("parent") not in tasks:
            yield Miss("parent", f"{one.name}: {one.call.get('parent')} is not the task")
    told = [(each.name, each.input) for each in made if each.input.strip()]
    for name, text in {pair for pair in told if told.count(pair) > 1}:
        if not any(each.optional or each.does in ("task", "todo") for each in scenario.calls):
            yield Miss("call", f"{name} {text[:40]!r} is there {told.count((name, text))} times")


def _answer(wanted: Call, one: _Made, wire: str) -> Iterator[Miss]:
    final = [each for each in one.results if not each.get("async")]
    final = [each for each in final if each.get("replaces")] or final
    if len(final) != 1:
        yield Miss("result", f"{one.name} has {len(final)} final results")
        return
    status = final[0]["status"]
    if status not in wanted.status:
        yield Miss("status", f"{one.name} {wanted.with_[:1]}: {status}")
        return
    code = final[0]["output"].get("exit_code")
    if wanted.exit_code is not None and code != wanted.exit_code and _CODE.search(wire.replace("exit 3", "")):
        yield Miss("exit-code", f"{one.name}: {code}")
    shown = "\n".join(_strings([[each["output"], each.get("display")] for each in one.results]))
    attached = [each for result in one.results for each in result.get("attachments") or ()]
    for text in wanted.shows:
        if text == PICTURE:
            if "iVBORw0KGgo" in wire and not any(each["mimeType"].startswith("image/") for each in attached):
                yield Miss("output", f"{one.name} has no picture")
        elif text in wire and text not in shown:
            yield Miss("output", f"{one.name} lacks {text!r}")


def _is(wanted: Call, one: _Made) -> bool:
    if wanted.does.startswith("mcp:"):
        names: tuple[str, ...] = (f"mcp__fixture__{wanted.does.removeprefix('mcp:')}",)
    else:
        names = TOOLS[wanted.does]
    by_command = one.name == "Bash" and wanted.does in BY_COMMAND
    return (one.name in names or by_command) and all(_without_json(text) in one.input for text in wanted.with_)


_CODE = re.compile(r"[Ee]xit[\w\s]{0,20}[\s:\"]+3\b(?!\.)|[cC]ode[\w\s]{0,20}[\s:\"]+3\b(?!\.)")
"""Matches an exit code of 3 as a wire states it; the model's own sentence about it ends with a full stop."""


def _without_json(text: str) -> str:
    return text.strip('"')


def _strings(value: Any) -> list[str]:
    """Return the strings of a payload, with keys, without the provider's own object."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() if key not in ("_raw", "_happy") for text in (key, *_strings(item))]
    return [text for item in value for text in _strings(item)] if isinstance(value, list) else []
