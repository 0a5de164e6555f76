"""Import a package without one of its optional dependencies, although that is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without"]


@contextmanager
def without(package: str) -> Iterator[None]:
    """Make importing `package` fail in this block, unless it is already loaded."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # makes the import system raise `ModuleNotFoundError`
    try:
        yield
    finally:
        del sys.modules[package]
