"""What commands import until they are done: none pays for what it does not use, and an agent waits for nothing.

Modules are listed in place of measuring time, which depends on the machine and its load (`tests/bench/row_start.py`).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.command import CLAUDE, TIMEOUT, environment, here, sentence
from tests.daemon.running import Running
from tooltap.cli.main import STARTING
from tooltap.cli.subcommands import COMMANDS, tooltap
from tooltap.cli.tap import agent, run
from tooltap.cli.tap.agent import AgentStart, plain_start

PROGRAM = """
import atexit, json, os, sys

def imported():
    return [name for name in heavy if name in sys.modules]

def note(event, arguments):
    if event == "subprocess.Popen":
        report.setdefault("before_child", imported())

def write():
    with open(file, "w") as opened:
        json.dump({"before_child": None, **report, "end": imported()}, opened)

def leave(code, leave=os._exit, process=os.getpid()):
    if os.getpid() == process:
        write()
    leave(code)

file, heavy, report = sys.argv[1], sys.argv[2].split(), {}
sys.argv[:3] = ["tooltap"]
sys.addaudithook(note)
atexit.register(write)
os._exit = leave  # how a daemon on a busy machine ends, if it takes more than 1.7 s
from tooltap.cli.main import main
main()
"""
"""Runs a command, and reports which heavy modules were imported before its first child, and at its end."""

CLICK = {"click", "inspect", "pathlib"}
JSON = CLICK | {"msgspec", "orjson"}
EVENTS = JSON | {"tooltap.protocol.events"}
PARSING = EVENTS | {"tooltap.normalizers.core.parser"}
PACKAGES = {"importlib.metadata", "shutil"}
"""To find the dialects of other packages."""
LOOP = {"anyio", "asyncio", "ssl"}
FILES = {"hashlib"}
"""For the stream's id of a file."""
LOGS = {"attr", "pygments", "rich", "rich.pretty", "structlog"}
"""structlog imports rich if it is installed."""
PAGE = LOGS | {"jinja2", "markdown_it", "nh3"}
SERVING = PARSING | LOOP | LOGS | {"hashlib", "shutil", "sqlite3", "watchfiles"}
BASELINES = PARSING | {"importlib.metadata", "shutil"}
"""The packaged baselines are found by `importlib.resources`."""
REST = {
    *("http.client", "http.server", "httpx", "mcp", "nats", "pkgutil", "platformdirs", "pydantic", "starlette"),
}
HEAVY = PARSING | PAGE | SERVING | REST

USED = {
    "tail": ("--after start --no-follow", EVENTS),
    "sessions": ("", EVENTS),
    "show": ("1", EVENTS | {"shutil"}),
    "top": ("", EVENTS | {"shutil"}),
    "open": ("--no-browser", EVENTS | {"http.client", "shutil", "ssl"}),
    "search": ("the", EVENTS),
    "files": ("last", EVENTS),
    "blame": (str(CLAUDE), EVENTS | {"shutil"}),
    "usage": ("", EVENTS | {"shutil"}),
    "calls": ("", EVENTS),
    "waiting": ("", EVENTS),
    "answer": ("none --allow", EVENTS),
    "answers": ("test EMPTY", EVENTS | {"platformdirs", "shutil"}),
    "send": ("last text", EVENTS),
    "interrupt": ("last", EVENTS),
    "resume": ("last --print", EVENTS),
    "follow": ("reread --all", EVENTS),
    "stats": ("", EVENTS),
    "ingest": ("TAPPED", EVENTS | LOOP | FILES),
    "normalize": (str(CLAUDE), PARSING),
    "replay": ("TRACE", PARSING),
    "drift": (str(CLAUDE), BASELINES),
    "dialect": ("list", PARSING | PACKAGES),
    "learn": (str(CLAUDE), PARSING),
    "baseline": (f"check {CLAUDE}", BASELINES),
    "fixtures": ("check EMPTY", PARSING),
    "config": ("check EMPTY", EVENTS | {"platformdirs", "shutil"}),
    "hooks": ("status", CLICK | {"shutil"}),
    "remote": ("list", SERVING | {"platformdirs"}),
    "hook": ("--", CLICK),
    "away": ("--status", CLICK | {"shutil"}),
    "completion": ("zsh", CLICK),
    "schema": ("", EVENTS),
    "journal": ("check --journal sqlite:none.db", SERVING | {"platformdirs"}),
    "doctor": ("--timeout 1", PARSING | PACKAGES | {"hashlib", "sqlite3", "platformdirs"}),
    "service": ("status", CLICK | {"shutil", "platformdirs"}),
    "export": (f"--html {CLAUDE} -o PAGE", SERVING | PAGE),
    "mcp": ("", JSON),
}
"""Command -> arguments, and the heavy modules that it needs."""
ELSEWHERE = {"run", "proxy", "serve", "up"}
WITHOUT_END = {"attach", "demo", "gateway", "watch"}
"""These run until they are interrupted."""


class Imported(NamedTuple):
    before_child: set[str] | None
    end: set[str]


def command_line(report: Path, *arguments: object) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(report), " ".join(sorted(HEAVY)), *map(str, arguments)]


def read(report: Path) -> Imported:
    found = json.loads(report.read_text())
    return Imported(None if found["before_child"] is None else set(found["before_child"]), set(found["end"]))


def imported_by(folder: Path, *arguments: object, **changes: str) -> Imported:
    """Run a command to its end."""
    report = folder / "report.json"
    command = command_line(report, *arguments)
    finished = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, env=environment(**changes), check=False
    )
    assert b"Traceback" not in finished.stderr
    return read(report)


def test_every_command_is_looked_at() -> None:
    assert USED.keys() | ELSEWHERE | WITHOUT_END == COMMANDS.keys()


@pytest.mark.parametrize("name", USED)
def test_command_imports_only_what_it_uses(name: str, daemon: Running, tmp_path: Path) -> None:
    here("ingest", "--socket", daemon.path, CLAUDE)
    (tmp_path / "EMPTY").touch()
    tapped = [{"t": 1_790_000_000_000, "dir": "out", "line": line} for line in CLAUDE.read_text().splitlines()]
    (tmp_path / "TAPPED").write_text("".join(f"{json.dumps(line)}\n" for line in tapped))
    arguments, used = USED[name]
    words = [str(tmp_path / word) if word.isupper() else word for word in arguments.split()]
    found = imported_by(tmp_path, name, *words, TOOLTAP_SOCKET=str(daemon.path))

    assert found.end - used == set()


def test_ingest_parses_only_what_was_not_dated_when_it_was_received(daemon: Running, tmp_path: Path) -> None:
    """The lines of a file before the first one that states a time have that time."""
    used = PARSING | LOOP | FILES

    assert imported_by(tmp_path, "ingest", CLAUDE, TOOLTAP_SOCKET=str(daemon.path)).end - used == set()


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"demo"}))
def test_help_imports_only_click(name: str, tmp_path: Path) -> None:
    """So do completions, which import the command of the line."""
    assert imported_by(tmp_path, name, "--help").end - CLICK - {"shutil"} == set()


def test_daemon_imports_nothing_of_the_page(tmp_path: Path) -> None:
    report, socket = tmp_path / "report.json", tmp_path / "s.sock"
    options = ["--socket", socket, "--journal", f"sqlite:{tmp_path / 'journal.db'}"]
    command = command_line(report, "serve", *options)
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment()) as daemon:
        assert daemon.stderr is not None
        assert any(b"listening" in line for line in daemon.stderr)
        daemon.send_signal(signal.SIGTERM)
        daemon.stderr.read()

    assert read(report).end - SERVING - {"platformdirs"} == set()


@pytest.mark.parametrize("is_running", [True, False])
def test_agent_waits_for_no_import_of_its_hook(is_running: bool, daemon: Running, tmp_path: Path) -> None:
    report, socket = tmp_path / "report.json", daemon.path if is_running else tmp_path / "none"
    told = json.dumps({"hook_event_name": "Stop", "session_id": "s"}).encode()
    env = environment(TOOLTAP_SOCKET=str(socket))
    subprocess.run(command_line(report, "hook", "claude"), input=told, timeout=TIMEOUT, env=env, check=True)

    assert read(report).end == set()


@pytest.mark.parametrize("name", ["run", "proxy"])
@pytest.mark.parametrize("options", [[], ["--answers"], ["--provider", "my-fork", "--dialect=claude-stream"]])
def test_agent_waits_for_no_import(name: str, options: list[str], daemon: Running, tmp_path: Path) -> None:
    found = imported_by(tmp_path, name, *options, "--", "cat", CLAUDE, TOOLTAP_SOCKET=str(daemon.path))

    assert found.before_child == set()
    assert "tooltap.normalizers.core.parser" not in found.end


def test_agent_comes_first_even_if_there_can_be_no_tap() -> None:
    program = (
        "import sys; from tooltap.cli.tap import agent\n"
        "def fail(*_): raise RuntimeError('no home')\n"
        "agent._tap = fail; sys.argv = ['tooltap', 'run', '--', 'sh', '-c', 'echo one; sleep 0.1; echo two; exit 3']\n"
        "from tooltap.cli.main import main; main()"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=TIMEOUT, check=False)

    assert (finished.returncode, finished.stdout) == (3, b"one\ntwo\n")
    assert sentence(finished) == "tapping failed: RuntimeError('no home')"


def test_agent_that_prints_nothing_costs_no_delivery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it ends at once: usually within 20 ms, in which a busy machine does not even start it."""
    at_once = "from tooltap.daemon.taps import child; child.AT_ONCE = 60\nmain()"
    monkeypatch.setattr(f"{__name__}.PROGRAM", PROGRAM.replace("\nmain()", f"\n{at_once}"))
    found = imported_by(tmp_path, "run", "--", "true")

    assert found.before_child == set()
    assert found.end == set()


def test_options_that_click_checks_need_only_click(tmp_path: Path) -> None:
    found = imported_by(tmp_path, "run", "--spool-bytes", "5000", "--", "true")

    assert found.before_child is not None
    assert found.before_child - CLICK == set()


def test_garbage_is_collected_as_usual_after_the_start() -> None:
    program = (
        "import atexit, gc, sys\n"
        "usual, made = gc.get_threshold(), []\n"
        "def work():\n"
        f"    assert gc.get_threshold()[0] == {STARTING}\n"
        "    before = len(gc.callbacks)\n"
        f"    made.extend([] for _ in range({STARTING + 1_000}))\n"
        "    assert (gc.get_threshold(), len(gc.callbacks)) == (usual, before - 1)\n"
        "    print('as usual')\n"
        "from tooltap.cli.main import main\n"
        "atexit.register(work)\n"
        "sys.argv = ['tooltap', '--version']\n"
        "main()"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=TIMEOUT, check=True)

    assert finished.stdout.endswith(b"as usual\n")


# -- a plain command line means what click says ---------------------------------------------------------------------

AGENT = ("agent", "-p", "--", "x")
WORDS = [
    *("--", "-", "", "--dialect", "--provider", "--session", "--socket", "--mcp-server", "--spool-bytes"),
    *(
        "--provider=p",
        "--provider=",
        "--dialect=--",
        "--socket=/",
        "--socket=none",
        "--session=-x",
        "--answers",
        "--bogus",
        "--help",
    ),
    *("-h", "-x", "--prov", "agent", "true", "/", "1"),
]


def read_by_click(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> AgentStart | None:
    """What click makes of a command line; None if it is wrong."""
    started: list[AgentStart] = []
    monkeypatch.setattr(run, "run_agent", started.append)
    CliRunner().invoke(tooltap, arguments)
    return started[0] if started else None


def test_plain_command_lines_are_read_as_by_click() -> None:
    @settings(deadline=None)
    @given(st.lists(st.sampled_from(WORDS), max_size=6), st.sampled_from(["run", "proxy"]))
    def compare(arguments: list[str], name: str) -> None:
        plain = plain_start(name, *arguments)
        if plain is not None:
            with pytest.MonkeyPatch.context() as monkeypatch:
                whole = read_by_click(monkeypatch, [name, *arguments])
            assert whole is not None
            socket = None if plain.socket is None else Path(plain.socket)
            assert plain._replace(socket=socket) == whole._replace(spool_limits=())

    compare()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ([], AgentStart("run", AGENT)),
        (["--"], AgentStart("run", AGENT)),
        (["--provider=p", "--session", "s", "--dialect", "acp"], AgentStart("run", AGENT, "acp", "p", "s")),
        (["--socket", "/", "--"], AgentStart("run", AGENT, socket="/")),
        (["--answers", "--dialect=acp"], AgentStart("run", AGENT, "acp", answers=True)),
    ],
)
def test_usual_command_lines_are_plain(options: list[str], wanted: AgentStart) -> None:
    assert plain_start("run", *options, *AGENT) == wanted


@pytest.mark.parametrize("variable", agent.NOT_PLAIN)
def test_variables_that_click_checks_are_not_plain(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "many")

    assert plain_start("run", "--", "true") is None
    assert here("run", "--", "true").returncode == 2
