"""The cost of normalizing one kind of line: short, escaped, spaced, long, results, and lines that give nothing.

The lines are generated (`generated.py`) in the shapes of Claude Code, `codex exec` and ACP. The beginning of each
stream, and the calls that results belong to, are not timed.
"""

from __future__ import annotations

from functools import partial

from tests.bench.harness import Figure, Options
from tests.bench.lines.cost import figures
from tests.bench.lines.engine import costs, enough_lines
from tests.bench.lines.generated import KINDS, generate
from tests.bench.lines.recorded import amount

__all__ = ["PROGRAM", "TITLE", "measure"]

TITLE = "lines: processor time of one kind of line"
PROGRAM = True
LINES = 2_000
"""Lines of one run."""


def measure(options: Options) -> list[Figure]:
    lines = enough_lines(LINES, options)
    runs = costs({name: partial(generate, kind, lines) for name, kind in KINDS.items()}, options)
    return [
        figure
        for name, samples in runs.items()
        for figure in figures(name, samples, amount(generate(KINDS[name], lines)))
    ]
