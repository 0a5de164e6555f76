"""python -m tests.bench [ROW…] [--runs N] [--scale X] [--long] [--captures FOLDER] [--json FILE]"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

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
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures with all samples")
    options = parser.parse_args(arguments)
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"unknown row {', '.join(sorted(unknown))}; choose from {', '.join(ROWS)}")
    description = machine()
    print(", ".join(f"{key} {value}" for key, value in description.items() if value != ""))
    chosen = Options(options.runs, options.scale, tuple(options.captures), options.goldens, options.long, options.tree)
    figures: dict[str, Any] = {}
    for name in options.rows or ROWS:
        row = import_module(f"tests.bench.row_{name}")
        figures[name] = row.measure(chosen)
        print("\n".join(table({row.TITLE: figures[name]})), flush=True)
    if options.json is not None:
        result = {"machine": description, "runs": options.runs, "scale": options.scale, "rows": figures}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
