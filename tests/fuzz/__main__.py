"""make lab-fuzz: read damaged recordings of every dialect, and print what breaks a rule, as few lines as it takes.

    python -m tests.fuzz --lines 10_000_000 --jobs 2
    python -m tests.fuzz --seed 7 --case 1234          one case again

Everything follows from the seed and the number of the case. The cases of some numbers are read a second time by a
process with another `PYTHONHASHSEED`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson

from tests.fuzz import corpus, search
from tooltap.normalizers.catalog.registry import builtin

OUT = Path("build/fuzz")


def main() -> int:
    options = _options()
    chosen: list[str] | None = options.dialects
    if options.digests:
        numbers = orjson.loads(sys.stdin.buffer.read())
        made = search.digests(options.seed, numbers, corpus.load(options.captures), chosen)
        sys.stdout.buffer.write(orjson.dumps(made))
        return 0
    if options.case is not None:
        return _report(search.one(options.seed, options.case, corpus.load(options.captures), chosen), options)
    if options.worker is not None:
        recordings = corpus.load(options.captures)
        numbers = search.share(options.worker, options.jobs, options.lines, recordings, chosen)
        found = search.many(options.seed, numbers, options.lines // options.jobs, recordings, chosen)
        sys.stdout.buffer.write(search.encode(found))
        return 0
    return _run(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make lab-fuzz", description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--case", type=int)
    parser.add_argument("--dialects", type=_dialects, help="names, with commas between them; default: all")
    parser.add_argument("--captures", type=Path, nargs="*", default=(), help="folders with a manifest.json")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--digests", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _dialects(text: str) -> list[str]:
    names = text.split(",")
    if unknown := sorted(set(names) - set(builtin())):
        raise argparse.ArgumentTypeError(f"no dialect is called {unknown[0]!r}; known are {', '.join(builtin())}")
    return names


def _run(options: argparse.Namespace) -> int:
    print(f"seed {options.seed}: {options.lines:,} lines, {options.jobs} processes", flush=True)
    started = time.monotonic()
    arguments = [
        sys.executable,
        "-m",
        "tests.fuzz",
        *sys.argv[1:],
        "--seed",
        str(options.seed),
        "--jobs",
        str(options.jobs),
    ]
    workers = [
        subprocess.Popen(
            [*arguments, "--worker", str(number)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": str(number + 1)},
        )
        for number in range(options.jobs)
    ]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the processes end on it, and say what they have found
    found = search.merged([search.decode(worker.communicate()[0]) for worker in workers])
    failed = any(worker.returncode for worker in workers)
    again = subprocess.run(
        [*arguments, "--digests"],
        input=orjson.dumps(list(map(int, found.digests))),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": "424242"},
        check=True,
    )
    other = orjson.loads(again.stdout)
    unstable = [number for number, digest in found.digests.items() if other[number] != digest]
    took = time.monotonic() - started
    for break_ in found.breaks:
        _report(break_, options)
    for number in unstable[:10]:
        print(f"case {number}: other events under another PYTHONHASHSEED")
    print(
        f"seed {options.seed}: {found.lines:,} lines of {found.cases:,} streams in {took:,.0f} s, "
        f"{found.lines / took:,.0f} lines a second; {len(found.digests):,} streams read under another PYTHONHASHSEED; "
        f"{found.broken:,} streams broke {len(found.breaks)} rules, {len(unstable)} were unstable"
    )
    return 1 if failed or found.breaks or unstable else 0


def _report(break_: search.Break | None, options: argparse.Namespace) -> int:
    if break_ is None:
        print("nothing found")
        return 0
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{break_.dialect}-{break_.seed}-{break_.case}.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in break_.lines))
    print(f"\n{break_.dialect}, read as {break_.read_as}: {break_.message[:1000]}")
    again = f"SEED={break_.seed} CASE={break_.case}"
    if options.dialects:
        again += f" DIALECTS={','.join(options.dialects)}"
    if options.captures:
        again += f" CAPTURES='{' '.join(map(str, options.captures))}'"
    print(f"  {break_.times:,} times; again with: make lab-fuzz {again}; in {path}:")
    for line in break_.shown:
        print(f"    {line[:1500]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
