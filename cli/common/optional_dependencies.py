"""Says how to install an optional dependency that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from tooltap.daemon.system.optional_packages import how_to_install


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Wrap imports that need the packages of an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "tooltap").partition(".")[0] == "tooltap":
            raise
        raise click.ClickException(f"{error.name} is not installed: {how_to_install(extra)}") from None
