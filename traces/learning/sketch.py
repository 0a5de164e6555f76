"""Recognises what is in recordings of an unknown agent, by the shapes of their objects.

Each record is walked, and each object in it is looked at: does it hold a name, arguments and an id, like a call; an id
of a call and something else, like its result; a text under the role of its author; numbers of tokens; times? What is
found has a `Place`: the path to it, with the types of the objects on the way, so that others can find it again with
`find`. Nothing is guessed from values that the user or the model wrote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from tooltap.normalizers.wire.decode import FRAMING, decode_line
from tooltap.normalizers.wire.recording import read_recording
from tooltap.normalizers.wire.values import milliseconds

MAX_DEPTH = 24
"""Containers in containers that are looked at; deeper ones count as not recognised."""
MAX_NODES = 500_000
"""Objects and lists that are looked at, of all records."""
MAX_TYPES = 64
"""Types of records that are told apart."""
MAX_PLACES = 100
MAX_ID = 200
MAX_TEXT = 100_000
"""Code points of a text that are kept."""

NAMED, NAME = "{}", "{key}"
Step: TypeAlias = str | dict[str, str]
Path: TypeAlias = tuple[Step, ...]
"""Keys, `*` for each item of a list, an object of keys and values that the object reached so far must have, and for an
object whose keys are names: `{}` for each object in it, `{key}` for the name of each."""
Kind: TypeAlias = Literal["call", "result", "text", "piece", "usage"]


class Place(NamedTuple):
    """Where records hold something."""

    kind: Kind
    path: Path
    keys: dict[str, tuple[str, ...]]
    """What it consists of -> keys below `path`."""
    role: str = ""
    """Of a text: user, assistant, reasoning, or empty if the lines do not say whose it is."""


class Found(NamedTuple):
    """What is at a place: the id of a call or result and the name of its tool, or a text and what joins its pieces."""

    record: int
    id: str
    value: str


class Sketch(NamedTuple):
    framing: str
    records: list[dict[str, Any]]
    other_lines: int
    """Lines that are no JSON objects."""
    each: tuple[str, ...]
    """Of one document: the keys of the list of its records."""
    key: str | None
    """The field that tells the types of records apart."""
    types: Counter[str]
    places: dict[int, tuple[Place, list[Found]]]
    calls: dict[str, str]
    """Id -> name of the tool."""
    results: set[str]
    calls_in_texts: set[str]
    """Ids of results whose calls are only in texts of the model."""
    texts: list[tuple[str, str]]
    """(role, text), each once."""
    times: Counter[tuple[str, str]]
    """(key, unit) -> how often."""
    sessions: Counter[str]
    """Key of the session's id -> how often."""
    usages: int
    unrecognised: Counter[str]
    """Type -> records in which nothing was recognised."""
    too_deep: bool
    """Whether a bound was reached, so that something was not looked at."""


def find(value: Any, path: Iterable[Step]) -> list[Any]:
    """Return the values at a path."""
    found = [value]
    for step in path:
        if step == "*":
            found = [item for one in found if isinstance(one, list) for item in one]
        elif step in (NAMED, NAME):
            inner = [pair for one in found if isinstance(one, dict) for pair in _objects_in(one)]
            found = [item if step == NAMED else name for name, item in inner]
        elif isinstance(step, dict):
            found = [one for one in found if isinstance(one, dict) and step.items() <= one.items()]
        else:
            found = [one[step] for one in found if isinstance(one, dict) and step in one]
    return found


def _objects_in(node: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, one) for name, one in node.items() if isinstance(one, dict)]


# -- framing ----------------------------------------------------------------------------------------------------------


class Records(NamedTuple):
    framing: str
    records: list[dict[str, Any]]
    other_lines: int = 0
    each: tuple[str, ...] = ()


def read_records(data: bytes) -> Records:
    """Split a recording into records: lines, or the objects of a document's longest list."""
    if (document := _document(data)) is not None:
        return document
    records: list[dict[str, Any]] = []
    other = events = 0
    for line in read_recording(data):
        if not isinstance(line.data, bytes):
            other += 1
            continue
        events += line.data.startswith(b"data:")
        decoded = decode_line(line.data, MAX_DEPTH * 4)
        objects = [value for value in decoded.values if isinstance(value, dict)]
        records += objects
        other += not objects and decoded.reason not in ("blank", FRAMING)
    framing = "server-sent events" if events else "JSON lines" if not other else "JSON among text"
    return Records(framing if records else "text", records, other)


def _document(data: bytes) -> Records | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if isinstance(value, list):
        return Records("one JSON array", [one for one in value if isinstance(one, dict)], each=("*",))
    if not isinstance(value, dict):
        return None
    inner = {f"{key}.{name}": item for key, one in value.items() if isinstance(one, dict) for name, item in one.items()}
    lists = {
        key: [one for one in item if isinstance(one, dict)]
        for key, item in (value | inner).items()
        if isinstance(item, list)
    }
    longest = max(lists, key=lambda key: len(lists[key]), default="")
    if len(lists.get(longest, ())) < 2:
        return None
    return Records("one JSON document", lists[longest], each=(*longest.split("."), "*"))


# -- words ------------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_TOKEN = re.compile(r"[A-Za-z][\w./:-]{0,63}")
_TYPES = {"type", "kind", "role", "event", "source", "op", "method", "author", "sender", "node", "update", "subtype"}
_NAMES = ("name", "tool_name", "toolName", "function_name", "toolCallName", "tool_call_name", "tool", "function")
_ARGUMENTS = (
    "arguments",
    "args",
    "input",
    "parameters",
    "params",
    "with",
    "rawInput",
    "raw_input",
    "command",
    "kwargs",
)
_OUTPUTS = (
    *("output", "result", "observation", "aggregated_output", "rawOutput", "raw_output", "response", "stdout"),
    *("content", "value", "return", "tool_result", "outputs"),
)
_TEXTS = (
    "text",
    "content",
    "message",
    "delta",
    "body",
    "prompt",
    "reasoning_content",
    "reasoning",
    "thinking",
    "thought",
)
_INNER = ("function", "detail", "state", "tool_call")
_NO_NAMES = frozenset((*_NAMES, *_ARGUMENTS, *_OUTPUTS, *_INNER))
"""Keys that are not the name of a tool, whatever is below them."""
_ROLES = {
    **dict.fromkeys(("user", "human", "prompt", "query"), "user"),
    **dict.fromkeys(("reasoning", "thinking", "thought", "think"), "reasoning"),
    **dict.fromkeys(("assistant", "agent", "ai", "model", "says", "say", "bot"), "assistant"),
    **dict.fromkeys(("system", "developer", "tool", "environment", "function"), "other"),
}
_TIMES = {"timestamp", "time", "ts", "created", "date", "at", "started", "updated"}
_UNITS = (("s", 1), ("ms", 1_000), ("µs", 1_000_000), ("ns", 1_000_000_000))
_EPOCH, _LATEST = 978_307_200, 95_617_584_000 // 10
"""2001 and about 2273, in seconds."""


def words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text[:100])]


def _is_token(value: Any) -> bool:
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None


def _types_of(node: dict[str, Any], key: str | None) -> dict[str, str]:
    """The fields of an object that say what it is."""
    found: dict[str, str] = {}
    for name, value in node.items():
        if _is_token(value) and (name == key or ((parts := words(name)) and parts[-1] in _TYPES)):
            found[name] = value
    return found


def _role_of(types: Iterable[str]) -> str:
    for value in types:
        for word in words(value):
            if word in _ROLES:
                return _ROLES[word]
    return ""


def unit_of(value: Any) -> str:
    """The unit of a time: `ISO 8601`, s, ms, µs or ns since the epoch; empty if it is none."""
    if isinstance(value, str):
        return "ISO 8601" if len(value) >= 10 and milliseconds(value) is not None else ""
    if type(value) not in (int, float):
        return ""
    return next((unit for unit, scale in _UNITS if _EPOCH * scale <= value < _LATEST * scale), "")


def choose_key(records: list[dict[str, Any]]) -> str | None:
    """Choose the field that tells types of records apart: most records have it, with few different values."""
    values: dict[str, Counter[str]] = {}
    for one in records:
        for name, value in list(one.items())[:MAX_TYPES]:
            if _is_token(value) and (name in values or len(values) < MAX_PLACES):
                values.setdefault(name, Counter())[value] += 1
    best, chosen = 0.0, None
    for name, counts in values.items():
        share = counts.total() / len(records)
        variety = len(counts) / counts.total()
        parts = words(name)
        is_named = bool(parts) and parts[-1] in _TYPES
        is_first = share == 1 and all(next(iter(one)) == name for one in records) and "id" not in parts
        is_varied = len(counts) < 2 or variety > 0.9
        if share < 0.6 or len(counts) > MAX_TYPES or (is_varied and not is_named and not is_first):
            continue
        score = share - variety / 2 + is_named + (len(counts) > 1)
        if score > best:
            best, chosen = score, name
    return chosen


# -- shapes -----------------------------------------------------------------------------------------------------------


def _key(node: dict[str, Any], names: Iterable[str], kinds: type | tuple[type, ...] = object) -> tuple[str, ...]:
    """The first of these keys whose value is of this type and not empty, also in an object inside; else nothing."""
    for name in names:
        if isinstance(node.get(name), kinds) and node.get(name) not in (None, ""):
            return (name,)
    for inner in _INNER:
        if isinstance(child := node.get(inner), dict) and (found := _key_here(child, names, kinds)):
            return inner, found
    return ()


def _key_here(node: dict[str, Any], names: Iterable[str], kinds: type | tuple[type, ...]) -> str:
    return next((name for name in names if isinstance(node.get(name), kinds) and node.get(name) not in (None, "")), "")


def _call_id(node: dict[str, Any]) -> str:
    """The key of a call's id that says that it is one; empty if there is none. The id of a tool is its name."""
    names = [node[name] for name in _NAMES if isinstance(node.get(name), str)]
    for name, value in node.items():
        parts = words(name)
        is_id = parts[-1:] in (["id"], ["ref"]) and isinstance(value, str) and 0 < len(value) <= MAX_ID
        if is_id and value not in names and {"call", "tool"} & set(parts) and "parent" not in parts:
            return name
    return ""


def _named_by_key(node: dict[str, Any], names: Iterable[str]) -> tuple[str, ...]:
    """The first of these keys in an object that a call holds under the name of its tool, with the keys on the way:
    of `{"tool_call": {"read": {"args": …}}}`, `tool_call`, `{}`, `args`. Else nothing."""
    for holder, value in _objects_in(node):
        inner = _objects_in(value)
        if len(inner) != 1 or not _is_token(inner[0][0]) or inner[0][0] in _NO_NAMES:
            continue
        if found := _key_here(inner[0][1], names, object):
            return holder, NAMED, found
    return ()


def _call(node: dict[str, Any], types: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What a call consists of; empty if the object is none."""
    said = {word for value in types for word in words(value)}
    if said & {"result", "return", "output", "response", "observation"}:
        return {}
    name, given = _key(node, _NAMES, str), _key(node, _ARGUMENTS)
    own = _call_id(node)
    identity = (own,) if own else _key(node, ("id", "uuid"), str)[:1]
    if own and not name:
        name = _key(node, ("title",), str)
    if not name and len(given) == 1 and given[0] == "command" and identity:
        name = ("type",) if isinstance(node.get("type"), str) else ()
    if own and not name and (inside := _named_by_key(node, _ARGUMENTS)):
        return {"id": identity, "name": (inside[0], NAME), "input": inside}
    if not name or not identity:
        return {}
    is_named_so = bool(said & {"call", "tool", "use", "function", "action"}) and bool(given or "start" in said)
    if not given and not (own and (is_named_so or not _key(node, _OUTPUTS))):
        return {}
    return {"id": identity, "name": name, **({"input": given} if given else {})}


def _result(node: dict[str, Any], types: Iterable[str], calls: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What a result consists of; empty if the object is none. `calls`: the ids of calls."""
    own = _call_id(node)
    output = _key(node, _OUTPUTS)
    if not output and own and _named_by_key(node, _ARGUMENTS):
        output = _named_by_key(node, _OUTPUTS)
    if not output:
        return {}
    for name, value in node.items():
        if isinstance(value, str) and value in calls and words(name)[-1:] in (["id"], ["of"], ["ref"]):
            return {"id": (name,), "output": output}
    return {"id": (own,), "output": output} if own else {}


_TOKENS = {"token", "tokens"}


def _usage(node: dict[str, Any], within: str) -> dict[str, tuple[str, ...]]:
    """The numbers of tokens in an object, as `token_counts` names them. `within`: the key of the object, which may say
    that all its numbers are such, also those of an object `cache` in it."""
    said = set(words(within)) & (_TOKENS | {"usage"})
    numbers: dict[tuple[str, ...], Any] = {(name,): value for name, value in node.items()}
    if said and isinstance(cache := node.get("cache"), dict):
        numbers |= {("cache", name): value for name, value in cache.items()}
    found: dict[str, tuple[str, ...]] = {}
    for keys, value in numbers.items():
        parts = {word for key in keys for word in words(key)}
        if type(value) is not int or not (said or parts & _TOKENS):
            continue
        if parts & {"cached", "cache"}:
            part = "write" if parts & {"write", "creation"} else "read"
        elif "reasoning" in parts:
            part = "reasoning"
        elif parts & {"input", "prompt"}:
            part = "prompt"
        elif parts & {"output", "completion"} or parts <= _TOKENS:
            part = "output"
        else:
            continue
        found.setdefault(part, keys)
    return found if found.keys() & {"prompt", "output"} else {}


def _is_definition(node: dict[str, Any]) -> bool:
    """Whether the object describes a tool, or a JSON schema."""
    return "description" in node and bool(node.keys() & {"parameters", "input_schema", "inputSchema", "properties"})


class _Node(NamedTuple):
    value: Any
    path: Path
    role: str
    depth: int


class _Walk:
    """The walk through all records. `calls`: ids of calls, of an earlier walk."""

    def __init__(self, key: str | None, calls: dict[str, str]) -> None:
        self.key = key
        self.known = calls
        self.places: dict[bytes, tuple[Place, list[Found]]] = {}
        self.times: Counter[tuple[str, str]] = Counter()
        self.sessions: Counter[str] = Counter()
        self.nodes = 0
        self.bounded = False

    def read(self, number: int, record: dict[str, Any]) -> bool:
        """Walk through a record; return whether it holds anything that is recognised."""
        before = sum(len(found) for _, found in self.places.values())
        waiting = [_Node(record, (), "", 0)]
        while waiting:
            node = waiting.pop()
            self.nodes += 1
            if node.depth > MAX_DEPTH or self.nodes > MAX_NODES:
                self.bounded = True
                continue
            if isinstance(node.value, list):
                items = [one for one in node.value if isinstance(one, dict | list)]
                waiting += [_Node(one, (*node.path, "*"), node.role, node.depth + 1) for one in reversed(items)]
            else:
                waiting += reversed(list(self._object(number, node)))
        return sum(len(found) for _, found in self.places.values()) > before

    def _object(self, number: int, node: _Node) -> Iterator[_Node]:
        """Note what an object holds, and yield what is inside it."""
        value = node.value
        if _is_definition(value):
            return
        types = _types_of(value, self.key)
        path = (*node.path, types) if types else node.path
        role = _role_of(types.values()) or node.role
        call, used = _call(value, types.values()), set[str]()
        if call:
            [identity] = find(value, call["id"])
            [name] = find(value, call["name"])
            self._note(Place("call", path, call), Found(number, identity, name))
            used |= {keys[0] for keys in call.values()}
        result = _result(value, types.values(), self.known)
        if result and not (call and result["output"] == call.get("input")):
            self._note(Place("result", path, result), Found(number, find(value, result["id"])[0], ""))
            used.add(result["output"][0])
        if usage := _usage(value, next((step for step in reversed(node.path) if isinstance(step, str)), "")):
            self._note(Place("usage", path, usage), Found(number, "", ""))
        if not call and not result:
            used |= self._texts(number, value, path, role)
        for name, item in value.items():
            self._fact(name, item)
            if isinstance(item, dict | list) and name not in used:
                inner = _role_of([name]) if _role_of([name]) == "reasoning" else role
                yield _Node(item, (*path, name), inner, node.depth + 1)

    def _texts(self, number: int, value: dict[str, Any], path: Path, role: str) -> set[str]:
        """Note the texts of an object; return their keys."""
        used: set[str] = set()
        if role == "other":
            return used
        said = {word for step in path if isinstance(step, dict) for one in step.values() for word in words(one)}
        for name in (*_TEXTS, *([self.key] if self.key else ())):
            text = value.get(name)
            if not isinstance(text, str) or not text.strip() or name == self.key:
                continue
            whose = _role_of([name]) or role
            if not whose and not said & {"text", "message"}:
                continue
            kind: Kind = "piece" if name == "delta" or said & {"delta", "chunk"} else "text"
            joined = next((one for one in value if words(one)[-1:] == ["id"] and isinstance(value[one], str)), "")
            keys: dict[str, tuple[str, ...]] = {"text": (name,), **({"id": (joined,)} if joined else {})}
            self._note(Place(kind, path, keys, whose), Found(number, value.get(joined, ""), text[:MAX_TEXT]))
            used.add(name)
        return used

    def _fact(self, name: str, value: Any) -> None:
        parts = words(name)
        if parts and parts[-1] in _TIMES and len(self.times) < MAX_PLACES and (unit := unit_of(value)):
            self.times[name, unit] += 1
        is_session = {"session", "thread", "conversation"} & set(parts) and ("id" in parts or len(parts) == 1)
        if is_session and isinstance(value, str) and len(self.sessions) < MAX_PLACES:
            self.sessions[name] += 1

    def _note(self, place: Place, found: Found) -> None:
        known = orjson.dumps([*place])
        if known not in self.places and len(self.places) >= MAX_PLACES:
            self.bounded = True
            return
        self.places.setdefault(known, (place, []))[1].append(found)


def sketch(data: bytes) -> Sketch:
    """Look at a recording. Whatever it holds, nothing is raised."""
    framing, records, other, each = read_records(data)
    key = choose_key(records) if records else None
    calls: dict[str, str] = {}
    for _ in range(2):  # the ids of all calls are known before the results are looked for
        walk = _Walk(key, calls)
        is_read = [walk.read(number, record) for number, record in enumerate(records)]
        calls = {}
        for place, found in sorted(walk.places.values(), key=lambda one: "input" not in one[0].keys):
            if place.kind == "call":
                for one in found:
                    calls.setdefault(one.id, one.value)
    places = _without_repetitions(list(walk.places.values()))
    results = {one.id for place, found in places if place.kind == "result" for one in found}
    texts = _texts_of(places)
    inside = {one for one in results - calls.keys() if any(one in text for _, text in texts)}
    types: Counter[str] = Counter()
    unrecognised: Counter[str] = Counter()
    for record, something in zip(records, is_read, strict=True):
        name = str(record.get(key, "")) if key else ""
        name = name if name in types or len(types) < MAX_TYPES else "…"
        types[name] += 1
        unrecognised[name] += not something
    return Sketch(
        framing,
        records,
        other,
        each,
        key,
        types,
        dict(enumerate(places)),
        calls,
        results,
        inside,
        texts,
        walk.times,
        walk.sessions,
        sum(len(found) for place, found in places if place.kind == "usage"),
        +unrecognised,
        walk.bounded,
    )


def _without_repetitions(
    places: list[tuple[Place, list[Found]]],
) -> list[tuple[Place, list[Found]]]:
    """Leave out places that only repeat what others hold nearer to the record."""
    kept: list[tuple[Place, list[Found]]] = []
    seen: set[tuple[str, str]] = set()
    for place, found in sorted(
        places, key=lambda one: (one[0].kind == "piece", "input" not in one[0].keys, len(one[0].path))
    ):
        kind = "text" if place.kind == "piece" else place.kind
        things = {(kind, one.value if kind == "text" else one.id) for one in found}
        if kind == "usage":  # a record states its numbers once
            things = {(kind, str(one.record)) for one in found}
        if place.kind == "piece" and all(any(one.value in text for _, text in seen) for one in found):
            continue  # another line has the whole text
        if things <= seen:
            continue
        seen |= things
        kept.append((place, found))
    order = {id(place): number for number, (place, _) in enumerate(places)}
    return sorted(kept, key=lambda one: order[id(one[0])])


def _joined(found: list[Found]) -> list[str]:
    """Join the pieces of texts that have the same id, or follow each other."""
    joined: dict[str, str] = {}
    for one in found:
        joined[one.id] = (joined.get(one.id, "") + one.value)[:MAX_TEXT]
    return list(joined.values())


def _texts_of(places: list[tuple[Place, list[Found]]]) -> list[tuple[str, str]]:
    texts: dict[tuple[str, str], None] = {}
    for place, found in places:
        if place.kind in ("text", "piece"):
            said = _joined(found) if place.kind == "piece" else [one.value for one in found]
            texts.update(dict.fromkeys((place.role, text) for text in said))
    return list(texts)
