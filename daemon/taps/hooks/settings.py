"""The hooks in the settings of agents that run `tooltap hook`: what they look like, and how they are written."""

from __future__ import annotations

import shlex
import shutil
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from tooltap.daemon.taps.hooks.json_edit import NotJsonError, add, parse, remove
from tooltap.normalizers.catalog.dialect import HookEvent
from tooltap.normalizers.catalog.registry import agents
from tooltap.traces.recording.whole_file import whole_file, write_whole

__all__ = ["Change", "HookSettings", "SettingsError", "State", "hook_settings", "write"]

State: TypeAlias = Literal["installed", "partly", "not installed", "agent not found"]

LONG, AWAY, SHORT = 43_200, 610, 10
"""Timeouts in seconds: of a hook that waits while the agent's dialog stays usable; of one that waits while the user is
away; of one that only tells."""
BACKUP = ".before-tooltap"
MARKS = "# >>> tooltap hooks\n", "# <<< tooltap hooks\n"


class SettingsError(Exception):
    """Settings that cannot be read or changed; the message is one sentence."""


class Change(NamedTuple):
    """A change of a settings file that is not made yet."""

    path: Path
    before: str | None
    """Its text; None: there is no file."""
    after: str | None
    """None: the file is removed."""

    @property
    def is_none(self) -> bool:
        return self.before == self.after


class HookSettings:
    """The settings of one agent. `command`: the words that run tooltap."""

    def __init__(self, agent: str, command: tuple[str, ...], environment: Mapping[str, str], home: Path) -> None:
        self.agent = agent
        self._command = command
        store, hooks = agents()[agent].store, agents()[agent].hooks
        assert store is not None
        assert hooks is not None
        self._hooks = hooks
        named = environment.get(store.variable, "").split(",")[0].strip()
        folder = Path(named).expanduser() if named else home / store.home
        self._folder = (folder / store.below).parent
        self._path = folder / hooks.file
        self._has_program = shutil.which(agent, path=environment.get("PATH")) is not None

    @property
    def is_found(self) -> bool:
        """Whether the agent is there: its program, or the folder of its settings."""
        return self._has_program or self._folder.is_dir()

    @property
    def path(self) -> Path:
        """The file that has, or would have, the hooks."""
        config = self._config
        if config is not None and not self._path.exists() and set(_hooks_of(config)) - {"state"}:
            return self._config_path
        return self._path

    def state(self) -> State:
        """Say whether the hooks are in the settings. Raises `SettingsError`."""
        if not self.is_found:
            return "agent not found"
        change = self.install()
        if change.is_none:
            return "installed"
        return "not installed" if self.uninstall().is_none else "partly"

    def remarks(self) -> Iterator[str]:
        """Yield what the agent demands before it runs the hooks, one sentence each. Raises `SettingsError`."""
        text = _read(self.path)
        settings = {} if text is None or self.path.suffix != ".json" else _parsed(self.path, text).value
        path, found = (self.path, settings) if self._hooks.toml is None else (self._config_path, self._config or {})
        for keys, value in self._hooks.off:
            if _at(found, keys) is value:
                yield f"{path} turns all hooks off ({'.'.join(keys)})"
        if self._hooks.remark is not None:
            yield self._hooks.remark

    def install(self) -> Change:
        """Return the change that adds the hooks. Raises `SettingsError`."""
        path = self.path
        before = _read(path)
        with_hooks = self._json_with_hooks if path == self._path else self._toml_with_hooks
        return Change(path, before, with_hooks(path, before))

    def uninstall(self) -> Change:
        """Return the change that removes what `install` has added. Raises `SettingsError`."""
        path = self.path
        before = _read(path)
        if before is None:
            return Change(path, None, None)
        is_toml = path != self._path
        with_hooks = self._toml_with_hooks if is_toml else self._json_with_hooks
        original = _read(_backup_of(path))
        is_as_installed = original is not None and with_hooks(path, original) == before
        if is_as_installed:
            return Change(path, before, original)
        return Change(path, before, _without_block(before) if is_toml else self._json_without_hooks(path, before))

    # -- inner workings -----------------------------------------------------------------------------------------

    @property
    def _config_path(self) -> Path:
        return self._path.with_name(self._hooks.toml or "")

    @property
    def _config(self) -> dict[str, Any] | None:
        """The agent's configuration that may have hooks as well. Raises `SettingsError`."""
        if self._hooks.toml is None or (text := _read(self._config_path)) is None:
            return None
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{self._config_path} is not TOML ({error}); nothing was changed") from None

    @property
    def _events(self) -> tuple[HookEvent, ...]:
        asks = () if self._hooks.asks is None else (HookEvent(self._hooks.asks),)
        return (*asks, *self._hooks.tells)

    def _handler(self, event: HookEvent) -> dict[str, Any]:
        words = (*self._command, "hook", self.agent, *([event.name] if self._hooks.is_flat else []))
        waits = LONG if self._hooks.keeps_dialog else AWAY
        line, timeout = shlex.join(words), waits if event.name == self._hooks.asks else SHORT
        timeout *= self._hooks.timeout_unit
        if not self._hooks.is_flat:
            return {"type": "command", "command": line, "timeout": timeout}
        matcher = {} if event.matcher is None else {"matcher": event.matcher}
        return {"type": "command", **matcher, "bash": line, "timeoutSec": timeout}

    def _item(self, event: HookEvent) -> dict[str, Any]:
        """Return what the list of an event has."""
        if self._hooks.is_flat:
            return self._handler(event)
        matcher = {} if event.matcher is None else {"matcher": event.matcher}
        return {**matcher, "hooks": [self._handler(event)]}

    def _json_with_hooks(self, path: Path, before: str | None) -> str:
        text = "{}\n" if before is None or not before.strip() else before
        with _explained(path):
            if not isinstance(parse(text).value, dict):
                raise SettingsError(f"{path} is not a JSON object; nothing was changed")
            if self._hooks.is_flat and parse(text).get("version") is None:
                text = add(text, key="version", value=1)
            text = self._without_own(text, {event.name: self._item(event) for event in self._events})
            if parse(text).get("hooks") is None:
                text = add(text, key="hooks", value={})
            for event in self._events:
                if parse(text).get("hooks", event.name) is None:
                    text = add(text, "hooks", key=event.name, value=[self._item(event)])
                elif not any(_is_own(self.agent, handler) for _, handler in self._handlers(text, event.name)):
                    text = add(text, "hooks", event.name, value=self._item(event))
        return text

    def _json_without_hooks(self, path: Path, before: str) -> str | None:
        """Return the text without our handlers; None if nothing is left that was not ours."""
        with _explained(path):
            text = self._without_own(before, {})
            if text != before and not _backup_of(path).exists() and parse(text).value in ({}, {"version": 1}):
                return None
        return text

    def _without_own(self, text: str, wanted: Mapping[str, Any]) -> str:
        """Return the text without our handlers, and without the lists and objects that had nothing else. `wanted`:
        event -> item that stays."""
        while text.strip() and (found := self._first_own(text, wanted)) is not None:
            text = remove(text, *found)
            for length in (4, 2, 1):  # the group's list, the event's, and the object of all hooks
                node = parse(text).get(*found[:length]) if length < len(found) else None
                if node is not None and not node.value:
                    text = remove(text, *found[: 3 if length == 4 else length])
        return text

    def _first_own(self, text: str, wanted: Mapping[str, Any]) -> tuple[str | int, ...] | None:
        """Return the path of the first of our handlers that is not as `wanted`."""
        for name in list(parse(text).get("hooks").value if parse(text).get("hooks") else ()):  # type: ignore[union-attr]
            for place, handler in self._handlers(text, name):
                item = parse(text).get(*place[:3])
                if _is_own(self.agent, handler) and (item is None or item.value != wanted.get(name)):
                    return place
        return None

    def _handlers(self, text: str, name: str) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        """Yield the handlers of an event, each with its path."""
        items = parse(text).get("hooks", name)
        for index, item in enumerate(items.value if items is not None and isinstance(items.value, list) else ()):
            if self._hooks.is_flat:
                yield ("hooks", name, index), item
            elif isinstance(item, dict) and isinstance(item.get("hooks"), list):
                for number, handler in enumerate(item["hooks"]):
                    yield ("hooks", name, index, "hooks", number), handler

    def _toml_with_hooks(self, path: Path, before: str | None) -> str:
        text = _without_block(before or "")
        lines = []
        for event in self._events:
            handler = self._handler(event)
            lines += [f"[[hooks.{event.name}]]", f"[[hooks.{event.name}.hooks]]", 'type = "command"']
            lines += [f"command = {_toml_string(handler['command'])}", f"timeout = {handler['timeout']}", ""]
        block = MARKS[0] + "\n".join(lines[:-1]) + "\n" + MARKS[1]
        after = text + ("" if text.endswith("\n") or not text else "\n") + block
        try:
            tomllib.loads(after)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{path} has hooks in a form that cannot be added to ({error})") from None
        return after


def hook_settings(
    names: tuple[str, ...], command: tuple[str, ...], environment: Mapping[str, str], home: Path
) -> list[HookSettings]:
    """Return the settings of these agents; of all that have hooks, if none is named."""
    found = names or sorted(name for name, agent in agents().items() if agent.hooks is not None)
    return [HookSettings(name, command, environment, home) for name in found]


def write(change: Change) -> Path | None:
    """Make a change. Returns the path of the backup, if the file existed. Raises `SettingsError`."""
    path, backup = change.path, _backup_of(change.path)
    try:
        if _read(change.path) != change.before:
            raise SettingsError(f"{change.path} has changed meanwhile; nothing was changed")
        if change.after is None:
            path.unlink()
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        is_restored = _read(backup) == change.after
        if change.before is not None and not is_restored:
            with whole_file(backup, stat.S_IMODE(path.stat().st_mode)) as file:
                file.write(change.before.encode())
        write_whole(path, change.after)
        if is_restored:
            backup.unlink()
            return None
    except OSError as error:
        raise SettingsError(f"{error.filename or change.path} cannot be written: {error.strerror}") from None
    return backup if change.before is not None else None


def _backup_of(path: Path) -> Path:
    return path.with_name(path.name + BACKUP)


def _is_own(agent: str, handler: Any) -> bool:
    """Whether a handler runs `tooltap hook` for this agent."""
    line = handler.get("command", handler.get("bash")) if isinstance(handler, dict) else None
    if not isinstance(line, str):
        return False
    words = line.replace('"', " ").replace("'", " ").split()
    return any("tooltap" in word and words[at + 1 : at + 3] == ["hook", agent] for at, word in enumerate(words))


def _at(settings: Any, keys: tuple[str, ...]) -> Any:
    """Return the value at a path; None if there is none."""
    for key in keys:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings


def _hooks_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    hooks = config.get("hooks")
    return hooks if isinstance(hooks, dict) else {}


def _without_block(text: str) -> str:
    begin, end = text.find(MARKS[0]), text.find(MARKS[1])
    return text if begin < 0 or end < begin else text[:begin] + text[end + len(MARKS[1]) :]


def _toml_string(text: str) -> str:
    return f"'{text}'" if "'" not in text else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read(path: Path) -> str | None:
    """Return the text of a file; None if there is none. A pipe or a device is not read, which may never end. Raises
    `SettingsError`."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise SettingsError(f"{path} is not a file; nothing was changed")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8; nothing was changed") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None


def _parsed(path: Path, text: str) -> Any:
    with _explained(path):
        return parse(text if text.strip() else "{}")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn `NotJsonError` into an error about the file."""
    try:
        yield
    except NotJsonError as error:
        raise SettingsError(f"{path}: {error}; nothing was changed") from None
