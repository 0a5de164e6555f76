"""`tooltap normalize`: raw lines become event lines, and other files do no harm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.cli.check.plugged import install
from tests.cli.command import CLAUDE, CODEX, here, sentence, start, tooltap
from tooltap.daemon.taps.stream_ids import stream_name

MIB = 1024 * 1024


def events_of(finished: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in finished.stdout.splitlines()]


def statistics_of(finished: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in finished.stderr.splitlines()]


def test_compressed_recording_is_read_as_the_plain_one(tmp_path: Path) -> None:
    """Also in a folder, where it counts only without the plain one."""
    plain = tooltap("normalize", CODEX)
    packed = tmp_path / f"{CODEX.name}.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(CODEX.read_bytes()))

    assert [tooltap("normalize", path).stdout for path in (packed, tmp_path)] == [plain.stdout] * 2

    (tmp_path / CODEX.name).write_bytes(CODEX.read_bytes())
    assert tooltap("normalize", tmp_path).stdout == plain.stdout


def test_stream_is_named_after_the_recording() -> None:
    """The recording runs one failing command: five lines, with the call on the second and the result on the third."""
    finished = tooltap("normalize", CLAUDE)
    events = events_of(finished)

    assert (finished.returncode, finished.stderr) == (0, b"")
    assert {event["stream"] for event in events} == {"claude-code"}
    assert all("seq" not in event for event in events)
    [call] = [event for event in events if event["kind"] == "tool-call"]
    [result] = [event for event in events if event["kind"] == "tool-result"]
    assert (call["name"], call["input"]["command"]) == (
        "Bash",
        "echo partial output; echo 'boom: something broke' >&2; exit 3",
    )
    assert call["id"].startswith("claude-code:")
    assert (result["callId"], result["status"], result["output"]["exit_code"]) == (call["callId"], "failed", 3)


def test_standard_input_without_file_and_for_dash() -> None:
    alone = here("normalize", stdin=CLAUDE.read_bytes())
    dash = here("normalize", "-", stdin=CLAUDE.read_bytes())

    assert alone.stdout == dash.stdout
    assert {event["stream"] for event in events_of(alone)} == {"stdin"}


def test_line_is_normalized_at_once() -> None:
    with start("normalize") as command:
        command.write(CLAUDE.read_bytes().splitlines(keepends=True)[0])

        assert json.loads(command.line())["kind"] == "session"


def test_tapped_recording_is_unwrapped() -> None:
    events = events_of(here("normalize", CODEX))

    assert {event["dialect"] for event in events} == {"codex-mcp"}
    prompts = [event["text"] for event in events if event["kind"] == "message" and event["role"] == "user"]
    assert prompts == ["[[S3]] Change the greeting in src/app.py from Hello to Howdy."]


@pytest.mark.parametrize(
    ("end", "turn", "session"),
    [
        ({"exit": 3}, ("failed", "exit 3"), (3, None)),
        ({"signal": "SIGKILL"}, ("cancelled", "killed by SIGKILL"), (None, "SIGKILL")),
    ],
)
def test_end_of_the_process_ends_the_turn(
    end: dict[str, object], turn: tuple[object, ...], session: tuple[object, ...], tmp_path: Path
) -> None:
    tapped = tmp_path / "tapped.jsonl"
    lines = ['{"type":"thread.started","thread_id":"t"}', '{"type":"turn.started"}']
    records = [{"t": 1_795_293_851_000, "dir": "out", "line": line} for line in lines]
    tapped.write_text("".join(json.dumps(one) + "\n" for one in (*records, {"op": "end", **end})))

    *_, ended, closed = events_of(here("normalize", tapped))
    assert (ended["kind"], ended["state"], ended["reason"]) == ("turn", *turn)
    assert closed["kind"] == "session"
    assert (closed.get("exitCode"), closed.get("signal")) == session
    exported = here("export", tapped, "--markdown").stdout.decode()
    assert [one for one in ("exit 3", "killed by SIGKILL") if one in exported] == [turn[1]]


def test_untapped_line_in_tapped_recording_is_unparsed(tmp_path: Path) -> None:
    torn = tmp_path / "torn.jsonl"
    lines = CODEX.read_bytes().splitlines()
    torn.write_bytes(b"\n".join([*lines[:5], lines[5][:40], *lines[6:], b"", b'{"op":"end"}', b"\xff\x00"]))
    finished = here("normalize", torn, "--stats-json")
    unparsed = [event for event in events_of(finished) if event["kind"] == "unparsed"]

    assert finished.returncode == 0
    assert [(event["line"], event["reason"]) for event in unparsed] == [(6, "truncated"), (len(lines) + 2, "not-json")]
    [statistics] = statistics_of(finished)
    assert statistics["lines"] == len(lines) + 2
    assert statistics["skipped"]["blank"] == 1


@pytest.mark.parametrize(
    ("path", "stream"),
    [
        ("captures/S12.agent-a1.jsonl", "S12.agent-a1"),
        ("rollout 2026-11-21é.jsonl", "rollout-2026-11-21-"),
        ("/plain", "plain"),
        (".jsonl", ".jsonl"),
        (f"{'x' * 240}.jsonl", "x" * 160),
        ("-", "stdin"),
    ],
)
def test_stream_name_has_only_id_characters(path: str, stream: str) -> None:
    assert stream_name(path) == stream


def test_files_of_the_same_name_are_separate_streams(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "a.jsonl" for folder in ("one", "two", "three")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(b"x\n")

    found = events_of(here("normalize", *paths))
    assert [event["id"] for event in found if event["kind"] == "unparsed"] == ["a:1:0", "a~2:1:0", "a~3:1:0"]


def test_statistics_per_file_and_total() -> None:
    finished = here("normalize", CLAUDE, CODEX, "--stats-json")
    claude, codex, total = statistics_of(finished)

    assert claude["stream"] == "claude-code"
    assert claude["lines"] == claude["withEvents"] + claude["unparsed"] + sum(claude["skipped"].values()) == 5
    assert claude["bytes"] == len(CLAUDE.read_bytes().replace(b"\n", b""))
    assert claude["tools"] == {"Bash": 1}
    assert codex["lines"] == len(CODEX.read_bytes().splitlines())
    assert total["total"] is True
    for figure in ("lines", "withEvents", "unparsed", "events", "bytes", "repaired"):
        assert total[figure] == claude[figure] + codex[figure]
    assert total["tools"]["Bash"] == claude["tools"]["Bash"] + codex["tools"]["Bash"]
    assert len(finished.stdout.splitlines()) == total["events"]


def test_single_file_has_no_total() -> None:
    [statistics] = statistics_of(here("normalize", CLAUDE, "--stats-json"))

    assert "total" not in statistics


def test_statistics_as_text() -> None:
    text = here("normalize", CLAUDE, "--stats").stderr.decode()

    assert text.startswith("claude-code: claude-stream, claude\n  5 lines (6,220 bytes) = ")
    assert "\n  1 call: Bash 1\n" in text


def test_dialect_and_provider_options() -> None:
    events = events_of(here("normalize", CLAUDE, "--dialect", "claude-stream", "--provider", "my-fork"))

    assert {(event["dialect"], event["provider"]) for event in events} == {("claude-stream", "my-fork")}


def test_partials_only_on_request() -> None:
    without = events_of(here("normalize", CODEX))
    with_partials = events_of(here("normalize", CODEX, "--partials"))

    assert all("partial" not in event for event in without)
    assert [event for event in with_partials if not event.get("partial")] == without
    assert [event["text"] for event in with_partials if event.get("partial") and event["kind"] == "message"] == [
        "Now the edit.",
        "Changed Hello to H",
        "owdy in src/app.py",
        ".",
    ]


def test_output_bodies_are_written_to_folder(tmp_path: Path) -> None:
    long = tmp_path / "long.jsonl"
    printed = "".join(f"line {n}: 日本\n" for n in range(20_000))
    lines = [json.loads(line) for line in CLAUDE.read_bytes().splitlines()]
    [result] = [line for line in lines if line["type"] == "user"]
    result["message"]["content"][0]["content"] = printed
    result["message"]["content"][0]["is_error"] = False
    result["tool_use_result"] = {"stdout": printed, "stderr": ""}
    long.write_text("".join(json.dumps(line) + "\n" for line in lines))

    finished = here("normalize", long, "--outputs", tmp_path / "bodies")

    [event] = [event for event in events_of(finished) if event["kind"] == "tool-result"]
    reference = event["outputs"]["/output/stdout"]
    body = tmp_path / "bodies" / reference["outputId"]
    assert body.read_text() == printed
    assert printed.startswith(event["output"]["stdout"])
    assert body.stat().st_mode & 0o777 == 0o600


# -- bad input ------------------------------------------------------------------------------------------------------


def reasons(*arguments: object, stdin: bytes = b"") -> list[tuple[int, str]]:
    """`(line, reason)` of every `unparsed` event; no other may be there but the notice about them."""
    finished = here("normalize", *arguments, stdin=stdin)
    events = events_of(finished)

    assert finished.returncode == 0
    assert b"standard input: none of " in finished.stderr
    unparsed = [event for event in events if event["kind"] == "unparsed"]
    assert {event["code"] for event in events if event not in unparsed} <= {"unknown-format"}
    return [(event["line"], event["reason"]) for event in unparsed]


def test_binary_file() -> None:
    assert reasons(stdin=b"\x7fELF\x02\x01\x00\n\xde\xad\xbe\xef\n\x00\x00\n") == [(1, "not-json"), (2, "not-json")]


def test_empty_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    finished = here("normalize", empty, "--stats-json")

    assert (finished.returncode, finished.stdout) == (0, b"")
    assert statistics_of(finished)[0]["lines"] == 0


def test_truncated_line() -> None:
    assert reasons("--dialect", "claude-stream", stdin=CLAUDE.read_bytes()[:300]) == [(1, "truncated")]


def test_invalid_utf8_is_repaired() -> None:
    line = CLAUDE.read_bytes().splitlines()[1].replace(b"something broke", b"something \xff\xfe broke")
    finished = here("normalize", "--stats-json", stdin=line + b"\n")
    [call] = [event for event in events_of(finished) if event["kind"] == "tool-call"]

    assert "something \ufffd\ufffd broke" in call["input"]["command"]
    assert statistics_of(finished)[0]["repaired"] == 1


@pytest.mark.parametrize("bracket", [b"[", b'{"a":'])
def test_ten_thousand_nested_brackets(bracket: bytes) -> None:
    assert reasons(stdin=bracket * 10_000 + b"\n") == [(1, "too-deep")]


def test_line_of_100_mb(tmp_path: Path) -> None:
    long = tmp_path / "long.jsonl"
    with open(long, "wb") as file:
        file.write(b'{"type":"assistant","text":"')
        for _ in range(100):
            file.write(b"x" * MIB)
        file.write(b'"}\nnot json\n')
    finished = tooltap("normalize", long)
    events = events_of(finished)

    assert finished.returncode == 0
    what = "none of 2 lines is in a format that tooltap knows; if you know its dialect, name it with --dialect"
    assert sentence(finished) == f"{long}: {what}"
    assert [(event["line"], event.get("reason")) for event in events] == [(1, "too-long"), (2, "not-json"), (2, None)]
    assert events[0]["bytes"] == 100 * MIB + len('{"type":"assistant","text":""}')
    assert len(finished.stdout) < 10_000


def test_unknown_dialect_is_wrong_usage() -> None:
    finished = here("normalize", CLAUDE, "--dialect", "klingon")

    assert (finished.returncode, finished.stdout) == (2, b"")
    assert "there is no dialect 'klingon'; known are auto, acp, " in sentence(finished)


def test_missing_file_fails_but_others_are_read(tmp_path: Path) -> None:
    finished = here("normalize", tmp_path / "none", CLAUDE)

    assert finished.returncode == 1
    assert sentence(finished) == f"{tmp_path / 'none'}: No such file or directory"
    assert finished.stdout == here("normalize", CLAUDE).stdout


INK = """
from tooltap.normalizers.core.lines import Lines
from tooltap.normalizers.core.parser import Parser
from tooltap.protocol.events import Message

class Ink(Parser):
    dialect = protocol = default_provider = "ink"
    line = Lines("ink")
    made = []

    def __init__(self, context):
        self.made.append(context)
        if len(self.made) > 1:
            raise RuntimeError("there can be one in a process")
        super().__init__(context)

    @staticmethod
    def recognises(value):
        return isinstance(value.get("ink"), str)

    @line("says", text=str)
    def _says(self, value):
        self.ensure_turn()
        self.emit(Message, role="assistant", text=value["text"])

    @line("blots", text=str)
    def _blots(self, value):
        self._says(value)
        raise RuntimeError("after an event, so that the state is in doubt")
"""
"""A package whose parser cannot be replaced."""


@pytest.mark.parametrize(("dialect", "others"), [("auto", [CLAUDE]), ("ink", [])])
def test_rest_of_a_file_is_left_out_where_its_parser_cannot_go_on(
    tmp_path: Path, dialect: str, others: list[Path]
) -> None:
    """What is before is printed, and other files are normalized."""
    file, path = tmp_path / "ink.jsonl", install(tmp_path / "package", "ink", INK)
    file.write_text(
        '{"ink": "says", "text": "one"}\n'
        '{"ink": "says", "text": "two"}\n'
        '{"ink": "blots", "text": "three"}\n'
        '{"ink": "says", "text": "four"}\n'
    )

    finished = tooltap("normalize", "--dialect", dialect, file, *others, PYTHONPATH=path)

    assert finished.returncode == 1
    events = events_of(finished)
    assert [one["text"] for one in events if one["dialect"] == "ink" and one["kind"] == "message"] == ["one", "two"]
    error = "parser-error: RuntimeError at normalizers.stream.reset:replace"
    assert sentence(finished) == f"{file}: the lines after line 2 are left out: {error}; please report it"
    of_others = b"".join(tooltap("normalize", one).stdout for one in others)
    assert [one for one in finished.stdout.splitlines() if b'"dialect":"ink"' not in one] == of_others.splitlines()


def test_folder_is_the_recordings_below_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("b.jsonl", "a.txt", "deep/a.jsonl"):
        (tmp_path / name).write_bytes(b"x\n")

    found = events_of(here("normalize", tmp_path))
    assert [event["id"] for event in found if event["kind"] == "unparsed"] == ["b:1:0", "a:1:0"]


def test_folder_without_recording_fails_but_others_are_read(tmp_path: Path) -> None:
    finished = here("normalize", tmp_path, CLAUDE)

    assert finished.returncode == 1
    assert sentence(finished) == f"{tmp_path}: there is no .jsonl file in this folder"
    assert finished.stdout == here("normalize", CLAUDE).stdout
