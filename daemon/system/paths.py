"""Where the socket, the journal, the spools and the configuration are."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = [
    "SOCKET_VARIABLE",
    "SPOOL_VARIABLE",
    "config_path",
    "journal_path",
    "socket_path",
    "spool_path",
    "web_token_path",
]

SOCKET_VARIABLE = "TOOLTAP_SOCKET"
SPOOL_VARIABLE = "TOOLTAP_SPOOL"


def socket_path() -> Path:
    """`$TOOLTAP_SOCKET`, else `tooltap.sock` in the user's runtime directory."""
    if named := os.environ.get(SOCKET_VARIABLE):
        return Path(named)
    import warnings

    import platformdirs  # only where nothing is named: a program that talks to the daemon is done sooner

    with warnings.catch_warnings():
        # Without $XDG_RUNTIME_DIR platformdirs warns and uses a private directory, which is fine.
        warnings.simplefilter("ignore")
        return platformdirs.user_runtime_path() / "tooltap.sock"


def config_path() -> Path:
    """The configuration file of a daemon without `--config`."""
    import platformdirs

    return platformdirs.user_config_path("tooltap") / "tooltap.toml"


def journal_path() -> Path:
    return _data_path() / "journal.db"


def spool_path() -> Path:
    """`$TOOLTAP_SPOOL`, else `spool` in the user's data directory: publishers and daemon must use the same."""
    if named := os.environ.get(SPOOL_VARIABLE):
        return Path(named)
    return _data_path() / "spool"


def web_token_path() -> Path:
    """The web gateway's token, unless `web.token_file` is set."""
    return _data_path() / "web-token"


def _data_path() -> Path:
    import platformdirs

    return platformdirs.user_data_path("tooltap")
