"""What a user can set: every bound and every period of the daemon, from a TOML file and from flags (which win)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from tooltap.daemon.paths import journal_path, socket_path
from tooltap.normalizers.items import Limits

__all__ = ["Config", "ConfigError", "load_config"]

Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]


class ConfigError(ValueError):
    """The configuration is wrong; the message is one sentence for the user."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of the TOML file are the fields' names; those of `stream` are a table of their own."""

    socket: str | None = None
    """Default: `$TOOLTAP_SOCKET`, else `tooltap.sock` in the user's runtime directory."""
    journal: str | None = None
    """`sqlite:PATH`. Default: `journal.db` in the user's data directory."""
    durability: Literal["process", "power"] = "process"
    """What acknowledged lines survive: the daemon's death, or the machine's as well (one fsync per commit)."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    max_connections: Positive = 2_048
    max_streams: Positive = 20_000
    """Streams that have not ended; one more is refused."""
    frame_bytes: Annotated[int, msgspec.Meta(ge=1_024)] = 65_536
    """Length of one control frame from a client."""
    subscriber_bytes: Annotated[int, msgspec.Meta(ge=4_096)] = 262_144
    """Bytes written to a client that it has not taken; beyond, a subscriber is served from the journal."""
    ingest_bytes: Annotated[int, msgspec.Meta(ge=4_096)] = 262_144
    """Bytes of a publisher taken from its socket before its earlier ones are committed."""
    at_interval: Seconds = 5.0
    """An idle filtered subscription gets an `at` frame this often."""
    suspend_timeout: Seconds = 900.0
    """A suspended stream is closed after this long."""
    retention_days: Annotated[float, msgspec.Meta(ge=0)] = 30.0
    """Events of streams that ended longer ago are deleted; 0 keeps them however old they are."""
    retention_bytes: Annotated[int, msgspec.Meta(ge=0)] = 8_589_934_592
    """When the journal is longer, the events of the streams that ended first are deleted; 0 lets it grow."""
    retention_interval: Seconds = 60.0
    """How often the journal is looked through for what is to be deleted."""
    drain_interval: Seconds = 5.0
    """Spools that `run` and `proxy` have left behind are looked for this often."""
    snapshot_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1_048_576
    """A stream's tail is replaced by a snapshot when it is longer than this, and than four times the last snapshot."""
    shutdown_timeout: Seconds = 2.0
    """How long a shutdown waits for what has been read to be committed and written out."""
    stream: Limits = Limits()
    """Bounds of each stream's parser."""

    @property
    def socket_path(self) -> Path:
        return Path(self.socket).expanduser() if self.socket else socket_path()

    @property
    def journal_path(self) -> Path:
        """Raises `ConfigError` for a journal of an unknown kind."""
        if self.journal is None:
            return journal_path()
        kind, colon, place = self.journal.partition(":")
        if not colon:
            return Path(kind).expanduser()
        if kind != "sqlite" or not place:
            raise ConfigError(f"unknown journal {self.journal!r}: it is given as sqlite:PATH")
        return Path(place).expanduser()


def load_config(path: Path | None = None, **flags: Any) -> Config:
    """The file's settings, with the flags that are not None over them. Raises `ConfigError`."""
    settings: dict[str, Any] = {}
    if path is not None:
        try:
            settings = msgspec.toml.decode(path.read_bytes())
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not valid TOML: {error}") from error
    settings |= {name: value for name, value in flags.items() if value is not None}
    try:
        return msgspec.convert(settings, Config)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        where = f"{place.rstrip('`')}: " if place else ""
        raise ConfigError(f"configuration{f' {path}' if path else ''}: {where}{what[0].lower()}{what[1:]}") from error
