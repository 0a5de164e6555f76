"""`tooltap proxy --answers`: what comes from the daemon reaches the agent once, between the lines of its client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Child, environment, start
from tests.cli.tap.spooling import Place, until
from tests.cli.tap.test_run import tapped
from tests.daemon.running import Running, Wire

AGENT = """
import json, os, sys
got = open(sys.argv[1], "ab", buffering=0)
parts = []
while data := os.read(0, 65536):
    got.write(data)
    parts.append(data)
    if b"\\n" not in data:
        continue
    *lines, rest = b"".join(parts).split(b"\\n")
    parts = [rest]
    for line in lines:
        if line.startswith(b'{"print"'):
            sys.stdout.buffer.write(json.loads(line)["print"].encode())
            sys.stdout.flush()
"""
"""An agent that notes what it gets in a file, and prints the text of each line `{"print": …}` among it."""

MIB = 1024 * 1024


def response(number: int, outcome: str = "selected", **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": {"outcome": {"outcome": outcome, **more}}}).encode()


OURS = response(0, optionId="ours")
THEIRS = response(0, optionId="theirs") + b"\n"
CANCELLED = response(0, "cancelled") + b"\n"
FIRST = {"answers": "rpc:0", "id": "first"}


class Session:
    """An agent under `proxy`, with this test as its client."""

    def __init__(self, proxy: Child, got: Path, connect: Callable[[], Wire]) -> None:
        self.proxy = proxy
        self.got = got
        self.connect = connect
        self.said = b""
        """What the client has written."""
        self.say(b'{"print":"ready\\n"}\n')
        assert proxy.line() in (b"ready\n", self.said)  # some agents repeat the line
        until(lambda: bool(self._streams()))
        [self.stream] = self._streams()

    def _streams(self) -> list[str]:
        with self.connect() as wire:
            return [one["stream"] for one in wire.ask("stats")["perStream"]]

    def say(self, data: bytes) -> None:
        self.said += data
        self.proxy.write(data)

    def hear(self, text: str) -> None:
        """Make the agent print a line, and wait for it. It then has everything that was written before."""
        self.say(json.dumps({"print": f"{text}\n"}).encode() + b"\n")
        assert self.proxy.line() == text.encode() + b"\n"

    def until_got(self, size: int) -> None:
        """Wait until the agent has got this many bytes."""
        until(lambda: self.got.stat().st_size == size)

    def give(self, line: bytes, **frame: Any) -> Callable[[], str | None]:
        """Send a line for the agent. Returns what waits for the refusal, which is None if the agent got it."""
        return self.send({"line": line.decode(), **frame})

    def until_written(self, line: bytes) -> None:
        """Send a line, again and again, as the daemon does when the proxy comes back, until the agent has it."""
        until(lambda: self.give(line, id=line.decode())() is None)

    def send(self, payload: object) -> Callable[[], str | None]:
        wire = self.connect()
        wire.send("to-agent", id=1, stream=self.stream, payload=payload)

        def refusal() -> str | None:
            with wire:
                reply = wire.until("reply")[-1]
            return None if reply["ok"] else reply["error"]["message"].rpartition("refused: ")[2]

        return refusal

    def end(self) -> bytes:
        """End the session, and return what the agent got."""
        assert self.proxy.end()[0] == 0
        return self.got.read_bytes()


@contextmanager
def session(daemon: Running, folder: Path, *command: str, name: str = "proxy", **options: Any) -> Iterator[Session]:
    got = folder / "got"
    arguments = command or (sys.executable, "-c", AGENT, str(got))
    with start(name, "--answers", "--socket", daemon.path, "--dialect", "acp", "--", *arguments, **options) as proxy:
        yield Session(proxy, got, daemon.connect)


@pytest.fixture
def one(daemon: Running, tmp_path: Path) -> Iterator[Session]:
    with session(daemon, tmp_path) as running:
        yield running


def test_answer_reaches_the_agent_and_the_clients_later_one_does_not(one: Session, daemon: Running) -> None:
    assert one.give(OURS, **FIRST)() is None
    before = one.said
    one.say(THEIRS)
    one.said = before
    one.hear("on")
    lines = one.said.splitlines(keepends=True)

    assert one.end() == lines[0] + OURS + b"\n" + lines[1]
    assert tapped(daemon)[0]["lines"] == 2 + 3  # what the agent printed, and what it got


def test_client_answers_first(one: Session) -> None:
    one.say(THEIRS)
    one.hear("on")

    assert one.give(OURS, **FIRST)() == "the agent's own client answered first"
    assert one.end() == one.said


def test_later_answers_from_the_daemon_are_refused(one: Session) -> None:
    assert one.give(OURS, **FIRST)() is None
    assert one.give(response(0), answers="rpc:0", id="second")() == "it was answered already"
    assert one.end() == one.said + OURS + b"\n"


def test_cancelled_always_passes(one: Session) -> None:
    assert one.give(OURS, **FIRST)() is None
    one.say(CANCELLED)
    one.hear("on")
    one.say(CANCELLED)

    lines = one.said.splitlines(keepends=True)
    assert one.end() == b"".join([lines[0], OURS + b"\n", *lines[1:]])


def test_same_frame_is_written_once(one: Session) -> None:
    for waiting in [one.give(OURS, **FIRST) for _ in range(3)]:
        assert waiting() is None
    assert one.give(OURS, **FIRST)() is None
    assert one.end() == one.said + OURS + b"\n"


def test_refused_frame_stays_refused(one: Session) -> None:
    one.say(THEIRS)
    one.hear("on")
    for _ in range(2):
        assert one.give(OURS, **FIRST)() == "the agent's own client answered first"


@pytest.mark.parametrize(
    "request_line",
    [
        b'{"jsonrpc":"2.0","id":0,"method":"session/request_permission"}',
        b'{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool"}}',
    ],
)
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_request_with_the_id_of_an_earlier_one_is_a_new_one(request_line: bytes, first: str, one: Session) -> None:
    is_rpc = b"rpc" in request_line
    ours = OURS if is_rpc else b'{"type":"control_response","response":{"request_id":"r","by":"us"}}'
    theirs = THEIRS if is_rpc else ours.replace(b"us", b"them") + b"\n"
    answers = "rpc:0" if is_rpc else "control:r"
    if first == "ours":
        assert one.give(ours, answers=answers, id="a")() is None
    else:
        one.say(theirs)
    one.hear(request_line.decode())
    if first == "ours":
        one.say(theirs)
    else:
        assert one.give(ours, answers=answers, id="a")() is None
    got = one.end()

    assert (got.count(ours + b"\n"), got.count(theirs)) == (1, 1)
    assert got.replace(ours + b"\n", b"") == one.said


def test_both_answer_at_the_same_time(one: Session) -> None:
    """Whoever is first: the agent gets exactly one answer to each request, and the daemon hears which."""
    rounds = 200
    ours: list[bool] = []
    for number in range(rounds):
        begin = threading.Barrier(2)

        def client(number: int = number, begin: threading.Barrier = begin) -> None:
            begin.wait()
            one.say(response(number, optionId="theirs") + b"\n")

        answering = threading.Thread(target=client)
        answering.start()
        begin.wait()
        refused = one.give(response(number, optionId="ours"), answers=f"rpc:{number}", id=str(number))()
        answering.join()
        assert refused in (None, "the agent's own client answered first")
        ours.append(refused is None)
    answers = [json.loads(line) for line in one.end().splitlines() if b"optionId" in line]

    assert [(answer["id"], answer["result"]["outcome"]["optionId"]) for answer in answers] == [
        (number, "ours" if is_ours else "theirs") for number, is_ours in enumerate(ours)
    ]


def test_nothing_is_written_inside_a_line_of_the_client(one: Session) -> None:
    """The agent has the beginning of a line, so what we write comes after its end."""
    line = b'{"method":"\xc3\xa9\\n"}\n'
    expected = one.said
    for cut in range(1, len(line)):
        one.say(line[:cut])
        one.until_got(len(expected) + cut)
        waiting = one.give(b"%d" % cut, id=str(cut))
        one.say(line[cut:])
        assert waiting() is None
        expected += line + b"%d\n" % cut
    assert one.end() == expected


def test_line_that_is_held_passes_whole(one: Session) -> None:
    """After an answer, a line of the client is held until its newline: what we write comes before it."""
    line = b'{"method":"\xc3\xa9\\n"}\n'
    assert one.give(OURS, **FIRST)() is None
    expected = one.said + OURS + b"\n"
    for cut in range(1, len(line)):
        one.say(line[:cut])
        assert one.give(b"%d" % cut, id=str(cut))() is None
        one.say(line[cut:])
        expected += b"%d\n" % cut + line
    assert one.end() == expected


def test_later_answer_is_dropped_wherever_it_is_cut(one: Session) -> None:
    assert one.give(OURS, **FIRST)() is None
    expected = one.said + OURS + b"\n"
    for cut in range(1, len(THEIRS)):
        for part in (THEIRS[:cut], THEIRS[cut:] + b"%d\n" % cut):
            one.proxy.write(part)
        expected += b"%d\n" % cut
    one.proxy.write(THEIRS.rstrip())  # at the end of the input
    assert one.end() == expected


def test_long_line_passes_whole(one: Session) -> None:
    long = b'{"method":"' + b"x" * 10 * MIB + b'"}'
    before = len(one.said)
    one.say(long)
    one.until_got(before + len(long))
    waiting = one.give(b"ours", id="ours")
    one.say(b"\n")
    assert waiting() is None
    assert one.end() == one.said + b"ours\n"


def test_long_line_that_is_held_passes_whole(one: Session) -> None:
    assert one.give(OURS, **FIRST)() is None
    before, long = one.said, b'{"method":"' + b"x" * 10 * MIB + b'"}'
    one.say(long)
    assert one.give(b"ours", id="ours")() is None
    one.say(b"\n")
    assert one.end() == before + OURS + b"\nours\n" + long + b"\n"


def test_bytes_pass_unchanged_both_ways(daemon: Running, tmp_path: Path) -> None:
    data = bytes(range(256)) * 3_000 + b"\n"
    with session(daemon, tmp_path, "cat") as one:
        process = one.proxy.process
        assert process.stdin is not None
        assert process.stdout is not None
        echoed: list[bytes] = []
        reading = threading.Thread(target=lambda stdout=process.stdout: echoed.append(stdout.read()))
        reading.start()
        one.proxy.write(data[:100_000])
        waiting = one.give(b"ours", id="ours")
        one.proxy.write(data[100_000:])
        assert waiting() is None
        one.proxy.write(b"unterminated")
        process.stdin.close()
        reading.join(60)

        assert process.wait(60) == 0
        assert echoed[0].replace(b"\nours\n", b"\n", 1) == data + b"unterminated"


def test_agent_that_does_not_read(daemon: Running, tmp_path: Path) -> None:
    """What we write waits with what the client writes, and is whole in the end."""
    program = "import os, sys\nos.write(1, os.read(0, 1000))\nos.read(int(sys.argv[2]), 1)\n" + AGENT
    reading, writing = os.pipe()
    command = [sys.executable, "-c", program, str(tmp_path / "got"), str(reading)]
    with session(daemon, tmp_path, *command, pass_fds=[reading]) as one:
        lines = b"".join(b"%01000d\n" % number for number in range(300))  # more than a pipe holds
        saying = threading.Thread(target=one.proxy.write, args=(lines,))
        saying.start()
        waiting = [one.give(b"%d" % number + b"x" * 50_000, id=str(number)) for number in range(5)]
        os.write(writing, b"x")
        saying.join(60)
        assert [refusal() for refusal in waiting] == [None] * 5
        got = one.end().splitlines(keepends=True)
    os.close(reading)
    os.close(writing)

    ours = [line for line in got if b"x" in line]
    assert sorted(ours) == [b"%d" % number + b"x" * 50_000 + b"\n" for number in range(5)]
    assert b"".join(line for line in got if b"x" not in line) == lines


def test_client_that_has_closed_the_input(daemon: Running, tmp_path: Path) -> None:
    program = AGENT + "print('closed', flush=True)\nos.read(int(sys.argv[2]), 1)"
    reading, writing = os.pipe()
    command = [sys.executable, "-c", program, str(tmp_path / "got"), str(reading)]
    with session(daemon, tmp_path, *command, pass_fds=[reading]) as one:
        assert one.proxy.process.stdin is not None
        one.proxy.process.stdin.close()
        assert one.proxy.line() == b"closed\n"
        assert one.give(OURS, **FIRST)() == "the agent's input is closed"
        os.write(writing, b"x")
        assert one.proxy.process.wait(60) == 0
        assert one.got.read_bytes() == one.said
    os.close(reading)
    os.close(writing)


def test_agent_that_has_closed_its_input(daemon: Running, tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "print(input(), flush=True)\n"
        "os.close(0)\n"
        "print('closed', flush=True)\n"
        "os.read(int(sys.argv[1]), 1)"
    )
    reading, writing = os.pipe()
    with session(daemon, tmp_path, sys.executable, "-c", program, str(reading), pass_fds=[reading]) as one:
        assert one.proxy.line() == b"closed\n"
        for name in ("a", "b"):
            assert one.give(OURS, answers="rpc:0", id=name)() == "the agent's input is closed"
        os.write(writing, b"x")
        assert one.proxy.process.wait(60) == 0
    os.close(reading)
    os.close(writing)


def test_line_for_the_client_comes_between_two_of_the_agent(one: Session) -> None:
    notice = '{"method":"$/cancel_request","params":{"requestId":0}}'
    one.say(b'{"print":"par"}\n')
    assert one.proxy.process.stdout is not None
    assert one.proxy.process.stdout.read(3) == b"par"
    assert one.give(OURS, **FIRST, toClient=notice)() is None
    one.say(b'{"print":"tial\\n"}\n')

    assert [one.proxy.line() for _ in range(2)] == [b"tial\n", notice.encode() + b"\n"]
    assert one.give(response(1), answers="rpc:1", id="second", toClient=notice)() is None
    assert one.proxy.line() == notice.encode() + b"\n"  # the agent is silent


def test_response_to_our_own_request_is_not_for_the_client(one: Session, daemon: Running) -> None:
    ask = {"asks": 'rpc:"ours"', "id": "ask"}
    assert one.give(b'{"id":"ours","method":"session/prompt"}', **ask)() is None
    mine = '{"id":1,"result":{}}\n'
    one.say(json.dumps({"print": f'{{"id":"ours","result":{{}}}}\n{mine}{{"par'}).encode() + b"\n")
    assert one.proxy.line() == mine.encode()
    one.say(b'{"print":"tial\\n"}\n')

    assert one.proxy.line() == b'{"partial\n'
    one.end()
    assert tapped(daemon)[0]["lines"] == 4 + 4


def test_output_that_is_held_passes_at_the_end(one: Session) -> None:
    assert one.give(b'{"id":"ours","method":"session/prompt"}', asks='rpc:"ours"', id="ask")() is None
    one.say(b'{"print":"unterminated"}\n')

    assert one.proxy.end() == (0, b"unterminated", b"")


def test_input_that_is_held_passes_at_the_end(one: Session) -> None:
    assert one.give(OURS, **FIRST)() is None
    before = one.said
    one.say(b"unterminated")

    assert one.end() == before + OURS + b"\nunterminated"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (
            {"line": "{}", "path": "/session/a/abort", "id": "a"},
            "this tap writes lines to the agent, and this is no single line",
        ),
        ({"line": "{}\n{}", "id": "a"}, "this tap writes lines to the agent, and this is no single line"),
        ({"line": "", "toClient": "{}\n", "id": "a"}, "this tap writes lines to the agent, and this is no single line"),
        ({"line": 1, "id": "a"}, "this tap does not understand it: Expected `str`, got `int` - at `$.line`"),
        ({"line": "{}"}, "this tap does not understand it: Object missing required field `id`"),
    ],
)
def test_what_cannot_be_written_is_refused(frame: dict[str, Any], reason: str, one: Session) -> None:
    assert one.send(frame)() == reason
    assert one.end() == one.said


@pytest.mark.parametrize("moment", ["asked", "written", "answered"])
def test_daemon_that_is_killed_sends_the_frame_again(moment: str, tmp_path: Path) -> None:
    place, got = Place(tmp_path), tmp_path / "got"
    ours = [b"%d" % number for number in range(2)]
    with place.start("--answers", "--", sys.executable, "-c", AGENT, got, command="proxy") as proxy:
        with place.serving() as daemon:
            one = Session(proxy, got, daemon.connect)
        for line in ours:
            with place.serving() as daemon:
                one.connect = daemon.connect
                one.until_written(b"before " + line)
                size = one.got.stat().st_size
                waiting = one.give(line, id=line.decode())
                if moment == "written":
                    one.until_got(size + len(line) + 1)
                elif moment == "answered":
                    assert waiting() is None
                daemon.process.kill()
                if moment != "answered":
                    with suppress(AssertionError, OSError):  # the daemon is gone
                        waiting()
        with place.serving() as daemon:
            one.connect = daemon.connect
            for line in ours:
                one.until_written(line)
            proxy.end()

    assert sorted(got.read_bytes().removeprefix(one.said).splitlines()) == sorted(
        [*ours, *(b"before " + line for line in ours)]
    )


def test_proxy_that_is_killed_leaves_no_whole_line(daemon: Running, tmp_path: Path) -> None:
    """The agent gets the beginning of the answer, and the end of its input: that is no answer."""
    program = (
        "import os, sys\n"
        "print(sys.stdin.readline(), end='', flush=True)\n"
        "got = open(sys.argv[1], 'ab', buffering=0)\n"
        "got.write(os.read(0, 1))\n"
        "os.read(int(sys.argv[2]), 1)\n"
        "while data := os.read(0, 65536): got.write(data)\n"
        "got.write(b'end')"
    )
    reading, writing = os.pipe()
    long = response(0, optionId="x" * 200_000)  # more than a pipe holds
    (tmp_path / "got").touch()
    with session(
        daemon, tmp_path, sys.executable, "-c", program, str(tmp_path / "got"), str(reading), pass_fds=[reading]
    ) as one:
        one.give(long, **FIRST)
        one.until_got(1)
        one.proxy.kill()
        os.write(writing, b"x")
        until(lambda: one.got.read_bytes().endswith(b"end"))
    os.close(reading)
    os.close(writing)

    assert long.startswith(one.got.read_bytes().removesuffix(b"end"))
    assert tapped(daemon)[0]["state"] != "ended"


@pytest.mark.parametrize("name", ["proxy", "run"])
def test_without_the_option_the_agent_gets_nothing_that_its_client_has_not_written(
    name: str, daemon: Running, tmp_path: Path
) -> None:
    got = tmp_path / "got"
    agent = [sys.executable, "-c", AGENT, str(got)]
    with start(name, "--socket", daemon.path, "--dialect", "acp", "--", *agent) as tap:
        one = Session(tap, got, daemon.connect)
        refused = one.give(OURS, **FIRST)()
        one.hear("after")
        assert one.end() == one.said
    assert refused == f"the publisher of stream '{one.stream}' sends nothing to its agent"


def test_run_takes_answers_where_the_agent_reads_a_pipe(daemon: Running, tmp_path: Path) -> None:
    with session(daemon, tmp_path, name="run") as one:
        assert one.give(OURS, **FIRST)() is None
        assert one.end() == one.said + OURS + b"\n"


@pytest.mark.parametrize(
    ("command", "stdin", "why"),
    [
        ("agent", subprocess.DEVNULL, "standard input is no pipe"),
        ("claude", subprocess.PIPE, "claude takes no answers with these arguments"),
    ],
)
def test_run_says_that_there_is_no_way_to_answer(command: str, stdin: int, why: str, tmp_path: Path) -> None:
    program = tmp_path / command
    program.write_text("#!/bin/sh\necho $1\n")
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    arguments = ["run", "--answers", "--socket", tmp_path / "none", "--", command, "--output-format=json"]
    with start(*arguments, stdin=stdin, env=environment(PATH=path)) as run:
        code, output, errors = run.end()

    assert (code, output) == (0, b"--output-format=json\n")
    assert errors.splitlines()[0] == f"tooltap: runs without --answers: {why}".encode()
