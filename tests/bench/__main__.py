"""python -m tests.bench [ROW…] [--runs N] [--scale X] [--compare REF] [--json FILE] and other options: --help"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from tests.bench.compare import RefError, compare, comparison_table, exported
from tests.bench.harness import Options, machine, table

ROWS = sorted(path.stem.removeprefix("row_") for path in Path(__file__).parent.glob("row_*.py"))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one of {', '.join(ROWS)}; default: all")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the work of one run")
    parser.add_argument("--long", action="store_true", help="also measure a million events, which takes minutes")
    parser.add_argument(
        "--captures",
        type=Path,
        metavar="FOLDER",
        action="append",
        default=[],
        help="recordings with a manifest.json, instead of the fixtures; may be repeated",
    )
    parser.add_argument("--goldens", type=Path, metavar="FILE", help="the ancestor's records, for the row goldens")
    parser.add_argument(
        "--tree", type=Path, metavar="FOLDER", help="measure the commands and the socket of these sources"
    )
    parser.add_argument("--compare", metavar="REF", help="measure this tree and that of a git reference alternately")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures with all samples")
    options = parser.parse_args(arguments)
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"unknown row {', '.join(sorted(unknown))}; choose from {', '.join(ROWS)}")
    names = options.rows or ROWS
    if options.tree is not None and (unable := [name for name in names if not _is_program(name)]):
        parser.error(f"--tree: these rows measure only the tree they are in: {', '.join(unable)}")
    chosen = Options(options.runs, options.scale, tuple(options.captures), options.goldens, options.long, options.tree)
    description = machine()
    print(", ".join(f"{key} {value}" for key, value in description.items() if value != ""))
    try:
        with nullcontext() if options.compare is None else exported(options.compare) as other:
            figures = dict(_measured(names, chosen, other))
    except RefError as error:
        parser.error(f"--compare {options.compare}: {error}")
    if options.json is not None:
        result = {"machine": description, "runs": options.runs, "scale": options.scale, "rows": figures}
        if options.compare is not None:
            result["compared with"] = options.compare
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    return 0


def _measured(names: list[str], options: Options, other: Path | None) -> Iterator[tuple[str, Any]]:
    """The figures of each row, printed as they come. `other`: the tree to compare with."""
    for name in names:
        row = _row(name)
        if other is None:
            figures = row.measure(options)
            lines = table({row.TITLE: figures})
        else:
            figures = compare(other, name, options)
            lines = comparison_table(row.TITLE, figures)
        print("\n".join(lines), flush=True)
        yield name, figures


def _row(name: str) -> ModuleType:
    return import_module(f"tests.bench.row_{name}")


def _is_program(name: str) -> bool:
    """Whether the row can measure another tree by its commands and its socket."""
    return bool(getattr(_row(name), "PROGRAM", False))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
