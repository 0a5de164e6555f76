"""Behaviour of all commands: help, errors in one sentence, exit codes, closed pipes, interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.cli.command import CLAUDE, COMMAND, here, sentence, start, tooltap
from tooltap import __version__
from tooltap.cli.subcommands import COMMANDS
from tooltap.normalizers.core.items import Limits

HEAVY = {"anyio", "asyncio", "msgspec", "orjson", "rich", "structlog", "tooltap.daemon", "tooltap.normalizers"}


def test_version() -> None:
    finished = tooltap("--version")

    assert (finished.returncode, finished.stdout) == (0, f"tooltap {__version__}\n".encode())


def test_help_names_every_command() -> None:
    finished = tooltap("--help")

    assert finished.returncode == 0
    for name in COMMANDS:
        assert f"\n  {name} " in finished.stdout.decode()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_starts_with_summary(name: str) -> None:
    help_text = import_module(f"tooltap.cli.{COMMANDS[name].folder}.{name}").command.help

    assert " ".join(help_text.split("\n\n")[0].split()) == COMMANDS[name].summary


def test_help_imports_nothing_heavy() -> None:
    """This keeps the start of the command fast."""
    program = (
        "import sys; sys.argv = ['tooltap', '--help']\n"
        "from tooltap.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert HEAVY & set(finished.stderr.decode().split()) == set()


def test_missing_command_prints_help() -> None:
    finished = tooltap()

    assert (finished.returncode, finished.stdout) == (2, b"")
    assert b"Commands:" in finished.stderr


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["bogus"], "No such command 'bogus' (see tooltap --help)"),
        (["--bogus"], "(see tooltap --help)"),
        (["normalize", "--bogus"], "(see tooltap normalize --help)"),
        (["show", "0"], "(see tooltap show --help)"),
        (["tail", "--since", "soon"], "'soon' is not a duration such as 90s, 10m, 2h or 1d"),
        (["tail", "--since", "1h", "--after", "5"], "--since and --after exclude each other"),
        (["ingest", "--stream", "s", "a", "b"], "--stream names one stream, but there are several files"),
        (["run"], "Missing argument"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_2(arguments: list[str], wanted: str) -> None:
    finished = here(*arguments)

    assert (finished.returncode, finished.stdout) == (2, b"")
    assert wanted in sentence(finished)


@pytest.mark.parametrize(
    "arguments", [["tail"], ["sessions"], ["show", "1"], ["stats"], ["ingest", str(CLAUDE)], ["serve", "status"]]
)
def test_missing_daemon_is_exit_1(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = tmp_path / "none.sock"
    monkeypatch.setenv("TOOLTAP_SOCKET", str(socket))
    finished = here(*arguments)

    assert (finished.returncode, finished.stdout) == (1, b"")
    assert sentence(finished) == f"no daemon is listening at {socket}; start one with `tooltap up`"


def test_closed_pipe_exits_silently() -> None:
    with start("normalize", *[CLAUDE] * 200) as command:
        command.line()
        command.leave()

        assert command.end() == (0, b"", b"")


def test_pipe_closed_before_output_exits_silently() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with start("--version", stdout=writing) as command:
        os.close(writing)

        assert command.end()[::2] == (0, b"")


def test_check_exits_with_what_it_found_if_nobody_reads(tmp_path: Path) -> None:
    (tmp_path / "baselines").mkdir()
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "fixtures/allowlist.txt").write_text("claude/claude/tool-call/Bash\n")
    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(CLAUDE.read_bytes().replace(b'"type":"assistant"', b'"type":"novel"'))
    for arguments in (
        ("baseline", "check", CLAUDE, "--baselines", tmp_path / "baselines"),  # there is none
        ("fixtures", "check", tmp_path / "fixtures"),  # the key has no example
        ("drift", "--strict", changed),
    ):
        assert tooltap(*arguments).returncode == 1
        reading, writing = os.pipe()
        os.close(reading)
        with start(*arguments, stdout=writing, stderr=writing) as command:
            os.close(writing)
            command.process.wait(60)

            assert command.process.returncode == 1, arguments


def test_output_that_was_never_open_changes_no_exit_code() -> None:
    program = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "show", "0"]
    finished = subprocess.run(program, capture_output=True, timeout=60, check=False)

    assert finished.returncode == 2
    assert "(see tooltap show --help)" in sentence(finished)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_disk_is_one_sentence() -> None:
    with open("/dev/full", "wb") as full, start("normalize", CLAUDE, stdout=full) as command:
        assert command.end()[::2] == (1, b"tooltap: No space left on device\n")


def test_interrupt_exits_silently_with_130() -> None:
    with start("normalize", "-") as command:
        command.write(b"not json\n" * Limits().held_lines)
        assert command.line()
        command.send_signal(signal.SIGINT)

        assert command.process.wait(60) == 130
        assert command.end()[2] == b""


def test_shell_completion_completes_commands() -> None:
    finished = tooltap(_TOOLTAP_COMPLETE="bash_complete", COMP_WORDS="tooltap norm", COMP_CWORD="1")

    assert (finished.returncode, finished.stdout) == (0, b"plain,normalize\n")


def test_internal_error_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(import_module("tooltap.cli.read.stats").command, "callback", fail)
    finished = here("stats")

    assert (finished.returncode, finished.stdout) == (1, b"")
    assert sentence(finished).startswith("unexpected RuntimeError: a bug (")
