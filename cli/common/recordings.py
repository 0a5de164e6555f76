"""Recordings on the command line: files and folders, and what their streams do not say of themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from tooltap.cli.common.options import dialect_option, provider_option

__all__ = [
    "Recording",
    "baselines_option",
    "in_words",
    "recorded_dialect_option",
    "recordings",
    "recordings_argument",
    "stream_options",
]

F = TypeVar("F", bound=Callable[..., Any])

recorded_dialect_option = dialect_option("The format of the lines; traces say it themselves.", known_here=True)
baselines_option = click.option(
    "--baselines",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="What recordings are compared with.  [default: the baselines that come with tooltap]",
)


def recordings_argument(*, required: bool) -> Callable[[F], F]:
    return click.argument(
        "paths", nargs=-1, required=required, type=click.Path(exists=True, path_type=Path), metavar="PATH..."
    )


def stream_options(function: F) -> F:
    """Adds what the caller knows of the streams."""
    for option in (
        click.option("--agent-version", "version", metavar="VERSION", help="The agent's, where nothing else says it."),
        provider_option,
        recorded_dialect_option,
    ):
        function = option(function)
    return function


class Recording(NamedTuple):
    file: Path
    scenario: str
    """Its place in the folder that was named, without its suffix; of a file that was named, its base name."""


def recordings(paths: tuple[Path, ...]) -> Iterator[Recording]:
    """Files, and every `.jsonl` below folders. Raises `click.UsageError` where a folder holds none."""
    for path in paths:
        if not path.is_dir():
            yield Recording(path, path.stem)
            continue
        found = sorted(path.rglob("*.jsonl"))
        if not found:
            raise click.UsageError(f"there is no .jsonl file in {path}", click.get_current_context(silent=True))
        for file in found:
            yield Recording(file, file.relative_to(path).with_suffix("").as_posix())


@contextmanager
def in_words() -> Iterator[None]:
    """What is wrong with the arguments becomes one sentence."""
    from tooltap.traces.drift.baselines import BaselineError

    try:
        yield
    except BaselineError as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from None
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise click.UsageError(message, click.get_current_context(silent=True)) from None
