"""Objects inside Codex's lines (events, turn items, response items): their translation to one form, and common fields.

`codex exec --json` and the app-server print the core's own turn items in other words: `command_execution` or
`commandExecution` for `CommandExecution`, keys in snake or camel case, texts under other keys. `core_item` translates
them into the core's words, and `as_event` a call's item into those of the older events, so that one set of readers
reads all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.wire.values import after_epoch, first_string, percent, record, token_counts, whole
from tooltap.protocol.events import QuotaWindow

OWN = "<item>"
"""The key under which a translated object holds the provider's own."""

LONGEST_NAME = 64
"""Longest name whose translation is cached. Codex's have at most 40 characters, and come with every line."""
MANY_NAMES = 1_024
"""Maximum number of cached names per translation."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_TYPES = {
    "assistant_message": "AgentMessage",  # to 0.44, under the key `item_type`
    "collab_tool_call": "CollabAgentToolCall",
    "tool_call": "DynamicToolCall",
}
"""Type in snake case -> the core's, where that is another word."""

_KEYS = {
    "command_actions": "parsed_cmd",
    "output": "aggregated_output",
    "summary": "summary_text",
    "name": "tool",
}
"""Key in snake case -> the core's."""

CALL_ITEMS = {
    "CollabAgentToolCall": "collab_agent_tool_call",
    "CommandExecution": "exec_command",
    "DynamicToolCall": "dynamic_tool_call",
    "FileChange": "patch_apply",
    "ImageGeneration": "image_generation",
    "ImageView": "view_image",
    "McpToolCall": "mcp_tool_call",
    "WebSearch": "web_search",
}
"""Type of a turn item that is a call -> the older events, without `_begin` or `_end`."""

_PART_TYPES = {"image": "image", "localImage": "local_image", "local_image": "local_image"}


_DRIVE = re.compile(r"/[A-Za-z]:(?=/|\Z)")


# -- translations -------------------------------------------------------------------------------------------------


class Translated(dict[str, str]):
    """Cache of translated names: `names[name]`."""

    def __init__(self, translate: Callable[[str], str]) -> None:
        super().__init__()
        self._translate = translate

    def __missing__(self, name: str) -> str:
        word = self._translate(name)
        if len(name) <= LONGEST_NAME:
            if len(self) >= MANY_NAMES:
                self.clear()
            self[name] = word
        return word


def _in_snake_case(name: str) -> str:
    return name if name.islower() else _HUMP.sub("_", name).lower()


def _core_key(name: str) -> str:
    word = _in_snake_case(name)
    return _KEYS.get(word, word)


def _core_type(name: str) -> str:
    word = _in_snake_case(name)
    return _TYPES.get(word) or word.title().replace("_", "")


_snake_case, _core_keys, _core_types = Translated(_in_snake_case), Translated(_core_key), Translated(_core_type)


def snake(word: str) -> str:
    """A word in snake case."""
    return _snake_case[word]


def snake_keys(value: Any) -> Any:
    """An object of the app-server with the core's keys, at every depth."""
    if type(value) is list:
        return [snake_keys(one) for one in value]
    if type(value) is not dict:
        return value
    return {
        _snake_case[key]: snake_keys(one) if type(one) is dict or type(one) is list else one
        for key, one in value.items()
    }


def with_type(value: Line) -> Line:
    """An object that names its type as Rust's enums do by default, `{"AgentMessage": {…}}` (turn items and the parts
    of their content in 0.58), with the type under `type`."""
    if len(value) == 1:
        ((kind, inner),) = value.items()
        if type(inner) is dict:
            return {"type": kind, **inner}
    return value


def core_item(item: Line) -> Line:
    """A turn item in the core's words."""
    kind = _core_types[first_string(item, "item_type", "type") or ""]
    core: Line = {_core_keys[key]: value for key, value in item.items()}
    if kind == "AgentMessage":
        core["content"] = [core.get("text")]
    elif kind == "Reasoning":
        core["summary_text"] = core.get("summary_text") or [core.get("text")]
        core["raw_content"] = core.get("content")
    elif kind == "UserMessage":
        content = core.get("content")
        parts = content if isinstance(content, list) else [content] if isinstance(content, str) else []
        core["content"] = [_part(part) for part in parts]
    core["type"] = kind
    core[OWN] = item
    return core


def _part(part: Any) -> Any:
    kind = _PART_TYPES.get(str(part.get("type"))) if isinstance(part, dict) else None
    if kind is None:
        return part
    core = {**part, "type": kind}
    return {**core, "image_url": core.pop("url")} if "url" in core else core


def as_event(item: Line, phase: str) -> Line:
    """The turn item of a call as the older event of its `begin` or `end`: with `call_id`, and paths instead of URLs."""
    event = {OWN: item.get(OWN, item), **item}
    for key in ("cwd", "path"):
        if type(path := item.get(key)) is str:
            event[key] = local_path(path)
    event["type"] = f"{CALL_ITEMS[item['type']]}_{phase}"
    event["call_id"] = item.get("id")
    return event


def own_object(value: Line) -> Any:
    """The provider's own object of one that may have been translated."""
    return value.get(OWN, value)


# -- reading any object -------------------------------------------------------------------------------------------


def call_id_of(value: Line) -> str:
    """The id of the call an object is about; `unknown` where the object has none."""
    stated = value.get("call_id")
    return stated if stated and type(stated) is str else first_string(value, "callId", "id") or "unknown"


def raw_name_of(value: Line, event_name: str) -> str:
    """A raw name for a tool that has none on the wire: the type of the item, or `event_name` in an event."""
    own = value.get(OWN)
    return event_name if type(own) is not dict else first_string(own, "type", "item_type") or event_name


def local_path(path: str) -> str:
    """A path that may be stated as a URL (0.169): `file:///work/my%20app` is `/work/my app`."""
    if not path.startswith("file://"):
        return path
    plain = unquote(path.removeprefix("file://"))
    return plain[1:] if _DRIVE.match(plain) else plain


def file_changes(changes: Any) -> Any:
    """The changes of a patch in the form of the rollouts: path -> `{type, content | unified_diff, move_path}`.

    `codex exec` has a list of `{path, kind}`, the app-server of `{path, kind: {type, move_path}, diff}`."""
    if type(changes) is list:
        changes = {one["path"]: one for one in changes if type(one) is dict and type(one.get("path")) is str}
    if type(changes) is not dict:
        return {}
    return {local_path(path): _file_change(change) for path, change in changes.items()}


def _file_change(change: Any) -> Any:
    if type(change) is not dict:
        return change
    change = {key: value for key, value in change.items() if key != "path" and value is not None}
    kind = change.pop("kind", None)
    change |= {"type": kind} if type(kind) is str else kind if type(kind) is dict else {}
    if type(diff := change.pop("diff", None)) is not str:
        return change
    move_path = change.get("move_path")
    if move_path is not None:  # the app-server repeats it
        diff = diff.removesuffix(f"\n\nMoved to: {move_path}")
    return {**change, "unified_diff" if change.get("type") == "update" else "content": diff}


def cwd_of(value: Line) -> str | None:
    """The working directory that an object states, or None."""
    cwd = first_string(value, "cwd")
    return cwd and local_path(cwd)


def is_by_user(value: Line) -> bool:
    """Whether an event or item is about a command that the user runs, not the model."""
    return value.get("is_user_shell_command") is True or snake(str(value.get("source"))) == "user_shell"


def duration_of(value: Line) -> int | None:
    """Return a duration in ms, from a number of ms or Rust's `Duration`, `{secs, nanos}`."""
    stated, duration = whole(value.get("duration_ms")), value.get("duration")
    if stated is not None:
        return stated
    if type(duration) is not dict:
        return None
    secs, nanos = whole(duration.get("secs")), whole(duration.get("nanos"))
    return None if secs is None or nanos is None else whole(round(secs * 1000 + nanos / 1e6))


def nonempty(value: Line, *keys: str) -> Line:
    """The members under these keys, without null and what is empty."""
    return {key: one for key in keys if (one := value.get(key)) or one == 0}


def mode_of(msg: Line) -> str | None:
    """The agent's mode, `<approval policy>/<sandbox>`, as far as they are stated."""
    policy, sandbox = msg.get("approval_policy"), msg.get("sandbox_policy")
    policy = next(iter(policy), None) if isinstance(policy, dict) else policy
    sandbox = sandbox.get("type") if isinstance(sandbox, dict) else sandbox
    if type(policy) is not str:
        return sandbox if sandbox and type(sandbox) is str else None
    return f"{policy}/{sandbox}" if type(sandbox) is str else policy or None


_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "reasoning_output_tokens",
)


_COUNTER = (*_COUNTS, "total_tokens")


def quota_of(limits: Line, now: int | None) -> list[QuotaWindow]:
    """The windows of the account's quota that a `rate_limits` object states. `now`: time of the line, in ms since the
    epoch: 0.40 states when a window ends in seconds from then on."""
    windows = []
    for name in ("primary", "secondary"):
        one = record(limits.get(name)) or {
            key.removeprefix(f"{name}_"): limits[key]
            for key in limits
            if key.startswith(f"{name}_")  # to 0.30
        }
        used = percent(one.get("used_percent"))
        if used is None:
            continue
        resets_at, left = after_epoch(one.get("resets_at")), whole(one.get("resets_in_seconds"))
        if resets_at is None and left is not None and now is not None:
            resets_at = after_epoch(now / 1000 + left)
        minutes = next((whole(one[key]) for key in ("window_minutes", "window_duration_mins") if key in one), None)
        windows.append(QuotaWindow(name=name, minutes=minutes, used_percent=used, resets_at=resets_at))
    return windows


def counts_of(usage: Line) -> dict[str, int | None]:
    """The token counts of a usage object, by the names of our fields."""
    return token_counts(*map(usage.get, _COUNTS))


def counter_of(total: Line) -> list[int | None]:
    """The values by which a state of a counter is recognised: the token counts, and the number of all tokens."""
    return [whole(total.get(key)) for key in _COUNTER]


def increase_of(total: Line, before: list[int | None]) -> Line:
    """The usage object by which a counter has grown since its state `before`; the whole of it if it has fallen, because
    it then began anew."""
    pairs = list(zip(_COUNTER, counter_of(total), before or [0] * len(_COUNTER), strict=True))
    if any((now or 0) < (known or 0) for _, now, known in pairs):
        return total
    return {key: now - (known or 0) for key, now, known in pairs if now is not None}
