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
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all if none is named")
    parser.add_argument("--runs", type=int, default=5, help="turns of each side")
    parser.add_argument("--scale", type=float, default=1.0, help="how much work one turn is")
    parser.add_argument("--long", action="store_true", help="also what takes minutes: a million events")
    parser.add_argument(
        "--captures", type=Path, metavar="FOLDER", help="recordings with a manifest.json, in place of the fixtures"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the figures with all samples")
    wanted = parser.parse_args(arguments)
    if unknown := set(wanted.rows) - set(ROWS):
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items() if value != ""))
    figures: dict[str, Any] = {}
    for name in wanted.rows or ROWS:
        row = import_module(f"tests.bench.row_{name}")
        figures[name] = row.measure(Options(wanted.runs, wanted.scale, wanted.captures, wanted.long))
        print("\n".join(table({row.TITLE: figures[name]})), flush=True)
    if wanted.json is not None:
        result = {"machine": about, "runs": wanted.runs, "scale": wanted.scale, "rows": figures}
        wanted.json.parent.mkdir(parents=True, exist_ok=True)
        wanted.json.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
