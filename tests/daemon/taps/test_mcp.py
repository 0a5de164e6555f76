"""`tooltap mcp` with a real MCP client, a real daemon, and a subscriber who sees what the model does not."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import pytest

from tests.cli.command import environment, here
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Wire
from tests.daemon.taps.test_display_commands import wait_ended, wait_pid

if TYPE_CHECKING:  # the client takes longer to import than all tests of this folder
    import mcp_types as types
    from mcp import Client
    from mcp.client.session import ListRootsFnT

pytestmark = pytest.mark.anyio

SOURCE = "import os\n\n\ndef main():\n    print(os.name)\n"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
FILE, RUN, IMAGE = "render_file_contents", "run_and_display", "display_image"
NO_DAEMON = "Not displayed: the tooltap daemon is not running; the user can start it with `tooltap serve`."
Era = Literal["legacy", "auto"]
ERAS: tuple[Era, ...] = ("legacy", "auto")
"""The protocol up to 2025-11-25, and the one since."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text(SOURCE)
    (folder / "logo.png").write_bytes(PNG)
    (tmp_path / "secret.txt").write_text("secret\n")
    return folder


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("daemon")).wait_ready() as daemon:
        yield daemon


class Agent:
    """An agent: an MCP client, which sees results as a model does."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> str:
        text, _ = await self.try_call(tool, **arguments)
        return text

    async def try_call(self, tool: str, meta: dict[str, Any] | None = None, **arguments: Any) -> tuple[str, bool]:
        import mcp_types as types

        answer = await self.client.call_tool(tool, arguments, meta=meta)  # type: ignore[arg-type]
        [content] = answer.content
        assert isinstance(content, types.TextContent)
        assert len(content.text) <= 120
        assert answer.structured_content is None
        return content.text, answer.is_error

    async def tools(self) -> dict[str, types.Tool]:
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}


@contextlib.asynccontextmanager
async def agent(
    workspace: Path, socket: Path, *arguments: str, era: Era = "auto", roots: ListRootsFnT | None = None
) -> AsyncIterator[Agent]:
    from mcp import Client, StdioServerParameters, stdio_client

    command = ["-m", "tooltap.cli", "mcp", "--socket", str(socket), *arguments]
    server = StdioServerParameters(command=sys.executable, args=command, cwd=workspace, env=environment())
    async with Client(stdio_client(server), mode=era, list_roots_callback=roots) as client:
        yield Agent(client)


def shown(watching: Wire) -> dict[str, Any]:
    """Return the next result that a subscriber gets."""
    while (event := watching.read()).get("kind") != "tool-result":
        pass
    return event


def ended(watching: Wire) -> tuple[Any, Any]:
    """Return the signal and the exit code of the next session that ends."""
    while (event := watching.read()).get("state") != "ended":
        pass
    return event.get("signal"), event.get("exitCode")


def watch(daemon: DaemonProcess) -> Wire:
    wire = daemon.connect()
    wire.send("subscribe", after="now")
    wire.until("live")
    return wire


@pytest.mark.parametrize("era", ERAS)
async def test_user_gets_body_and_model_one_line(daemon: DaemonProcess, workspace: Path, era: Era) -> None:
    with watch(daemon) as watching:
        async with agent(workspace, daemon.path, "--allow-commands", era=era) as model:
            offered = await model.tools()
            texts = [
                await model.call(FILE, path="src/app.py"),
                await model.call(FILE, path="src/app.py", startLine=4, endLine=5),
                await model.call(RUN, command="seq 2000; echo 'boom' >&2; exit 3"),
                await model.call(IMAGE, path="logo.png"),
            ]
        file, lines, ran, image = (shown(watching) for _ in range(4))

        reads = {name: tool.annotations and tool.annotations.read_only_hint for name, tool in offered.items()}
        assert reads == {FILE: True, IMAGE: True, RUN: False}
        assert offered[FILE].input_schema["required"] == ["path"]
        assert texts == [
            "Displayed src/app.py to the user (5 lines)",
            "Displayed src/app.py to the user (lines 4-5)",
            "Command failed (exit 3, 2001 lines displayed to the user)",
            "Displayed image logo.png to the user",
        ]
        assert [one["output"]["text"] for one in (file, lines, ran, image)] == texts
        assert [one["name"] for one in (file, ran, image)] == [f"mcp__tooltap__{name}" for name in (FILE, RUN, IMAGE)]
        assert (ran["status"], ran["output"]["exit_code"]) == ("failed", 3)
        assert {key: file["display"][key] for key in ("type", "path", "language", "mimeType", "bytes", "lines")} == {
            "type": "file",
            "path": "src/app.py",
            "language": "python",
            "mimeType": "text/x-python",
            "bytes": len(SOURCE),
            "lines": 5,
        }

        bodies = [watching.ask("output", outputId=one["display"]["outputId"]) for one in (file, lines, ran)]
        assert [body["text"] for body in bodies] == [
            SOURCE,
            "def main():\n    print(os.name)\n",
            "".join(f"{number}\n" for number in range(1, 2001)) + "boom\n",
        ]
        assert [bodies[0][key] for key in ("type", "path", "language")] == ["file", "src/app.py", "python"]
        picture = watching.ask("output", outputId=image["display"]["outputId"])
        assert (picture["length"], picture["mimeType"], picture["type"]) == (len(PNG), "image/png", "image")


async def test_call_is_published_before_command_ends(daemon: DaemonProcess, workspace: Path) -> None:
    options = ("--allow-commands", "--session", "mine", "--provider", "claude")
    with watch(daemon) as watching:
        async with agent(workspace, daemon.path, *options) as model, anyio.create_task_group() as tasks:
            wait = "while [ ! -e go ]; do sleep 0.01; done"
            tasks.start_soon(lambda: model.try_call(RUN, {"claudecode/toolUseId": "toolu_1"}, command=wait))
            session, call = await anyio.to_thread.run_sync(lambda: [watching.read(), watching.read()])
            (workspace / "go").touch()
        done = shown(watching)

    assert [session["kind"], call["kind"], call["status"]] == ["session", "tool-call", "running"]
    assert [(one["callId"], one["session"], one["provider"]) for one in (call, done)] == [
        ("toolu_1", "mine", "claude"),
    ] * 2
    assert done["status"] == "completed"
    with daemon.connect() as wire:  # the session is the agent's: it does not end with the tools
        wire.send("subscribe", after="start", follow=False)
        states = [event.get("state") for event in wire.rest() if event.get("session") == "mine"]
    assert "started" in states
    assert "ended" not in states


async def test_disallowed_file_is_refused(daemon: DaemonProcess, workspace: Path) -> None:
    (workspace / "link").symlink_to(workspace.parent / "secret.txt")
    outside = "is outside of the folders the user allowed"
    with watch(daemon) as watching:
        async with agent(workspace, daemon.path) as model:
            assert set(await model.tools()) == {FILE, IMAGE}
            assert await model.try_call(RUN, command="touch run") == (
                f"There is no tool {RUN}; there is {FILE}, {IMAGE}.",
                True,
            )
            assert not (workspace / "run").exists()
            for path in ("../secret.txt", "link", str(workspace.parent / "secret.txt")):
                refused = await model.try_call(FILE, path=path)
                assert refused[0].startswith("Not displayed: ")
                assert refused[0].endswith(f"{Path(path).name} {outside}")
                assert refused[1]
                event = shown(watching)
                assert (event["status"], "display" in event) == ("denied", False)

            assert await model.try_call(FILE, path="missing.py") == (
                "Not displayed: missing.py cannot be opened: No such file or directory",
                True,
            )
            assert await model.try_call(FILE, path=3) == ("Not displayed: `path`: expected `str`, got `int`", True)
            assert await model.try_call(IMAGE, path="src/app.py") == (
                "Not displayed: src/app.py is not an image",
                True,
            )


@pytest.mark.parametrize("era", ERAS)
async def test_client_roots_narrow_allowed_folders(daemon: DaemonProcess, workspace: Path, era: Era) -> None:
    import mcp_types as types

    folders = [workspace / "src"]

    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=folder.as_uri()) for folder in folders])  # type: ignore[arg-type]

    async with agent(workspace, daemon.path, era=era, roots=roots) as model:
        inside = await model.call(FILE, path="src/app.py")
        above = await model.call(IMAGE, path="logo.png")
        folders[:] = [workspace.parent]
        wider = await model.call(FILE, path="../secret.txt")

    assert inside == "Displayed src/app.py to the user (5 lines)"
    assert above == "Not displayed: logo.png is outside of the folders this client works in"
    assert wider == "Not displayed: ../secret.txt is outside of the folders the user allowed"


async def test_tools_need_a_daemon(workspace: Path, tmp_path: Path) -> None:
    async with agent(workspace, tmp_path / "run" / "t.sock", "--allow-commands") as model:
        absent = await model.try_call(RUN, command="touch run")
        assert (absent, (workspace / "run").exists()) == ((NO_DAEMON, True), False)
        for _ in range(2):  # the second is another daemon, of which the connection knows nothing
            with DaemonProcess(tmp_path).wait_ready() as daemon:
                assert await model.call(FILE, path="src/app.py") == "Displayed src/app.py to the user (5 lines)"
                with daemon.connect() as wire:
                    [stream] = wire.ask("stats")["perStream"]
        assert await model.call(FILE, path="src/app.py") == NO_DAEMON

    assert (stream["kinds"]["tool-result"], stream["kinds"]["session"]) == (2, 1)


# -- the process --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def running_command(workspace: Path, socket: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server with a command that has written its process id to `pid`."""
    with subprocess.Popen(
        [sys.executable, "-m", "tooltap.cli", "mcp", "--socket", str(socket), "--allow-commands"],
        cwd=workspace,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        call = {"name": RUN, "arguments": {"command": "echo $$ > pid; sleep 60"}}
        for frame in (
            {"id": 1, "method": "initialize", "params": about},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": call},
        ):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")
        server.stdin.flush()
        try:
            yield server
        finally:
            server.kill()


async def test_signal_kills_running_commands(daemon: DaemonProcess, workspace: Path) -> None:
    with watch(daemon) as watching:
        with running_command(workspace, daemon.path) as server:
            command = await wait_pid(workspace / "pid")
            server.terminate()

            assert await anyio.to_thread.run_sync(server.wait) == -signal.SIGTERM
        await wait_ended(command)

        assert shown(watching)["status"] == "interrupted"
        assert ended(watching) == ("SIGTERM", None)


async def test_leaving_client_stops_commands(daemon: DaemonProcess, workspace: Path) -> None:
    with watch(daemon) as watching:
        with running_command(workspace, daemon.path) as server:
            command = await wait_pid(workspace / "pid")
            assert server.stdin is not None
            server.stdin.close()

            assert await anyio.to_thread.run_sync(server.wait) == 0
        await wait_ended(command)

        assert shown(watching)["status"] == "cancelled"
        assert ended(watching) == (None, 0)


async def test_root_must_be_a_folder(tmp_path: Path) -> None:
    finished = here("mcp", "--root", tmp_path / "gone")

    assert finished.returncode == 2
    assert "does not exist" in finished.stderr.decode()
