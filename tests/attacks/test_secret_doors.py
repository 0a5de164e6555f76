"""Attacks on masking: one secret of each kind enters in a stream, and leaves by no door that is called masked in
`docs/explanation/secrets.md`. Every command, every route of the page, every request of the socket and every module that
reaches out of the process is here, or says why not: a new one needs a row.
"""

from __future__ import annotations

import ast
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, get_args
from urllib.parse import quote

import anyio
import pytest
from structlog.testing import capture_logs

from tests.attacks.masked import CUTS, FAKES, SESSION, kept, lines, opening, request, tapped
from tests.cli.command import here, start
from tests.daemon.answering import OPENING, Tap, result, turn_end
from tests.daemon.answering import SESSION as PROMPTED
from tests.daemon.events import commit, event
from tests.daemon.nats_server import NatsServer
from tests.daemon.notifications.test_notifier import Received, server
from tests.daemon.running import Running, running
from tests.daemon.taps.test_mcp import FILE, RUN, agent
from tests.daemon.web.browsing import Browser, browsed, store, until
from tests.test_layout import ROOT
from tooltap.cli.subcommands import COMMANDS
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.web.api import api
from tooltap.daemon.web.page import page
from tooltap.protocol.events import SessionEvent, Turn
from tooltap.protocol.frames import Request

ALL = "\n".join(fake.text for fake in FAKES)
HERE = "tests/attacks/test_secret_doors.py::"


class Masked(NamedTuple):
    daemon: Running
    browser: Browser
    folder: Path
    log: list[Any]
    output: str
    """The id of a display output with all secrets."""


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Masked]:
    folder = tmp_path_factory.mktemp("masked")
    (folder / "claude.jsonl").write_bytes(lines())
    with capture_logs() as log, browsed(folder, mask_journal=request.param) as (daemon, browser):
        done = here("ingest", "--socket", daemon.path, "--dialect", "claude-stream", folder / "claude.jsonl")
        assert done.returncode == 0, done
        daemon.until_indexed()
        (folder / "claude.jsonl").unlink()
        (folder / "rules").touch()
        with daemon.connect() as wire:
            output = store(wire, ALL.encode(), path=f"/ws/{FAKES[0].text}")
        yield Masked(daemon, browser, folder, log, output)


# -- commands ---------------------------------------------------------------------------------------------------------

COMMANDS_THAT_SHOW: dict[str, list[list[str]]] = {
    "tail": [["--after", "start", "--no-follow", "--mode", mode] for mode in ("json", "verbose", "text")],
    "sessions": [[], ["--json"]],
    "search": [["word"], ["word", "--json"]],
    "calls": [[], ["--json"]],
    "usage": [[]],
    "show": [[SESSION], ["last"]],
    "files": [[]],
    "waiting": [[]],
    "answers": [["test", "RULES"], ["test", "RULES", "--json"]],
    "export": [
        [f"--{form}", SESSION, "--no-redact"]
        for form in ("html", "markdown", "format=jsonl", "format=atif", "format=ag-ui", "format=sqlite")
    ]
    + [["--format=otlp", "--content", SESSION, "--no-redact"]],
    "stats": [[], ["--json"]],
}
EXPORTS = HERE + "test_exports_show_none"
ANSWERS = HERE + "test_answers_and_prompts_are_stored_and_shown_masked"
NOTICES = HERE + "test_notifications_show_none"
RECORDING = "reads recordings, and is masked as `tests/attacks/test_secrets.py` has it, or not at all"
WRITES = "prints nothing of what agents say"
OTHER_COMMANDS = {
    "journal": EXPORTS,
    "answer": ANSWERS,
    "send": ANSWERS,
    "mcp": "tests/daemon/taps/test_mcp_history.py::test_no_kind_of_secret_is_read",
    "ingest": "tests/attacks/test_acp_store.py::test_secret_in_a_refusal_is_masked",
    "remote": "tests/daemon/taps/test_remotes_reading.py::test_journal_that_is_masked_has_no_secret_of_a_remote",
    "resume": "prints a command with the id of a session",
    "blame": "tests/cli/read/test_blame.py::test_secrets_are_masked",
    "watch": "waits for a person; it prints what `waiting` and `sessions` show",
    "top": "needs a terminal; it shows titles, as `sessions` does",
    "open": "opens the page",
    "interrupt": WRITES,
    "hook": "prints for its agent what a person has answered",
    "gateway": "forwards an agent's own requests",
    "run": "passes the agent's own output through",
    "proxy": "passes the agent's own messages through",
    **dict.fromkeys(("normalize", "replay", "baseline", "drift", "fixtures", "dialect", "learn"), RECORDING),
    **dict.fromkeys(
        (
            *("up", "demo", "serve", "attach", "config", "follow", "doctor", "service", "schema", "hooks"),
            *("away", "completion"),
        ),
        WRITES,
    ),
}


def test_every_command_is_tried() -> None:
    assert COMMANDS.keys() == COMMANDS_THAT_SHOW.keys() | OTHER_COMMANDS.keys()
    assert not COMMANDS_THAT_SHOW.keys() & OTHER_COMMANDS.keys()


# -- the page ---------------------------------------------------------------------------------------------------------

LIVE = HERE + "test_live_readers_get_none"
SHARED = f"/sessions/{SESSION}"
PAGES: dict[str, list[str] | str] = {
    "/api/sessions": ["/api/sessions"],
    "/api/sessions/{session:any}/files": [f"/api/sessions/{SESSION}/files"],
    "/api/files": ["/api/files"],
    "/api/search": ["/api/search?query=word&limit=100"],
    "/api/calls": ["/api/calls?limit=500"],
    "/api/waiting": ["/api/waiting"],
    "/api/usage": ["/api/usage"],
    "/api/events": ["/api/events?after=start&limit=1000", "/api/events?after=start&limit=1000&as=display"],
    "/api/ag-ui/{session:any}": LIVE,
    "/api/events/{seq}": ["/api/events/5", "/api/events/5?view=raw"],
    "/api/outputs/{output_id:path}": ["/api/outputs/OUTPUT", "/api/outputs/OUTPUT?format=json"],
    "/api/stats": ["/api/stats"],
    "/api/openapi.json": ["/api/openapi.json"],
    "/api/docs": ["/api/docs"],
    "/healthz": ["/healthz"],
    "/metrics": ["/metrics"],
    "/": ["/"],
    "/rows": ["/rows"],
    "/budgets": ["/budgets"],
    "/sessions/{session:any}/files": [f"{SHARED}/files", f"{SHARED}/files?fragment=1"],
    "/sessions/{session:any}/usage": [f"{SHARED}/usage", f"{SHARED}/usage?fragment=1"],
    "/sessions/{session:any}/plan": [f"{SHARED}/plan", f"{SHARED}/plan?fragment=1"],
    "/sessions/{session:any}/details": [f"{SHARED}/details", f"{SHARED}/details?fragment=1"],
    "/sessions/{session:any}/share": [f"{SHARED}/share", f"{SHARED}/share?redact=no"],
    "/sessions/{session:any}/export.html": [f"{SHARED}/export.html?redact=no"],
    "/sessions/{session:any}/export.md": [f"{SHARED}/export.md?redact=no"],
    "/sessions/{session:any}": [SHARED],
    "/map": [f"/map?session={SESSION}"],
    "/events": ["/events", "/events?before=100"],
    "/cards": ["/cards?after=0", f"/cards?session={SESSION}&first=1&last=1000"],
    "/cards/{seq:int}": [f"/cards/{seq}?level=full" for seq in range(2, 20)],
    "/search": ["/search?text=word"],
    "/find": ["/find?text=word"],
    "/calls": ["/calls"],
    "/events/{seq:int}": [f"/events/{seq}" for seq in range(2, 20)],
    "/board": ["/board"],
    "/compare": [f"/compare?left={SESSION}&right={SESSION}"],
    "/files": ["/files"],
    "/usage": ["/usage"],
    "/logins": ["/logins"],
    "/api/logins": ["/api/logins"],
    "/static": "files of ours",
    "/api/answer": ANSWERS,
    "/api/send": ANSWERS,
    "/api/interrupt": WRITES,
    "/api/logins/{login}": WRITES,
    "/preferences": WRITES,
    "/logins/end": WRITES,
    "/login": WRITES,
    "/live": LIVE,
    "/rows/live": LIVE,
    "/board/live": LIVE,
    "/waiting/live": LIVE,
}
"""Route -> addresses of it, or why there is none. What a button copies is in the HTML: `data-line`, and `.json` of an
event."""


@pytest.mark.parametrize("served", [True], indirect=True, ids=["masked"])
def test_every_route_is_tried(served: Masked) -> None:
    web = served.daemon.daemon.web
    assert web is not None
    services, logins = web._services, web._logins
    routes = [*api.routes(services, logins, web.new_link), *page.routes(services, logins)]
    assert {getattr(one, "path", "") for one in routes} | {"/login"} == PAGES.keys()


@pytest.mark.parametrize("served", [True], indirect=True, ids=["masked"])
def test_page_shows_none(served: Masked) -> None:
    wrong: dict[str, list[str]] = {}
    masks = 0
    for targets in PAGES.values():
        for target in targets if isinstance(targets, list) else ():
            answer = served.browser.get(target.replace("OUTPUT", quote(served.output, safe="")))
            assert answer.status == 200, (target, answer.body)
            wrong[target] = kept(revealed(answer.body))
            masks += b"[masked " in answer.body
    assert {target: kinds for target, kinds in wrong.items() if kinds} == {}
    assert masks > 20


def revealed(page: bytes) -> bytes:
    """A page, and what it has as base64."""
    return page + b"\n".join(b64decode(one) for one in re.findall(rb"base64,([A-Za-z0-9+/=]+)", page))


# -- the socket -------------------------------------------------------------------------------------------------------

REQUESTS: dict[str, dict[str, Any] | str] = {
    "sessions": {},
    "search": {"query": "word", "limit": 100},
    "usage": {},
    "event": {"seq": 5},
    "files": {"session": SESSION},
    "changed-files": {},
    "calls": {},
    "waiting": {},
    "ended-calls": {},
    "output": {"outputId": "OUTPUT"},
    "stats": {},
    "answer": ANSWERS,
    "send": ANSWERS,
    **dict.fromkeys(("end", "to-agent", "interrupt", "remove", "pin", "reread", "ping"), WRITES),
}
"""Request -> its arguments, or why it is not sent."""


def test_every_request_is_tried() -> None:
    assert {one.__struct_config__.tag for one in get_args(Request)} == REQUESTS.keys()


@pytest.mark.parametrize("served", [True], indirect=True, ids=["masked"])
def test_masked_journal_shows_none(served: Masked) -> None:
    """At any door; nor do its files hold one."""
    socket = ("--socket", served.daemon.path)
    wrong: dict[str, list[str]] = {}
    for name, calls in COMMANDS_THAT_SHOW.items():
        for options in calls:
            done = here(name, *(str(served.folder / "rules") if one == "RULES" else one for one in options), *socket)
            assert done.returncode in (0, 1), done
            wrong[f"{name} {options}"] = kept(revealed(done.stdout) + done.stderr)
    for view in ("raw", "display"):
        wire = served.daemon.connect()
        wire.send("subscribe", after="start", follow=False, **({"as": view} if view == "display" else {}))
        wrong[f"socket {view}"] = kept(b"".join(wire.lines()))
    with served.daemon.connect() as wire:
        for op, arguments in REQUESTS.items():
            if isinstance(arguments, dict):
                given = {key: served.output if value == "OUTPUT" else value for key, value in arguments.items()}
                wrong[f"request {op}"] = kept(json.dumps(wire.ask(op, **given)).encode())
    wrong["log"] = kept(repr(served.log).encode())
    wrong["files"] = kept(b"".join(one.read_bytes() for one in served.folder.iterdir() if one.is_file()))
    assert {door: kinds for door, kinds in wrong.items() if kinds} == {}


def test_live_readers_get_none(tmp_path: Path) -> None:
    """Neither of partials nor of events, on the socket and on the page; nor of what the page shows anew."""
    last = "the end of it"
    with browsed(tmp_path, mask_journal=True) as (daemon, browser), daemon.connect() as wire, ExitStack() as stack:
        wire.send("ingest", stream="live", dialect="claude-stream", framing="tapped", toAgent=True)
        wire.until("ingesting")
        wire.write(tapped(opening("live")))
        wire.until("ack")
        targets = ("/api/events?partials=1&after=start", "/live?after=start", "/live?session=live&after=start")
        readers = {target: stack.enter_context(browser.stream(target)) for target in targets}
        ag_ui = stack.enter_context(browser.stream("/api/ag-ui/live"))
        socket = daemon.subscribe(after="now", partials=True)
        socket.until("live")
        for reader in readers.values():
            reader.until("live")
        readers["/api/ag-ui/live"] = ag_ui
        for number, fake in enumerate(FAKES):
            wire.write(b"".join(map(tapped, (*delta(number, fake.text), request(number, fake.text)))))
        wire.write(tapped({"type": "assistant", "session_id": "live", "message": spoken(last)}))
        got = {"socket": b""}
        while last.encode() not in got["socket"]:
            got["socket"] += socket.line()
        for target, reader in readers.items():
            got[target] = b""
            while last.encode() not in got[target]:
                got[target] += next(iter(reader)).data.encode()
        for target, part in (("/rows/live?after=0", "asks"), ("/board/live", "asks"), ("/waiting/live", "waits")):
            with browser.stream(target) as reader:
                got[target] = b"".join(one.data.encode() for one in reader.until(part))
    assert {door: kinds for door, shown in got.items() if (kinds := kept(shown))} == {}
    assert {door for door, shown in got.items() if b"masked" not in shown} == {"/waiting/live"}
    assert got["socket"].count(b'"partial":true') >= len(FAKES)


def delta(number: int, text: str) -> list[dict[str, Any]]:
    """The lines of a message that is being written."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": f"m{number}", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
    ]
    return [{"type": "stream_event", "session_id": "live", "event": one} for one in events]


def spoken(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


# -- exports ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("served", [True, False], indirect=True, ids=["masked", "as it is"])
def test_exports_show_none(served: Masked) -> None:
    """Also of a journal that has them."""
    socket = ("--socket", served.daemon.path)
    wrong: dict[str, list[str]] = {}
    for form in ("--html", "--markdown", "--format=sqlite"):
        done = here("export", form, SESSION, *socket)
        assert b"[masked " in done.stdout, done
        wrong[form] = kept(revealed(done.stdout) + done.stderr)
    for options in ([], ["--archive"], ["--bodies"]):
        done = here("journal", "export", *options, "--journal", f"sqlite:{served.folder / 'journal.db'}")
        assert b"[masked " in done.stdout, done.stderr
        wrong[f"journal export {options}"] = kept(done.stdout + done.stderr)
    for form in ("export.html", "export.md"):
        wrong[form] = kept(revealed(served.browser.get(f"/sessions/{SESSION}/{form}").body))
    wrong["log"] = kept(repr(served.log).encode())
    assert {door: kinds for door, kinds in wrong.items() if kinds} == {}


NAMES = {"home": "/home/zoe9", "user": "zoe9", "host": "box7-laptop", "e-mail": "zoe9@corp.io"}


def test_anonymous_files_name_nobody(tmp_path: Path) -> None:
    """The home folder, the user, the host and the address are gone from every file, with the secrets."""
    said = f"{NAMES['user']}@{NAMES['host']}:~$ mail {NAMES['e-mail']}; ls {NAMES['home']}/src\n{ALL}"
    spoke = {"type": "user", "uuid": "1", "session_id": SESSION, "message": {"role": "user", "content": said}}
    with browsed(tmp_path) as (daemon, browser):
        recording = tmp_path / "claude.jsonl"
        first = {"type": "system", "subtype": "init", "cwd": f"{NAMES['home']}/src", "session_id": SESSION, "uuid": "0"}
        recording.write_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in (first, spoke)))
        assert here("ingest", "--socket", daemon.path, recording).returncode == 0
        files = {
            **{f"page {form}": browser.get(f"{SHARED}/export.{form}?anonymous=yes").body for form in ("html", "md")},
            **{
                f"{form} {source}": here("export", form, "--anonymous", *words).stdout
                for form in ("--html", "--markdown", "--format=sqlite")
                for source, words in (("session", (SESSION, "--socket", daemon.path)), ("recording", (recording,)))
            },
        }
    named = here("export", "--markdown", recording).stdout.decode()
    assert [name for name, value in NAMES.items() if value not in named] == []
    for door, data in files.items():
        text = revealed(data).decode(errors="replace")
        assert (door, [name for name, value in NAMES.items() if value in text], kept(text.encode())) == (door, [], [])


# -- what is for an agent ---------------------------------------------------------------------------------------------


def test_answers_and_prompts_are_stored_and_shown_masked(tmp_path: Path) -> None:
    """The agent gets them as they are."""
    (tmp_path / "stored").mkdir()
    place = tmp_path / "stored" / "journal.db"
    got: list[bytes] = []
    with browsed(tmp_path, journal=str(place), mask_journal=True) as (daemon, browser):
        socket = ("--socket", daemon.path)
        with daemon.connect() as wire, daemon.connect() as client:
            tap = Tap().connect(wire, dialect="claude-stream").tap(("out", opening(SESSION)))
            for number, fake in enumerate(FAKES):
                tap.tap(("out", request(number, "make")))
                answered = {
                    "permissionId": f"r{number}",
                    "outcome": "denied",
                    "message": fake.text,
                    "by": fake.text[:200],
                }
                client.send("answer", id=number, **answered)
                tap.write(frame := tap.receive())
                got.append(json.dumps(result(client)).encode())
                assert fake.text in texts(frame)
            for number, some in enumerate((FAKES[::2], FAKES[1::2]), 1_000):
                tap.tap(("out", request(number, "make")))
                message = "\n".join(fake.text for fake in some)
                with start("answer", *socket, f"r{number}", "--deny", "--message", message) as command:
                    tap.write(tap.receive())
                    got += command.end()[1:]
            with daemon.connect() as other:
                tap = Tap("prompted").connect(other).tap(*OPENING, ("out", turn_end()))
                with start("send", *socket, PROMPTED, ALL) as command:
                    tap.write(frame := tap.receive())
                    got += command.end()[1:]
                assert ALL in texts(frame)
        got += [
            here(*words, *socket).stdout for words in (("answers", "test"), ("tail", "--after", "start", "--no-follow"))
        ]
        got.append(browser.get("/api/events?after=start&limit=1000").body)
    assert b"[masked " in got[-1]
    assert kept(b"\n".join(got)) == []
    assert kept(b"".join(one.read_bytes() for one in (tmp_path / "stored").iterdir())) == []


def texts(frame: dict[str, Any]) -> list[str]:
    """All texts in the line of a frame for the agent."""

    def walk(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from walk(one)

    return list(walk(json.loads(frame["payload"]["line"])))


@pytest.mark.process
def test_model_that_shows_a_file_and_readers_see_none(tmp_path: Path) -> None:
    """The model gets one line, and those who read the display get it masked."""
    (workspace := tmp_path / "ws").mkdir()
    (workspace / "keys.txt").write_text(ALL)
    with browsed(tmp_path, mask_journal=True) as (daemon, browser):

        async def show() -> list[str]:
            async with agent(workspace, daemon.path, "--allow-commands") as model:
                failed = await model.call(RUN, command="cat keys.txt; cat keys.txt >&2; exit 3")
                return [await model.call(FILE, path="keys.txt"), failed]

        replies = anyio.run(show)
        events = browser.get("/api/events?after=start&limit=1000").body
        outputs = set(re.findall(rb'"outputId":"(display-[^"]+)"', events))
        bodies = [browser.get(f"/api/outputs/{one.decode()}").body for one in outputs]
    assert len(bodies) == 2
    assert all(b"[masked " in one for one in bodies)
    assert kept("".join(replies).encode() + events + b"".join(bodies)) == []


# -- out of the process -----------------------------------------------------------------------------------------------

SENDS = frozenset(["urllib.request", "http.client", "httpx", "nats", "websockets", "smtplib", "aiohttp"])
"""Modules by which ours send something to a server."""
STARTS = frozenset(["subprocess", "UserCommands", "execv", "execvp", "open_process", "create_subprocess_exec"])
"""Names by which ours give something to another program."""
OWN = "what the user has started gets what is its own"
OUTBOUND = {
    "daemon/notifications/notifier.py": NOTICES,
    "daemon/system/post.py": "tests/daemon/telemetry/test_sender.py::test_secrets_are_never_sent",
    "daemon/journal/nats/connection.py": HERE + "test_journal_on_nats_holds_none",
    "daemon/journal/nats/events.py": HERE + "test_journal_on_nats_holds_none",
    "daemon/views/rewriter.py": HERE + "test_rewriter_gets_none",
    "daemon/taps/mcp/commands.py": HERE + "test_model_that_shows_a_file_and_readers_see_none",
    "daemon/taps/mcp/keeper.py": HERE + "test_model_that_shows_a_file_and_readers_see_none",
    "daemon/taps/attach.py": "talks to the agent's own server",
    "daemon/taps/app_server.py": "talks to the agent's own server",
    "daemon/taps/gateway/conversations.py": "forwards an agent's own requests",
    "daemon/taps/gateway/server.py": "forwards an agent's own requests",
    "daemon/taps/remotes/remotes.py": "reads what a remote sends; what it tells it is a cursor",
    "daemon/taps/acp_store.py": OWN,
    "daemon/taps/child.py": OWN,
    "daemon/taps/follow/pool.py": "runs workers of ours",
    "daemon/system/commands.py": "runs commands for others, which are here",
    "daemon/system/processes.py": "runs programs that are asked for their version",
    "cli/common/terminal.py": "shows a reader what the command prints, in a pager",
    "cli/common/connection.py": "asks our own daemon",
    "cli/manage/demo.py": "runs a daemon of ours",
    "cli/read/agent_trace.py": "asks git which commit is checked out",
    "cli/read/resume.py": OWN,
    "cli/tap/agent.py": OWN,
}
"""What reaches out of the process -> the test that tries it, or why there is none."""


def reaching_out(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)) if any(name in source for name in SENDS | STARTS) else ():
        match node:
            case ast.Import(names=names):
                found |= {one.name for one in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module, module.partition(".")[0], *(one.name for one in names)}
            case ast.Attribute(attr=name):
                found.add(name)
    return {one for one in found if one in SENDS | STARTS or one.partition(".")[0] in SENDS}


def test_every_way_out_is_tried() -> None:
    places = {
        str(path.relative_to(ROOT))
        for folder in ("cli", "daemon", "normalizers", "protocol", "traces")
        for path in (ROOT / folder).rglob("*.py")
        if reaching_out(path.read_text())
    }
    assert places == OUTBOUND.keys()


@pytest.mark.parametrize(
    "test",
    sorted({str(one) for one in (*OUTBOUND.values(), *PAGES.values(), *OTHER_COMMANDS.values()) if HERE in one}),
)
def test_every_test_that_is_named_is_here(test: str) -> None:
    assert test.removeprefix(HERE) in globals()


@pytest.mark.process
def test_notifications_show_none(tmp_path: Path) -> None:
    """By a command and webhooks of each form, of a journal that has them; also of texts cut within one."""
    forms = ("json", "ntfy", "slack")
    program = f'cat >>{tmp_path}/out; printf "%s\\n" "$@" >>{tmp_path}/out'
    reasons = {"json": ["waiting", "done"], "ntfy": ["done"], "slack": ["waiting"], "command": ["waiting"]}
    with server() as json_hook, server() as ntfy, server() as slack:
        hooks = dict(zip(forms, (json_hook, ntfy, slack), strict=True))
        ways: dict[str, Any] = {form: {"url": url, "format": form} for form, (url, _) in hooks.items()}
        ways["command"] = {"command": ["sh", "-c", program, "x", "{title}", "{text}", "{session}"]}
        rules = [{**way, "on": reasons[name], "after": 0.0} for name, way in ways.items()]
        with running(tmp_path, notify=rules, look_period=0.02, most_queued=100_000) as daemon, daemon.connect() as wire:
            until(lambda: daemon.daemon._notifier.has_looked, "the first look")
            wire.send("ingest", stream="asks", dialect="claude-stream", framing="tapped", toAgent=True)
            wire.until("ingesting")
            wire.write(tapped(opening("asks")))
            calls = 0
            for number, fake in enumerate(FAKES):
                for cut in CUTS:
                    name, command = f"{number}-{cut}", f"{'x' * cut} {fake.text}"
                    use = {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": command}}
                    message = {"role": "assistant", "content": [use]}
                    wire.write(tapped({"type": "assistant", "session_id": "asks", "message": message}))
                    wire.write(tapped(request(name, command, name)))
                daemon.commit(*(ended(f"{number}-{len(one)}", one) for one in titles(fake.text)))
                calls += 3 * len(CUTS) + 2 * len(titles(fake.text))
                if number % 10 == 9:
                    until(lambda: daemon.stats()["notifying"]["sent"] >= calls, "these calls")  # noqa: B023
            until(lambda: daemon.stats()["notifying"]["sent"] >= calls, "all calls")
            assert daemon.stats()["notifying"]["failed"] == 0
    sent = {form: b"\n".join(said(one) for one in list(received.queue)) for form, (_, received) in hooks.items()}
    sent["command"] = (tmp_path / "out").read_bytes()
    assert {door: kinds for door, shown in sent.items() if (kinds := kept(shown))} == {}
    assert [door for door, shown in sent.items() if b"[masked " not in shown] == []


def titles(text: str) -> list[str]:
    return [text, f"{text[: len(text) * 3 // 4]}…"]


def ended(name: str, title: str) -> Any:
    now = wall_clock()
    where: dict[str, Any] = {"stream": name, "session": name, "ts": now}
    turns = [event(Turn, state=state, turn="t", **where) for state in ("started", "completed")]
    return commit(event(SessionEvent, state="started", title=title, **where), *turns, stream=name)


def said(one: Received) -> bytes:
    return one.body + b"\n" + repr(one.headers).encode()


def test_journal_on_nats_holds_none(tmp_path: Path) -> None:
    """It is masked unless the user says otherwise."""
    (folder := tmp_path / "nats").mkdir()
    (tmp_path / "claude.jsonl").write_bytes(lines())
    with NatsServer(folder) as nats:
        with running(tmp_path, journal=f"{nats.url}/j") as daemon:
            words = ("ingest", "--socket", daemon.path, "--dialect", "claude-stream", tmp_path / "claude.jsonl")
            assert here(*words).returncode == 0
        nats.stop()
        stored = b"".join(one.read_bytes() for one in folder.rglob("*") if one.is_file())
    assert b"[masked " in stored
    assert kept(stored) == []


@pytest.mark.process
def test_rewriter_gets_none(tmp_path: Path) -> None:
    """What a command of the user is given, where the journal is masked."""
    (tmp_path / "claude.jsonl").write_bytes(lines())
    rule = {"rewrite": ["sh", "-c", f"tee -a {tmp_path}/given"]}
    with running(tmp_path, mask_journal=True, tools={"Bash": rule}) as daemon:
        words = ("ingest", "--socket", daemon.path, "--dialect", "claude-stream", tmp_path / "claude.jsonl")
        assert here(*words).returncode == 0
        wire = daemon.subscribe(after="start", follow=False, **{"as": "display"})
        shown = b"".join(wire.lines())
    given = (tmp_path / "given").read_bytes()
    assert b"[masked " in given
    assert kept(given + shown) == []
