"""Import a package without one of its optional dependencies, although that is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without"]


@contextmanager
def without(package: str) -> Iterator[None]:
    """Make importing `package` fail in this block, also if it is already loaded."""
    loaded = sys.modules.get(package)
    sys.modules[package] = None  # type: ignore[assignment]  # makes the import system raise `ModuleNotFoundError`
    try:
        yield
    finally:
        if loaded is None:
            del sys.modules[package]
        else:
            sys.modules[package] = loaded
