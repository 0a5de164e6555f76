"""Names in exported files: what is replaced, by what, and what stays because it is a word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest

from tests.daemon.events import event
from tooltap.daemon.export.anonymity import COMMON, MAX_NAMES, MIN_NAME, Anonymizer
from tooltap.daemon.export.html import ExportedPage
from tooltap.daemon.export.redaction import masked_event
from tooltap.daemon.export.source import Bodies, FileSource
from tooltap.normalizers.catalog.registry import agents
from tooltap.normalizers.tools.registry import KNOWN_TOOLS
from tooltap.protocol import events
from tooltap.protocol.events import Message, SessionEvent, ToolCall, encode

FIXTURES = Path(__file__).parents[2] / "fixtures"


def names(*learned: str, cwd: str | None = None) -> Anonymizer:
    """Know `alice` and her machine, and what is in the texts."""
    one = Anonymizer(["alice", "Alice B. Smith"], ["wonder-box.corp", "wonder-box"], "/data/people/alice")
    for text in learned:
        one.learn(event(Message, role="user", text=text).body)
    if cwd is not None:
        one.learn(event(SessionEvent, state="started", cwd=cwd).body)
    return one


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cat /home/alice/x /Users/zoe/y", "cat ~/x ~/y"),
        ("in /home/alice.", "in ~."),
        ("/root/.ssh and /var/root/x", "~/.ssh and ~/x"),
        ("/data/people/alice/x /data/people/alicent", "~/x /data/people/alicent"),
        (r"C:\Users\Alice Smith\src and D:/Users/zoe/x", r"~\src and ~/x"),
        (r"{\"cwd\":\"C:\\\\Users\\\\zoe\\\\src\"}", r"{\"cwd\":\"~\\\\src\"}"),
        (r"\/home\/zoe\/src", r"~\/src"),
        ("/mnt/c/Users/zoe/x", "~/x"),
        (r'"\n/home/alice\nalice"', r'"\n~\nuser-1"'),
        ("file:///home/zoe/x?at=%2Fhome%2Falice%2Fx", "file://~/x?at=~%2Fx"),
        ("\x1b[01;32malice\x1b[0m:\x1b[34m/home/alice\x1b[0m", "\x1b[01;32muser-1\x1b[0m:\x1b[34m~\x1b[0m"),
        ("~/.claude/projects/-home-alice-src", "~/.claude/projects/-home-user-1-src"),
        ("drwxr-xr-x 2 alice alice 4096 alice_notes", "drwxr-xr-x 2 user-1 user-1 4096 user-1_notes"),
        ("By Alice B. Smith, ALICE", "By user-1, user-1"),
        ("alice@wonder-box:~$ ping wonder-box.corp", "user-1@host-1:~$ ping host-1"),
        ("a.b@corp.io and A.B@corp.io, alice@x.de", "email-1 and email-1, email-2"),
        (r"\na.b@corp.io", r"\nemail-1"),
    ],
)
def test_names_are_replaced(text: str, wanted: str) -> None:
    assert names().text(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "malice, alicent and aliceX",
        "src/home/page https://x.org/home/page https://api.x.org/Users/12 $X/root src/root #/root",
        "/Users/Shared/x",
        "git@github.com:acme/x.git noreply@anthropic.com user@example.com me@mail.example.org",
        "npm i @types/node react@18.2.0 @dataclass",
    ],
)
def test_what_only_looks_like_a_name_stays(text: str) -> None:
    assert names().text(text) == text


@pytest.mark.parametrize(
    ("learned", "text", "wanted"),
    [
        ("zoe@prod-db:/srv# ls", "zoe at prod-db", "user-2 at host-2"),
        ("\x1b[32mzoe@box7\x1b[0m:\x1b[34m~/x", "zoe at box7", "user-2 at host-2"),
        ("Linux tumble 6.1.0-13 #1 SMP", "on tumble", "on host-2"),
        ("SHELL=/bin/sh\nUSER=zoe\nHOSTNAME=box7", "zoe at box7", "user-2 at host-2"),
        ("Author: Zoe Adams <zoe@corp.io>", "Zoe Adams wrote", "user-2 wrote"),
        ("Co-Authored-By: Claude Opus <noreply@anthropic.com>", "Claude Opus", "Claude Opus"),
        ("root@prod-db:/srv#", "root is root; ssh root@prod-db", "root is root; ssh user-2@host-2"),
        ("/home/zoe/x", "zoe", "zoe"),
    ],
)
def test_names_are_learned_where_they_are_certain(learned: str, text: str, wanted: str) -> None:
    assert names(learned).text(text) == wanted


@pytest.mark.parametrize(
    ("cwd", "text", "wanted"),
    [
        ("/home/zoe/src", "zoe", "user-2"),
        ("/Users/zoe", "zoe", "user-2"),
        (r"C:\Users\zoe\src", "zoe", "user-2"),
        ("/home/zoe.adams/src", "-home-zoe-adams-src zoe.adams", "-home-user-2-src user-2"),
        ("/home/dev/src", "the dev server", "the dev server"),
        ("/home/will/src", "it will", "it will"),
        ("/home/zo/src", "zo", "zo"),
        ("/srv/zoe/src", "zoe", "zoe"),
    ],
)
def test_owners_of_working_folders_are_learned(cwd: str, text: str, wanted: str) -> None:
    one = names(cwd=cwd)

    assert one.text(text) == wanted


def test_event_is_replaced_in_all_its_values_and_keys() -> None:
    nested = {"command": "ls /home/alice", "env": {"alice": ["alice", 1, None]}, "text": json.dumps({"by": "alice"})}
    made = event(ToolCall, call_id="alice-1", name="Bash", title="alice", status="running", input=nested, preview="ls")
    escaped = made.body.replace(b"alice", b"\\u0061lic\\u0065")

    read = masked_event(escaped, lambda data: data, names())

    assert isinstance(read, ToolCall)
    assert read.input == {
        "command": "ls ~",
        "env": {"user-1": ["user-1", 1, None]},
        "text": '{"by": "user-1"}',
    }
    assert (read.call_id, read.title, read.preview) == ("user-1-1", "user-1", "ls ~")


def test_file_of_two_users_stays_two_files() -> None:
    made = event(
        ToolCall, call_id="1", name="Edit", status="running", input={"files": {"/home/a/x": 1, "/home/b/x": 2}}
    )

    read = masked_event(made.body, lambda data: data, names())

    assert isinstance(read, ToolCall)
    assert read.input is not None
    assert list(read.input["files"].values()) == [1, 2]


def test_binary_output_stays() -> None:
    assert names().output(b"\xff\x00/home/alice") == b"\xff\x00/home/alice"
    assert names().output(b"/home/alice") == b"~"


def test_names_are_counted() -> None:
    one = names()
    one.text("/home/zoe /home/zoe alice@wonder-box a@b.io")

    assert [tuple(each) for each in one.replaced] == [
        ("~", "/home/zoe", 2),
        ("email-1", "a@b.io", 1),
        ("host-1", "wonder-box", 1),
        ("user-1", "alice", 1),
    ]


def test_names_that_are_learned_are_bounded() -> None:
    one = names("\n".join(f"zoe{number}@box:~$" for number in range(2 * MAX_NAMES)))

    assert one.text("zoe1") == "user-3"
    assert one.text(f"zoe{2 * MAX_NAMES - 1}") == f"zoe{2 * MAX_NAMES - 1}"


def test_letters_that_only_a_search_takes_for_the_same_are_no_error() -> None:
    assert Anonymizer(["jessi"]).text("je\u017fsi") == "user-1"


def test_words_of_events_are_common() -> None:
    """A user with such a name would make events unreadable."""
    words = {word.lower() for word in [*_words(), *KNOWN_TOOLS, *agents()] if re.fullmatch("[A-Z]?[a-z]+", word)}

    assert {word for word in words if len(word) >= MIN_NAME} - COMMON == set()


def _words() -> Iterator[str]:
    """Yield the keys and the fixed values of events."""
    for kind in vars(events).values():
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield str(kind.__struct_config__.tag)
            yield from kind.__struct_encode_fields__
            for hint in get_type_hints(kind).values():
                yield from _literals(hint)


def _literals(hint: Any) -> Iterator[str]:
    if get_origin(hint) is Literal:
        yield from map(str, get_args(hint))
    else:
        for inner in get_args(hint):
            yield from _literals(inner)


RECORDINGS = (
    "claude-transcript/claude-code-2.1.330/mcp.jsonl",
    "kimi-session/kimi-code-2.1.0/subagent.agent.jsonl",
    "claude-transcript/claude-code-1.0.51-written/sidechains-and-torn-line.jsonl",
)


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("name", ["zoe", "zoe.adams"])
def test_page_of_a_recording_has_no_name(recording: str, name: str) -> None:
    """The recordings are those of `/home/user`; here that user has a name."""
    line = (FIXTURES / recording).read_bytes().replace(b"/home/user", b"/home/" + name.encode())
    line = line.replace(b"-home-user", b"-home-" + name.replace(".", "-").encode())
    assert name.encode() in line
    one = Anonymizer(hosts=["wonder-box"])
    with FileSource("s", [line], Bodies(0, 0), lambda data, _: data) as source:
        for each, _ in source:
            one.learn(encode(each))

    bodies = Bodies(1 << 20, 1 << 20)
    page = ExportedPage("title", level="full", bodies=bodies)
    with FileSource("s", [line], bodies, lambda data, _: data, one) as source:
        html = "".join([page.add(each, found) for each, found in source]) + "".join(page.end(one.remark()))

    assert "zoe" not in html
    assert any(each.placeholder == "~" for each in one.replaced)
