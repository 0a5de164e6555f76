"""The pages are true: every command runs, every program prints something, every configuration is valid.

`tests.docs.pages` says which blocks have a test of their own, and which are not run.
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

import pytest

from tests.cli.command import CLAUDE, DEMO, environment, here, serving, start, tooltap
from tests.cli.control.scripted import scripted
from tests.docs.pages import (
    DOCS,
    NOT_RUN,
    OWN_TEST,
    OWN_WALK,
    PAGES,
    README,
    Block,
    assert_printed,
    blocks_of,
    name_of,
    tagged,
)
from tests.docs.shell import Shell, shell, write_program
from tests.http_server import HttpServer
from tests.test_layout import ROOT
from tooltap.cli.tap.gateway import LISTEN

TAP, WATCH, SUBSCRIBE = DOCS / "how-to" / "tap.md", DOCS / "how-to" / "watch.md", DOCS / "how-to" / "subscribe.md"
TUTORIAL = DOCS / "tutorial" / "first-events.md"


def is_run_here(block: Block) -> bool:
    if block.language == "sh":
        return block.tag == "" or block.tag.isdigit()
    return block.language == "python"


WALKED = [page for page in PAGES if name_of(page) not in OWN_WALK and any(map(is_run_here, blocks_of(page)))]


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Shell]:
    with shell(tmp_path, is_empty=True) as beside:
        yield beside


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with shell(tmp_path_factory.mktemp("home")) as beside:
        yield beside


@pytest.mark.parametrize("page", WALKED, ids=name_of)
def test_blocks_run_in_order(page: Path, tmp_path: Path) -> None:
    with shell(tmp_path, is_empty=page == TUTORIAL) as beside:
        walk(beside, blocks_of(page))


def walk(beside: Shell, blocks: list[Block]) -> None:
    output = ""
    for block in blocks:
        if block.language in ("python", "toml") and block.tag:
            (beside.folder / block.tag).write_text(block.text)
        elif block.language == "python":
            output = beside.execute("python", "-c", block.text)
            assert output, block.text
        elif block.language == "sh" and is_run_here(block):
            output = beside.run(block.text, code=int(block.tag or 0))
        elif block.tag == "output":
            assert_printed(block.text, output)


def test_tags_are_known_and_used() -> None:
    """Whoever adds a tag says why in `tests.docs.pages`."""
    used = {block.tag for page in PAGES for block in blocks_of(page) if block.language == "sh"}

    assert {tag for tag in used if tag and not tag.isdigit()} == {*NOT_RUN, *OWN_TEST}
    assert len(NOT_RUN) <= 3
    for page in OWN_WALK:
        assert ROOT / page in PAGES


def test_make_blocks_name_targets() -> None:
    targets = {
        target
        for page in PAGES
        for block in blocks_of(page)
        if block.tag == "make"
        for target in re.findall(r"^make (\w+)$", block.text, re.MULTILINE)
    }
    finished = subprocess.run(["make", "-n", *targets], cwd=ROOT, capture_output=True, check=False)

    assert targets == {"demo", "test"}
    assert finished.returncode == 0, finished.stderr


def test_daemon_is_started_as_shown() -> None:
    assert tagged(TUTORIAL, "daemon") == "tooltap serve\n"  # what `serving` runs, but for the places of its files


@pytest.mark.parametrize("page", [README, WATCH, DOCS / "how-to" / "install.md"], ids=name_of)
def test_up_is_run_as_shown(page: Path) -> None:
    """`tests/cli/manage/test_up.py` runs it, without a browser."""
    assert tagged(page, "up") == "tooltap up\n"


def test_trace_is_replayed_and_compared(usual: Shell) -> None:
    usual.wait_for_the_trace()
    assert usual.run(tagged(DOCS / "how-to" / "fixtures.md", "trace")).endswith("no difference\n")


@pytest.mark.programs("jq")
def test_shell_lists_calls_and_publishes(empty: Shell) -> None:
    empty.execute("tooltap", "ingest", *map(str, DEMO.glob("*.jsonl")))
    calls, published = empty.run(tagged(SUBSCRIBE, "socat")).split('{"op":"welcome"')

    assert {tuple(line.split("\t")[:2]) for line in calls.splitlines()} >= {
        ("claude", "Bash"),
        ("codex", "Patch"),
        ("gemini", "Edit"),
        ("opencode", "Glob"),
    }
    assert '{"op":"done","stream":"my-stream","dialect":"claude-stream"' in published


@pytest.mark.parametrize("name", ["subscribe", "subscribe_async"])
def test_python_examples_run(name: str, usual: Shell) -> None:
    """The second time, the one that stores a cursor has nothing new to print."""
    program = ["python", str(ROOT / "clients" / "python" / f"{name}.py"), "cursor", "--no-follow"]

    assert "claude" in usual.execute(*program)
    assert ("claude" in usual.execute(*program)) == (name == "subscribe")


def test_answers_are_given(tmp_path: Path) -> None:
    page = DOCS / "how-to" / "answer.md"
    [interactive, *commands] = [
        line for block in blocks_of(page) if block.tag == "asks" for line in block.text.splitlines()
    ]
    assert interactive == "tooltap answer"  # tests/cli/control has a terminal
    with scripted(tmp_path) as script:
        for line in commands:
            _, *words = shlex.split(line.replace(" 0d3f", " 0a"))
            script.events = [
                {"kind": "permission-response", "permissionId": "p1", "outcome": "allowed"},
                {"kind": "notice", "code": "send-accepted", "data": {"sendId": "i"}},
            ]
            assert here(*words, "--socket", script.path).returncode == 0, line


def test_typescript_readme_shows_its_example() -> None:
    client = ROOT / "clients" / "typescript"
    _, _, example = (client / "examples" / "subscribe.ts").read_text().partition("\n")

    assert f"```ts\n{example}```" in (client / "README.md").read_text()


@pytest.mark.parametrize(
    ("command", "url", "event"),
    [("attach", "http://127.0.0.1:4096", "attached"), ("gateway", "http://127.0.0.1:11434", "listening")],
)
def test_servers_are_tapped_as_shown(command: str, url: str, event: str, usual: Shell) -> None:
    """On other ports, since these may be in use."""
    with HttpServer(lambda _, answer: answer.stream()) as server:
        arguments = shlex.split(tagged(TAP, command).replace(url, server.url))[1:]
        if command == "gateway":
            arguments += ["--listen", "127.0.0.1:0"]
        with start(*arguments, env=environment(TOOLTAP_SOCKET=str(usual.socket))) as child:
            assert json.loads(child.log_line())["event"] == event
            child.send_signal(signal.SIGTERM)

            assert child.end()[0] == 0


def test_gateway_address_is_the_default() -> None:
    assert f"`http://{LISTEN}/v1`" in TAP.read_text()


@pytest.mark.programs("curl", "jq")
def test_events_come_over_http_as_shown(tmp_path: Path) -> None:
    """On another port, since this one may be in use."""
    write_program(tmp_path / "tooltap", f'exec {shlex.quote(sys.executable)} -m tooltap.cli "$@"')
    (tmp_path / "tooltap.toml").write_text(f'[web]\ntoken_file = "{tmp_path / "token"}"\nlisten = "127.0.0.1:0"\n')
    socket = tmp_path / "tooltap.sock"
    options = shlex.split(tagged(WATCH, "web"))[2:]
    with serving(socket, tmp_path, "--config", tmp_path / "tooltap.toml", *options):
        assert tooltap("ingest", "--socket", socket, CLAUDE).returncode == 0
        variables = environment(TOOLTAP_SOCKET=str(socket), PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        script = tagged(SUBSCRIBE, "http")
        response = subprocess.run(["bash", "-c", script], env=variables, capture_output=True, check=True)

    [call] = json.loads(response.stdout)["events"]
    assert (call["provider"], call["name"]) == ("claude", "Bash")


def test_doctor_reports_daemon_and_agents(usual: Shell) -> None:
    text, machine = tagged(DOCS / "how-to" / "install.md", "doctor").splitlines()
    report = usual.run(f"{text} || true")

    assert f"listening at {usual.socket}" in report
    assert f" at {usual.programs / 'claude'}" in report
    assert {"ok", "note", "problem", "findings"} == set(json.loads(usual.run(f"{machine} || true")))


def test_sessions_are_followed_as_shown(tmp_path: Path) -> None:
    chat = ROOT / "tests" / "fixtures" / "claude-transcript" / "claude-code-2.1.330" / "shell-fails.jsonl"
    projects = tmp_path / ".claude" / "projects" / "-ws"
    projects.mkdir(parents=True)
    shutil.copy(chat, projects)
    variables = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "GEMINI_CLI_HOME": ""}
    with serving(tmp_path / "tooltap.sock", tmp_path, *shlex.split(tagged(TAP, "follow"))[2:], **variables):
        wait = ["tail", "--socket", str(tmp_path / "tooltap.sock"), "--after", "start", "--mode", "json"]
        with start(*wait, "--kind", "tool-result") as tail:
            result = json.loads(tail.line())

    assert (result["provider"], result["name"], result["status"]) == ("claude", "Bash", "failed")


def test_mcp_settings_are_valid() -> None:
    page = (DOCS / "how-to" / "display-tools.md").read_text()
    table = page.split("| agent | file | the server |")[1].split("\n\n")[0].splitlines()[2:]
    servers, written = {}, {}
    for agent, _, *settings in ([cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in table):
        written[f"as {agent}"] = settings[0]
        settings[0] = written.get(settings[0], settings[0])
        server, switch = [tomllib.loads(one) if agent == "Codex" else json.loads(one) for one in settings]
        assert switch
        [(_, named)] = server.items()
        servers[agent] = named["tooltap"]

    usual = {"command": "tooltap", "args": ["mcp"]}
    assert servers == {
        "Claude Code": usual,
        "Codex": usual,
        "Gemini CLI": usual,
        "OpenCode": {"type": "local", "command": ["tooltap", "mcp"]},
    }


@pytest.mark.parametrize(
    ("page", "rules"),
    [("how-to/view-rules.md", "it has rules for 6 tools"), ("how-to/watch.md", ""), ("reference/settings.md", "")],
)
def test_configurations_are_valid(page: str, rules: str, tmp_path: Path) -> None:
    file = tmp_path / "tooltap.toml"
    file.write_text(tagged(DOCS / page, "tooltap.toml"))
    checked = here("config", "check", file)

    assert checked.returncode == 0
    assert rules in checked.stdout.decode()
