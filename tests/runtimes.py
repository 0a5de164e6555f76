"""`make typescript-runtimes`: the packed TypeScript client in an empty project, under each runtime that can be had.

Each comes from the package registry into a project of its own, with the package, and reads the events of a real daemon
over its socket and over HTTP. A runtime that cannot be installed is named, and fails nothing outside CI.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cli.command import CLAUDE, environment, serving, tooltap
from tests.test_layout import ROOT

__all__ = ["main"]

CLIENT = ROOT / "clients" / "typescript"
PROGRAM = Path(__file__).with_name("runtimes.mjs")
RUNTIMES = {
    "node@20": ("node",),
    "node@22": ("node",),
    "node@24": ("node",),
    "deno": ("deno", "run", "--allow-all"),
    "bun": ("bun", "run"),
}
"""Package of the registry -> the command that runs a program with it."""
PATIENCE = 300.0
"""Seconds for a download, and for a program."""


def main() -> int:
    """Return 1 if the client failed under a runtime, or, in CI, if one could not be had."""
    with tempfile.TemporaryDirectory(prefix="tooltap-runtimes-") as name:
        folder = Path(name)
        npm("pack", "--silent", "--pack-destination", str(folder), cwd=CLIENT)
        [packed] = folder.glob("*.tgz")
        results = {runtime: _tried(runtime, packed, folder / runtime) for runtime in RUNTIMES}
    for runtime, result in results.items():
        print(f"{runtime}: {result}")
    absent = [runtime for runtime, result in results.items() if result.startswith("NOT TRIED")]
    failed = [runtime for runtime, result in results.items() if result.startswith("FAILED")]
    print(f"{len(results) - len(absent) - len(failed)} passed, {len(failed)} failed, {len(absent)} not tried")
    return 1 if failed or (absent and os.environ.get("CI")) else 0


def npm(*arguments: str, cwd: Path) -> None:
    subprocess.run(["npm", *arguments], cwd=cwd, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)


def _tried(runtime: str, packed: Path, project: Path) -> str:
    """Install a runtime and the package, run the program, and say in one line what happened."""
    project.mkdir()
    (project / "package.json").write_text('{"private": true, "type": "module"}')
    try:
        npm("install", "--no-fund", "--no-audit", "--silent", runtime, cwd=project)
    except (OSError, subprocess.SubprocessError) as error:
        return f"NOT TRIED, because it cannot be installed: {error}"
    npm("install", "--no-fund", "--no-audit", "--silent", str(packed), cwd=project)
    shutil.copy(PROGRAM, project)
    program, *options = RUNTIMES[runtime]
    binary = str(project / "node_modules" / ".bin" / program)
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    home = project / "daemon"
    home.mkdir()
    config = home / "tooltap.toml"
    config.write_text(f'[web]\ntoken_file = "{home / "token"}"\n')
    socket = home / "t.sock"
    with serving(socket, home, "--web", "127.0.0.1:0", "--config", config):
        assert tooltap("ingest", "--socket", socket, CLAUDE).returncode == 0
        stats = json.loads(tooltap("stats", "--json", "--socket", socket).stdout)
        done = subprocess.run(
            [binary, *options, PROGRAM.name, str(socket), stats["web"]["url"]],
            cwd=project,
            env=environment(),
            input=(home / "token").read_text(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    if done.returncode:
        return f"FAILED with {version}: {done.stderr.strip()}"
    found = json.loads(done.stdout)
    expected = stats["journal"]["latest"]
    if len(found["socket"]) != expected or found["web"] != found["socket"] or found["sessions"] != 1:
        return f"FAILED with {version}: {expected} events became {done.stdout.strip()}"
    return f"passed with {version}, {expected} events over the socket and over HTTP"


if __name__ == "__main__":
    sys.exit(main())
