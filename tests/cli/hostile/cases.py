"""Arguments for each command, with which it prints something from outside."""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.cli.command import here
from tests.cli.hostile.texts import ARGUMENT, HOSTILE, LONG
from tests.cli.hostile.world import WELCOME, World, reply, server
from tests.daemon.events import commit, event
from tests.daemon.running import running
from tests.daemon.web.browsing import until
from tooltap.protocol.events import Turn

__all__ = ["CASES", "Words"]

Words = tuple[object, ...]
Cases = Callable[[World, Path], Iterator[Words]]
"""Function that yields arguments of a command, given the world and a new folder."""


def _daemons(world: World, *words: object) -> Iterator[Words]:
    """Yield the arguments with each socket: of a real daemon with hostile sessions, of one that replies with hostile
    texts, of one that refuses, and of none."""
    for socket in (world.daemon.path, world.liar, world.refusing, world.folder / "none"):
        yield (*words, "--socket", socket)


def _config(new: Path) -> Path:
    file = new / "config.toml"
    key = "".join(f"\\U{ord(one):08x}" for one in ARGUMENT[:-1])
    file.write_text(f'"{key}" = 1\n')
    return file


def _damaged(world: World, new: Path) -> Path:
    journal = new / world.journal.name
    shutil.copy(world.journal, journal)
    with sqlite3.connect(journal) as database:
        database.execute("UPDATE streams SET state = x'00'")
        database.execute("UPDATE events SET body = 'x' WHERE seq = 3")
    database.close()
    return journal


def _serve(world: World, new: Path) -> Iterator[Words]:
    yield ("--config", _config(new))
    for option in ("--follow", "--backfill", "--web", "--log-level"):
        yield (option, ARGUMENT)
    yield ("--journal", f"none://{ARGUMENT}")
    for url in (ARGUMENT, f"http://{ARGUMENT}", f"http://127.0.0.1:1/{ARGUMENT}"):
        yield ("--otlp", url)


def _after_head(answer: bytes, line: bytes) -> bytes:
    return answer if line == b"\r\n" else b""


def _answers_test(world: World, new: Path) -> Iterator[Words]:
    rules = new / "rules.toml"
    rules.write_text('[[answers]]\nname = "\\u001b[31m"\nanswer = "ask"\n')
    yield from _daemons(world, rules)
    yield from _daemons(world, rules, "--json")
    yield (_config(new), "--socket", world.daemon.path)


def _browsers(world: World, *words: object) -> Iterator[Words]:
    """Yield the arguments with each daemon, and with two whose web servers reply with hostile texts."""
    yield from _daemons(world, *words)
    login = {"id": HOSTILE, "browser": LONG, "address": HOSTILE, "created": 1, "used": 1, "ends": 1}
    for status, body in (
        ("200 OK", {"logins": [login], "link": LONG}),
        (f"400 {ARGUMENT.splitlines()[0]}", {"error": {"message": LONG}}),
    ):
        text = json.dumps(body)
        answer = f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode(errors="replace")
        token = world.folder / "token"
        token.write_text("t" * 43)
        token.chmod(0o600)
        with server(("127.0.0.1", 0), b"", partial(_after_head, answer)) as port:
            stats = {"stats": {"web": {"url": f"http://127.0.0.1:{port}", "tokenFile": str(token)}}}
            socket = world.folder / f"web{port}"
            socket.unlink(missing_ok=True)  # of an earlier server with this port
            with server(str(socket), WELCOME, partial(reply, results=stats)):
                yield (*words, "--socket", socket)


@contextmanager
def _sending(world: World) -> Iterator[Path]:
    """Run a daemon whose collector answers with hostile texts, and yield its socket once it has got one."""
    with server(("127.0.0.1", 0), b"", partial(_after_head, LONG.encode())) as port:
        otlp = {"url": f"http://127.0.0.1:{port}"}
        with running(world.folder / f"sending{port}", otlp=otlp) as daemon:
            daemon.commit(commit(event(Turn, state="completed")))
            until(lambda: "problem" in daemon.stats()["telemetry"], "the collector's answer")
            yield daemon.path


def _stats(world: World, new: Path) -> Iterator[Words]:
    yield from _sessions(world, new)
    with _sending(world) as socket:
        yield ("--json", "--socket", socket)


def _logins(world: World, new: Path) -> Iterator[Words]:
    yield from _browsers(world)
    yield from _browsers(world, "--json")


def _revoke(world: World, new: Path) -> Iterator[Words]:
    yield from _browsers(world, "--all")
    yield from _browsers(world, ARGUMENT)


def _stopped(world: World, new: Path) -> Iterator[Words]:
    yield ("--socket", world.refusing)


def _agent(world: World, new: Path) -> Iterator[Words]:
    yield ("--", new / f"claude{ARGUMENT}")
    yield ("--dialect", ARGUMENT, "--socket", world.refusing, "--", "echo", "{}")


def _ingest(world: World, new: Path) -> Iterator[Words]:
    yield from _daemons(world, "--stats", world.recording)
    yield ("--stats", "--stats-json", "--socket", world.daemon.path, world.recordings)
    yield ("--socket", world.daemon.path, new / f"none{ARGUMENT}", "--dialect", ARGUMENT)


def _normalize(world: World, new: Path) -> Iterator[Words]:
    yield ("--stats", "--outputs", new / "bodies", world.recordings)
    yield ("--stats-json", world.recordings)
    yield (new / f"none{ARGUMENT}", new)


def _replay(world: World, new: Path) -> Iterator[Words]:
    other = new / "other.db"
    shutil.copy(world.journal, other)
    with sqlite3.connect(other) as database:
        database.execute("DELETE FROM events WHERE seq % 2")
    database.close()
    yield ("--stats", "--stats-json", world.trace.parent)
    yield ("--diff", "--socket", world.daemon.path, world.trace)
    yield ("--journal", other, world.trace)
    yield ("--journal", other, "--json", world.trace)
    yield ("--journal", world.recording, world.trace)
    yield (world.recording,)
    yield (new / ARGUMENT,)


def _tail(world: World, new: Path) -> Iterator[Words]:
    for mode in ("text", "verbose", "json"):
        yield from _daemons(world, "--no-follow", "--after", "start", "--mode", mode)
    yield ("--after", ARGUMENT, "--socket", world.daemon.path)
    yield ("--since", ARGUMENT)


def _sessions(world: World, new: Path) -> Iterator[Words]:
    yield from _daemons(world)
    yield from _daemons(world, "--json")


def _search(world: World, new: Path) -> Iterator[Words]:
    yield from _daemons(world, "x")
    yield from _daemons(world, "x", "--json")
    for option in ("--agent", "--project", "--tool", "--session", "--since", "--state"):
        yield ("x", option, ARGUMENT, "--socket", world.daemon.path)
    yield (ARGUMENT, "--socket", world.daemon.path)


def _calls(world: World, new: Path) -> Iterator[Words]:
    yield from _daemons(world)
    yield from _daemons(world, "--json")
    for option in ("--agent", "--project", "--tool", "--file", "--session", "--since", "--outcome", "--family"):
        yield (option, ARGUMENT, "--socket", world.daemon.path)


def _waiting(world: World, new: Path) -> Iterator[Words]:
    yield from _sessions(world, new)
    for option in ("--agent", "--project", "--host", "--may-after"):
        yield (option, ARGUMENT, "--socket", world.daemon.path)


def _resume(world: World, new: Path) -> Iterator[Words]:
    for words in (("last", "--print"), ("last", "--print", "--fork"), (ARGUMENT,)):
        yield from _daemons(world, *words)


def _files(world: World, new: Path) -> Iterator[Words]:
    for words in (("last",), ("last", ARGUMENT), (ARGUMENT,), ("last", "--json")):
        yield from _daemons(world, *words)


def _blame(world: World, new: Path) -> Iterator[Words]:
    """Of a file with a hostile name and text, which a session with a hostile name has written."""
    for words in (
        (),
        ("--json",),
        ("--format", "agent-trace"),
        ("-L", ARGUMENT),
        ("--session", ARGUMENT),
        ("--host", ARGUMENT),
    ):
        yield from _daemons(world, world.edited, *words)
    yield from _daemons(world, new / ARGUMENT)


def _list(world: World, new: Path) -> Iterator[Words]:
    yield from _sessions(world, new)
    for option in ("--agent", "--project", "--status", "--since", "--until"):
        yield (option, ARGUMENT, "--socket", world.daemon.path)


def _show(world: World, new: Path) -> Iterator[Words]:
    for view in ("assistant", "display", "raw"):
        yield from _daemons(world, 2, "--view", view)
    for seq in range(3, 10):
        yield (seq, "--socket", world.daemon.path)
    yield from _daemons(world, "last")
    yield from _daemons(world, "last", "--full")
    yield from _daemons(world, ARGUMENT)
    for one in _sessions_of(world):
        yield (one, "--full", "--socket", world.daemon.path)
        yield (one, "--json", "--socket", world.daemon.path)


def _usage(world: World, new: Path) -> Iterator[Words]:
    for by in ("session", "model", "project", "subagent"):
        yield from _daemons(world, "--by", by)
    yield from _daemons(world, "--json")
    yield from [("--by", ARGUMENT), ("--since", ARGUMENT), ("--until", ARGUMENT), ("--session", ARGUMENT)]


def _sessions_of(world: World) -> list[str]:
    with world.daemon.connect() as wire:
        return [one["session"] for one in wire.ask("sessions", limit=9)["sessions"]]


def _top(world: World, new: Path) -> Iterator[Words]:
    yield from _daemons(world)
    with world.daemon.connect() as wire:
        wire.send("ingest", stream=f"running{new.name}", dialect="acp", provider=f"p{HOSTILE[:40]}")
        wire.until("ingesting")
        for line in (
            {"id": 1, "method": "session/new", "params": {"cwd": f"/{HOSTILE}", "mcpServers": []}},
            {"id": 1, "result": {"sessionId": f"running{HOSTILE}"}},
            {"id": 2, "method": "session/prompt", "params": {"sessionId": f"running{HOSTILE}", "prompt": []}},
            {
                "id": 3,
                "method": "session/request_permission",
                "params": {
                    "sessionId": f"running{HOSTILE}",
                    "toolCall": {"toolCallId": "c", "title": LONG},
                    "options": [{"optionId": "o", "name": HOSTILE, "kind": "allow_once"}],
                },
            },
        ):
            wire.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
        while not _asks(world):
            pass
        yield ("--socket", world.daemon.path)
        yield ("--once", "--socket", world.daemon.path)


def _asks(world: World) -> bool:
    with world.daemon.connect() as wire:
        return bool(wire.ask("calls")["permissions"])


def _open(world: World, new: Path) -> Iterator[Words]:
    yield from _browsers(world, "--no-browser")
    yield from _daemons(world, ARGUMENT)


def _export(world: World, new: Path) -> Iterator[Words]:
    yield ("--html", world.recording, "-o", new / ARGUMENT)
    yield ("--html", world.recordings, ARGUMENT, "--socket", world.daemon.path, "-o", new)
    yield ("--html", world.recording)
    yield ("--html", ARGUMENT, "--socket", world.refusing, "-o", new / "x")


def _record(world: World, new: Path) -> Iterator[Words]:
    yield (world.recordings, "--out", new / "baselines")
    yield (world.recording, "--out", new / "more", "--agent-version", ARGUMENT, "--scenario", ARGUMENT)


def _check(world: World, new: Path) -> Iterator[Words]:
    yield (world.recordings,)
    yield (world.recordings, "--scenario", ARGUMENT, "--provider", ARGUMENT)
    for recording in world.recordings.iterdir():  # each against the others
        here("baseline", "record", recording, "--out", new / "b", "--scenario", "s", "--agent-version", "1")
        yield (world.recordings, "--baselines", new / "b", "--scenario", "s", "--agent-version", "2")


def _drift(world: World, new: Path) -> Iterator[Words]:
    yield (world.recordings, "--silent-lines", 1)
    yield (world.recordings, "--json", "--agent-version", ARGUMENT)
    yield from _daemons(world)
    yield from _daemons(world, "--json")


def _extract(world: World, new: Path) -> Iterator[Words]:
    (new / "keys").write_text(f"acp/gemini/tool-call/{ARGUMENT[:20]}\nacp/gemini/message\n", errors="replace")
    yield (world.recordings, "--allowlist", new / "keys", "--out", new / "fixtures")


def _fixtures(world: World, new: Path) -> Iterator[Words]:
    folder = new / ARGUMENT
    folder.mkdir()
    (folder / "allowlist.txt").write_text(f"{ARGUMENT.splitlines()[0]}\nacp/gemini/message\n", errors="replace")
    yield (folder,)
    (folder / "allowlist.txt").write_text("acp/gemini/message\n")
    yield (folder,)


def _journal(world: World, new: Path) -> Iterator[Words]:
    yield ("--journal", f"sqlite:{_damaged(world, new)}")
    yield ("--journal", f"sqlite:{world.recording}")
    yield ("--journal", f"sqlite:{new}/{ARGUMENT}")
    yield ("--journal", ARGUMENT, "--config", _config(new))
    yield ("--journal", f"nats://127.0.0.1:{world.nats}/x?connect_timeout=0.2")


def _with_json(world: World, new: Path) -> Iterator[Words]:
    yield from _journal(world, new)
    yield from (("--json", *words) for words in _journal(world, new))


def _backup(world: World, new: Path) -> Iterator[Words]:
    yield from ((new / f"{number}{ARGUMENT}", *words) for number, words in enumerate(_journal(world, new)))


def _import(world: World, new: Path) -> Iterator[Words]:
    archive = new / f"archive{ARGUMENT}"
    exported = here("journal", "export", "--archive", "--journal", f"sqlite:{world.journal}").stdout
    archive.write_bytes(exported + b"\x1b[31m\n" + json.dumps({"kind": HOSTILE}).encode() + b"\n")
    for file in (archive, world.recording, new / ARGUMENT, new):
        yield (file, "--journal", f"sqlite:{new}/{len(str(file))}.db")
    yield from ((archive, *words) for words in _journal(world, new))


def _doctor(world: World, new: Path) -> Iterator[Words]:
    yield from _daemons(world, "--timeout", 5)
    yield ("--json", "--socket", world.liar)
    yield ("--config", _config(new), "--socket", world.refusing)
    with _sending(world) as socket:
        yield ("--timeout", 5, "--socket", socket)


def _install(world: World, new: Path) -> Iterator[Words]:
    yield ("--print", "--", "--journal", f"/{ARGUMENT}")
    yield ("--", ARGUMENT)
    yield ("--", "--follow", "claude")


def _nothing(world: World, new: Path) -> Iterator[Words]:
    """No cases: the command prints nothing from outside."""
    yield from ()


def _plain(world: World, new: Path) -> Iterator[Words]:
    yield ()


def _up(world: World, new: Path) -> Iterator[Words]:
    """Daemons without a page, with which the command ends with an error. With a page it would keep running."""
    for socket in (world.daemon.path, world.liar, world.refusing):
        yield ("--socket", socket)


CASES: dict[str, Cases] = {
    "up": _up,
    "demo": _nothing,
    "serve": _serve,
    "serve link": lambda world, new: _browsers(world),
    "serve token": lambda world, new: _browsers(world),
    "serve sessions": _logins,
    "serve revoke": _revoke,
    "serve status": lambda world, new: _daemons(world),
    "serve stop": _stopped,
    "run": _agent,
    "proxy": _agent,
    "attach opencode": lambda world, new: iter([(f"http://127.0.0.1:{world.http}",), (ARGUMENT,)]),
    "attach codex": lambda world, new: iter([(f"unix:{world.daemon.path}",), (ARGUMENT,)]),
    "gateway openai": lambda world, new: iter(
        [("--upstream", ARGUMENT), ("--upstream", "http://127.0.0.1:1", "--listen", ARGUMENT)]
    ),
    "gateway key": lambda world, new: iter([("--key-file", new / ARGUMENT), ("--key-file", world.recording)]),
    "ingest": _ingest,
    "normalize": _normalize,
    "dialect list": _plain,
    "dialect new": lambda world, new: iter([(ARGUMENT,), ("quill", "--folder", new / ARGUMENT)]),
    "dialect check": lambda world, new: iter([(ARGUMENT, world.recording), ("acp", world.recording, new / ARGUMENT)]),
    "learn": lambda world, new: iter(
        [(world.recording,), (world.recording, "--write", new / ARGUMENT, "--name", "quill"), (new / ARGUMENT,)]
    ),
    "replay": _replay,
    "tail": _tail,
    "sessions": _list,
    "sessions rm": lambda world, new: _daemons(world, ARGUMENT, f"2{ARGUMENT}"),
    "sessions pin": lambda world, new: _daemons(world, ARGUMENT),
    "sessions unpin": lambda world, new: _daemons(world, ARGUMENT),
    "follow reread": lambda world, new: itertools.chain(
        _daemons(world, ARGUMENT), _daemons(world, "--agent", ARGUMENT), _daemons(world, "--all")
    ),
    "search": _search,
    "calls": _calls,
    "waiting": _waiting,
    "resume": _resume,
    "usage": _usage,
    "show": _show,
    "answer": lambda world, new: itertools.chain(
        _daemons(world, ARGUMENT, "--allow"), _daemons(world, "last", "--answer", ARGUMENT, "--accepted", 0)
    ),
    "answers test": _answers_test,
    "send": lambda world, new: _daemons(world, "last", ARGUMENT),
    "interrupt": lambda world, new: _daemons(world, ARGUMENT),
    "watch": lambda world, new: iter([("--on", ARGUMENT), ("--socket", world.refusing), ("--socket", new / ARGUMENT)]),
    "top": _top,
    "open": _open,
    "files": _files,
    "blame": _blame,
    "export": _export,
    "baseline record": _record,
    "baseline check": _check,
    "drift": _drift,
    "config check": lambda world, new: iter([(_config(new),), (new / ARGUMENT,), (world.recording,)]),
    "stats": _stats,
    "journal check": _with_json,
    "journal repair": _journal,
    "journal backup": _backup,
    "journal export": _journal,
    "journal import": _import,
    "remote add": lambda world, new: _daemons(world, ARGUMENT, "--name", ARGUMENT),
    "remote list": lambda world, new: itertools.chain(_daemons(world), _daemons(world, "--json")),
    "remote remove": lambda world, new: _daemons(world, ARGUMENT),
    "remote send": lambda world, new: _daemons(world, "--after", ARGUMENT),
    "doctor": _doctor,
    "service install": _install,
    "service uninstall": _plain,
    "service status": _plain,
    "mcp": lambda world, new: iter([("--root", ARGUMENT), ("--history", "--project", ARGUMENT)]),
    "schema": _nothing,
    "fixtures extract": _extract,
    "fixtures keys": lambda world, new: iter([(world.recordings,), (world.trace,)]),
    "fixtures check": _fixtures,
    "fixtures update": _fixtures,
    "hooks install": _nothing,
    "hooks uninstall": _nothing,
    "hooks status": _nothing,
    "hook": lambda world, new: iter([(ARGUMENT,)]),
    "away": _nothing,
    "completion": _nothing,
}
