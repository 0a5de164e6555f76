"""Recordings as arguments: files and folders, their bytes, and options for facts that their lines do not state.

`--jobs` says how many processes share the work on many recordings.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tooltap.cli.common.guard import guard
from tooltap.cli.common.options import dialect_option, provider_option
from tooltap.cli.common.printing import short, warn
from tooltap.daemon.formats import counted
from tooltap.traces.recording.compressed import SUFFIX, Decompressor, is_compressed, plain_path

if TYPE_CHECKING:
    from tooltap.daemon.system.workers import Workers
    from tooltap.protocol.stats import Statistics


STDIN = "-"
CHUNK = 256 * 1024


class UnreadableError(Exception):
    """The file cannot be opened or read; the message says which and why."""


def read_chunks(path: str) -> Iterator[bytes]:
    """Yield the file's bytes as they arrive, so that a pipe is processed without delay; of a compressed file, those
    that it holds. Raises `UnreadableError`."""
    try:
        with open(0 if path == STDIN else path, "rb", buffering=0, closefd=path != STDIN) as raw:
            file = Decompressor(raw) if is_compressed(path) else raw
            while chunk := file.read(CHUNK):
                yield chunk
    except IsADirectoryError:
        raise UnreadableError(f"{path}: there is no .jsonl file in this folder") from None
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from None


def input_size(path: str) -> int:
    """The size of a regular file in bytes; 0 for everything else, and for a compressed file, which does not state what
    it holds."""
    try:
        return 0 if path == STDIN or is_compressed(path) else os.stat(path).st_size
    except OSError:
        return 0


def not_understood(path: str, dialect: str, statistics: Statistics) -> str | None:
    """A sentence for a recording, or an agent's output, of which no line was read; None if some were, or it has
    none."""
    if not statistics.unparsed or statistics.with_events:
        return None
    name = "standard input" if path == STDIN else path
    lines = counted(statistics.lines, "line")
    if dialect != "auto":
        return f"{name}: none of {lines} is of the dialect {dialect}; without --dialect it is recognised"
    return f"{name}: none of {lines} is in a format that tooltap knows; if you know its dialect, name it with --dialect"


def last_change(path: str) -> int | None:
    """When a regular file was last changed, in ms since the epoch; None for everything else, which is written now."""
    try:
        status = None if path == STDIN else os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns // 1_000_000 if status is not None and stat.S_ISREG(status.st_mode) else None


MANIFEST = "manifest.json"
"""Same as in `traces/recording/reader.py`, which takes long to import."""

F = TypeVar("F", bound=Callable[..., Any])

recorded_dialect_option = dialect_option("The format of recorded lines; a trace names its own.", check=True)
baselines_option = click.option(
    "--baselines",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The baselines to compare with.  [default: the baselines that come with tooltap]",
)


files_argument = click.argument("paths", nargs=-1, type=click.Path(allow_dash=True), metavar="[PATH]...")


def recordings_argument(*, required: bool) -> Callable[[F], F]:
    return click.argument(
        "paths", nargs=-1, required=required, type=click.Path(exists=True, path_type=Path), metavar="PATH..."
    )


def recorded_stream_options(function: F) -> F:
    """Add options for facts about the streams that the user knows."""
    for option in (
        click.option(
            "--agent-version", "version", metavar="VERSION", help="The agent's version; overrides what its lines say."
        ),
        provider_option,
        recorded_dialect_option,
    ):
        function = option(function)
    return function


class Recording(NamedTuple):
    file: Path
    scenario: str
    """The path below the folder argument, without its suffix; for a file argument its base name."""
    dialect: str | None = None
    """The dialect to read it as, from the manifest; None without a manifest."""


def recordings(paths: tuple[Path, ...]) -> Iterator[Recording]:
    """The files, and every `.jsonl` file below the folders, also if it is compressed. Of a folder with a manifest, the
    files that it lists, without those of dialects that have no parser, which are counted on stderr. Raises
    `click.UsageError` if a folder holds none."""
    for path in paths:
        if not path.is_dir():
            yield Recording(path, _scenario(Path(path.name)))
            continue
        if (path / MANIFEST).exists():
            yield from _listed(path)
            continue
        found = list(map(Path, _lines_below(str(path))))
        if not found:
            raise click.UsageError(f"there is no .jsonl file in {path}", click.get_current_context(silent=True))
        for file in found:
            yield Recording(file, _scenario(file.relative_to(path)))


def _scenario(file: Path) -> str:
    return Path(plain_path(str(file))).with_suffix("").as_posix()


def _listed(folder: Path) -> Iterator[Recording]:
    import msgspec

    from tooltap.normalizers.catalog.registry import dialects
    from tooltap.normalizers.stream.normalizer import AUTO
    from tooltap.traces.recording.reader import read_manifest

    try:
        rows = read_manifest(folder)
    except msgspec.DecodeError as error:
        message = f"{folder / MANIFEST} is not a manifest: {error}"
        raise click.UsageError(message, click.get_current_context(silent=True)) from None
    left_out: Counter[str] = Counter()
    for row in rows:
        if row.dialect in (AUTO, *dialects()):
            yield Recording(folder / row.file, _scenario(Path(row.file)), row.asked)
        else:
            left_out[row.dialect] += 1
    for dialect, number in sorted(left_out.items()):
        warn(f"{folder}: {number} left out, there is no parser for {short(dialect)}")


def input_files(paths: tuple[str, ...]) -> list[str]:
    """Return the files, every `.jsonl` file below the folders, also if it is compressed (`.jsonl.zst`), and standard
    input if there is no path.

    A file that cannot be read, or a folder without such a file, is kept: it is reported when it is read.
    """
    found: list[str] = []
    for path in paths or (STDIN,):
        below = _lines_below(path) if path != STDIN and os.path.isdir(path) else []
        found += below or [path]
    return found


def _lines_below(folder: str) -> list[str]:
    plain = {str(path) for path in Path(folder).rglob("*.jsonl")}
    compressed = {str(path) for path in Path(folder).rglob(f"*.jsonl{SUFFIX}")}
    return sorted(plain | {path for path in compressed if plain_path(path) not in plain})


def unique(wanted: str, taken: set[str]) -> str:
    """Return the name, with a number if it is taken (`name~2`): two files with the same name are two streams."""
    one = next(one for n in count(1) if (one := wanted if n == 1 else f"{wanted}~{n}") not in taken)
    taken.add(one)
    return one


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn unreadable files and baselines into usage errors."""
    from tooltap.traces.drift.baselines import BaselineError

    try:
        yield
    except BaselineError as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise click.UsageError(message, click.get_current_context(silent=True)) from None


Item = TypeVar("Item")
Value = TypeVar("Value")


def _jobs(context: click.Context, option: click.Parameter, jobs: int | None) -> int:
    from tooltap.daemon.system.processes import usable_cores

    return usable_cores() if jobs is None else jobs


jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    callback=_jobs,
    metavar="N",
    help="How many processes share the work; 1: only this one.  [default: the cores that tooltap may use]",
)


@contextmanager
def worker_errors() -> Iterator[None]:
    """Turn the death of a worker into a click error."""
    from tooltap.daemon.system.workers import WorkerDiedError

    try:
        yield
    except WorkerDiedError as error:
        raise click.ClickException(str(error)) from None


def guarded_workers(
    work: Callable[[Item], Iterable[Value]], items: Sequence[Item], *, jobs: int, weigh: Callable[[Item], int]
) -> Workers[Item, Value]:
    """Make `Workers` that guard their standard streams; a spawned process starts without guards."""
    from tooltap.daemon.system.workers import Workers

    return Workers(partial(_guarded, work), items, jobs=jobs, weigh=weigh)


def _guarded(work: Callable[[Item], Iterable[Value]], item: Item) -> Iterable[Value]:
    guard()
    return work(item)
