"""The formats of exported files: those of this folder, and those of other packages, by entry point.

A format of another package is a class as `Exporter` or `Collection` (`source.py`) describes it, in the group
`tooltap.exporters`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from tooltap.daemon.did_you_mean import similar
from tooltap.daemon.system.optional_packages import how_to_install

if TYPE_CHECKING:
    from tooltap.daemon.export.source import Collection, Exporter

ENTRY_POINTS = "tooltap.exporters"
BUILTIN = {
    "html": "html:ExportedPage",
    "markdown": "markdown:MarkdownPage",
    "jsonl": "jsonl:EventLines",
    "atif": "atif:Trajectories",
    "ag-ui": "ag_ui:AgUiEvents",
    "otlp": "otlp:SpanFile",
    "sqlite": "sqlite:Database",
    "parquet": "parquet:ParquetFolder",
}
"""Name -> `module:Class` in this folder."""


class FormatError(Exception):
    """There is no such format, or its package is broken or not installed; the message is one sentence."""


def names() -> list[str]:
    """Return the names of all formats: ours first."""
    return [*BUILTIN, *sorted(_plugins().keys() - BUILTIN.keys())]


def exporter_class(name: str) -> type[Exporter]:
    """Return the class that writes a format with a file for each session. Raises `FormatError`."""
    return cast("type[Exporter]", _class(name))


def collection_class(name: str) -> type[Collection] | None:
    """Return the class that writes a format with one file of all sessions; None if a format has a file for each. Raises
    `FormatError`."""
    found = _class(name)
    return cast("type[Collection]", found) if hasattr(found, "source") else None


def _class(name: str) -> type[Any]:
    if name in BUILTIN:
        module, _, attribute = BUILTIN[name].partition(":")
        try:
            return cast("type[Any]", getattr(import_module(f"tooltap.daemon.export.{module}"), attribute))
        except ModuleNotFoundError as error:
            if name != "parquet":
                raise
            raise FormatError(f"{error.name} is not installed: {how_to_install(name)}") from None
    point = _plugins().get(name)
    if point is None:
        known = similar(name, names()) or names()
        raise FormatError(f"there is no format {name!r}: choose {' or '.join(known)}")
    try:
        found = point.load()
        wanted = ("ENDING", "IS_FOLDER", "finish") if hasattr(found, "source") else ("ENDING", "add", "add_gap", "end")
        lacking = [one for one in wanted if not hasattr(found, one)]
    except Exception as error:  # of another package
        raise FormatError(f"the exporter {name} of {point.value} cannot be loaded: {error}") from None
    if lacking:
        raise FormatError(f"the exporter {name} of {point.value} has no {lacking[0]}")
    return cast("type[Any]", found)


@cache
def _plugins() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
