"""Which canonical tools are proven for which dialect, and by what: `docs/coverage.md`, made from the fixtures.

    python -m tooltap.traces.checks.coverage FIXTURES > docs/coverage.md

FIXTURES holds `<dialect>/<agent>-<version>/<name>.jsonl`. A tool is proven where a fixture holds a call of it that the
wire opened, and its result. A folder called `…-written` holds shapes written anew after a source, not recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tooltap.normalizers.core.registry import builtin
from tooltap.normalizers.stream.contract import normalize, read_recording
from tooltap.normalizers.tools.tool_names import CANONICAL_TOOLS, LATER_TOOLS
from tooltap.protocol.events import ToolCall, ToolResult

__all__ = ["MCP", "page", "proofs", "tells"]

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
    """Canonical tool -> the recording that proves it: one that completes and says something before one that does not, a
    real one before a written one, a short one before a long."""
    found: dict[str, tuple[tuple[bool, bool, int], Path]] = {}
    for path in sorted(folder.glob("*/*.jsonl")):
        for tool, tells in _answered(path, folder.name):
            rank = (not tells, _is_written(path), path.stat().st_size)
            if tool not in found or rank < found[tool][0]:
                found[tool] = (rank, path)
    return {tool: path for tool, (_, path) in found.items()}


def _answered(path: Path, dialect: str) -> Iterator[tuple[str, bool]]:
    """(tool, whether the result is a completed one with something in it) of every answered call."""
    called: set[str] = set()
    for event in normalize(dialect, read_recording(path.read_bytes())):
        if isinstance(event, ToolCall):
            called.add(event.call_id)
        elif isinstance(event, ToolResult) and event.call_id in called and not event.synthetic:
            tool = MCP if event.name.startswith("mcp__") else event.name
            yield tool, tells(event)


def tells(result: ToolResult) -> bool:
    return result.status == "completed" and any(not key.startswith("_") for key in result.output)


def _is_written(path: Path) -> bool:
    return path.parent.name.endswith(WRITTEN)


def _cell(path: Path) -> str:
    mark = " \\*" if _is_written(path) else ""
    return f"{path.parent.name.removesuffix(WRITTEN)}/{path.stem}{mark}"


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1])))
