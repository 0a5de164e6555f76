"""The URL of a journal on NATS, as in `--journal nats://…`: servers, login, and options.

`nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT][,HOST…][/NAME][?OPTION=VALUE&…]`, or `tls://` where TLS is required. A URL
with a secret belongs in the configuration file: every user of a machine can read a command line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from tooltap.daemon.journal.interface import PlaceError

if TYPE_CHECKING:
    import ssl


SCHEMES = ("nats", "tls")
DEFAULT_NAME = "tooltap"
PORT = 4222

File: TypeAlias = str


class NatsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query of the URL."""

    creds: File | None = None
    """A credentials file: user JWT and seed."""
    nkey: File | None = None
    """A file with an nkey seed."""
    tls_ca: File | None = None
    """The authority that signed the server's certificate, if the system does not know it."""
    tls_cert: File | None = None
    tls_key: File | None = None
    """The client certificate and key, for a server that asks for them."""
    domain: str | None = None
    """The JetStream domain, where the daemon connects to a leaf node."""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=5)] | None = None
    """How many servers store the journal. Default: 1 for a new journal; an existing one stays as it is."""
    max_bytes: Annotated[int, msgspec.Meta(ge=1_000_000)] | None = None
    """Beyond this the server drops the oldest events. Default: no limit; an existing journal stays as it is."""
    connect_timeout: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    """Seconds that a starting daemon tries to reach a server."""


class NatsPlace(msgspec.Struct, frozen=True, kw_only=True):
    servers: tuple[str, ...]
    name: str = DEFAULT_NAME
    """Name of the JetStream stream that holds the events; the second stream is `<name>-state`. Subjects: `<name>.>`."""
    user: str | None = None
    password: str | None = None
    token: str | None = None
    options: NatsOptions = NatsOptions()

    def __str__(self) -> str:
        """Servers and name, without secrets, for messages and logs."""
        return f"{','.join(self.servers)}/{self.name}"

    def connect_options(self) -> dict[str, Any]:
        """Arguments for `nats.connect`. Raises `PlaceError` for files that cannot be read."""
        options = self.options
        secrets = {
            "user": self.user,
            "password": self.password,
            "token": self.token,
            "user_credentials": _file(options.creds),
            "nkeys_seed": _file(options.nkey),
            "tls": self._tls(),
        }
        return {"servers": list(self.servers), **{key: value for key, value in secrets.items() if value is not None}}

    def _tls(self) -> ssl.SSLContext | None:
        options = self.options
        if not (self.servers[0].startswith("tls:") or options.tls_ca or options.tls_cert):
            return None
        import ssl  # every daemon and `config check` read places, and few of them have TLS

        try:
            context = ssl.create_default_context(cafile=_file(options.tls_ca))
            if options.tls_cert is not None:
                context.load_cert_chain(_file(options.tls_cert) or "", _file(options.tls_key))
        except ssl.SSLError as error:
            raise PlaceError(f"the journal's TLS files cannot be used: {error}") from error
        return context


def parse_nats_url(url: str) -> NatsPlace:
    """Read the URL. Raises `PlaceError`."""
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    user, colon, password = login.partition(":")
    servers = tuple(f"{parts.scheme}://{_with_port(host)}" for host in hosts.split(",") if host)
    if parts.scheme not in SCHEMES or not servers:
        raise PlaceError(f"the journal {parts.scheme}://{hosts} is not of the form nats://HOST[:PORT][/NAME][?OPTIONS]")
    name = parts.path.strip("/") or DEFAULT_NAME
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise PlaceError(f"the name of a journal on NATS consists of letters, digits, - and _, not {name!r}")
    query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
    try:
        options = msgspec.convert(query, NatsOptions, strict=False)
    except msgspec.ValidationError as error:
        what, _, option = str(error).partition(" - at `$.")
        where = f"{option.rstrip('`')}: " if option else ""
        raise PlaceError(f"the journal's URL: {where}{what[0].lower()}{what[1:]}") from error
    return NatsPlace(
        servers=servers,
        name=name,
        user=unquote(user) if colon else None,
        password=unquote(password) if colon else None,
        token=unquote(login) if at and not colon else None,
        options=options,
    )


def _with_port(host: str) -> str:
    return host if re.search(r":\d+$", host) else f"{host}:{PORT}"


def _file(name: str | None) -> str | None:
    if name is None:
        return None
    path = Path(name).expanduser()
    try:
        path.open("rb").close()
    except OSError as error:
        raise PlaceError(f"the journal's file {path} cannot be read: {error.strerror}") from error
    return str(path)
