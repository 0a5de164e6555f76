"""Tables of readers: which method of a parser reads which kind of line.

    class AcmeJson(Parser):
        line = Lines("type", skip={"ping": "ping"})

        @line("tool", id=str, name=str)
        def _tool(self, value: Line) -> Skip:
            ...

A table is made once, when its class is. The decorator names the kinds of lines a method reads, and the fields a line
must hold, each with its type; a line that lacks one is `unparsed`. So is a line of an unknown kind, unless a method is
registered with `@line.otherwise`. A method that emitted events returns None; one that did not returns the reason why
the line is skipped.

Objects inside a line (a block, an item, a notification's parameters) have separate tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

Line: TypeAlias = dict[str, Any]
"""A decoded line, or an object inside one."""
Skip: TypeAlias = str | None
"""Result of a reader. None: it emitted events. A reason from the dialect's closed table: it emitted none. `UNPARSED`:
returned by `unparsed`."""
UNPARSED = "unparsed"
"""The class of a line that this dialect cannot read."""

Method = TypeVar("Method", bound=Callable[..., Skip])


class _Reader(NamedTuple):
    owner: str | None
    """The attribute of the parser that holds the object with the method; None: the parser itself."""
    method: str
    """Name of the method, so that a subclass may override it."""
    fields: tuple[tuple[str, Any], ...]


_Row: TypeAlias = tuple[str | None, Callable[..., Skip], tuple[tuple[str, Any], ...]]
"""A reader with its method resolved: owner, function, fields."""


class Lines:
    """Table of readers for kinds of lines, keyed by the value of one field.

    `skip`: kind -> reason, for kinds that carry no event. Keyword arguments: tables of helpers, by the name of the
    parser's attribute that holds the helper.
    """

    def __init__(self, key: str = "type", skip: Mapping[str, str] | None = None, **helpers: Lines) -> None:
        self.key = key
        self.skip: Mapping[str, str] = dict(skip or {})
        self._readers: dict[str, _Reader] = {}
        self._otherwise: str | None = None
        self._rows: dict[type, dict[Any, str | _Row]] = {}
        for owner, table in helpers.items():
            self.skip = {**self.skip, **table.skip}
            self._readers.update({kind: one._replace(owner=owner) for kind, one in table._readers.items()})

    def __call__(self, *kinds: str, **fields: Any) -> Callable[[Method], Method]:
        """Register a method for these kinds. `fields`: name -> type, or tuple of types, that the value must have."""

        def register(method: Method) -> Method:
            for kind in kinds:
                self._readers[kind] = _Reader(None, method.__name__, tuple(fields.items()))
            return method

        return register

    def otherwise(self, method: Method) -> Method:
        """Register the method that reads an object of any other kind, or of none."""
        self._otherwise = method.__name__
        return method

    def copy(self, skip: Mapping[str, str] | None = None) -> Lines:
        """Return a copy for a subclass to extend."""
        table = Lines(self.key, {**self.skip, **(skip or {})})
        table._readers = dict(self._readers)
        table._otherwise = self._otherwise
        return table

    def knows(self, kind: Any) -> bool:
        """Whether the table has the kind, to read or to skip."""
        return isinstance(kind, str) and (kind in self._readers or kind in self.skip)

    def read(self, parser: Any, value: Line, *more: Any, kind: str | None = None, line: Line | None = None) -> Skip:
        """Read an object by its kind. `kind`: the kind, if the object does not hold it; `line`: the object to show as
        `unparsed` if this one cannot be read. `more` is passed to the method after the object."""
        try:  # subscripts, as each line of each stream comes this way
            row = self._rows[type(parser)][value[self.key] if kind is None else kind]
        except (KeyError, TypeError):
            kind = value.get(self.key) if kind is None else kind
            found = self._resolve(parser).get(kind) if type(kind) is str else None
            if found is None:
                if self._otherwise is None:
                    return unparsed(parser, value if line is None else line)
                other: Skip = getattr(parser, self._otherwise)(value, *more)
                return other
            row = found
        if isinstance(row, str):
            return row
        owner, method, fields = row
        for name, required in fields:
            if not isinstance(value.get(name), required):
                return unparsed(parser, value if line is None else line)
        holder = parser if owner is None else getattr(parser, owner)
        return method(holder, value, *more) if more else method(holder, value)

    def _resolve(self, parser: Any) -> dict[Any, str | _Row]:
        """Resolve the rows for a parser class, when it reads its first line. Methods overridden by the class are
        used."""
        if type(parser) in self._rows:
            return self._rows[type(parser)]
        rows: dict[Any, str | _Row] = {}
        for kind, (owner, method, fields) in self._readers.items():
            holder = type(parser if owner is None else getattr(parser, owner))
            rows[kind] = owner, getattr(holder, method), fields
        rows.update(self.skip)
        self._rows[type(parser)] = rows
        return rows


def unparsed(parser: Any, value: Line) -> Skip:
    skip: Skip = parser.unparsed("unknown-type", value)
    return skip
