"""Imports without an optional dependency of what is imported, though it is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without"]


@contextmanager
def without(package: str) -> Iterator[None]:
    """Importing `package` fails in this block, unless it is loaded already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # how the import system is told that there is none
    try:
        yield
    finally:
        del sys.modules[package]
