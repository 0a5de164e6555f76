"""The cost of normalizing the ancestor's records: `--goldens FILE`, in the format of `tests/kit/goldens.py`."""

from __future__ import annotations

from functools import partial

from tests.bench.harness import Figure, Note, Options
from tests.bench.lines.cost import figures
from tests.bench.lines.engine import costs, enough_lines
from tests.bench.lines.recorded import amount, enough, golden_records

__all__ = ["PROGRAM", "TITLE", "measure"]

TITLE = "goldens: processor time of the ancestor's records"
PROGRAM = True
LINES = 2_000
"""Minimum lines of a run."""


def measure(options: Options) -> list[Figure | Note]:
    if options.goldens is None:
        return [Note("not measured: it needs a file of the ancestor's records, GOLDENS=FILE or --goldens FILE")]
    records = [golden_records(options.goldens)]
    lines = enough_lines(LINES, options)
    samples = costs({"goldens": partial(enough, records, lines)}, options)["goldens"]
    return [*figures("goldens", samples, amount(enough(records, lines)), ratio=0.14)]
