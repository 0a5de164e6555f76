"""Makes `docs/coverage.md`: which canonical tools are proven for which dialect, and by which fixture.

    python -m tooltap.traces.checks.coverage FIXTURES > docs/coverage.md

FIXTURES holds `<dialect>/<agent>-<version>/<name>.jsonl`. A tool is proven if a fixture holds a call of it, stated by a
line, and its result. A folder named `…-written` holds lines written by hand after the agent's source, not recorded
ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tooltap.normalizers.core.registry import builtin
from tooltap.normalizers.stream.contract import normalize, read_recording
from tooltap.normalizers.tools.tool_names import CANONICAL_TOOLS, LATER_TOOLS
from tooltap.protocol.events import ToolCall, ToolResult

__all__ = ["MCP", "has_content", "page", "proofs"]

MCP = "mcp__…"
TOOLS = (*CANONICAL_TOOLS, *LATER_TOOLS, MCP)
WRITTEN = "-written"
HEAD = """# What is proven

Made from the recorded streams under `tests/fixtures` by `make dialects`; a test keeps it fresh.

A cell names a fixture in which the wire opens a call of that tool and answers it, with a result that says something if
there is one. Fixtures are cut from real
runs of the agents and versions that are named; those marked \\* are written anew, after shapes seen in the agent's
source or in others' recordings, and wait for a recording of ours. No cell: no fixture has that tool in that dialect.
"""


def page(fixtures: Path) -> str:
    """The whole page."""
    parts = [HEAD, "## Agents and versions\n", "| dialect | recorded | written anew |", "|---|---|---|"]
    for dialect in sorted(builtin()):
        folders = sorted(path.name for path in (fixtures / dialect).iterdir() if path.is_dir())
        recorded = ", ".join(name for name in folders if not name.endswith(WRITTEN))
        written = ", ".join(name.removesuffix(WRITTEN) for name in folders if name.endswith(WRITTEN))
        parts.append(f"| `{dialect}` | {recorded or '–'} | {written or '–'} |")
    parts += [
        "\n## Unproven\n",
        "Read after the vendor's source or schema, or others' recordings.\n",
        "| dialect | what |",
    ]
    parts += ["|---|---|", *(f"| `{one.name}` | {one.unproven} |" for one in builtin().values() if one.unproven)]
    for dialect in sorted(builtin()):
        found = proofs(fixtures / dialect)
        parts.append(f"\n## {dialect}\n\n| tool | proven by |\n|---|---|")
        parts += [f"| `{tool}` | {_cell(found[tool])} |" for tool in TOOLS if tool in found]
    return "\n".join(parts) + "\n"


def proofs(folder: Path) -> dict[str, Path]:
    """The recording that proves each canonical tool.

    A recording whose call completes with content is preferred, then a real one to a written one, then a short one.
    """
    found: dict[str, tuple[tuple[bool, bool, int], Path]] = {}
    for path in sorted(folder.glob("*/*.jsonl")):
        for tool, has_content in _results(path, folder.name):
            rank = (not has_content, _is_written(path), path.stat().st_size)
            if tool not in found or rank < found[tool][0]:
                found[tool] = (rank, path)
    return {tool: path for tool, (_, path) in found.items()}


def _results(path: Path, dialect: str) -> Iterator[tuple[str, bool]]:
    """Yield `(tool, whether its result is completed and has content)` for every call with a result."""
    called: set[str] = set()
    for event in normalize(dialect, read_recording(path.read_bytes())):
        if isinstance(event, ToolCall):
            called.add(event.call_id)
        elif isinstance(event, ToolResult) and event.call_id in called and not event.synthetic:
            tool = MCP if event.name.startswith("mcp__") else event.name
            yield tool, has_content(event)


def has_content(result: ToolResult) -> bool:
    """Whether the result is completed and its output has a field of its own."""
    return result.status == "completed" and any(not key.startswith("_") for key in result.output)


def _is_written(path: Path) -> bool:
    return path.parent.name.endswith(WRITTEN)


def _cell(path: Path) -> str:
    mark = " \\*" if _is_written(path) else ""
    return f"{path.parent.name.removesuffix(WRITTEN)}/{path.stem}{mark}"


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1])))
