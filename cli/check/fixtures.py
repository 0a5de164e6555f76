"""`tooltap fixtures`: curated raw lines of providers, and the events they must give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tooltap.cli.common.commands import Check, Group
from tooltap.cli.common.printing import on_stderr, progress, say, short
from tooltap.cli.common.recordings import (
    guarded_workers,
    jobs_option,
    recorded_dialect_option,
    recordings,
    worker_errors,
)
from tooltap.daemon.formats import counted

if TYPE_CHECKING:
    from tooltap.traces.fixtures.examples import Example
    from tooltap.traces.fixtures.fixtures import Fixtures, Wanted
    from tooltap.traces.recording.reader import Source

MAX_WIDTH = 100
"""Width of the column of keys in a list; longer keys overflow it."""


class _UnusableError(click.ClickException):
    """A file in DIR is unusable."""

    exit_code = 2


traces_argument = click.argument(
    "traces", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="TRACE..."
)
folder_argument = click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")


@click.group(
    "fixtures",
    cls=Group,
    examples=(
        "tooltap fixtures keys recordings/ > keys.txt",
        "tooltap fixtures extract recordings/ --allowlist keys.txt --out fixtures",
        "tooltap fixtures check fixtures",
    ),
)
def command() -> None:
    """Extract fixtures from traces, check them, and update them.

    DIR holds allowlist.txt with the wanted keys (protocol/provider/kind[/tool], one per line, "#" starts a comment),
    and examples of each key: raw lines, and the events they give.
    """


@command.command(
    "extract",
    short_help="Choose the most informative examples in traces.",
    examples=("tooltap fixtures extract traces/ --allowlist keys.txt --out fixtures",),
)
@traces_argument
@click.option(
    "--out", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR", help="The folder of the fixtures."
)
@click.option(
    "--allowlist",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The wanted keys; copied to DIR/allowlist.txt.  [default: DIR/allowlist.txt]",
)
@click.option(
    "--max",
    "maximum",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="How many examples to keep per key.",
)
@recorded_dialect_option
@jobs_option
def extract(
    traces: tuple[Path, ...], folder: Path, allowlist: Path | None, maximum: int, dialect: str, jobs: int
) -> None:
    """Choose the most informative examples in traces, and redact them.

    A TRACE is a trace of tooltap or Happier, a recorded stream, or a folder of .jsonl files. Examples that are already
    in DIR compete with the new ones; delete a file in DIR to choose its examples from scratch.
    """
    from tooltap.traces.recording.reader import read_stream

    fixtures = _load(folder, allowlist)
    streams = [read_stream(source, dialect) for source in _sources(traces)]
    for change in fixtures.update():
        _say(change)
    before = {example.raw for example in fixtures.examples}
    with worker_errors():
        fixtures.extract(streams, maximum, partial(_share_examples, jobs))
    _save(fixtures)
    new = sum(example.raw not in before for example in fixtures.examples)
    for key, line in fixtures.missing().items():
        on_stderr(f"{fixtures.allowlist.path}:{line}: no example of {short(key)} in these traces")
    on_stderr(f"{_figures(fixtures)}, {new} new")


@command.command("keys", short_help="List the keys in traces.", examples=("tooltap fixtures keys traces/ > keys.txt",))
@traces_argument
@recorded_dialect_option
@jobs_option
def keys(traces: tuple[Path, ...], dialect: str, jobs: int) -> None:
    """List the keys in traces with their numbers of events, as a draft of an allowlist."""
    from tooltap.traces.recording.reader import size_of

    streams = _sources(traces)
    sizes = list(map(size_of, streams))
    found: Counter[str] = Counter()
    with (
        worker_errors(),
        progress(sum(sizes), data_on_stdout=False) as advance,
        guarded_workers(partial(_count_keys, dialect), streams, jobs=jobs, weigh=size_of) as workers,
    ):
        for size, counted in zip(sizes, workers, strict=True):
            found += counted
            advance(size)
    width = min(max(map(len, found), default=0), MAX_WIDTH)
    for key, number in sorted(found.items()):
        say(f"{key:{width}}  # {number}")


@command.command(
    "check",
    cls=Check,
    short_help="Compare fixtures with what their lines give.",
    examples=("tooltap fixtures check fixtures",),
)
@folder_argument
@click.pass_context
def check(context: click.Context, folder: Path) -> None:
    """Compare fixtures with their allowlist and with the events their lines give; exit code 1 if something is wrong."""
    context.exit(_report(_load(folder)))


@command.command(
    "update",
    cls=Check,
    short_help="Replace the events by what the lines give today.",
    examples=("tooltap fixtures update fixtures",),
)
@folder_argument
@click.pass_context
def update(context: click.Context, folder: Path) -> None:
    """Replace the expected events by what the raw lines give today, and print what changed.

    Examples whose keys are not on the allowlist are removed. Exit code 1 if something is still wrong.
    """
    fixtures = _load(folder)
    for change in fixtures.update():
        _say(change)
    _save(fixtures)
    context.exit(_report(fixtures))


def _load(folder: Path, allowlist: Path | None = None) -> Fixtures:
    from tooltap.traces.fixtures.fixtures import FixtureError, Fixtures
    from tooltap.traces.fixtures.keys import AllowlistError

    try:
        return Fixtures.load(folder, allowlist)
    except (AllowlistError, FixtureError) as error:
        raise _UnusableError(str(error)) from None


def _sources(paths: tuple[Path, ...]) -> list[Source]:
    """The streams whose dialect is installed."""
    from tooltap.normalizers.catalog.registry import dialects
    from tooltap.normalizers.stream.normalizer import AUTO
    from tooltap.traces.recording.reader import TracedStream, sources

    known = {AUTO, *dialects()}
    found = []
    for source in sources(recording.file for recording in recordings(paths)):
        if isinstance(source, TracedStream) and source.dialect not in known:
            on_stderr(f"skipped {short(source.name)}: there is no dialect {short(source.dialect)!r}")
        else:
            found.append(source)
    return found


def _count_keys(dialect: str, source: Source) -> Iterator[Counter[str]]:
    from tooltap.traces.fixtures.fixtures import count_keys
    from tooltap.traces.recording.reader import read_stream

    yield count_keys([read_stream(source, dialect)])


def _share_examples(jobs: int, work: Callable[[Wanted], Example], wanted: list[Wanted]) -> Iterator[Example]:
    with (
        progress(len(wanted), data_on_stdout=False) as advance,
        guarded_workers(partial(_do, work), wanted, jobs=jobs, weigh=attrgetter("size")) as workers,
    ):
        for example in workers:
            yield example
            advance(1)


def _do(work: Callable[[Wanted], Example], wanted: Wanted) -> Iterator[Example]:
    yield work(wanted)


def _save(fixtures: Fixtures) -> None:
    for path in fixtures.save():
        on_stderr(f"{'wrote' if path.exists() else 'removed'} {path}")


def _say(sentence: str) -> None:
    """Print a sentence, and the indented lines of the difference that may follow it. A newline without indentation does
    not end the sentence: it may be part of a path."""
    sentence, *difference = sentence.split("\n    ")
    say(sentence)
    for line in difference:
        say(f"    {line}")


def _report(fixtures: Fixtures) -> int:
    """Print what is wrong, and return the exit code."""
    problems = list(fixtures.problems())
    for problem in problems:
        _say(problem)
    on_stderr(f"{_figures(fixtures)}, {counted(len(problems), 'problem') if problems else 'no problems'}")
    return 1 if problems else 0


def _figures(fixtures: Fixtures) -> str:
    keys = len({example.key for example in fixtures.examples})
    return f"{counted(len(fixtures.examples), 'example')} of {counted(keys, 'key')}"
