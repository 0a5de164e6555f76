"""Registry of agents, dialects, stores and parsers; parsers are imported on first use.

It also recognises the dialect of a line, and reads agents' command lines: whether an agent prints a stream, which flags
to add if it does not, and its prompt.

A folder in `dialects/` is all that a built-in dialect needs (`dialect.py`). A third-party package adds its own with an
entry point of the group `tooltap.dialects` (name = dialect, value = `module:ParserClass`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Prompt, Store

if TYPE_CHECKING:
    from tooltap.normalizers.core.parser import Parser


FOLDER = "tooltap.normalizers.dialects"
ENTRY_POINTS = "tooltap.dialects"
WHY = 200
"""Maximum code points of what the module of a package raised, in the message of `BrokenDialectError`."""


class UnknownDialectError(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no dialect {name!r}; known are auto, {', '.join(dialects())}")


class BrokenDialectError(UnknownDialectError):
    """The dialect of another package cannot be used; the message says which package, and why."""

    def __init__(self, name: str, package: str, why: str) -> None:
        ValueError.__init__(self, f"the package {package} brings the dialect {name!r}, which cannot be used: {why}")


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
def _agents_by_provider() -> dict[str, Agent]:
    return {agent.provider or agent.command: agent for agent in agents().values()}


def agent_of_provider(provider: str) -> Agent | None:
    return _agents_by_provider().get(provider)


def original(provider: str) -> str:
    """The provider of the agent of which an agent is a fork; of any other agent, its own."""
    agent = agent_of_provider(provider)
    return provider if agent is None else agent.fork_of or provider


def provider_of_fork(command: str) -> str | None:
    """The provider of an agent, if its lines do not tell it from the agent of which it is a fork."""
    agent = agents().get(command)
    return None if agent is None or agent.fork_of is None else agent.provider or agent.command


@cache
def stores() -> dict[str, tuple[Store, ...]]:
    """Command -> stores of the agent's sessions, today's first; agents without a store have no entry."""
    return {name: (agent.store, *agent.older_stores) for name, agent in agents().items() if agent.store is not None}


@cache
def worktrees() -> tuple[tuple[str, ...], ...]:
    """The names of `Agent.worktrees`, of all agents."""
    return tuple({tuple(agent.worktrees.split("/")): None for agent in agents().values() if agent.worktrees})


@cache
def product_names() -> dict[str, str]:
    """Provider -> its name as users know it (`PRODUCT` of the folder, or `Agent.product`). Folders without one have no
    entry."""
    return {provider: name for module in _families() for provider, name in _names(module).items()}


def products() -> list[str]:
    """The list in README: names of products, then whole groups of agents."""
    listed = [getattr(module, "LISTED_AS", None) or getattr(module, "PRODUCT", None) for module in _families()]
    listed += [agent.product for agent in agents().values()]
    listed += [dialect.product for dialect in builtin().values()]
    return sorted(filter(None, listed), key=lambda product: (product.startswith("any "), product.lower()))


@cache
def session_dialects() -> frozenset[str]:
    """Dialects of stored sessions that no agent prints: a stream in such a dialect is an agent's own session file."""
    return frozenset(store.dialect for of_agent in stores().values() for store in of_agent if not store.printed)


@cache
def apis() -> dict[str, str]:
    """URL path suffix -> dialect of the requests to such paths. A gateway taps these."""
    return {path: dialect.name for dialect in builtin().values() for path in dialect.apis}


def dialects() -> list[str]:
    """Names of all dialects, built in and installed."""
    return sorted({*builtin(), *_plugins()})


@cache
def parser_class(name: str) -> type[Parser]:
    """Return the parser class of a dialect, imported on first use. Raises `UnknownDialectError`, or its subclass
    `BrokenDialectError`."""
    if name in builtin():
        found: type[Parser] = load(builtin()[name].parser)
        found.recognises = staticmethod(builtin()[name].recognises)  # type: ignore[method-assign, assignment]
        return found
    if name in _plugins():
        loaded = _loaded(name)
        if isinstance(loaded, str):
            raise BrokenDialectError(name, package_of(name) or "?", loaded)
        return loaded
    raise UnknownDialectError(name)


def package_of(name: str) -> str | None:
    """The package that brings a dialect, with its version; None for a built-in one."""
    if name in builtin() or name not in _plugins():
        return None
    distribution = _plugins()[name].dist
    return "?" if distribution is None else f"{distribution.name} {distribution.version}"


@cache
def _loaded(name: str) -> type[Parser] | str:
    """Import the parser class of another package, once; return why it cannot be used if it cannot."""
    from tooltap.normalizers.core.parser import Parser

    point = _plugins()[name]
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        what = " ".join(str(error).split())[:WHY] or "no more is known"
        return f"{point.value} raises {type(error).__name__} on import ({what})"
    if not isinstance(found, type) or not issubclass(found, Parser):
        return f"{point.value} is no subclass of tooltap.normalizers.core.parser.Parser"
    if getattr(found, "dialect", None) != name:
        return f"`dialect` of {point.value} is {getattr(found, 'dialect', None)!r}, and its entry point {name!r}"
    for attribute in ("protocol", "default_provider"):
        if not isinstance(getattr(found, attribute, None), str):
            return f"{point.value} has no `{attribute}`"
    return found


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


def _names(family: Any) -> dict[str, str]:
    """Provider -> product name, of the agents of a folder; for a folder without agents, the folder's name is the
    provider."""
    if not hasattr(family, "PRODUCT"):
        return {}
    of_agents = getattr(family, "AGENTS", ())
    found = {agent.provider or agent.command: agent.product or family.PRODUCT for agent in of_agents}
    return found or {family.__name__.rpartition(".")[2]: family.PRODUCT}


def _described(family: Any) -> list[Dialect]:
    """Dialects of a folder, with absolute module paths."""
    inside = f"{family.__name__}."
    return [one._replace(parser=inside + one.parser) for one in family.DIALECTS]


def _declared(family: Any) -> Iterator[Agent]:
    """Agents of a folder, with absolute module paths."""
    inside = f"{family.__name__}."
    for agent in getattr(family, "AGENTS", ()):
        older = tuple(_placed(one, inside) for one in agent.older_stores)
        yield agent._replace(store=agent.store and _placed(agent.store, inside), older_stores=older)


def _placed(store: Store, inside: str) -> Store:
    return store if store.reader is None else store._replace(reader=inside + store.reader)


@cache
def _plugins() -> dict[str, Any]:
    """Name -> entry point of the dialects of other packages."""
    from importlib.metadata import entry_points  # most streams need no plugin, and no time to look for one

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


# -- recognition of a dialect by one line -------------------------------------------------------------------------


def recognise(value: Any) -> str | None:
    """Return the dialect of a decoded line, or None if the line is ambiguous; for an array, that of its first decisive
    object.

    A line that fits no dialect, or several, is ambiguous. If the lines of one dialect are lines of another with small
    marks of their own, the dialect with the marks wins (`Dialect.takes_from`)."""
    if isinstance(value, list):
        return next((name for item in value if isinstance(item, dict) and (name := recognise(item))), None)
    if not isinstance(value, dict):
        return None
    fitting = [dialect for dialect in builtin().values() if dialect.recognises(value)]
    taken = {name for dialect in fitting for name in dialect.takes_from}
    found = [dialect.name for dialect in fitting if dialect.name not in taken]
    if not found:
        found = [name for name in dialects() if name not in builtin() and _ask_plugin(name, value)]
    return found[0] if len(found) == 1 else None


def recognise_text(line: bytes) -> str | None:
    """Return the dialect of a line that is not JSON, or None."""
    return next((one.name for one in _of_text() if one.recognises_text is not None and one.recognises_text(line)), None)


@cache
def _of_text() -> tuple[Dialect, ...]:
    return tuple(one for one in builtin().values() if one.recognises_text is not None)


def is_recognised(value: dict[str, Any], _beside: str) -> bool:
    """Whether the line decides a dialect: what `decode_line` asks while the dialect is not known."""
    return recognise(value) is not None


def _ask_plugin(name: str, value: dict[str, Any]) -> bool:
    """Return whether a plugin recognises the line. False if the plugin raises: its fault must not affect streams of
    other agents."""
    try:
        return parser_class(name).recognises(value)
    except Exception:
        return False


# -- command lines of agents --------------------------------------------------------------------------------------

RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx"})


READS_STDIN = "-"
"""Placeholder for the prompt in a command line: the prompt is read from standard input."""


def missing_flags(command: Sequence[str]) -> str | None:
    """Return the flags to add so that the agent prints a stream: empty if it never prints one, None if it will anyway
    or the agent is unknown."""
    name, arguments = _read(command)
    if name not in agents():
        return None
    agent = agents()[name]
    return None if _has_any(arguments, agent.machine_readable) else agent.advice or ""


def takes_answers(command: Sequence[str]) -> bool:
    """Say whether an agent that is started like this takes answers from standard input; True if it is unknown."""
    name, arguments = _read(command)
    return name not in agents() or _has_any(arguments, agents()[name].answerable)


def agent_of(command: Sequence[str]) -> str:
    """The name of the agent that a command starts; empty if it starts none we know."""
    name, _ = _read(command)
    return name if name in agents() else ""


OTHER_FOLDER = frozenset(
    {
        *("--cd", "--cwd", "--dir", "--directory", "--project-dir", "--project-path", "--root", "--work-dir"),
        *("--workdir", "--working-dir", "--working-directory", "--workspace", "--workspace-root", "--worktree"),
    }
)
"""Options of agents that name the folder in which they work; `-C` and `-w` for short."""


def works_where_it_is_started(command: Sequence[str]) -> bool:
    """Return whether a command starts an agent that we know, and does not name another folder for it."""
    name, arguments = _read(command)
    return name in agents() and not any(
        one.partition("=")[0] in OTHER_FOLDER or one.startswith(("-C", "-w")) for one in arguments
    )


def prompt_of(command: Sequence[str], stdin: Callable[[], str | None]) -> str | None:
    """Return the prompt that an agent gets from its command line or from standard input; None if there is none or it is
    ambiguous. `stdin`: returns the content of standard input, or None if unknown."""
    name, arguments = _read(command)
    prompt = agents()[name].prompt if name in agents() else None
    if prompt is None:
        return None
    found = _in_arguments(arguments, prompt)
    if found is None or (found in ("", READS_STDIN) and not prompt.stdin):
        return None
    text = stdin() if found in ("", READS_STDIN) else found
    return text if text and text.strip() else None


def _in_arguments(arguments: Sequence[str], prompt: Prompt) -> str | None:
    """Return the prompt in the arguments; empty if there is none, None if it is ambiguous."""
    flags, valued, several, never = map(str.split, (prompt.flags, prompt.valued, prompt.several, prompt.never))
    words: list[str] = []
    rest, is_certain = list(arguments), True
    while rest:
        option = rest.pop(0)
        name, given, value = option.partition("=") if option.startswith("--") else (option, "", "")
        if option == "--":
            words, rest = words + rest, []
        elif name in never:
            return None
        elif name in prompt.options and (given or _values(rest, 1)):
            return value if given else rest[0]
        elif option == READS_STDIN or not option.startswith("-"):
            words.append(option)
        elif name not in flags and not given:
            values = _values(rest, len(rest) if name in several else 1)
            is_certain &= not values or name in valued or name in several
            rest = rest[values:]
    if prompt.after and not (words and words.pop(0) in prompt.after):
        return None
    if words and words[0] in prompt.skipped:
        words = words[1 + (0 if prompt.not_skipped in arguments else prompt.skipped[words[0]]) :]
    if prompt.words == "none":
        words = []
    if not is_certain and (prompt.words == "all" or not words):
        return None
    return " ".join(words[:1] if prompt.words == "first" else words)


def _values(words: Sequence[str], most: int) -> int:
    """Count the leading words that are values of an option, at most `most`."""
    return next((at for at, word in enumerate(words[:most]) if word.startswith("-")), min(most, len(words)))


def _read(command: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The name of the program that a command starts, and its arguments."""
    name, *arguments = command
    name = os.path.basename(name.rstrip("/"))
    if name in RUNNERS:
        at = next((at for at, word in enumerate(arguments) if not word.startswith("-")), None)
        if at is None:
            return "", arguments
        scope, sign, version = arguments[at].rpartition("@")
        name = _of_package(scope if scope and sign and version else arguments[at])
        arguments = arguments[at + 1 :]
    return name, arguments


def _of_package(package: str) -> str:
    return next((agent.command for agent in agents().values() if agent.package == package), "")


def _has_any(arguments: Sequence[str], options: Iterable[str]) -> bool:
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return any(_has(words, flags) for flags in options)


def _has(words: list[str], flags: str) -> bool:
    start = 0
    for group in (part.split() for part in flags.split("…")):
        found = (at for at in range(start, len(words)) if words[at : at + len(group)] == group)
        if (at := next(found, None)) is None:
            return False
        start = at + len(group)
    return True
