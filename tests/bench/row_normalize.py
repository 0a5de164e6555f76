"""The cost of normalizing recordings: those of each dialect, and all of them together.

One core, from lines to event bytes, without partials. A run reads each recording once, with a normalizer of its own; a
dialect with few lines is read in several copies. Every copy has ids of its own. Processor time of the thread is
measured, which depends less on other load. The reference is bare `orjson.loads` + `orjson.dumps` of the same lines.
"""

from __future__ import annotations

from functools import partial

from tests.bench.harness import Figure, Options, median
from tests.bench.lines.cost import Cost, figures, total
from tests.bench.lines.engine import costs, enough_lines
from tests.bench.lines.recorded import Recorded, amount, enough, recordings

__all__ = ["PROGRAM", "TITLE", "measure"]

TITLE = "normalize: processor time of recorded lines"
PROGRAM = True
LINES = 1_000
"""A run reads at least this many lines of each dialect."""


def measure(options: Options) -> list[Figure]:
    by_dialect: dict[str, list[Recorded]] = {}
    for one in recordings(options.captures):
        by_dialect.setdefault(one.dialect, []).append(one)
    lines = enough_lines(LINES, options)
    runs = costs({dialect: partial(enough, listed, lines) for dialect, listed in sorted(by_dialect.items())}, options)
    name = "all together"
    together = [total(turn) for turn in zip(*(_once(by_dialect[one], runs[one]) for one in runs), strict=True)]
    results = [
        *figures(name, together, amount(one for listed in by_dialect.values() for one in listed), ratio=0.3),
        median(name, (one.lines / one.seconds for one in together), "lines/s", target=28_000.0),
    ]
    for dialect, samples in runs.items():
        results += figures(dialect, samples, amount(enough(by_dialect[dialect], lines)))
    return results


def _once(recorded: list[Recorded], runs: list[Cost]) -> list[Cost]:
    """The costs of the runs, as if each had read every recording once."""
    lines = sum(len(one.lines) for one in recorded)
    return [one.of(lines) for one in runs]
