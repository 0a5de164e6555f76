"""Nothing recurses over what a client can nest, unless something bounds how deep: the table says what.

A value of a line is nested at most `limits.depth` (200) deep, and JSON inside a string `DEPTH_OF_TEXT` (200) more.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

from tooltap.normalizers.core.items import Limits
from tooltap.normalizers.wire.decode import DEPTH_OF_TEXT

ROOT = Path(__file__).parent.parent
FOLDERS = ("protocol", "normalizers", "traces", "daemon", "cli")
FRAMES = 2
"""Frames of Python that a level of a value takes at most: a function, and a comprehension in it."""

LINE = "a value of a line"
OURS = "a type or a command of ours, not data"
CONSTANT = "has a depth of its own"
FILE = "a value of a file that its owner reads, not the daemon"
SHAPES = "shapes, which have a depth of their own"
INTERRUPTED = "to close a call makes no room: only a call that is acknowledged does"
ARRAY = "an array is read only if all of it are objects"
HELD_ONCE = "lines are held once, and no line that is released is held again"
NOT_ITSELF = "calls another function or method of this name"

BOUNDED = {
    "normalizers/core/writer.py:emit": "once, with the thought at the beginning of an answer",
    "daemon/ingest/answering.py:_find_question": "once, with the stream of the question",
    "traces/drift/shapes.py:places": "down to `depth` keys",
    "protocol/frames.py:_known_keys": "the types of a frame, which are ours",
    "normalizers/core/permissions.py:answer": "once, in the session of the request",
    "normalizers/wire/decode.py:_decode_leniently": "once, with what is between escape sequences",
    "protocol/payloads.py:_read": "the types of a payload, which are ours",
    "protocol/payloads.py:_written": "the types of a payload, which are ours",
    "normalizers/catalog/registry.py:recognise": "of an array it recognises the objects, which are no arrays",
    "daemon/taps/hooks/json_edit.py:_container": "down to `DEPTH`",
    "daemon/taps/otlp/records.py:_attributes": "down to `DEPTH`",
    "daemon/taps/otlp/records.py:_value": "down to `DEPTH`",
    "daemon/taps/hooks/json_edit.py:_value": "down to `DEPTH`",
    "normalizers/dialects/happier/__init__.py:_is_legacy": LINE,
    "normalizers/dialects/codex/answers.py:read_answer": LINE,
    "normalizers/dialects/codex/items.py:snake_keys": LINE,
    "normalizers/dialects/codex/rollout.py:_find_session": HELD_ONCE,
    "normalizers/dialects/codex/rollout.py:_release_lines": HELD_ONCE,
    "normalizers/dialects/codex/rollout.py:read": HELD_ONCE,
    "normalizers/dialects/claude/reports.py:_hook": NOT_ITSELF,
    "daemon/taps/follow/stores.py:position_after": NOT_ITSELF,
    "daemon/taps/follow/stores.py:read_from": NOT_ITSELF,
    "normalizers/dialects/opencode/__init__.py:_is_bus": LINE,
    "normalizers/tools/payload.py:_is_short": CONSTANT,
    "normalizers/tools/payload.py:_truncated": CONSTANT,
    "normalizers/wire/decode.py:_clean": LINE,
    "normalizers/stream/normalizer.py:restart": NOT_ITSELF,
    "normalizers/stream/reset.py:_retain": "a line within a line is quoted, so that each level doubles its quotes",
    "normalizers/core/writer.py:_may_hold": LINE,
    "normalizers/core/writer.py:_take": LINE,
    "normalizers/core/calls.py:_close": INTERRUPTED,
    "normalizers/core/calls.py:_interrupt": INTERRUPTED,
    "normalizers/core/calls.py:_make_room": INTERRUPTED,
    "normalizers/core/calls.py:_result": INTERRUPTED,
    "normalizers/core/parser.py:_read": ARRAY,
    "normalizers/core/parser.py:_read_all": ARRAY,
    "normalizers/core/parser.py:read_other": ARRAY,
    "traces/fixtures/examples.py:_without_output_ids": FILE,
    "traces/recording/redact.py:_strings": FILE,
    "traces/recording/redact.py:_emptied": FILE,
    "traces/recording/redact.py:_value": FILE,
    "traces/drift/watch.py:_collect": CONSTANT,
    "traces/drift/baselines.py:_misfits": "the types of a payload, which are ours",
    "traces/drift/shapes.py:compare": SHAPES,
    "traces/drift/shapes.py:_compare_fields": SHAPES,
    "traces/drift/shapes.py:_may_be": SHAPES,
    "traces/drift/shapes.py:_may_be_items": SHAPES,
    "traces/drift/shapes.py:_part_from_json": SHAPES,
    "traces/drift/shapes.py:from_alternatives": SHAPES,
    "traces/drift/shapes.py:from_json": SHAPES,
    "traces/recording/redact.py:_string": FILE,
    "traces/replay.py:_differences": FILE,
    "traces/replay.py:_member": FILE,
    "traces/drift/shapes.py:brief": SHAPES,
    "traces/drift/shapes.py:_walk": "the steps of a path in a shape",
    "traces/drift/shapes.py:shape_of": CONSTANT,
    "daemon/journal/sqlite/writer.py:_write": "commits of a transaction that failed, each alone",
    "daemon/system/logs.py:_bounded": "what we log, which nests as deep as we write it",
    "traces/recording/secret_rules.py:_of_tree": "the literals of the rules, which come with tooltap",
    "daemon/journal/nats/journal.py:_note_missing": NOT_ITSELF,
    "daemon/journal/nats/journal.py:_note_what_is_missing": NOT_ITSELF,
    "daemon/journal/nats/journal.py:read": NOT_ITSELF,
    "daemon/journal/nats/journal.py:read_back": NOT_ITSELF,
    "daemon/show/skins/html.py:of": "cards are nested at most `MAX_DEPTH` deep",
    "daemon/show/skins/html.py:html_of": "cards are nested at most `MAX_DEPTH` deep",
    "daemon/show/skins/html.py:_part": "cards are nested at most `MAX_DEPTH` deep",
    "daemon/show/skins/html.py:_children": "cards are nested at most `MAX_DEPTH` deep",
    "daemon/show/skins/html.py:_row": "cards are nested at most `MAX_DEPTH` deep",
    "daemon/show/timeline.py:_forget": "cards are nested at most `MAX_DEPTH` deep",
    "daemon/web/http/requests.py:_repeats": OURS,
    "daemon/show/skins/display.py:_cleaned": LINE,
    "daemon/show/tree.py:_node": CONSTANT,
    "daemon/show/tree.py:_unknown": "the types of a payload, which are ours",
    "daemon/show/tree.py:_known_values": "the types of a payload, which are ours",
    "daemon/show/tree.py:_leaves": CONSTANT,
    "daemon/answers/commands.py:_anywhere": "`MOST_NESTED` commands within arguments",
    "daemon/hub.py:_join": NOT_ITSELF,
    "daemon/system/workers.py:_size": "what our own work yields",
    "daemon/taps/attach.py:_data": NOT_ITSELF,
    "daemon/taps/mcp/files.py:open": NOT_ITSELF,
    "daemon/process.py:_first": "groups of errors, as many as task groups are nested",
    "daemon/export/atif.py:_inside": "down to `NESTED` subagents",
    "daemon/export/values.py:whole": LINE,
    "daemon/export/anonymity.py:_strings": LINE,
    "daemon/export/anonymity.py:_value": LINE,
    "daemon/export/redaction.py:remarks": NOT_ITSELF,
    "daemon/show/tree.py:lines_of": "at most `DEPTH` deep",
    "daemon/journal/sqlite/opening.py:read": NOT_ITSELF,
    "daemon/config.py:socket_path": NOT_ITSELF,
    "daemon/web/api/api.py:encode": NOT_ITSELF,
    "cli/check/baseline.py:check": NOT_ITSELF,
    "cli/common/completion.py:dialects": NOT_ITSELF,
    "cli/schema/formats.py:type_of": OURS,
    "protocol/schema.py:_structs": OURS,
    "daemon/web/page/api_docs.py:kind_of": OURS,
    "cli/schema/formats.py:_references_in": OURS,
    "cli/schema/formats.py:_type": OURS,
}
"""Functions that may call themselves -> what bounds how deep."""


@cache
def recursive() -> frozenset[str]:
    """Functions that call their own name, and methods that call it on themselves, directly or by way of others of their
    module."""
    found = set()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            calls = _calls(ast.parse(path.read_text()))
            found |= {f"{path.relative_to(ROOT)}:{name}" for name in calls if _reaches(name, calls)}
    return frozenset(found)


def _calls(module: ast.Module) -> dict[str, set[str]]:
    """Function -> names that it calls, or passes to `map`."""
    calls: dict[str, set[str]] = {}
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            called = calls.setdefault(function.name, set())
            for node in ast.walk(function):
                if isinstance(node, ast.Call):
                    called |= set(_names(node))
    return calls


def _names(call: ast.Call) -> Iterator[str]:
    match call.func:
        case ast.Name("map") if call.args and isinstance(call.args[0], ast.Name):
            yield call.args[0].id
        case ast.Name(name) | ast.Attribute(ast.Name("self" | "cls"), name):
            yield name


def _reaches(start: str, calls: dict[str, set[str]]) -> bool:
    """Whether the function may call itself."""
    seen: set[str] = set()
    pending = list(calls[start])
    while pending:
        name = pending.pop()
        if name == start:
            return True
        if name in calls and name not in seen:
            seen.add(name)
            pending += calls[name]
    return False


def test_every_function_that_calls_itself_has_a_bound() -> None:
    assert recursive() <= BOUNDED.keys(), "say in BOUNDED what bounds how deep they go, or write them as loops"


def test_no_bound_is_stated_in_vain() -> None:
    assert BOUNDED.keys() <= recursive()


def test_the_deepest_value_fits_the_stack() -> None:
    assert FRAMES * (Limits().depth + DEPTH_OF_TEXT) < 1_000 - len(inspect.stack())


@pytest.mark.parametrize("depth", [0, 301])
def test_depth_of_lines_has_bounds_of_its_own(depth: int) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"depth": depth}, Limits)
