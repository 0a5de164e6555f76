"""Optional packages: the command that installs them.

The command names the packages, not an extra of tooltap: they are on the package index even if tooltap was installed
from elsewhere.
"""

from __future__ import annotations

import re

from tooltap.daemon.system.shell import shell_line

DISTRIBUTION = "tooltap"
_EXTRA = re.compile(r"""\bextra\s*==\s*["']([\w.-]+)["']""")


def how_to_install(extra: str) -> str:
    """The command that installs the packages of an extra of tooltap: `pip install 'httpx>=0.27'`."""
    from importlib.metadata import PackageNotFoundError, requires  # slow, and seldom needed

    try:
        declared = requires(DISTRIBUTION) or []
    except PackageNotFoundError:  # a source folder that was not installed
        return shell_line("pip", "install", f".[{extra}]")
    packages = [one.partition(";")[0].strip() for one in declared if extra in _EXTRA.findall(one)]
    return shell_line("pip", "install", *packages)
