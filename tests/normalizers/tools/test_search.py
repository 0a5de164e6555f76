"""Grep, Glob, LS and CodeSearch."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.normalizers.tools.registry import tool_input, tool_output


@pytest.mark.parametrize(
    ("name", "value", "key", "expected"),
    [
        ("Grep", {"pattern": "greet"}, "pattern", "greet"),
        ("Grep", {"query": "greet"}, "pattern", "greet"),
        ("Grep", {"queries": ["greet", "add"]}, "pattern", "greet\nadd"),
        ("Grep", {"pattern": "x", "dir_path": "src"}, "path", "src"),
        ("Grep", {"pattern": "x", "include": "*.py"}, "glob", "*.py"),
        ("Glob", {"glob": "**/*.py"}, "pattern", "**/*.py"),
        ("Glob", {"pattern": "**/*.py", "cwd": "src"}, "path", "src"),
        ("Glob", {"pattern": "*.py", "directory": "src"}, "path", "src"),
        ("LS", {"dir": "src"}, "path", "src"),
        ("LS", {"dir_path": "src"}, "path", "src"),
        ("CodeSearch", {"information_request": "where"}, "query", "where"),
        ("CodeSearch", {"pattern": "beta", "path": "."}, "query", "beta"),
    ],
)
def test_input_aliases(name: str, value: dict[str, Any], key: str, expected: str) -> None:
    assert tool_input(name, value, name) == {**value, key: expected}


def match(path: str, line: int, excerpt: str) -> dict[str, Any]:
    return {"filePath": path, "line": line, "excerpt": excerpt}


RIPGREP = 'README.md:5:- greet people\nsrc/app.py:5:    """Return a greeting."""'
OPENCODE = (
    "Found 2 matches\n/tmp/ws/README.md:\n  Line 5: - greet people\n\n\n/tmp/ws/src/app.py:\n"
    '  Line 5:     """Return a greeting."""\n'
)
GEMINI = (
    'Found 2 matches for pattern "greet" in path ".":\n---\nFile: README.md\nL5: - greet people\n---\n'
    'File: src/app.py\nL5:     """Return a greeting."""\n---'
)
MATCHES = [match("README.md", 5, "- greet people"), match("src/app.py", 5, '    """Return a greeting."""')]


@pytest.mark.parametrize("name", ["Grep", "CodeSearch"])
@pytest.mark.parametrize("text", [RIPGREP, OPENCODE, GEMINI])
def test_matches_in_every_agents_format(name: str, text: str) -> None:
    matches = [
        {**one, "filePath": one["filePath"].removeprefix("/tmp/ws/")}
        for one in tool_output(name, text, "grep")["matches"]
    ]

    assert matches == MATCHES


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([{"type": "text", "text": RIPGREP}], {"matches": MATCHES}),
        ({"output": RIPGREP, "metadata": {"matches": 2}}, {"matches": MATCHES}),
        (
            {"mode": "content", "numFiles": 0, "filenames": [], "content": RIPGREP, "numLines": 2},
            {"matches": MATCHES, "mode": "content", "numLines": 2},
        ),
        (
            {"mode": "files_with_matches", "filenames": ["a.py", "b.py"], "numFiles": 2, "content": "Found 2 files"},
            {"matches": [{"filePath": "a.py"}, {"filePath": "b.py"}], "numFiles": 2},
        ),
        ("Found 1 file\nsrc/app.py", {"matches": [{"filePath": "src/app.py"}]}),
        ("No files found", {"matches": []}),
        ("No matches found", {"matches": []}),
        ("just words", {"matches": [{"excerpt": "just words"}]}),
        ({"matches": "src/app.py:4:x\n", "matchCount": 1}, {"matches": [match("src/app.py", 4, "x")], "matchCount": 1}),
        (
            {"matches": [{"file_path": "a", "line_number": 3, "text": "x"}], "error": "cut"},
            {
                "matches": [{"file_path": "a", "line_number": 3, "text": "x", **match("a", 3, "x")}],
                "error": "cut",
                "errorMessage": "cut",
            },
        ),
        ({"stdout": "2:beta\n", "exit_code": 0}, {"matches": [{"excerpt": "2:beta"}]}),
        ({"error": "bad pattern"}, {"error": "bad pattern"}),
    ],
)
def test_grep_result(value: Any, expected: dict[str, Any]) -> None:
    output = tool_output("Grep", value, "grep")

    assert {**output, **expected} == output


@pytest.mark.parametrize("value", ["", "  \n", None, {"error": "bad pattern"}])
def test_missing_result_has_no_matches(value: Any) -> None:
    assert "matches" not in tool_output("Grep", value, "grep")


def test_match_keeps_indentation() -> None:
    output = tool_output("Grep", "a.py:4:    hit\na.py:5:\thit", "Grep")

    assert output["matches"] == [match("a.py", 4, "    hit"), match("a.py", 5, "\thit")]
    assert tool_output("Grep", "a.py:4:    hit", "grep")["matches"] == [match("a.py", 4, "    hit")]


def test_context_lines_stay_in_text() -> None:
    text = "a.py-3-before\na.py:4:hit\na.py-5-after"

    assert tool_output("Grep", text, "Grep") == {"matches": [match("a.py", 4, "hit")], "text": text}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["a.py", "b.py"], {"matches": ["a.py", "b.py"]}),
        ([], {"matches": []}),
        ("a.py\nb c.py\n", {"matches": ["a.py", "b c.py"]}),
        ("No files found", {"matches": []}),
        ([{"type": "text", "text": "a.py\nb.py"}], {"matches": ["a.py", "b.py"]}),
        (
            {"filenames": ["a.py"], "durationMs": 36, "numFiles": 1, "truncated": False, "content": "a.py"},
            {"filenames": ["a.py"], "durationMs": 36, "numFiles": 1, "truncated": False, "matches": ["a.py"]},
        ),
        (
            "a.py\n(Results are truncated: use a narrower pattern)",
            {"matches": ["a.py"], "text": "a.py\n(Results are truncated: use a narrower pattern)"},
        ),
        ({"error": "no such directory"}, {"error": "no such directory", "errorMessage": "no such directory"}),
    ],
)
def test_glob_result(value: Any, expected: dict[str, Any]) -> None:
    assert tool_output("Glob", value, "glob") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("app.py\nutil.py", {"entries": ["app.py", "util.py"]}),
        (
            "Directory listing for /tmp/ws/src:\n[DIR] (app)\napp.py (225 bytes)",
            {"entries": ["[DIR] (app)", "app.py (225 bytes)"]},
        ),
        (["a", "b"], {"entries": ["a", "b"]}),
        ([{"name": "a", "type": "dir"}], {"entries": [{"name": "a", "type": "dir"}]}),
        ({"files": ["a"], "error": "cut"}, {"files": ["a"], "entries": ["a"], "error": "cut", "errorMessage": "cut"}),
    ],
)
def test_ls_result(value: Any, expected: dict[str, Any]) -> None:
    assert tool_output("LS", value, "ls") == expected
