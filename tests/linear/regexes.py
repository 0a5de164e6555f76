"""Every regular expression of the tree, with the methods that are called on it.

They are found in two ways: by parsing the sources, which misses none, and by importing the modules, which gives the
patterns of those that are composed. An expression that is made inside a function is represented by examples.
"""

from __future__ import annotations

import ast
import importlib
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

__all__ = ["METHODS", "Regex", "calls_of_re", "regexes"]

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("protocol", "normalizers", "traces", "daemon", "cli")
METHODS = ("match", "search", "fullmatch", "finditer", "findall", "sub", "subn", "split")
_MAKES = frozenset({"compile", *METHODS})

EXAMPLES: dict[str, tuple[str | bytes, ...]] = {
    # Made in a function, of values that are known only there: examples of what they become.
    "protocol/schema.py": (r"\boutput_id\b",),
    "traces/recording/secret_rules.py": (rb"(?:g(?=hp|ho|sk)|p(?=assw|at))", rb"pat[A-Za-z0-9]{12}"),
    "daemon/show/tools/search.py": (r"alpha|beta|a\.b",),
    "daemon/export/anonymity.py": (
        r"(?<![\w.-])/data/alice(?![\w-])",
        r"(?:(?<![^\W_])|(?<=\\[bfnrt]))(?:(?P<login>alice[\W_]{1,3}smith|bob)@(?P<at>box|db)|(?P<user>bob))(?![^\W_])",
    ),
    "traces/recording/redact.py": (r"(?<![\w-])(?:alice|workstation-12|a\.b)(?![\w-])",),
}
OF_TABLES: dict[str, tuple[str, ...]] = {
    # Patterns that are in tables have no names by which their use is found.
    "daemon/export/anonymity.py": ("finditer", "sub"),
    "daemon/taps/follow/stores.py": ("fullmatch",),
    "daemon/web/http/logins.py": ("search",),
    "normalizers/dialects/acp/inputs.py": ("match", "fullmatch"),
    "normalizers/dialects/antigravity/__init__.py": ("fullmatch",),
    "normalizers/dialects/auggie/__init__.py": ("fullmatch",),
    "normalizers/dialects/claude/__init__.py": ("fullmatch",),
    "normalizers/dialects/claude/answers.py": ("match",),
    "normalizers/dialects/codex/__init__.py": ("fullmatch",),
    "normalizers/dialects/continuedev/__init__.py": ("fullmatch",),
    "normalizers/dialects/copilot/__init__.py": ("fullmatch",),
    "normalizers/dialects/cline/__init__.py": ("fullmatch",),
    "normalizers/dialects/crush/__init__.py": ("fullmatch",),
    "normalizers/dialects/cursor/__init__.py": ("fullmatch",),
    "normalizers/dialects/droid/__init__.py": ("fullmatch",),
    "normalizers/dialects/hermes/__init__.py": ("fullmatch",),
    "normalizers/dialects/gemini/__init__.py": ("fullmatch",),
    "normalizers/dialects/goose/__init__.py": ("fullmatch",),
    "normalizers/dialects/gptme/__init__.py": ("fullmatch",),
    "normalizers/dialects/grok/__init__.py": ("fullmatch",),
    "normalizers/dialects/kimi/__init__.py": ("fullmatch",),
    "normalizers/dialects/kiro/__init__.py": ("fullmatch",),
    "normalizers/dialects/opencode/__init__.py": ("fullmatch",),
    "normalizers/dialects/openhands/__init__.py": ("fullmatch",),
    "normalizers/dialects/pi/__init__.py": ("fullmatch",),
    "normalizers/dialects/qwen/__init__.py": ("fullmatch",),
    "normalizers/dialects/vibe/__init__.py": ("fullmatch",),
    "normalizers/dialects/vscode/__init__.py": ("fullmatch",),
    "normalizers/dialects/zed/__init__.py": ("fullmatch",),
    "normalizers/dialects/kimi/answers.py": ("match",),
    "normalizers/tools/outcome.py": ("match",),
    "traces/recording/redact.py": ("sub", "findall"),
    "traces/recording/secret_rules.py": ("match", "fullmatch", "finditer"),
}


BOUNDED: dict[tuple[str, str], int] = {
    # (module, pattern) -> the longest text that it is given.
    ("daemon/show/tools/search.py", "_NOT_LITERAL"): 500,
    ("traces/recording/secret_rules.py", "_PLACEHOLDER"): 200,
    ("traces/recording/secret_rules.py", "_CODE"): 4_096,
    ("traces/recording/secret_rules.py", "_WORDS"): 4_096,
    ("traces/recording/secret_rules.py", "_NAME"): 64,
    ("traces/recording/secret_rules.py", "_ITEM"): 4_096,
    ("traces/recording/secret_rules.py", "_ALIKE"): 4_200,
    ("traces/recording/secret_rules.py", "_NAMES_BEFORE"): 120,
    ("traces/recording/secret_rules.py", "_DIGITS"): 4_096,
    ("traces/recording/secret_rules.py", "_BACKWARDS"): 40,
    ("traces/recording/secret_rules.py", "_SUFFIX"): 40,
    ("traces/recording/secrets.py", "_ESCAPED"): 5,
    ("traces/recording/secrets.py", "_KEY"): 20,
}


RULES_OF_SECRETS = "traces/recording/secret_rules.py"
EACH = 1 if os.environ.get("TOOLTAP_LINEAR") == "whole" else 25
"""One in this many rules is tried: they are all made by one program."""


class Place(NamedTuple):
    path: str
    line: int


class Regex(NamedTuple):
    place: Place
    pattern: str | bytes
    flags: int
    methods: tuple[str, ...]
    longest: int | None = None
    """Maximum characters of the texts that it is given, if its users truncate longer ones."""

    def __str__(self) -> str:
        return f"{self.place.path}:{self.place.line}"

    @property
    def compiled(self) -> re.Pattern[Any]:
        return re.compile(self.pattern, self.flags)


def _rules_of_secrets() -> list[bytes]:
    from tooltap.traces.recording.secret_rules import rules  # not before `_import_all` looks on

    return [rule.pattern for rule in rules() if rule.pattern is not None][::EACH]


def sources() -> Iterator[str]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT))


@cache
def _nodes(path: str) -> list[ast.Call | ast.Attribute | ast.Assign | ast.AnnAssign]:
    """Return the relevant nodes of a module; cached, because traversing the sources takes seconds."""
    return [
        node
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Call | ast.Attribute | ast.Assign | ast.AnnAssign)
    ]


def calls_of_re(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in ("re", "regex", "re2")
            and node.func.attr in _MAKES
        ):
            yield node


@cache
def uses() -> dict[tuple[str, str], set[str]]:
    """Return (module, name of a constant) -> methods called on it. A public name may be used anywhere: its module is
    empty."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in sources():
        for node in _nodes(path):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                holder = node.value
                name = holder.id if isinstance(holder, ast.Name) else getattr(holder, "attr", None)
                if name is not None:
                    found.setdefault((path if name.startswith("_") else "", name), set()).add(node.attr)
    return found


def _names(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls of `re` whose result is assigned to a name, and the name."""
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", None)
            value = node.value.value if isinstance(node.value, ast.Attribute) else node.value
            if name is not None and isinstance(value, ast.Call):
                yield value, name if not isinstance(node.value, ast.Attribute) else f"{name}.{node.value.attr}"


def _compiled_on_import() -> list[tuple[Place, str | bytes, int]]:
    """Return what is compiled when all modules are imported, and where. Runs in another process, so as not to import
    them here."""
    command = [sys.executable, "-m", "tests.linear.regexes"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONSAFEPATH": ""}, stdout=subprocess.PIPE, check=True
    )
    return [(Place(*place), pattern, flags) for place, pattern, flags in pickle.loads(done.stdout)]


def _import_all() -> list[tuple[tuple[str, int], str | bytes, int]]:
    """Import all modules; returns (path, line), pattern and flags of what they compile."""
    found: list[tuple[tuple[str, int], str | bytes, int]] = []
    original = re.compile

    def record(pattern: Any, flags: int = 0) -> re.Pattern[Any]:
        compiled = original(pattern, flags)
        frame: FrameType | None = sys._getframe(1)
        path = Path(frame.f_code.co_filename).resolve() if frame is not None else ROOT
        if frame is not None and path.is_relative_to(ROOT):
            found.append(((str(path.relative_to(ROOT)), frame.f_lineno), compiled.pattern, int(flags)))
        return compiled

    re.compile = record
    for path in sources():
        if any(True for _ in calls_of_re(_nodes(path))):
            importlib.import_module("tooltap." + path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    return found


@cache
def regexes() -> tuple[list[Regex], list[Place]]:
    """Return all regular expressions, and the calls of `re` whose pattern was not found."""
    compiled = _compiled_on_import()
    found: list[Regex] = []
    missed: list[Place] = []
    seen: set[tuple[Place, str | bytes]] = set()
    for path in sources():
        names = dict(_names(_nodes(path)))
        lone = {call: names.get(call) for call in calls_of_re(_nodes(path))}
        for call, name in lone.items():
            here = [
                one for one in compiled if one[0].path == path and call.lineno <= one[0].line <= (call.end_lineno or 0)
            ]
            attr = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if attr != "compile":
                methods: tuple[str, ...] = (attr,)
            elif name is not None and "." in name:
                methods = (name.rpartition(".")[2],)
            elif name is not None and (used := uses().get((path if name.startswith("_") else "", name))):
                methods = tuple(sorted(used))
            else:
                methods = OF_TABLES.get(path, METHODS)
            flags = 0
            if not here:
                pattern = call.args[0]
                if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str | bytes):
                    here = [(Place(path, call.lineno), pattern.value, flags)]
                elif path in EXAMPLES or path == RULES_OF_SECRETS:
                    made = _rules_of_secrets() if path == RULES_OF_SECRETS else EXAMPLES[path]
                    here = [(Place(path, call.lineno), one, flags) for one in made]
                else:
                    missed.append(Place(path, call.lineno))
            for place, text, its_flags in here:
                if (place, text) not in seen:
                    seen.add((place, text))
                    found.append(Regex(place, text, its_flags, methods, BOUNDED.get((path, name or ""))))
    return found, missed


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(_import_all()))
