"""Completion of commands, options and names, in real shells in which a word is typed."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tests.cli.command import CLAUDE, environment, here, sentence, tooltap
from tests.cli.screen import Screen, started
from tests.daemon.events import commit, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import until
from tooltap.cli.common.completion import SHELLS
from tooltap.cli.subcommands import COMMANDS
from tooltap.cli.subcommands import tooltap as root
from tooltap.normalizers.catalog.registry import stores

SESSION = "101730e3-98ed-4d2b-8e93-5caa86bfc39f"
"""The session of the recording."""
CLEAR_LINE = "\x15"
HEAVY = {"anyio", "asyncio", "msgspec", "orjson", "rich", "structlog"}
PATIENCE = 60.0
"""Seconds that a completion waits for the daemon, in place of 0.1."""
TOOLTAP = f"""
import os
if "_TOOLTAP_COMPLETE" in os.environ:
    from tooltap.cli.common import completion
    completion.TIMEOUT = {PATIENCE}
from tooltap.cli.main import main
main()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with `tooltap` and an agent on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "patient.py").write_text(TOOLTAP)
    tooltap = shlex.join([sys.executable, str(tmp_path / "patient.py")])
    for name, line in (("tooltap", f'exec {tooltap} "$@"'), ("claude", "exit 1")):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    return tmp_path


def variables(home: Path, **changes: str) -> dict[str, str]:
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    usual = {"PATH": path, "HOME": str(home), "TERM": "dumb", "TOOLTAP_SOCKET": str(home / "no.sock")}
    return environment(**{**usual, **changes})


@contextmanager
def shell(name: str, home: Path, **changes: str) -> Iterator[Screen]:
    """An interactive shell that has evaluated the completion script."""
    bare = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"]}[name]
    prepare = "autoload -Uz compinit && compinit -D -u; " if name == "zsh" else ""
    with started([name, *bare, "-i"], variables(home, **changes), size=(24, 500)) as screen:
        screen.type(f"cd {home}; {prepare}eval \"$(tooltap completion {name})\"; echo rea''dy\n".encode())
        screen.until(b"ready")
        yield screen


def fish(home: Path, typed: str, **changes: str) -> dict[str, str]:
    """The completions of fish with their descriptions."""
    script = f"tooltap completion fish | source; complete -C {shlex.quote(typed)}"
    finished = subprocess.run(
        ["fish", "--no-config", "-c", script],
        cwd=home,
        env=variables(home, **changes),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert finished.stderr == ""
    offered = (line.partition("\t") for line in finished.stdout.splitlines())
    return {word: about for word, _, about in offered}


def installed(name: str) -> pytest.MarkDecorator:
    return pytest.mark.programs(name)


@pytest.mark.parametrize("name", [pytest.param(name, marks=installed(name)) for name in ("bash", "zsh")])
def test_typed_word_is_completed(name: str, home: Path, daemon: Running) -> None:
    """A command, an option, a dialect, a session, an installed agent, a file."""
    here("ingest", "--socket", daemon.path, CLAUDE)
    (home / "recording.jsonl").touch()
    with shell(name, home, TOOLTAP_SOCKET=str(daemon.path)) as screen:
        for typed, completed in (
            ("tooltap norm", "normalize "),
            ("tooltap normalize --stats-j", "--stats-json "),
            ("tooltap normalize --dialect codex-e", "codex-exec "),
            ("tooltap normalize reco", "recording.jsonl "),
            ("tooltap run -- cl", "claude "),
            ("tooltap tail --session 1017", f"{SESSION} "),
        ):
            screen.type(f"{CLEAR_LINE}{typed}\t".encode())
            screen.until(completed.encode())


@installed("fish")
def test_fish_completes_with_descriptions(home: Path, daemon: Running) -> None:
    here("ingest", "--socket", daemon.path, CLAUDE)
    (home / "recording.jsonl").touch()
    running = {"TOOLTAP_SOCKET": str(daemon.path)}

    assert fish(home, "tooltap norm") == {"normalize": COMMANDS["normalize"].summary}
    assert list(fish(home, "tooltap normalize --stats-j")) == ["--stats-json"]
    assert list(fish(home, "tooltap normalize --dialect codex-e")) == ["codex-exec"]
    assert list(fish(home, "tooltap normalize reco")) == ["recording.jsonl"]
    assert [*fish(home, "tooltap tail --session 1017", **running).items()] == [(SESSION, "claude /tmp/ws")]
    assert list(fish(home, "tooltap run -- cl")) == ["claude"]
    assert list(fish(home, "tooltap serve --follow claude,codex,gem")) == ["claude,codex,gemini"]


def complete(*words: str) -> list[str]:
    """Click's completions for a command line with an incomplete last word."""
    *before, incomplete = words
    shell = ShellComplete(root, {}, "tooltap", "_TOOLTAP_COMPLETE")
    return [item.value for item in shell.get_completions(before, incomplete)]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["serve", "st"], ["status", "stop"]),
        (["serve", "--follow", ""], [*stores(), "all"]),
        (["serve", "--follow", "codex,claude,ge"], ["codex,claude,gemini"]),
        (["tail", "--kind", "tool-"], ["tool-call", "tool-update", "tool-result"]),
        (["tail", "--tool", "Web"], ["WebFetch", "WebSearch"]),
        (["tail", "--after", ""], ["start", "now"]),
        (["tail", "--provider", "c"], ["claude", "cline", "codex", "continue", "copilot", "crush", "cursor"]),
        (["drift", "--dialect", "au"], ["auto", "auggie-json", "auggie-session"]),
        (["completion", ""], list(SHELLS)),
    ],
)
def test_names_are_completed(words: list[str], wanted: list[str]) -> None:
    assert complete(*words) == wanted


def test_session_with_shell_characters_is_not_offered(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.cli.common.completion.TIMEOUT", PATIENCE)
    for number, name in enumerate(("plain", "$(reboot)", "two\nlines", "one,two")):
        arguments = ["--stream", str(number), "--session", name, "--dialect", "acp"]
        finished = here("ingest", "--socket", daemon.path, *arguments, stdin=b"x\n")
        assert finished.returncode == 1  # no line is understood, but it is stored

    assert complete("sessions", "--socket", str(daemon.path), "rm", "") == ["plain"]


@pytest.fixture
def two_remotes(daemon: Running) -> Running:
    """A daemon that reads a remote, and has a session of another one, which it does not read any more."""
    theirs = {"host": "box", "session": "box/theirs", "stream": "box/s"}
    daemon.commit(commit(message("said there", **theirs), stream="box/s"))
    added = here("remote", "add", "lab", "--socket", daemon.path, "--", "sh", "-c", "exec sleep 60")
    assert added.returncode == 0
    until(lambda: daemon.stats()["remotes"]["connections"], "the remote")
    return daemon


@pytest.mark.process
def test_hosts_are_completed(two_remotes: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.cli.common.completion.TIMEOUT", PATIENCE)
    at = ("--socket", str(two_remotes.path))

    for command in ("sessions", "waiting", "search", "calls", "files", "usage", "export", "blame"):
        assert complete(command, *at, "--host", "") == [".", "box", "lab"]
        assert complete(command, *at, "--host", "b") == ["box"]
    assert complete("remote", "remove", *at, "") == ["lab"]


@pytest.mark.process
@pytest.mark.parametrize("name", [pytest.param(name, marks=installed(name)) for name in ("bash", "zsh")])
def test_typed_host_is_completed(name: str, home: Path, two_remotes: Running) -> None:
    with shell(name, home, TOOLTAP_SOCKET=str(two_remotes.path)) as screen:
        for typed, completed in (("tooltap search --host b", "box "), ("tooltap usage --host l", "lab ")):
            screen.type(f"{CLEAR_LINE}{typed}\t".encode())
            screen.until(completed.encode())


@pytest.mark.process
@installed("fish")
def test_fish_completes_hosts(home: Path, two_remotes: Running) -> None:
    """Names that begin with a dot are hidden until it is typed."""
    at = {"TOOLTAP_SOCKET": str(two_remotes.path)}

    assert fish(home, "tooltap calls --host ", **at) == {"box": "", "lab": ""}
    assert fish(home, "tooltap calls --host .", **at) == {".": "this machine"}


@pytest.fixture
def mute(tmp_path: Path) -> Iterator[Path]:
    """A socket that accepts connections and never answers."""
    path = tmp_path / "mute.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        yield path


def stale(mute: Path) -> Path:
    """A socket left behind by a killed daemon."""
    place = mute.with_name("stale.sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    return place


@pytest.mark.parametrize("place", [lambda mute: mute, stale, lambda mute: mute.with_name("none")])
def test_unresponsive_daemon_gives_no_completions(place: Callable[[Path], Path], mute: Path) -> None:
    finished = tooltap(
        _TOOLTAP_COMPLETE="bash_complete",
        COMP_WORDS="tooltap tail --session ",
        COMP_CWORD="3",
        TOOLTAP_SOCKET=str(place(mute)),
    )

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"\n", b"")


@pytest.mark.parametrize("words", ["tooltap ", "tooltap tail --session ", "tooltap normalize --dialect "])
def test_completion_imports_nothing_heavy(words: str) -> None:
    """A shell waits for the completion while the user types."""
    program = (
        "import sys; sys.argv = ['tooltap']\n"
        "from tooltap.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    request = {
        "_TOOLTAP_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment(**request), capture_output=True, check=True
    )

    assert HEAVY & set(finished.stderr.decode().split()) == set()


def test_unknown_shell_is_wrong_usage() -> None:
    finished = here("completion", "csh")

    assert finished.returncode == 2
    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in sentence(finished)
