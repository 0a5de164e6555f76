"""The history tools of `tooltap mcp`, with a real MCP client and a real daemon: what agents did before is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks import masked
from tests.cli.command import here
from tests.daemon.events import commit, event, message
from tests.daemon.journal.test_journal_damage import damage
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import running
from tests.daemon.taps.test_mcp import FILE, IMAGE, Agent, agent
from tooltap.daemon.search import search
from tooltap.protocol.events import SessionEvent

pytestmark = pytest.mark.anyio

TOOLS = {"search_sessions", "get_session", "get_event", "list_waiting", "files_changed"}
NO_DAEMON = "The tooltap daemon is not running; the user can start it with `tooltap serve`."
FIX = "sed -i s/retries=0/retries=3/ settings.ini"
OUTPUT = "".join(f"line {number} of the log\n" for number in range(1_000))


def session_lines(name: str, folder: Path, *calls: tuple[str, dict[str, Any], str]) -> bytes:
    """A session of Claude Code: a prompt, calls with their output, and an answer."""
    common = {"session_id": name, "parent_tool_use_id": None}
    found: list[dict[str, Any]] = [
        {**masked.opening(name), "cwd": str(folder)},
        {**common, "type": "user", "message": {"role": "user", "content": f"Why is the upload of {name} flaky?"}},
    ]
    for number, (tool, arguments, output) in enumerate(calls):
        call = {"type": "tool_use", "id": f"{name}-{number}", "name": tool, "input": arguments}
        result = {"type": "tool_result", "tool_use_id": f"{name}-{number}", "content": output}
        found.append({**common, "type": "assistant", "message": {"role": "assistant", "content": [call]}})
        found.append({**common, "type": "user", "message": {"role": "user", "content": [result]}})
    answer = {"role": "assistant", "content": [{"type": "text", "text": "It retries now."}]}
    found.append({**common, "type": "assistant", "message": answer})
    return b"".join(json.dumps(line).encode() + b"\n" for line in found)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work") / "shop"
    (folder / ".git" / "objects").mkdir(parents=True)
    (folder / ".git" / "HEAD").touch()
    (folder / "src").mkdir()
    return folder


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, shop: Path) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("daemon")
    (shop.parent / "bank").mkdir()
    edit = {"file_path": str(shop / "settings.ini"), "old_string": "retries=0", "new_string": "retries=3"}
    asked = ("mcp__tooltap__search_sessions", {"query": "settings.ini"}, "nothing")
    recordings = {
        "shop": session_lines(
            "shop", shop, ("Bash", {"command": FIX}, "done"), ("Bash", {"command": "cat log"}, OUTPUT)
        ),
        "edited": session_lines("edited", shop, ("Edit", edit, "The file was updated."), asked),
        "bank": session_lines("bank", shop.parent / "bank", ("Bash", {"command": FIX}, "done")),
        "long": session_lines("long", shop, *[("Bash", {"command": f"make step-{n}"}, "ok") for n in range(60)]),
        "secrets": masked.lines().replace(b'"/ws"', json.dumps(str(shop)).encode()),
    }
    with DaemonProcess(folder).wait_ready() as daemon:
        for name, lines in recordings.items():
            (folder / name).write_bytes(lines)
            done = here("ingest", "--socket", daemon.path, "--dialect", "claude-stream", folder / name)
            assert done.returncode == 0, done
        with daemon.connect() as wire, daemon.connect() as asking:
            asking.send("ingest", dialect="claude-stream", stream="asking", framing="tapped")
            for line in (masked.opening("asking") | {"cwd": str(shop)}, masked.request(0, masked.FAKES[0].text)):
                asking.write(masked.tapped(line))
            while not wire.ask("waiting")["waiting"]:
                pass
            while wire.ask("search", query="flaky")["behind"]:
                pass
            yield daemon


async def ask(model: Agent, tool: str, /, **arguments: Any) -> str:
    answer = await model.client.call_tool(tool, arguments)
    [content] = answer.content
    assert not answer.is_error, content
    return str(content.text)  # type: ignore[union-attr]


async def refusal(model: Agent, tool: str, /, **arguments: Any) -> str:
    answer = await model.client.call_tool(tool, arguments)
    assert answer.is_error
    return str(answer.content[0].text)  # type: ignore[union-attr]


def events_in(text: str) -> list[int]:
    return [int(word.rpartition("/")[2]) for word in text.split() if word.startswith("tooltap://event/")]


async def test_tools_are_off_unless_the_user_wants_them(shop: Path, daemon: DaemonProcess) -> None:
    async with agent(shop, daemon.path) as model:
        assert set(await model.tools()) == {FILE, IMAGE}
    async with agent(shop, daemon.path, "--history") as model:
        assert set(await model.tools()) == {FILE, IMAGE} | TOOLS


async def test_past_fix_is_found_from_a_folder_of_the_project(shop: Path, daemon: DaemonProcess) -> None:
    async with agent(shop / "src", daemon.path, "--history") as model:
        found = await ask(model, "search_sessions", query="retries settings.ini", tool="Bash", outcome="completed")
        assert 'session shop "Why is the upload of shop flaky?"' in found
        assert "bank" not in found.replace(str(shop), "")
        [seq] = events_in(found)
        event = json.loads(await ask(model, "get_event", event=seq))
        assert event["input"]["command"] == FIX

        [content] = (await model.client.read_resource(f"tooltap://event/{seq}")).contents
        assert json.loads(content.text) == event  # type: ignore[union-attr]


async def test_own_questions_are_not_found(shop: Path, daemon: DaemonProcess) -> None:
    async with agent(shop, daemon.path, "--history") as model:
        found = await ask(model, "search_sessions", query="settings.ini")
        assert "session edited" in found
        assert "search_sessions" not in found


async def test_nothing_says_what_is_not_there(shop: Path, daemon: DaemonProcess) -> None:
    async with agent(shop, daemon.path, "--history") as model:
        said = await ask(model, "search_sessions", query="xyzzy")
        assert said == f"Nothing was found for 'xyzzy' in {shop}. Fewer or other words may find it."
        assert await refusal(model, "get_session", session="none") == f"There is no session none in {shop}."
        assert "no event" in await refusal(model, "get_event", event=99_999)
        assert await refusal(model, "search_sessions", query="") == "`query`: expected `str` of length >= 1"


@pytest.mark.process
async def test_search_that_was_stopped_says_so(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = "(the search was stopped because it took too long; add a word or a filter to narrow it)"
    with running(tmp_path) as daemon:
        daemon.commit(commit(event(SessionEvent, state="started", cwd=str(shop)), message("flaky")))
        daemon.until_indexed()
        async with agent(shop, daemon.path, "--history") as model:
            whole = await ask(model, "search_sessions", query="flaky")
            monkeypatch.setattr(search, "COUNT_SECONDS", -1.0)
            uncounted = await ask(model, "search_sessions", query="flaky")
            monkeypatch.setattr(search, "HIT_SECONDS", -1.0)
            nothing = await ask(model, "search_sessions", query="flaky")

    assert stopped not in whole
    assert uncounted.splitlines()[1:] == [*whole.splitlines()[1:], stopped]
    assert nothing.splitlines()[1:] == [stopped]


async def test_other_projects_are_read_only_if_the_user_says_so(shop: Path, daemon: DaemonProcess) -> None:
    bank = shop.parent / "bank"
    async with agent(shop, daemon.path, "--history", "--all-projects") as model:
        found = await ask(model, "search_sessions", query="bank flaky")
        [seq] = events_in(found[found.index("session bank") :])[:1]
        assert "session bank" in await ask(model, "get_session", session="bank")
    async with agent(shop, daemon.path, "--history", "--project", str(bank)) as model:
        assert "session bank" in await ask(model, "get_session", session="bank")
        assert await refusal(model, "get_session", session="shop") == f"There is no session shop in {bank}."
    async with agent(shop, daemon.path, "--history") as model:
        assert (await ask(model, "search_sessions", query="bank")).startswith("Nothing was found")
        assert await refusal(model, "get_session", session="bank") == f"There is no session bank in {shop}."
        assert await refusal(model, "get_event", event=seq) == f"There is no session bank in {shop}."
        with pytest.raises(Exception, match="There is no session bank"):
            await model.client.read_resource(f"tooltap://event/{seq}")


async def test_session_is_read_from_its_end(shop: Path, daemon: DaemonProcess) -> None:
    async with agent(shop, daemon.path, "--history") as model:
        last = await ask(model, "get_session", session="long")
        assert "step-59" in last
        assert "assistant: It retries now." in last
        before = events_in(last)[0]
        assert f"(23 earlier events left out: ask with `before` = {before})" in last
        first = await ask(model, "get_session", session="long", before=before)
        assert "user: Why is the upload of long flaky?" in first
        assert len(events_in(first)) == 23
        assert not {*events_in(first)} & {*events_in(last)}


def fill_and_damage(folder: Path, shop: Path, sql: str) -> None:
    """Leave a journal with a session, in which the statement has damaged something."""
    (folder / "shop").write_bytes(session_lines("shop", shop, ("Bash", {"command": FIX}, "done")))
    with DaemonProcess(folder).wait_ready() as daemon:
        assert here("ingest", "--socket", daemon.path, "--dialect", "claude-stream", folder / "shop").returncode == 0
    damage(folder / "journal.db", sql)


async def test_damaged_events_of_a_session_are_named(shop: Path, tmp_path: Path) -> None:
    fill_and_damage(tmp_path, shop, "UPDATE events SET checksum=0 WHERE seq=2")
    with DaemonProcess(tmp_path).wait_ready() as daemon:
        async with agent(shop, daemon.path, "--history") as model:
            read = await ask(model, "get_session", session="shop")
            assert "(event 2 is damaged in the journal)\n" in read
            assert f"Bash: {FIX}" in read
            assert "damaged" in await refusal(model, "get_event", event=2)
            assert "There is no session lost" in await refusal(model, "get_session", session="lost")


async def test_session_with_a_damaged_row_is_not_called_unknown(shop: Path, tmp_path: Path) -> None:
    fill_and_damage(tmp_path, shop, "UPDATE sessions SET data=zeroblob(length(data))")
    with DaemonProcess(tmp_path).wait_ready() as daemon:
        async with agent(shop, daemon.path, "--history") as model:
            lost = await refusal(model, "get_session", session="shop")
    assert lost == "The journal is damaged, and has no intact row of a session 'shop'."


async def test_long_event_is_read_in_parts(shop: Path, daemon: DaemonProcess) -> None:
    async with agent(shop, daemon.path, "--history") as model:
        [seq, *_] = events_in(await ask(model, "search_sessions", query='"line 999 of the log"'))
        text, offset = "", 0
        while True:
            part = await ask(model, "get_event", event=seq, offset=offset)
            body, _, rest = part.rpartition("\n(")
            if "characters left: ask with" not in rest:
                break
            text, offset = text + body, offset + 8_000
        [block] = json.loads(text + part)["modelView"]["blocks"]
        assert block["text"] == OUTPUT


async def test_files_and_what_waits(shop: Path, daemon: DaemonProcess) -> None:
    async with agent(shop, daemon.path, "--history") as model:
        files = await ask(model, "files_changed", file="settings")
        assert files.startswith(f"{shop}/settings.ini: 1 change, +1 -1, last")
        assert files.endswith("in sessions edited")
        assert await ask(model, "files_changed", file="none") == f"No file was changed in {shop}."
        waiting = await ask(model, "list_waiting")
        assert len(events_in(waiting)) == len(waiting.splitlines()) > 0
        assert "session asking: permission: " in waiting


async def test_no_kind_of_secret_is_read(shop: Path, daemon: DaemonProcess) -> None:
    async with agent(shop, daemon.path, "--history") as model:
        shown = [await ask(model, "list_waiting"), await ask(model, "search_sessions", query="word", limit=40)]
        session = await ask(model, "get_session", session=masked.SESSION)
        seqs = range(min(events_in(session)), max(events_in(session)) + 1)
        shown += [session, *[await ask(model, "get_event", event=seq) for seq in seqs]]
        for one in shown:
            assert masked.kept(one.encode()) == [], one
        [content] = (await model.client.read_resource(f"tooltap://event/{seqs[0]}")).contents
        assert masked.kept(content.text.encode()) == []  # type: ignore[union-attr]


async def test_address_that_is_none_is_refused(shop: Path, daemon: DaemonProcess) -> None:
    async with agent(shop, daemon.path, "--history") as model:
        [template] = (await model.client.list_resource_templates()).resource_templates
        assert template.uri_template == "tooltap://event/{seq}"
        assert (await model.client.list_resources()).resources == []
        for uri in ("tooltap://event/x", "tooltap://event/", "tooltap://session/1", "file:///etc/passwd"):
            with pytest.raises(Exception, match="is not the address of an event"):
                await model.client.read_resource(uri)


async def test_there_is_no_history_without_a_daemon(shop: Path, tmp_path: Path) -> None:
    async with agent(shop, tmp_path / "run" / "t.sock", "--history") as model:
        assert await refusal(model, "search_sessions", query="x") == NO_DAEMON
        assert await refusal(model, "get_event", event=1) == NO_DAEMON
        with DaemonProcess(tmp_path).wait_ready():
            assert (await ask(model, "search_sessions", query="x")).startswith("Nothing was found")
        assert await refusal(model, "list_waiting") == NO_DAEMON


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--all-projects",), "--project and --all-projects are for --history"),
        (("--history", "--all-projects", "--project", "."), "--project and --all-projects exclude each other"),
    ],
)
def test_options_that_do_not_fit(options: tuple[str, ...], error: str) -> None:
    finished = here("mcp", *options)
    assert finished.returncode == 2
    assert error in finished.stderr.decode()


@pytest.mark.process
async def test_a_session_has_what_came_before_its_id_was_known(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        for base, name in enumerate(("first", "second")):
            named = event(SessionEvent, line=base + 1, session=name, state="updated", alias="s", index=1)
            asked = message(f"asked the {name}", line=base + 1, session="s")
            said = message(f"said by the {name}", line=base + 1, session=name, index=2)
            daemon.commit(commit(asked, named, said, base=base))
        async with agent(tmp_path, daemon.path, "--history", "--all-projects") as model:
            found = await ask(model, "get_session", session="second")

    assert "asked the second" in found
    assert "asked the first" not in found
