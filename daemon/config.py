"""The configuration: every limit and period of the daemon, from a TOML file and from flags, which win."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec

from tooltap.daemon.answers.rules import AnswerRule
from tooltap.daemon.journal.interface import PlaceError
from tooltap.daemon.journal.open import Place, parse_place
from tooltap.daemon.notifications.rules import NotifyRule
from tooltap.daemon.sessions.prices import Price
from tooltap.daemon.sessions.usage import Billing
from tooltap.daemon.system.paths import journal_path, socket_path, web_token_path
from tooltap.daemon.system.tcp import parse_address
from tooltap.daemon.taps.follow.settings import Follow
from tooltap.daemon.taps.remotes.settings import Bounds
from tooltap.daemon.telemetry.settings import Telemetry
from tooltap.daemon.views.rules import Rewriting, ToolRule, check_tool
from tooltap.normalizers.core.items import Limits

Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
Tables: TypeAlias = dict[str, dict[str, Any]]
T = TypeVar("T")


class ConfigError(ValueError):
    """The configuration is wrong; the message is one sentence for the user."""


_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_ORIGIN = re.compile(r"https?://[^/\s?#]+")


class Web(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The web gateway: a page for browsers, and events over HTTP."""

    enabled: bool = False
    listen: str = "127.0.0.1:8422"
    """`HOST:PORT`; port 0 is any free port."""
    allow_remote: bool = False
    """Allow an address that other machines can reach. Nothing is encrypted."""
    hosts: tuple[str, ...] = ()
    """Host names that browsers may use, in addition to that of `listen` and this machine's own."""
    origins: tuple[str, ...] = ()
    """Origins of other pages that may send requests, with the token: like `http://localhost:5173`."""
    token_file: str | None = None
    """The file with the token that lets a client in. Default: `web-token` in the user's data directory."""
    login_idle: Seconds = 604_800.0
    """A login ends when no page of it was opened, or was open, for this long."""
    login_lifetime: Seconds = 2_592_000.0
    """A login ends after this long in any case."""
    connections: Positive = 512
    """Connections of all clients together; one more is closed, or takes the place of one whose client has the most."""
    client_connections: Positive = 256
    """Connections of one user of this machine, or of one address of others; one more is closed."""

    def __post_init__(self) -> None:
        try:
            parse_address(self.listen)
        except ValueError as error:
            raise ValueError(f"listen is {error}") from None
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"an origin looks like http://localhost:5173, not {origin!r}")

    @property
    def token_path(self) -> Path:
        return Path(self.token_file).expanduser() if self.token_file else web_token_path()


class Stream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bounds of a stream's parser that a user may change; `Limits` has the others."""

    line_bytes: Positive = Limits().line_bytes
    depth: Annotated[int, msgspec.Meta(ge=1, le=300)] = Limits().depth
    string_bytes: Positive = Limits().string_bytes
    event_bytes: Positive = Limits().event_bytes
    view_bytes: Positive = Limits().view_bytes

    @property
    def limits(self) -> Limits:
        return Limits(**msgspec.structs.asdict(self))


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields are the keys of the TOML file; `stream`, `follow`, `web`, `usage`, `otlp`, `remotes`, `rewriting`,
    `prices.NAME` and `tools.NAME` are tables."""

    socket: str | None = None
    """Default: `$TOOLTAP_SOCKET`, else `tooltap.sock` in the user's runtime directory."""
    journal: str | None = None
    """`sqlite:PATH`, or a URL as in `journal/nats/place.py`. Default: `journal.db` in the user's data directory."""
    mask_journal: bool | None = None
    """Mask secrets in all that is committed. Default: only if the journal is elsewhere, on NATS."""
    durability: Literal["process", "power"] = "process"
    """What acknowledged lines survive: the death of the daemon, or a power failure too (one fsync per commit)."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    max_connections: Positive = 2_048
    max_streams: Positive = 20_000
    """Streams of publishers that have not ended; one more is refused."""
    suspend_timeout: Seconds = 900.0
    """A suspended stream is closed after this long."""
    settle_timeout: Seconds = 3.0
    """A stream that has been silent for this long after an answer is shown as done, until it goes on."""
    retention_days: Annotated[float, msgspec.Meta(ge=0)] = 30.0
    """What only taps have sent is deleted this long after it happened and was stored; 0 retains it however old it is.
    Sessions that were read from an agent's own session files or database are not deleted for their age."""
    retention_bytes: Annotated[int, msgspec.Meta(ge=0)] = 8_589_934_592
    """When the journal is larger, the output bodies of the older half of the sessions are deleted (not on NATS), and
    then the sessions that were used longest ago; 0 lets it grow. Pinned sessions are kept."""
    scrub_interval: Annotated[float, msgspec.Meta(ge=0)] = 86_400.0
    """How often everything in the journal is verified; 0: never. The first time is a minute after the start."""
    trace_file_bytes: Annotated[int, msgspec.Meta(ge=4_096)] = 64 * 1024 * 1024
    """A trace file of this length is closed and the next one begun; at most a quarter of `trace_total_bytes`."""
    trace_total_bytes: Annotated[int, msgspec.Meta(ge=16_384)] = 1024 * 1024 * 1024
    """Bytes of all traces in a folder; beyond this, the oldest are deleted."""
    index_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1_073_741_824
    """When the index for searching is larger, its oldest events are not searched any more; 0: there is none."""
    stall_seconds: Seconds = 0.25
    """What holds the event loop for longer is reported."""
    stream: Stream = Stream()
    """Bounds of each stream's parser."""
    follow: Follow = Follow()
    """See `taps/follow/settings.py`. `follow = "all"` is short for a table with `agents = ["all"]`."""
    web: Web = Web()
    tools: dict[str, ToolRule] = {}
    """How results are shown to the user, by the tool's canonical name; `"*"`: for every tool."""
    usage: Billing = Billing()
    """Subscriptions and budgets."""
    notify: tuple[NotifyRule, ...] = ()
    """When to call a person, and how."""
    otlp: Telemetry = Telemetry()
    """Where spans are sent."""
    answers: tuple[AnswerRule, ...] = ()
    """What is answered without a person."""
    prices: dict[str, Price] = {}
    """Prices of models, by their names, which take precedence over the list prices."""
    remotes: Bounds = Bounds()
    """What the daemons of other machines may send."""
    rewriting: Rewriting = Rewriting()
    """Bounds of the commands that make views: see `views/rules.py`."""

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.answers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two rules have the name {name!r}")

    @property
    def socket_path(self) -> Path:
        return Path(self.socket).expanduser() if self.socket else socket_path()

    @property
    def journal_place(self) -> Place:
        """The setting `journal`, parsed, or its default. Raises `ConfigError`."""
        if self.journal is None:
            return journal_path()
        try:
            return parse_place(self.journal)
        except PlaceError as error:
            raise ConfigError(str(error)) from error

    @property
    def masks_journal(self) -> bool:
        """The setting `mask_journal`, or its default. Raises `ConfigError`."""
        return not isinstance(self.journal_place, Path) if self.mask_journal is None else self.mask_journal


def load_config(path: Path | None = None, *, unless_set: dict[str, Any] | None = None, **flags: Any) -> Config:
    """Load the settings: those of the file, overridden by flags that are not None, and by `unless_set` only where the
    file has none. Tables are merged key by key. Raises `ConfigError`."""
    text = "" if path is None else _read(path)
    settings = _parse(text, path)
    for name, value in (unless_set or {}).items():
        if isinstance(value, dict) and isinstance(table := settings.setdefault(name, {}), dict):
            settings[name] = value | table
        else:
            settings.setdefault(name, value)
    if isinstance(agent := settings.get("follow"), str):
        settings["follow"] = {"agents": [agent]}
    for name, value in flags.items():
        table = settings.get(name)
        if isinstance(value, dict) and isinstance(table, dict):
            table |= value
        elif value is not None:
            settings[name] = value
    try:
        tools = {
            name: _tool(name, table) for name, table in _convert(settings.pop("tools", {}), Tables, "tools").items()
        }
        stated = _convert(settings.pop("prices", {}), Tables, "prices")
        prices = {name: _convert(table, Price, "prices", name) for name, table in stated.items()}
        return msgspec.structs.replace(_convert(settings, Config), tools=tools, prices=prices)
    except _Mistake as mistake:
        line = line_of(text, mistake.keys) if mistake.keys else None
        place = "configuration" if path is None else str(path) if line is None else f"{path}:{line}"
        where = f"{'.'.join(mistake.keys)}: " if mistake.keys else ""
        raise ConfigError(f"{place}: {where}{mistake}") from None


class _Mistake(Exception):
    """An error in the configuration: one sentence, and the path of the key that it is about."""

    def __init__(self, sentence: str, *keys: str) -> None:
        super().__init__(sentence)
        self.keys = keys


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _parse(text: str, path: Path | None) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        sentence, _, place = str(error).partition(" (at line ")
        line = f":{place.partition(',')[0]}" if place else f":{text.rstrip().count(chr(10)) + 1}"
        raise ConfigError(f"{path}{line}: not valid TOML: {sentence[0].lower()}{sentence[1:]}") from error


def _convert(value: Any, kind: type[T], *keys: str) -> T:
    """`msgspec.convert` for the value at the path `keys`. Raises `_Mistake`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        sentence, _, place = str(error).replace(" | null`", "`").partition(" - at `$")  # TOML has no null
        inner = [key for key in re.split(r"[.\[]", place.rstrip("`")) if key and not key.endswith("]")]
        if unknown := _UNKNOWN.fullmatch(sentence):
            sentence = "there is no such key"
            inner.append(unknown[1])
        raise _Mistake(f"{sentence[0].lower()}{sentence[1:]}", *keys, *inner) from None


def _tool(name: str, table: dict[str, Any]) -> ToolRule:
    """Convert and check the table `tools.NAME`. Raises `_Mistake`."""
    rule = _convert(table, ToolRule, "tools", name)
    if (wrong := check_tool(name, rule)) is not None:
        key, sentence = wrong
        raise _Mistake(sentence, "tools", name, *([key] if key else []))
    return rule


# -- the line of a mistake --------------------------------------------------------------------------------------------


def line_of(text: str, path: Sequence[str]) -> int | None:
    """The line (1-based) of a valid TOML text that sets a key; None if there is none. As `tomllib` reports no
    positions, prefixes of the text of increasing length are parsed."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if path[-1] in line and _has(_parsed(lines, number), path):
            return number
    return None


def _parsed(lines: list[str], number: int) -> Any:
    """Parse the file up to the end of the statement that contains line `number`."""
    for end in range(number, len(lines) + 1):
        try:
            return tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
    return {}


def _has(value: Any, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True
