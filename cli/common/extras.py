"""Packages that not every installation has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

__all__ = ["needs_extra"]


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """For imports that need what the extra installs."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "tooltap").partition(".")[0] == "tooltap":
            raise
        raise click.ClickException(f"{error.name} is not installed: pip install 'tooltap[{extra}]'") from None
