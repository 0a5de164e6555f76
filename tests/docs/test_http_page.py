"""docs/reference/http.md is true: every command in it runs against a daemon, and prints what stands under it.

`…` marks what is left out, and a line may be broken anywhere.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import cast

import pytest

from tests.cli.command import CLAUDE, environment, serving, tooltap
from tests.daemon.running import Wire
from tests.daemon.web.browsing import store
from tests.docs.pages import DOCS, blocks_of
from tooltap.daemon.web.api.api import routes
from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.http.services import Services

PAGE = DOCS / "reference" / "http.md"
TIMEOUT = 60
PRELUDE, *BLOCKS = blocks_of(PAGE)
EXAMPLES = [
    (command.tag, command.text, printed.text) for command, printed in zip(BLOCKS[::2], BLOCKS[1::2], strict=True)
]

pytestmark = pytest.mark.programs("curl", "jq")


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of a shell beside a daemon that has a recorded stream, and a display output."""
    home = tmp_path_factory.mktemp("home")
    program = home / "bin" / "tooltap"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tooltap.cli "$@"\n')
    program.chmod(0o755)
    config = home / "tooltap.toml"
    config.write_text(f'[web]\ntoken_file = "{home / "token"}"\n')
    socket = home / "t.sock"
    with serving(socket, home, "--web", "127.0.0.1:0", "--config", config):
        assert tooltap("ingest", "--socket", socket, "--stream", "claude", CLAUDE).returncode == 0
        about = {"mimeType": "text/x-python", "path": "/home/me/app.py", "language": "python"}
        with Wire(socket) as wire:
            while wire.ask("stats")["search"]["upto"] < wire.ask("stats")["journal"]["latest"]:
                time.sleep(0.05)
            output_id = store(wire, b"import sys\nprint(sys.argv)\n", **about)
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        yield environment(TOOLTAP_SOCKET=str(socket), PATH=path, TMPDIR=str(home), id=output_id)


def pattern(printed: str) -> re.Pattern[str]:
    left_out = [re.escape(part) for part in printed.strip().split("…")]
    return re.compile(re.sub(r"\\\n(?:\\ )*", r"\\s*", ".*?".join(left_out)), re.DOTALL)


@pytest.mark.parametrize(("tag", "command", "printed"), EXAMPLES)
def test_commands_print_as_shown(tag: str, command: str, printed: str, variables: dict[str, str]) -> None:
    script = f"set -euo pipefail\n{PRELUDE.text}{command}"
    bash = subprocess.Popen(
        ["bash", "-c", script], env=variables, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with bash as child:
        assert child.stdout is not None
        if tag == "stream":
            said = ""
            while pattern(printed).fullmatch(said.strip()) is None:
                line = child.stdout.readline()
                assert line, said
                said += line
            os.killpg(child.pid, signal.SIGKILL)
        else:
            said = child.stdout.read()

            assert pattern(printed).fullmatch(said.strip()), said
            assert child.wait(TIMEOUT) == 0


def test_endpoints_are_described() -> None:
    titles = " ".join(re.findall(r"^## .*", PAGE.read_text(), re.MULTILINE))

    assert {name.lower() for name in re.findall(r"`(/[\w/.-]+)`", titles)} == {
        re.sub(r"\{(?:output_)?(\w+)(?::\w+)?\}", r"\1", route.path)
        for route in [*routes(cast(Services, None), cast(Logins, None), str)]
    }
