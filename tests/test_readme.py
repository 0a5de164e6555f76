"""The README is true: every command in it runs, every example decodes, every name in it exists.

The agents in it are scripts that print a recorded stream of that agent.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.command import CLAUDE, CODEX, DEMO, environment, here, serving, start, tooltap
from tests.http_server import HttpServer
from tests.test_layout import FOLDERS, ROOT
from tooltap.cli.main import COMMANDS
from tooltap.cli.tap.gateway import LISTEN
from tooltap.normalizers.core.registry import builtin
from tooltap.protocol.events import ToolCall, decode

README = (ROOT / "README.md").read_text()
TIMEOUT = 60


class Block(NamedTuple):
    language: str
    purpose: str
    text: str


BLOCKS = [Block(*found) for found in re.findall(r"^```(\w+) ?(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)]


def agent_side(recording: Path) -> bytes:
    """What the agent printed in a two-way recording."""
    lines = [json.loads(line) for line in recording.read_bytes().splitlines()]
    return b"".join(json.dumps(line["line"]).encode() + b"\n" for line in lines if line["dir"] == "out")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with recordings, agents on the path, and a daemon."""
    home = tmp_path_factory.mktemp("home")
    programs = home / "bin"
    programs.mkdir()
    printed = {
        "claude": CLAUDE.read_bytes(),
        "codex": agent_side(CODEX),
        "gemini": agent_side(DEMO / "gemini.jsonl"),
        "opencode": agent_side(DEMO / "opencode.jsonl"),
        "my-acp-agent": agent_side(DEMO / "opencode.jsonl"),
    }
    for name, stream in printed.items():
        (home / f"{name}.stream").write_bytes(stream)
        write_program(programs / name, f"exec cat {shlex.quote(str(home / name))}.stream")
    write_program(programs / "tooltap", f'exec {shlex.quote(sys.executable)} -m tooltap.cli "$@"')
    write_program(programs / "python", f'exec {shlex.quote(sys.executable)} "$@"')
    if shutil.which("socat") is None:
        shutil.copy(ROOT / "tests" / "bin" / "socat", programs)
    (home / "recordings").mkdir()
    (home / "recordings" / "claude.jsonl").write_bytes(CLAUDE.read_bytes())
    (home / "recordings" / "codex.jsonl").write_bytes(CODEX.read_bytes())
    (home / "requests.jsonl").touch()
    tracing = {"HAPPIER_STACK_TOOL_TRACE": "1", "HAPPIER_STACK_TOOL_TRACE_DIR": str(home / "traces")}
    with serving(home / "tooltap.sock", home, **tracing):
        run(home, "tooltap", "ingest", str(CLAUDE))  # events to look at, whichever examples run here
        yield home


def write_program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)


def run(home: Path, *command: str) -> str:
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = environment(PATH=path, HOME=str(home), TOOLTAP_SOCKET=str(home / "tooltap.sock"))
    finished = subprocess.run(
        command, cwd=home, env=variables, capture_output=True, text=True, check=False, timeout=TIMEOUT
    )
    assert finished.returncode == 0, finished.stderr
    assert "tooltap: " not in finished.stderr
    return finished.stdout


COMMAND_BLOCKS = [block for block in BLOCKS if block[:2] == ("sh", "")]


@pytest.mark.parametrize("block", [block for block in COMMAND_BLOCKS if "socat" not in block.text])
def test_every_command_runs(block: Block, home: Path) -> None:
    """Blocks come in the order in which a reader would try them."""
    run(home, "bash", "-euo", "pipefail", "-c", block.text)


def test_a_trace_is_replayed_and_compared(home: Path) -> None:
    [block] = [block for block in BLOCKS if block.purpose == "trace"]

    while " 0 records" in run(home, "tooltap", "stats"):
        pass
    assert run(home, "bash", "-euo", "pipefail", "-c", block.text).endswith("no difference\n")


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_shell_examples_show_calls_of_every_agent_and_publish(home: Path) -> None:
    run(home, "tooltap", "ingest", *map(str, DEMO.glob("*.jsonl")))
    [block] = [block for block in COMMAND_BLOCKS if "socat" in block.text]
    calls, published = run(home, "bash", "-euo", "pipefail", "-c", block.text).split('{"op":"welcome"')

    assert {tuple(line.split("\t")[:2]) for line in calls.splitlines()} >= {
        ("claude", "Bash"),
        ("codex", "Patch"),
        ("gemini", "Edit"),
        ("opencode", "Glob"),
    }
    assert '{"op":"done","stream":"my-stream","dialect":"claude-stream"' in published


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "python"], ids=["socket", "client", "display"]
)
def test_every_program_runs(block: Block, home: Path) -> None:
    run(home, "tooltap", "ingest", str(CLAUDE))

    assert "claude" in run(home, "python", "-W", "error", "-c", block.text)


@pytest.mark.parametrize("name", ["subscribe", "subscribe_async"])
def test_the_examples_in_python_run(name: str, home: Path) -> None:
    """The second time, the one that keeps a cursor has nothing new to tell."""
    run(home, "tooltap", "ingest", str(CLAUDE))
    program = ["python", "-W", "error", str(ROOT / "clients" / "python" / f"{name}.py"), "cursor", "--no-follow"]

    assert "claude" in run(home, *program)
    assert ("claude" in run(home, *program)) == (name == "subscribe")


def test_the_readme_of_the_client_for_node_shows_its_example() -> None:
    client = ROOT / "clients" / "typescript"
    _, _, example = (client / "examples" / "subscribe.ts").read_text().partition("\n")

    assert f"```ts\n{example}```" in (client / "README.md").read_text()


def test_the_daemon_is_started_as_it_says() -> None:
    [block] = [block for block in BLOCKS if block.purpose == "daemon"]

    assert block.text == "tooltap serve\n"  # what `serving` runs, but for the places of its files


@pytest.mark.parametrize(
    ("command", "url", "event"),
    [("attach", "http://127.0.0.1:4096", "attached"), ("gateway", "http://127.0.0.1:11434", "listening")],
)
def test_servers_are_tapped_as_it_says(command: str, url: str, event: str, home: Path) -> None:
    """But for the ports, which others may use."""
    [block] = [block for block in BLOCKS if block.purpose == command]
    with HttpServer(lambda _, answer: answer.stream()) as server:
        arguments = shlex.split(block.text.replace(url, server.url))[1:]
        if command == "gateway":
            arguments += ["--listen", "127.0.0.1:0"]
        with start(*arguments, env=environment(TOOLTAP_SOCKET=str(home / "tooltap.sock"))) as child:
            assert json.loads(child.log_line())["event"] == event
            child.send_signal(signal.SIGTERM)

            assert child.end()[0] == 0


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_events_come_over_http_as_it_says(tmp_path: Path) -> None:
    """But for the port, which others may use."""
    [start_it] = [block for block in BLOCKS if block.purpose == "web"]
    [ask_it] = [block for block in BLOCKS if block.purpose == "http"]
    write_program(tmp_path / "tooltap", f'exec {shlex.quote(sys.executable)} -m tooltap.cli "$@"')
    (tmp_path / "tooltap.toml").write_text(f'[web]\ntoken_file = "{tmp_path / "token"}"\nlisten = "127.0.0.1:0"\n')
    socket = tmp_path / "tooltap.sock"
    with serving(socket, tmp_path, "--config", tmp_path / "tooltap.toml", *shlex.split(start_it.text)[2:]):
        assert tooltap("ingest", "--socket", socket, CLAUDE).returncode == 0
        variables = environment(TOOLTAP_SOCKET=str(socket), PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        asked = subprocess.run(["bash", "-c", ask_it.text], env=variables, capture_output=True, check=True)

    [call] = json.loads(asked.stdout)["events"]
    assert (call["provider"], call["name"]) == ("claude", "Bash")


def test_the_doctor_tells_of_the_daemon_and_the_agents(home: Path) -> None:
    """Whether something is wrong depends on the machine."""
    [block] = [block for block in BLOCKS if block.purpose == "doctor"]
    text, machine = block.text.splitlines()
    told = run(home, "bash", "-c", f"{text} || true")

    assert f"listening at {home / 'tooltap.sock'}" in told
    assert f" at {home / 'bin' / 'claude'}" in told
    assert {"ok", "note", "problem", "findings"} == set(json.loads(run(home, "bash", "-c", f"{machine} || true")))


def test_the_gateway_is_where_it_says() -> None:
    assert f"`http://{LISTEN}`" in README


def test_sessions_are_followed_as_it_says(tmp_path: Path) -> None:
    [block] = [block for block in BLOCKS if block.purpose == "follow"]
    chat = ROOT / "tests" / "fixtures" / "claude-transcript" / "claude-code-2.1.330" / "shell-fails.jsonl"
    projects = tmp_path / ".claude" / "projects" / "-ws"
    projects.mkdir(parents=True)
    shutil.copy(chat, projects)
    usual = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "GEMINI_CLI_HOME": ""}
    with serving(tmp_path / "tooltap.sock", tmp_path, *shlex.split(block.text)[2:], **usual):
        wait = ["tail", "--socket", str(tmp_path / "tooltap.sock"), "--after", "start", "--mode", "json"]
        with start(*wait, "--kind", "tool-result") as tail:
            result = json.loads(tail.line())

    assert (result["provider"], result["name"], result["status"]) == ("claude", "Bash", "failed")


def test_agents_are_told_of_the_mcp_server_in_what_they_read() -> None:
    table = README.split("| agent | file | the server |")[1].split("\n\n")[0].splitlines()[2:]
    told = {}
    for agent, _, *settings in ([cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in table):
        server, switch = [tomllib.loads(one) if agent == "Codex" else json.loads(one) for one in settings]
        assert switch
        [(_, servers)] = server.items()
        told[agent] = servers["tooltap"]

    usual = {"command": "tooltap", "args": ["mcp"]}
    assert told == {
        "Claude Code": usual,
        "Codex": usual,
        "Gemini CLI": usual,
        "OpenCode": {"type": "local", "command": ["tooltap", "mcp"]},
    }


def test_the_configuration_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [command] = [block for block in BLOCKS if block.purpose == "config"]
    [file] = [block for block in BLOCKS if block.language == "toml"]
    (tmp_path / "tooltap.toml").write_text(file.text)
    monkeypatch.chdir(tmp_path)
    checked = here(*shlex.split(command.text)[1:])

    assert checked.stdout.decode() == "tooltap.toml is right: it has rules for 5 tools\n"


def test_the_make_targets_exist() -> None:
    [block] = [block for block in BLOCKS if block.purpose == "make"]
    targets = {*re.findall(r"make (\w+)", block.text), *re.findall(r"`make (\w+)", README)}
    finished = subprocess.run(
        ["make", "-n", *targets, "CORPUS=x", "GOLDENS=x"], cwd=ROOT, capture_output=True, check=False
    )

    assert targets >= {"demo", "test", "check", "corpus"}
    assert finished.returncode == 0, finished.stderr


def test_the_example_event_is_one() -> None:
    [block] = [block for block in BLOCKS if block.language == "json"]
    event = decode(block.text)

    assert isinstance(event, ToolCall)
    assert event.name == event.input["_happy"]["canonicalToolName"]


def test_every_dialect_and_folder_and_no_other_is_named() -> None:
    tables = README.split("| dialect |")[1].split("\n\n")[0]

    assert set(re.findall(r"`([\w-]+)`", "".join(line.split("|")[1] for line in tables.splitlines()[2:]))) == set(
        builtin()
    )
    for folder in FOLDERS:
        assert f"| `{folder}/` |" in README


def test_every_command_it_names_is_one_and_every_file_is_there() -> None:
    assert set(re.findall(r"tooltap ([a-z]+)\b", "\n".join(block.text for block in BLOCKS))) <= set(COMMANDS)
    for path in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./]*)`", README):
        assert (ROOT / path).exists(), path


def test_every_kind_of_event_is_named() -> None:
    kinds = {str(kind.__struct_config__.tag) for kind in decode.__globals__["AnyEvent"].__args__}
    [row] = [line for line in README.splitlines() if line.startswith("| `kind` |")]

    assert set(re.findall(r"`([\w-]+)`", row)) - {"kind"} == kinds
