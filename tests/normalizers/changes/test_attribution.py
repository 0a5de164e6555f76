"""Which call wrote each line of a file, from handmade canonical events of calls."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.changes.telling import CWD, Telling
from tests.normalizers.changes.test_git import Workspace
from tests.normalizers.changes.test_recordings import CWD as CWD_OF_RECORDINGS
from tests.normalizers.changes.test_recordings import PARTIAL, WHOLE, Files
from tests.normalizers.reading import recording
from tooltap.normalizers.changes.attribution import Edit, attribute, earlier_paths
from tooltap.normalizers.changes.file_calls import FileCalls
from tooltap.normalizers.changes.session_files import KINDS, SessionFiles
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.tools.paths import absolute
from tooltap.protocol.events import encode
from tooltap.testing import normalize

FILE = f"{CWD}/a.py"
RENAMED = {"src/maths.py": "src/util.py"}
"""Path in the recordings -> the path before."""


class Told(SessionFiles):
    """Takes the events of calls, and keeps what they did to files. They happened in the order in which they come,
    unless `at` says otherwise."""

    def __init__(self, folder: str = CWD) -> None:
        super().__init__(folder)
        self._folder = folder
        self.edits: list[Edit] = []
        self.at: int | None = None
        self._finished = FileCalls()

    def note(self, seq: int, event: dict[str, Any]) -> None:
        super().note(seq, event)
        if event["kind"] != "session" and (call := self._finished.note(seq, event)) is not None:
            for step in call.steps:
                to = None if step.to is None else absolute(step.to, self._folder)
                paths = step._replace(path=absolute(step.path, self._folder), to=to)
                self.edits.append(Edit(seq if self.at is None else self.at, call.seq, paths))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def telling(told: Told) -> Telling:
    return Telling(told)


def written(told: Told, text: str, path: str = FILE) -> list[int | None]:
    return attribute(told.edits, path, text, str).seqs


def test_whole_file_is_of_the_call_that_wrote_it(told: Told, telling: Telling) -> None:
    call = telling.write(FILE, "a\n\nb\n")

    assert written(told, "a\n\nb\n") == [call, call, call]


def test_later_call_has_the_lines_that_it_changed(told: Told, telling: Telling) -> None:
    first = telling.write(FILE, "a = 1\nb = 2\nc = 3\n")
    second = telling.edit(FILE, "b = 2", "b = 4\nb += 1")

    assert written(told, "a = 1\nb = 4\nb += 1\nc = 3\n") == [first, second, second, first]


def test_lines_that_were_there_before_are_unknown(told: Told, telling: Telling) -> None:
    telling.read(FILE, "old = 1\nold = 2\n")
    call = telling.edit(FILE, "old = 2", "new = 2")

    assert written(told, "old = 1\nnew = 2\n") == [None, call]


@pytest.mark.parametrize("status", ["failed", "denied", "interrupted", "cancelled"])
def test_call_that_did_not_complete_wrote_nothing(told: Told, telling: Telling, status: str) -> None:
    telling.call("Write", {"file_path": FILE, "content": "a = 1\n"}, {}, status)

    assert written(told, "a = 1\n") == [None]


def test_lines_that_somebody_changed_since_are_unknown(told: Told, telling: Telling) -> None:
    call = telling.write(FILE, "def f():\n    a = 1\n    return a\n")

    assert written(told, "def f():\n\ta = 1\n    return a\nf()\n") == [call, None, call, None]


def test_braces_between_changed_lines_are_unknown(told: Told, telling: Telling) -> None:
    call = telling.write(FILE, "f() {\n  one();\n}\n")

    assert written(told, "g() {\n  two();\n}\nh();\n") == [None, None, None, None]
    assert written(told, "f() {\n  one();\n}\nh();\n") == [call, call, call, None]


def test_calls_count_in_the_order_in_which_they_happened(told: Told, telling: Telling) -> None:
    """Session files are read later: what is stored last may have happened first."""
    told.at = 2
    last = telling.edit(FILE, "x = 1", "x = 2")
    told.at = 1
    first = telling.write(FILE, "w = 0\nx = 1\n")

    assert written(told, "w = 0\nx = 2\n") == [first, last]


def test_replaced_text_at_an_unknown_place_is_found_where_it_is_once(told: Told, telling: Telling) -> None:
    call = telling.edit(FILE, "return 1", "x = 2\n    return x")

    assert written(told, "def f():\n    x = 2\n    return x\n") == [None, call, call]
    assert written(told, "def f():\n    x = 2\n    return x\nif a:\n    x = 2\n    return x\n") == [None] * 6


def test_part_of_a_line_at_an_unknown_place_is_unknown(told: Told, telling: Telling) -> None:
    """Somebody else may have changed the rest of the line."""
    telling.edit(FILE, "one", "two")

    assert written(told, "print(two)\n") == [None]


def test_lines_that_two_calls_may_have_written_are_unknown(told: Told, telling: Telling) -> None:
    telling.edit(FILE, "old = 1", "new = 1")
    telling.edit(FILE, "old = 2", "new = 1")

    assert written(told, "new = 1\n") == [None]


def test_call_that_changes_a_replaced_text_has_only_its_own_lines(told: Told, telling: Telling) -> None:
    first = telling.edit(FILE, "old()", "one()\ntwo()\nthree()")
    second = telling.edit(FILE, "two()", "2()")

    assert written(told, "begin()\none()\n2()\nthree()\nend()\n") == [None, first, second, first, None]


def test_lines_left_of_a_replaced_text_are_found_each(told: Told, telling: Telling) -> None:
    call = telling.edit(FILE, "old()", "one()\ntwo()\n}\nthree()")

    assert written(told, "one()\n2()\n}\nthree()\n") == [call, None, call, call]


def test_hunks_at_stated_places_have_their_lines(told: Told, telling: Telling) -> None:
    diff = "@@ -10,2 +10,3 @@\n same = 1\n-old = 2\n+new = 2\n+new = 3\n"
    call = telling.call("Patch", {"changes": {FILE: {"type": "update", "unified_diff": diff}}}, {"applied": True})
    text = "".join(f"line {n}\n" for n in range(9))

    assert written(told, f"{text}same = 1\nnew = 2\nnew = 3\n") == [None] * 10 + [call, call]


def test_moved_file_keeps_its_calls(told: Told, telling: Telling) -> None:
    first = telling.write(f"{CWD}/old.py", "a = 1\nb = 2\n")
    telling.call("move", {"source": f"{CWD}/old.py", "destination": FILE})
    second = telling.edit(FILE, "b = 2", "b = 3")

    assert written(told, "a = 1\nb = 3\n") == [first, second]
    assert earlier_paths(FILE, told.edits) == {FILE, f"{CWD}/old.py"}


def test_deleted_file_is_another_than_the_one_after_it(told: Told, telling: Telling) -> None:
    telling.write(FILE, "a = 1\nb = 2\n")
    telling.call("Delete", {"file_path": FILE, "file_paths": [FILE]}, {"deleted": True})
    call = telling.write(FILE, "b = 2\n")

    assert written(told, "b = 2\n") == [call]
    assert written(told, "a = 1\nb = 2\n") == [None, call]


def test_change_that_is_not_stated_is_counted(told: Told, telling: Telling) -> None:
    first = telling.write(FILE, "a = 1\nb = 2\n")
    second = telling.call("Patch", {"changes": {FILE: {"type": "update"}}}, {"applied": True})
    found = attribute(told.edits, FILE, "a = 1\nb = 3\n", str)

    assert (found.seqs, found.unstated) == ([first, None], {second})


def test_what_changed_between_two_calls_is_unknown(told: Told, telling: Telling) -> None:
    first = telling.write(FILE, "a = 1\nb = 2\nc = 3\n")
    stated = {"originalFile": "a = 1\nb = 20\nc = 3\n"}
    second = telling.edit(FILE, "c = 3", "c = 4", stated)

    assert written(told, "a = 1\nb = 20\nc = 4\n") == [first, None, second]


def test_line_ends_are_those_of_the_file(told: Told, telling: Telling) -> None:
    telling.read(FILE, "a = 1\r\nb = 2\r\n")
    call = telling.edit(FILE, "b = 2", "b = 3\nc = 4")

    assert written(told, "a = 1\nb = 3\nc = 4\n") == [None, call, call]


def test_texts_of_calls_are_masked_as_the_file_is(told: Told, telling: Telling) -> None:
    call = telling.write(FILE, "key = secret\n")
    found = attribute(told.edits, FILE, "key = ***\n", lambda text: text.replace("secret", "***"))

    assert found.seqs == [call]


def test_empty_file_has_no_lines(told: Told, telling: Telling) -> None:
    telling.write(FILE, "a\n")

    assert written(told, "") == []


@pytest.mark.parametrize(("dialect", "version", "name", "contents"), [*WHOLE, *PARTIAL])
def test_recorded_call_has_the_lines_that_it_changed(
    dialect: str, version: str, name: str, contents: tuple[Files, Files]
) -> None:
    """And no others: its agent left the rest of the file as it was."""
    told = Told(CWD_OF_RECORDINGS)
    events = normalize(dialect, recording(dialect, name, version), Context(stream="s"))
    for seq, event in enumerate(map(orjson.loads, map(encode, events)), 1):
        if event["kind"] in KINDS:
            told.note(seq, event)
    before, after = contents
    for path, text in after.items():
        old = before.get(RENAMED.get(path, path), "").splitlines()
        seqs = written(told, text, f"{CWD_OF_RECORDINGS}/{path}")

        assert [seq is not None for seq in seqs] == [line not in old for line in text.splitlines()]


@pytest.mark.parametrize("seed", range(20))
def test_call_has_no_line_that_it_did_not_leave_in_the_file(seed: int) -> None:
    """Random edits of files that were never read, and files that somebody has changed since."""
    workspace, told = Workspace(seed), Told()
    workspace.telling = Telling(told)
    left: dict[int, set[str]] = {}
    for _ in range(workspace.random.randrange(1, 25)):
        act = workspace.random.choice((Workspace.edit, Workspace.overwrite, Workspace.patch, Workspace.structured))
        path = workspace.random.choice(sorted(workspace.after))
        act(workspace, path)
        if told.edits:
            left.setdefault(told.edits[-1].seq, set(workspace.after[path].split("\n")))
    for path, text in workspace.after.items():
        now = workspace.changed(text)
        found = zip(written(told, now, absolute(path, CWD)), now.removesuffix("\n").split("\n"), strict=True)

        assert all(seq is None or line in left[seq] for seq, line in found)
