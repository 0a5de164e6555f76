"""Attacks on masking: one secret of each kind enters in a stream, and leaves by no door that is called masked in
`docs/explanation/secrets.md`. Every command that reads is here, or says why not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from tests.cli.command import here
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed
from tests.secrets.shapes import fakes
from tooltap.cli.subcommands import COMMANDS

FAKES = fakes(11)
SESSION = "masked-session"


def lines() -> bytes:
    """A recording of Claude Code, with each secret in an answer, in a command and in what it printed."""
    found: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "session_id": SESSION, "cwd": "/ws", "tools": ["Bash"]}
    ]
    for number, fake in enumerate(FAKES):
        command = f"cat <<END\n{fake.text}\nEND"  # its preview is cut within some of them
        call = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": command}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": fake.text}
        said: list[Any] = [{"type": "text", "text": f"word {fake.text}"}, call]
        found.append({"type": "assistant", "session_id": SESSION, "message": {"role": "assistant", "content": said}})
        found.append({"type": "user", "session_id": SESSION, "message": {"role": "user", "content": [result]}})
    return b"".join(json.dumps(one).encode() + b"\n" for one in found)


class Masked(NamedTuple):
    daemon: Running
    browser: Browser
    folder: Path
    log: list[Any]


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Masked]:
    folder = tmp_path_factory.mktemp("masked")
    (folder / "claude.jsonl").write_bytes(lines())
    with capture_logs() as log, browsed(folder, mask_journal=request.param) as (daemon, browser):
        done = here("ingest", "--socket", daemon.path, "--dialect", "claude-stream", folder / "claude.jsonl")
        assert done.returncode == 0, done
        daemon.until_indexed()
        (folder / "claude.jsonl").unlink()
        yield Masked(daemon, browser, folder, log)


PAGES = [
    "/api/events?after=start&limit=1000",
    "/api/sessions",
    "/api/search?query=word&limit=100",
    "/",
    f"/sessions/{SESSION}",
    f"/sessions/{SESSION}/export.md?redact=0",
    "/search?query=word",
]
COMMANDS_THAT_READ: dict[str, list[list[str]]] = {
    "tail": [["--after", "start", "--no-follow", "--mode", mode] for mode in ("json", "verbose", "text")],
    "sessions": [[], ["--json"]],
    "search": [["word"], ["word", "--json"]],
    "calls": [[], ["--json"]],
    "usage": [[]],
    "show": [[SESSION], ["last"]],
    "files": [[]],
    "waiting": [[]],
    "export": [["--html", SESSION, "--no-redact"], ["--markdown", SESSION, "--no-redact"]],
    "stats": [[], ["--json"]],
}
NOT_READ = {
    "resume": "prints a command with the id of a session",
    "watch": "waits for a person",
    "top": "needs a terminal; it shows titles, as `sessions` does",
    "open": "opens the page",
}


def kept(shown: bytes) -> list[str]:
    """The kinds of the secrets that are there as they were."""
    return [fake.shape for fake in FAKES if fake.secret.encode() in shown or json.dumps(fake.secret).encode() in shown]


def test_every_command_that_reads_is_tried() -> None:
    reading = {name for name, entry in COMMANDS.items() if entry.folder == "read"}
    assert reading == COMMANDS_THAT_READ.keys() | NOT_READ.keys()


@pytest.mark.parametrize("served", [True], indirect=True, ids=["masked"])
def test_masked_journal_shows_none(served: Masked) -> None:
    """At any door; nor do its files hold one."""
    socket = ("--socket", served.daemon.path)
    wrong: dict[str, list[str]] = {}
    for name, calls in COMMANDS_THAT_READ.items():
        for options in calls:
            done = here(name, *options, *socket)
            assert done.returncode in (0, 1), done
            wrong[f"{name} {options}"] = kept(done.stdout + done.stderr)
    for target in PAGES:
        wrong[target] = kept(served.browser.get(target).body)
    for view in ("raw", "display"):
        wire = served.daemon.connect()
        wire.send("subscribe", after="start", follow=False, **({"as": view} if view == "display" else {}))
        wrong[f"socket {view}"] = kept(b"".join(wire.lines()))
    wrong["log"] = kept(repr(served.log).encode())
    wrong["files"] = kept(b"".join(one.read_bytes() for one in served.folder.iterdir() if one.is_file()))
    assert {door: kinds for door, kinds in wrong.items() if kinds} == {}


@pytest.mark.parametrize("served", [True, False], indirect=True, ids=["masked", "as it is"])
def test_exports_show_none(served: Masked) -> None:
    """Also of a journal that has them."""
    socket = ("--socket", served.daemon.path)
    wrong: dict[str, list[str]] = {}
    for form in ("--html", "--markdown"):
        done = here("export", form, SESSION, *socket)
        assert b"[masked " in done.stdout, done
        wrong[form] = kept(done.stdout + done.stderr)
    for options in ([], ["--archive"], ["--bodies"]):
        done = here("journal", "export", *options, "--journal", f"sqlite:{served.folder / 'journal.db'}")
        assert b"[masked " in done.stdout, done.stderr
        wrong[f"journal export {options}"] = kept(done.stdout + done.stderr)
    for form in ("export.html", "export.md"):
        wrong[form] = kept(served.browser.get(f"/sessions/{SESSION}/{form}").body)
    wrong["log"] = kept(repr(served.log).encode())
    assert {door: kinds for door, kinds in wrong.items() if kinds} == {}
