"""Every string field of every dialect, and the texts that are put into it.

The fields are those of the recordings in `tests/fixtures`. A field counts as a different one in a line of another kind,
or of another tool.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import orjson

from tests.linear.adversaries import Adversary, adversaries, literals
from tests.linear.regexes import ROOT, Regex, regexes
from tooltap.daemon.show.skins.display import CallTimes, display_body
from tooltap.daemon.views.results import Policy, StreamViews
from tooltap.daemon.views.rules import Rules, ToolRule
from tooltap.normalizers.core.items import Context, Limits, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.model_view import model_text
from tooltap.testing import Line, read_recording

__all__ = ["Field", "fields_of", "line_with", "reading", "recordings", "texts_of"]

_TAGS = ("type", "method", "kind", "name", "tool", "subtype", "sessionUpdate", "role", "status", "event", "op", "title")
_LONGEST_TAG = 40
_NEAR = 6
"""Number of tags and keys above a field that identify it."""
GENERIC = (
    " ", "\t", "\n", "\r", "\r\n", "\x1b[", "\x1b[31m", "\r\x1b[K 10 %", "\x1b]0;", "\x08", "\x00", "\x7f", "\u2028",
    "a", "A", "1", "_", "-", "/", "//", ".", "..", "../", ":", "::", "|", "=", "a,", "a ", "a\n", " a", "a: ", "a:1:",
    "a:1:b\n", "(", ")", "((", "( ", "[", "]", "[[", "{", "}", "{{", "{}", "[]", '"', '""', "'", '"a" ', "\\", "\\\\",
    '\\"', "\\n", "`", "```", "```\n", "~~~\n", "<", ">", "<a", "<a>", "</a>", "<a></a>", "<!--", "&", "&amp;", "#",
    "# a\n", "- a\n", "* ", "**a", "_a", "![](", "[a](", "http://", "https://a.b/", "@", "a@", "@@", "@@ -1 +1 @@\n",
    "diff --git a/",
    "diff --git a/b b/c\n", "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n", "*** Begin Patch\n",
    "*** Update File: a\n@@\n-a\n+b\n", "Exit code:", "Exit code 1\n", "     1\ta\n", "     1→a\n", "00001| a\n",
    "1: a\n",
    "bash -c ", 'bash -lc "', "sh ", "$(", "&&", "cd a && ", "é", "😀", "\ud7ff", "a\u0301", "Line 1: a\n", "L1: a\n",
    "File: a\n", "/a/b:\n", "Found 1 ", "Output: ", '{"a":', '{"text":"',
    '[{"a":1},', "data: ", "event: a\n", "\n\n", "\n\n\n ",
)  # fmt: skip


class Field(NamedTuple):
    dialect: str
    recording: str
    line: int
    path: tuple[str | int, ...]
    whole: str
    """The recorded text."""

    def __str__(self) -> str:
        return f"{self.recording}:{self.line + 1} {'.'.join(map(str, self.path))}"


@cache
def recordings() -> dict[tuple[str, str], list[Line]]:
    """Return (dialect, path) -> lines, for every fixture."""
    found = {}
    for folder in sorted((ROOT / "tests" / "fixtures").iterdir()):
        for path in sorted(folder.rglob("*.json*")) if folder.name not in ("curated", "legacy") else ():
            if path.suffix in (".jsonl", ".json"):
                found[folder.name, str(path.relative_to(folder.parent))] = read_recording(path.read_bytes())
    return found


def _strings(value: Any, path: tuple[str | int, ...], tags: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield (path, kind of field, text) for every string."""
    if isinstance(value, dict):
        here = tuple(
            f"{key}={tag}" for key in _TAGS if isinstance(tag := value.get(key), str) and len(tag) < _LONGEST_TAG
        )
        for key, item in value.items():
            yield from _strings(item, (*path, key), (*tags[-_NEAR:], *here, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, (*path, index), (*tags[-_NEAR:], "[]"))
    elif isinstance(value, str):
        yield path, tags, value


def fields_of(dialect: str) -> Iterator[tuple[Field, bytes]]:
    """Yield each kind of field once, with the dump of the normalizer before its line."""
    seen: set[Any] = set()
    for (of, name), lines in recordings().items():
        if of != dialect:
            continue
        normalizer = StreamNormalizer(Context(stream="s"), dialect)
        for number, line in enumerate(lines):
            state = normalizer.dump()
            items = normalizer.feed(line.data, line.t, line.direction)
            tools = tuple(sorted({f"{one.kind} {one.tool}" for one in items if isinstance(one, Produced)}))
            try:
                value = orjson.loads(bytes(line.data).removeprefix(b"data:")) if isinstance(line.data, bytes) else None
            except orjson.JSONDecodeError:
                continue
            for path, tags, text in _strings(value, (), ()):
                if (tags, tools) not in seen:
                    seen.add((tags, tools))
                    yield Field(dialect, name, number, path, text), state


@cache
def _constants(folder: str) -> frozenset[str]:
    """Return the strings that the modules of a folder search for: those in comparisons, and in calls of string
    methods."""
    found: set[str] = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            looked: list[ast.expr] = []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SEEKS:
                looked = node.args
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                looked = [node.left]
            elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant | ast.Tuple):
                looked = [node.value]
            for one in looked:
                for constant in ast.walk(one):
                    if (
                        isinstance(constant, ast.Constant)
                        and isinstance(constant.value, str)
                        and len(constant.value) < 80
                    ):
                        found.add(constant.value)
    return frozenset(found - {""})


_SEEKS = frozenset(
    [
        "find",
        "rfind",
        "index",
        "rindex",
        "split",
        "rsplit",
        "partition",
        "rpartition",
        "startswith",
        "endswith",
        "count",
        "replace",
        "removeprefix",
        "removesuffix",
        "strip",
    ]
)


@cache
def words_of(dialect: str) -> tuple[str, ...]:
    """Return the strings that the modules of a dialect search for, and general texts with a meaning."""
    return tuple(dict.fromkeys([*GENERIC, *sorted(_words(dialect))]))


@cache
def texts_of(dialect: str) -> tuple[Adversary, ...]:
    """Return adversarial texts of a dialect: its words, and texts made from the expressions that may read it."""
    made = [one for regex in _regexes(dialect) for one in adversaries(regex.pattern, regex.flags)]
    return tuple(dict.fromkeys([*(Adversary("", word, "") for word in words_of(dialect)), *made]))


def _words(dialect: str) -> set[str]:
    words = {word for regex in _regexes(dialect) for word in literals(str(regex.pattern), regex.flags)}
    return words.union(*(_constants(place) for place in _places(dialect)))


def _regexes(dialect: str) -> list[Regex]:
    return [one for one in regexes()[0] if one.place.path.startswith(_places(dialect)) and isinstance(one.pattern, str)]


@cache
def _places(dialect: str) -> tuple[str, ...]:
    folders = sorted((ROOT / "normalizers" / "dialects").glob("*/__init__.py"))
    own = next(path.parent for path in folders if f'"{dialect}"' in path.read_text())
    return "normalizers/tools", "normalizers/core", "normalizers/stream", str(own.relative_to(ROOT))


def _replaced(value: Any, path: tuple[str | int, ...], text: str) -> Any:
    if not path:
        return text
    first, *rest = path
    if isinstance(value, dict):
        return {key: _replaced(item, tuple(rest), text) if key == first else item for key, item in value.items()}
    return [_replaced(item, tuple(rest), text) if index == first else item for index, item in enumerate(value)]


FORMS: dict[str, Callable[[str, str, str], str]] = {
    "alone": lambda whole, long, words: long,
    "behind": lambda whole, long, words: whole[:2000] + long,
    "before": lambda whole, long, words: long + whole[:2000],
    "within": lambda whole, long, words: (
        whole[: min(1000, len(whole) // 2)] + long + whole[-min(500, len(whole) // 2) :]
    ),
    "before words": lambda whole, long, words: long + words,
    "behind words": lambda whole, long, words: words + long,
}
"""Form -> function that places a long text in a field that held `whole`. `words`: everything that is searched for."""


def _views() -> StreamViews:
    return StreamViews(
        Policy(Rules({"*": ToolRule(max_chars=1_000, template="{tool} {preview} {lines}")})), Limits(), "d"
    )


def line_with(field: Field, text: Adversary, form: str, size: int) -> bytes:
    """Return the field's line with about `size` bytes in the field."""
    value = orjson.loads(_data(field).removeprefix(b"data:"))
    sample = text.head + text.pump + text.tail
    escaped = (len(orjson.dumps(sample)) - 2) / len(sample)
    long = text.text(max(int(size / escaped), 2 * len(sample)))
    return orjson.dumps(
        _replaced(value, field.path, FORMS[form](field.whole, long, "\n".join(words_of(field.dialect))))
    )


def _data(field: Field) -> bytes:
    data = recordings()[field.dialect, field.recording][field.line].data
    assert isinstance(data, bytes)
    return data


def reading(field: Field, state: bytes, data: bytes) -> Callable[[], Any]:
    """Return a function that reads the line and derives everything from it: events, display lines, what the model saw,
    views."""
    line = recordings()[field.dialect, field.recording][field.line]
    context = Context(stream="s", partials=True)

    def work() -> None:
        normalizer = StreamNormalizer.load(state, context)
        normalizer.want_partials(True)
        outputs = normalizer.feed(data, line.t, line.direction) + normalizer.close("end")
        bodies: dict[str, bytes] = {}
        times = CallTimes()
        for output in outputs:
            if isinstance(output, Produced):
                display_body(output.body, times)
                if output.kind == "tool-result":
                    model_text(orjson.loads(output.body), bodies.get)
            else:
                bodies[output.output_id] = bodies.get(output.output_id, b"") + output.data
        _views().apply(outputs)

    return work
