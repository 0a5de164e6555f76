"""The registry of agents, dialects and stores, and of parsers, which are imported when first used.

A folder in `dialects/` is all that a built-in dialect needs (`dialect.py`). A third-party package adds its own with an
entry point of the group `tooltap.dialects` (name = dialect, value = `module:ParserClass`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store

if TYPE_CHECKING:
    from tooltap.normalizers.core.parser import Parser

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
    return {agent.command: agent for module in _families() for agent in _declared(module)}


@cache
def stores() -> dict[str, Store]:
    """Command -> where the agent stores its sessions, if it does."""
    return {name: agent.store for name, agent in agents().items() if agent.store is not None}


@cache
def product_names() -> dict[str, str]:
    """Provider -> its name as users know it (`PRODUCT` of the folder). Folders without one have no entry."""
    return {provider: module.PRODUCT for module in _families() for provider in _providers(module)}


def products() -> list[str]:
    """The list in README: names of products, then whole groups of agents."""
    listed = [getattr(module, "LISTED_AS", None) or getattr(module, "PRODUCT", None) for module in _families()]
    return sorted(filter(None, listed), key=lambda product: (not product[0].isupper(), product.lower()))


@cache
def session_dialects() -> frozenset[str]:
    """Dialects of stored sessions that no agent prints: a stream of such a dialect is an agent's own session file."""
    return frozenset(store.dialect for store in stores().values() if not store.printed)


@cache
def apis() -> dict[str, str]:
    """End of a path -> the dialect of requests to it. They are what a gateway taps."""
    return {dialect.api: dialect.name for dialect in builtin().values() if dialect.api is not None}


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
    """Import `module:name` of a dialect's folder."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


@cache
def _families() -> list[Any]:
    """The packages in `dialects/`, one for each folder."""
    [folder] = import_module(FOLDER).__path__
    # Not `pkgutil.iter_modules`: `tooltap run` looks here before it starts the agent, and that imports `inspect`.
    names = sorted(one for one in os.listdir(folder) if os.path.isfile(os.path.join(folder, one, "__init__.py")))
    return [import_module(f"{FOLDER}.{name}") for name in names]


def _providers(family: Any) -> set[str]:
    """The providers that have the name of a folder's product: those of its agents; without agents, the folder's."""
    if not hasattr(family, "PRODUCT"):
        return set()
    return {agent.provider or agent.command for agent in getattr(family, "AGENTS", ())} or {
        family.__name__.rpartition(".")[2]
    }


def _described(family: Any) -> list[Dialect]:
    """The dialects of a folder; paths of modules in it become absolute."""
    inside = f"{family.__name__}."
    return [one._replace(parser=inside + one.parser) for one in family.DIALECTS]


def _declared(family: Any) -> Iterator[Agent]:
    """The agents of a folder; paths of modules in it become absolute."""
    for agent in getattr(family, "AGENTS", ()):
        if agent.store is not None and agent.store.reader is not None:
            store = agent.store._replace(reader=f"{family.__name__}.{agent.store.reader}")
            yield agent._replace(store=store)
        else:
            yield agent


@cache
def _plugins() -> dict[str, Any]:
    """Name -> entry point of the dialects of other packages."""
    from importlib.metadata import entry_points  # most streams need no plugin, and no time to look for one

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
