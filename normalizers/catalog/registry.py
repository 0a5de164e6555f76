"""The dialects and agents there are, and their parsers, imported when first used.

A folder in `dialects/` is all that a built-in dialect needs (`dialect.py`). A third-party package adds its own with an
entry point of the group `tooltap.dialects` (name = dialect, value = `module:ParserClass`).
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect

if TYPE_CHECKING:
    from tooltap.normalizers.core.parser import Parser

__all__ = ["UnknownDialectError", "agents", "builtin", "dialects", "load", "parser_class", "product_of", "products"]

FOLDER = "tooltap.normalizers.dialects"
ENTRY_POINTS = "tooltap.dialects"


class UnknownDialectError(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no dialect {name!r}; known are auto, {', '.join(dialects())}")


@cache
def builtin() -> dict[str, Dialect]:
    """Name -> description of every built-in dialect, by name."""
    found = (dialect for module in _families() for dialect in _described(module))
    return {dialect.name: dialect for dialect in sorted(found, key=lambda dialect: dialect.name)}


@cache
def agents() -> dict[str, Agent]:
    """Command -> every agent we know."""
    return {agent.command: agent for module in _families() for agent in getattr(module, "AGENTS", ())}


def products() -> list[str]:
    """What README lists: names of products, then whole groups of agents."""
    found = [module.PRODUCT for module in _families() if hasattr(module, "PRODUCT")]
    return sorted(found, key=lambda product: (not product[0].isupper(), product.lower()))


@cache
def _products_by_provider() -> dict[str, str]:
    found: dict[str, str] = {}
    for module in _families():
        found |= {agent.provider or agent.command: module.PRODUCT for agent in getattr(module, "AGENTS", ())}
        found |= getattr(module, "PROVIDERS", {})
    return found


def product_of(provider: str) -> str | None:
    """The product whose events have this provider; None if no folder knows it."""
    return _products_by_provider().get(provider)


def dialects() -> list[str]:
    """Names of all dialects, built in and installed."""
    return sorted({*builtin(), *_plugins()})


@cache
def parser_class(name: str) -> type[Parser]:
    """Raises `UnknownDialectError`."""
    if name in builtin():
        found: type[Parser] = load(builtin()[name].parser)
        return found
    if name in _plugins():
        loaded: type[Parser] = _plugins()[name].load()
        return loaded
    raise UnknownDialectError(name)


def load(place: str) -> Any:
    """What `module:name` in a dialect's folder is."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


@cache
def _families() -> list[Any]:
    """The packages in `dialects/`, one for each folder."""
    [folder] = import_module(FOLDER).__path__
    # Not `pkgutil.iter_modules`: `tooltap run` looks here before it starts the agent, and that imports `inspect`.
    names = sorted(one for one in os.listdir(folder) if os.path.isfile(os.path.join(folder, one, "__init__.py")))
    return [import_module(f"{FOLDER}.{name}") for name in names]


def _described(family: Any) -> list[Dialect]:
    """The dialects of a folder; paths of modules in it become absolute."""
    inside = f"{family.__name__}."
    return [
        one._replace(parser=inside + one.parser, endless=inside + one.endless if one.endless else None)
        for one in family.DIALECTS
    ]


@cache
def _plugins() -> dict[str, Any]:
    """Name -> entry point of the dialects of other packages."""
    from importlib.metadata import entry_points  # most streams need no plugin, and no time to look for one

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
