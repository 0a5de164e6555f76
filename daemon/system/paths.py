"""Default paths of the socket, the journal, the spools and the configuration.

`run` and `proxy` need some of them before they start an agent, which must not wait for the imports of `pathlib` and
`platformdirs`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` takes as long as all else that a hook imports
if TYPE_CHECKING:
    from pathlib import Path

SOCKET_VARIABLE = "TOOLTAP_SOCKET"
SPOOL_VARIABLE = "TOOLTAP_SPOOL"


def socket_path() -> Path:
    """`$TOOLTAP_SOCKET`, else `tooltap.sock` in the user's runtime directory."""
    if named := os.environ.get(SOCKET_VARIABLE):
        return _path(named)
    import warnings

    import platformdirs  # only where nothing is named: a program that talks to the daemon is done sooner

    with warnings.catch_warnings():
        # Without $XDG_RUNTIME_DIR platformdirs warns and uses a private directory, which is fine.
        warnings.simplefilter("ignore")
        return platformdirs.user_runtime_path() / "tooltap.sock"


def away_file() -> str:
    """The file that exists while the user is away (`tooltap away`). It holds for how many seconds a hook may then hide
    an agent's dialog."""
    return os.path.join(data_folder(), "away")


def config_path() -> Path:
    """The configuration file of a daemon without `--config`."""
    import platformdirs

    return platformdirs.user_config_path("tooltap") / "tooltap.toml"


def journal_path() -> Path:
    return _data_path() / "journal.db"


def log_path() -> Path:
    """The log of a daemon that `tooltap up` runs."""
    return _data_path() / "up.log"


def journals_folder() -> Path:
    """Folder for anchors of journals on servers: see `Memory` in `journal/nats/identity.py`."""
    return _data_path() / "journals"


def daemon_folders() -> list[str]:
    """Folders in which running daemons are recorded: first the one in the data directory; on Linux also the one under
    the user's home directory according to the user database, as the environment may name another home."""
    folders = [data_folder()]
    if sys.platform == "linux" and not os.environ.get("XDG_DATA_HOME"):
        import pwd

        try:
            folders.append(os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".local/share/tooltap"))
        except KeyError:
            pass
    return [os.path.join(folder, "daemons") for folder in dict.fromkeys(folders)]


def remotes_path() -> Path:
    """The list of remotes of a daemon whose journal is on a server."""
    return _data_path() / "remotes.json"


def indexes_folder() -> Path:
    """Folder for the search indexes of journals on servers."""
    return _data_path() / "search"


def spool_path() -> Path:
    return _path(spool_folder())


def web_token_path() -> Path:
    """Default file of the web gateway's token (setting `web.token_file`)."""
    return _data_path() / "web-token"


def gateway_key_path() -> Path:
    """Default file of the key of `tooltap gateway` (option `--key-file`)."""
    return _data_path() / "gateway-key"


def _data_path() -> Path:
    return _path(data_folder())


def _path(name: str) -> Path:
    from pathlib import Path

    return Path(name)


def spool_folder() -> str:
    """`$TOOLTAP_SPOOL`, else `spool` in the user's data directory: publishers and daemon must use the same."""
    return os.environ.get(SPOOL_VARIABLE) or os.path.join(data_folder(), "spool")


def data_folder() -> str:
    """The user's data directory."""
    if sys.platform == "linux":  # as `platformdirs` finds it, which a test compares
        named = os.environ.get("XDG_DATA_HOME", "").strip()
        return os.path.join(named if os.path.isabs(named) else os.path.expanduser("~/.local/share"), "tooltap")
    import platformdirs

    return platformdirs.user_data_dir("tooltap")
