"""tooltap itself: its version, Python, and the optional packages."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tooltap import __version__
from tooltap.daemon.doctor.finding import Finding, fine, note
from tooltap.daemon.system.optional_packages import how_to_install

__all__ = ["EXTRAS", "installation"]

AREA = "tooltap"


class Extra(NamedTuple):
    purpose: str
    modules: tuple[str, ...]


EXTRAS = {
    "attach": Extra("`tooltap attach`", ("httpx",)),
    "gateway": Extra("`tooltap gateway`", ("brotli", "httpx", "zstandard")),
    "mcp": Extra("`tooltap mcp`", ("mcp",)),
    "nats": Extra("a journal on NATS", ("nats", "nkeys")),
}


def installation() -> Iterator[Finding]:
    place = Path(__file__).parents[2]
    yield fine(AREA, f"tooltap {__version__} in {place}, Python {platform.python_version()} at {sys.executable}")
    for name, extra in EXTRAS.items():
        missing = [module for module in extra.modules if find_spec(module) is None]
        if missing:
            text = f"{extra.purpose} needs packages that are not installed: {', '.join(missing)}"
            yield note(AREA, text, f"Run {how_to_install(name)} to use it.")
        else:
            yield fine(AREA, f"the packages for {extra.purpose} are installed")
