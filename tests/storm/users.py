"""What people and programs do in a storm, each in a thread: agents that store their sessions, agents that ask, answers,
exports, searches, lists, taps."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.daemon.answering import OPENING, SESSION, Tap, question, turn_end
from tests.daemon.lives import Gone
from tests.storm.agents import length, session_id, transcript_line, word
from tests.storm.checker import Answering, Expected, Export, Search
from tests.storm.publishers import published
from tests.storm.world import PATIENCE, World

__all__ = ["FOLLOWED", "TAPPED", "Users"]

FOLLOWED, TAPPED, ASKING = 0x0F000000, 0x0E000000, "storm-asks-{}"
"""The first sessions of session files and of taps."""
UNAVAILABLE = {"journal", "no-index", "too-many-connections"}
"""Codes of refusals that a fault explains."""
QUESTIONS = 20
"""Questions of a session."""
AWAY = (OSError, Gone, AssertionError, ValueError)
"""What a client sees of a daemon that dies; `AssertionError`: `Wire` says so."""


class Users:
    """All of them; what they know is in their attributes afterwards."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.streams: dict[int, Expected] = {}
        self.answers: list[Answering] = []
        self.exports: list[Export] = []
        self.searches: list[Search] = []
        self._seed = seed
        self._asking = 0
        self._threads = [
            threading.Thread(target=self._guard, args=(role,), name=role.__name__)
            for role in (self.store, self.tap, self.ask, self.export, self.search, self.list)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(3 * PATIENCE)  # two commands, one after the other
            if thread.is_alive():
                self.world.note(f"{thread.name} does not end")

    def _guard(self, role: Callable[[random.Random], None]) -> None:
        numbers = random.Random(f"{self._seed} {role.__name__}")
        while not self.world.stopping.is_set():
            try:
                role(numbers)
            except AWAY:
                self.world.stopping.wait(0.2)
            except Exception:  # a fault of the storm must not pass for a storm without faults
                self.world.note(f"{role.__name__}: {traceback.format_exc()}")
                return

    def finished(self) -> list[tuple[int, int]]:
        """Sessions whose streams have ended, with their lines."""
        ended = []
        for record in self.world.records.glob("publisher-*.jsonl"):
            known, _ = published(record)
            ended += [(one.session, one.total) for one in known.values() if one.ended]
        return ended

    # -- agents -------------------------------------------------------------------------------------------------

    def store(self, numbers: random.Random) -> None:
        """Agents write their session files, with pauses within a line."""
        folder = self.world.home / ".claude/projects/-w"
        folder.mkdir(parents=True, exist_ok=True)
        first = FOLLOWED + len([one for one in self.streams if one >= FOLLOWED])
        sessions = [(first + index, folder / f"{session_id(first + index)}.jsonl") for index in range(3)]
        written = dict.fromkeys(sessions, 0)
        torn = dict.fromkeys(sessions, b"")
        end = numbers.randrange(1_000, 4_000)
        while not self.world.stopping.is_set() and min(written.values()) < end:
            for one in sessions:
                number, path = one
                count = numbers.randrange(1, 30)
                lines = [transcript_line(number, written[one] + at, _now()) for at in range(1, count + 1)]
                data = b"".join(row + b"\n" for row in lines)
                cut = numbers.randrange(len(data)) if numbers.random() < 0.3 else len(data)
                with path.open("ab", buffering=0) as file:
                    file.write(torn[one] + data[:cut])
                torn[one] = data[cut:]
                written[one] += count
                self.streams[number] = Expected(written[one], written[one])
                self.world.counts["events"] += count
            time.sleep(0.2)
        for one in sessions:
            with one[1].open("ab", buffering=0) as file:
                file.write(torn[one])

    def tap(self, numbers: random.Random) -> None:
        """Agents run under `tooltap run`, which is sometimes killed."""
        number = TAPPED + len([one for one in self.streams if TAPPED <= one < FOLLOWED])
        total = length(self._seed, number) // 4 + 3
        self.streams[number] = Expected(0, total)
        script = "import sys; from tests.storm.agents import line; n, last = map(int, sys.argv[1:])\n"
        script += "for at in range(1, last + 1): sys.stdout.buffer.write(line(n, at, last) + b'\\n')"
        agent = [sys.executable, "-c", script, str(number), str(total)]
        command = [sys.executable, "-m", "tooltap.cli", "run", "--dialect", "claude-stream", "--", *agent]
        with subprocess.Popen(
            command,
            env=self.world.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            if numbers.random() < 0.3:
                time.sleep(numbers.uniform(0.2, 1.5))
                process.kill()
                self.world.counts["taps killed"] += 1
            _, said = process.communicate(timeout=PATIENCE)
        if process.returncode == 0 and b"lost" not in said:
            self.streams[number] = Expected(total, total)
        elif process.returncode not in (0, -9):
            self.world.note(f"`tooltap run` ended with {process.returncode}: {said.decode()[-500:]}")
        self.world.counts["taps"] += 1
        self.world.stopping.wait(numbers.uniform(1, 4))

    # -- questions ----------------------------------------------------------------------------------------------

    def ask(self, numbers: random.Random) -> None:
        """An agent asks, and two clients answer at once."""
        self._asking += 1
        session = ASKING.format(self._asking)
        tap = Tap(session)
        begun = [(way, json.loads(json.dumps(one).replace(SESSION, session))) for way, one in OPENING]
        tap.lines.extend(_tapped(way, one) for way, one in begun)
        self._connect(tap)
        for number in range(1, QUESTIONS + 1):
            if self.world.stopping.is_set():
                break
            asked = json.loads(json.dumps(question(number)).replace(SESSION, session))
            tap.lines.append(_tapped("out", asked))
            self._answered(tap, session, number, numbers)
        tap.lines.append(_tapped("out", turn_end()))
        while True:
            try:
                tap.tap()
                tap.wire.write(b'{"op":"end"}\n')
                tap.until("done")
                tap.wire.close()
                return
            except AWAY:
                self._connect(tap)

    def _connect(self, tap: Tap) -> None:
        """Connect an agent again and again until it is."""
        deadline = time.monotonic() + PATIENCE
        while True:
            if hasattr(tap, "wire"):
                tap.wire.close()
            try:
                tap.connect(self.world.wire())
                return
            except AWAY:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _answered(self, tap: Tap, session: str, number: int, numbers: random.Random) -> None:
        """Publish a question, and have it answered until its agent has an answer: at the latest `PATIENCE` seconds
        after the last fault. Before, a daemon that is slow to start may be killed again and again."""
        attempts: list[tuple[str, str]] = []
        one = Answering(session, str(100 + number), attempts, [])
        before = len(tap.written)
        clients: list[threading.Thread] = []
        deadline = math.inf
        while len(tap.written) == before:
            if self.world.stopping.is_set():
                deadline = min(deadline, time.monotonic() + PATIENCE)
            if time.monotonic() > deadline:
                self.world.note(f"question {number} of {session} has no answer: {attempts}")
                break
            try:
                tap.tap()
                if any(end == "expired" for _, end in attempts):
                    break  # the clock jumped while its agent was away: its session was ended
                if not any(thread.is_alive() for thread in clients) and not _is_accepted(attempts):
                    clients = self._answer_at_once(one, numbers)
                tap.wire.socket.settimeout(2)
                frame = tap.receive(2)
                tap.wire.socket.settimeout(30)
                tap.write(frame)
            except AWAY:
                self._connect(tap)
        for thread in clients:
            thread.join(PATIENCE)  # what it has not written down would seem to be nobody's answer
        one.written.extend(map(_outcome, tap.written[before:]))
        self.answers.append(one)
        self.world.counts["answers"] += 1

    def _answer_at_once(self, one: Answering, numbers: random.Random) -> list[threading.Thread]:
        outcomes = [numbers.choice(("allowed", "denied")) for _ in range(2)]
        threads = [
            threading.Thread(target=door, args=(one, outcome))
            for door, outcome in zip((self._answer_socket, self._answer_http), outcomes, strict=True)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _answer_socket(self, one: Answering, outcome: str) -> None:
        end = "unknown"
        try:
            with self.world.wire() as wire:
                wire.send("answer", id=1, permissionId=one.permission, stream=one.session, outcome=outcome)
                reply = wire.until("reply")[-1]
                end = "accepted" if reply["ok"] else _refused(reply["error"])
        except AWAY:
            pass
        one.attempts.append((outcome, end))

    def _answer_http(self, one: Answering, outcome: str) -> None:
        end = "unknown"
        try:
            body = {"permissionId": one.permission, "stream": one.session, "outcome": outcome}
            status, reply = self.world.http("POST", "/api/answer", body)
            end = "accepted" if status == 200 else _refused(json.loads(reply)["error"])
        except AWAY:
            pass
        one.attempts.append((outcome, end))

    # -- readers ------------------------------------------------------------------------------------------------

    def export(self, numbers: random.Random) -> None:
        """Sessions that have ended become files."""
        ended = self.finished()
        if not ended:
            self.world.stopping.wait(1)
            return
        number, _ = numbers.choice(ended[-30:])
        form = numbers.choice(("html", "markdown", "download", "journal"))
        file = self.world.disk / f"export-{self.world.counts['exports']}.{form}"
        if form == "download":
            status, body = self.world.http("GET", f"/sessions/{session_id(number)}/export.md")
            if status == 200:
                self.exports.append(Export(form, number, 0, body.decode(), b"Events " in body or b"Event " in body))
            elif status == 500:
                self.world.note(f"a download ended with 500: {body[:300]!r}")
        elif form == "journal":
            done = self.world.command("journal", "backup", file, "--config", self.world.config)
            if done.returncode == 0:
                checked = self.world.command("journal", "check", "--journal", f"sqlite:{file}")
                if checked.returncode != 0:
                    self.world.note(f"a backup is damaged: {(checked.stdout + checked.stderr).decode()[-500:]}")
            elif done.returncode != 1:
                self.world.note(f"`journal backup` ended with {done.returncode}: {done.stderr.decode()[-500:]}")
            elif file.exists():
                self.world.note(f"`journal backup` failed, and there is a file: {done.stderr.decode()[-500:]}")
        else:
            done = self.world.command("export", f"--{form}", session_id(number), "-o", file, "--jobs", "1")
            text = file.read_text() if file.exists() else None
            if b"Traceback" in done.stderr:
                self.world.note(f"`export` shows a traceback: {done.stderr.decode()[-500:]}")
            self.exports.append(
                Export(form, number, done.returncode, text, b"vent" in done.stderr, done.stderr.decode())
            )
        for made in self.world.disk.glob(f"{file.name}*"):
            made.unlink(missing_ok=True)
        self.world.counts["exports"] += 1
        self.world.stopping.wait(numbers.uniform(0.5, 2))

    def search(self, numbers: random.Random) -> None:
        """Words that one line has are looked for."""
        ended = self.finished()
        if ended:
            number, total = numbers.choice(ended[-50:])
            self.look_for(number, numbers.randrange(2, total), is_final=False)
        self.world.stopping.wait(0.3)

    def look_for(self, number: int, at: int, *, is_final: bool) -> None:
        with self.world.wire() as wire:
            wire.send("search", id=1, query=word(number, at))
            reply = wire.until("reply")[-1]
        if reply["ok"]:
            hits = [one["seq"] for one in reply["result"]["hits"]]
            self.searches.append(Search(number, at, hits, is_final and _is_whole(reply["result"])))
        elif reply["error"]["code"] not in UNAVAILABLE:
            self.world.note(f"search: {reply['error']}")
        self.world.counts["searches"] += 1

    def list(self, numbers: random.Random) -> None:
        """Lists and pages are read; nothing may be an internal error."""
        for op in ("sessions", "calls", "waiting", "ended-calls", "usage", "stats", "changed-files"):
            with self.world.wire() as wire:
                wire.send(op, id=1)
                reply = wire.until("reply")[-1]
                if not reply["ok"] and reply["error"]["code"] not in UNAVAILABLE:
                    self.world.note(f"{op}: {reply['error']}")
        targets = ["/", "/events", "/board", "/calls", "/usage", "/metrics", "/api/sessions", "/api/events?limit=100"]
        for target in [*targets, f"/sessions/{session_id(numbers.choice(self.finished() or [(1, 1)])[0])}"]:
            status, body = self.world.http("GET", target)
            if status == 500 or b"Traceback" in body:
                self.world.note(f"GET {target}: {status} {body[:300]!r}")
            self.world.counts["pages"] += 1
        self.world.stopping.wait(numbers.uniform(1, 3))


def _tapped(way: str, value: dict[str, Any]) -> bytes:
    return json.dumps({"dir": way, "line": json.dumps({"jsonrpc": "2.0", **value})}).encode() + b"\n"


def _refused(error: dict[str, Any]) -> str:
    """How an answer with this error ended; `journal`: it may have been stored."""
    if error["code"] in ("journal", "internal"):
        return "unknown"
    return "expired" if error["message"].startswith("the question expired") else "refused"


def _is_accepted(attempts: list[tuple[str, str]]) -> bool:
    return any(end == "accepted" for _, end in attempts)


def _outcome(written: str) -> str:
    option = json.loads(written)["result"]["outcome"]["optionId"]
    return "denied" if option == "no" else "allowed"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_whole(result: dict[str, Any]) -> bool:
    """Whether a search looked at all events: parts of the index are built again when events were deleted."""
    return bool(result["complete"] and not result["behind"])
