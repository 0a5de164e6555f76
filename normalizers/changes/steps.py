"""Effects on files of one call that succeeded: `steps` reads them from its input and output.

A step names a file as the call does. It is a change, or something that the call says about the file's content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from tooltap.normalizers.tools.unified_diff import UnifiedHunk, hunks
from tooltap.normalizers.wire.values import record, records, string, strings, whole

Payload: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["read", "write", "replace", "patch", "delete", "move", "unknown"]


class PatchHunk(NamedTuple):
    """A hunk of a patch."""

    start: int | None
    """Number of its first line before the patch; None if it is not stated."""
    lines: list[str]
    """Lines, each prefixed with a blank, `-` or `+`, and each with its newline; only the last line of the file may lack
    one."""


class Step(NamedTuple):
    kind: Kind
    path: str
    text: str | None = None
    """The whole text that was read, written or deleted; for a partial read, the lines that were read."""
    first: int | None = None
    """Line number of the first line of a partial read; None if the whole file was read."""
    created: bool | None = None
    """Whether the file is new; None if that is not stated."""
    before: str | None = None
    """The whole text before."""
    old: str = ""
    new: str = ""
    everywhere: bool = False
    parts: tuple[PatchHunk, ...] = ()
    """Hunks; if `old` and `new` are set too, another form of the same change."""
    to: str | None = None
    """The new path of a move."""
    bounded: bool = False
    """True if `parts` have three lines of context, except at the beginning and end of the file."""


def steps(name: str, given: Payload, answer: Payload) -> list[Step]:
    """Return the effects of a call on files. `name`: canonical tool; `given`, `answer`: payloads of its call and its
    result."""
    rule = FILE_TOOLS.get(name)
    return [] if rule is None else list(rule(given, answer))


def _path(given: Payload, answer: Payload) -> str | None:
    # Some results have the absolute path where the input has a relative one.
    stated = answer.get("filePath")
    return stated if isinstance(stated, str) and stated else string(given.get("file_path"))


# -- Read ---------------------------------------------------------------------------------------------------------

_CUT_LINES, _CUT_LENGTH = 2_000, 48_000
"""Line count and length in code points from which a text may have been truncated by the agent without notice."""


def _read(given: Payload, answer: Payload) -> Iterator[Step]:
    file = record(answer.get("file"))
    text, path = string(file.get("content")), string(file.get("filePath")) or string(given.get("file_path"))
    if text is None or path is None or file.get("type") in ("image", "pdf", "notebook"):
        return
    is_exact = answer.get("type") == "text"
    first, total = whole(file.get("startLine")) or 1, whole(file.get("totalLines"))
    lines = text.split("\n")
    if total is not None:
        is_whole = first == 1 and total in (len(lines), len(lines) - (lines[-1] == ""))
    else:
        is_cut = len(lines) >= _CUT_LINES or len(text) >= _CUT_LENGTH or answer.get("wasTruncated") is True
        is_whole = first == 1 and not is_cut and (given.get("limit") is None or answer.get("wasTruncated") is False)
    if text and not text.endswith("\n") and not is_exact:
        text += "\n"  # the agents that join lines do not say how the last one ends
    if is_whole:
        yield Step("read", path, text)
    elif first >= 1 and (file.get("startLine") is not None or given.get("offset") is None):
        yield Step("read", path, text, first)


# -- Write, Edit, Delete ------------------------------------------------------------------------------------------

_CREATED = {"create": True, "update": False}


def _write(given: Payload, answer: Payload) -> Iterator[Step]:
    text, path = string(given.get("content")), _path(given, answer)
    if path is None:
        return
    if text is None:
        yield Step("unknown", path)
        return
    created = _CREATED.get(answer.get("type", ""))
    if isinstance(answer.get("fileExisted"), bool):
        created = not answer["fileExisted"]
    elif created is None:
        message = string(answer.get("message")) or ""
        created = True if message.startswith(("File created", "Created file", "Successfully created")) else None
    before = "" if created else string(answer.get("previousContent"))
    yield Step("write", path, text, created=created, before=before, parts=tuple(_structured(answer)), bounded=True)


def _edit(given: Payload, answer: Payload) -> Iterator[Step]:
    path = _path(given, answer)
    if path is not None:
        yield from _edits(path, [given], answer)


def _multi_edit(given: Payload, answer: Payload) -> Iterator[Step]:
    named: dict[str, list[Payload]] = {}
    for edit in records(given.get("edits")):
        path = string(edit.get("file_path")) or _path(given, answer)
        if path is not None:
            named.setdefault(path, []).append(edit)
    if not named and (path := _path(given, answer)) is not None:
        yield Step("unknown", path)
    for path, edits in named.items():
        yield from _edits(path, edits, answer if len(named) == 1 else {})


def _edits(path: str, edits: list[Payload], answer: Payload) -> Iterator[Step]:
    before = string(answer.get("previousContent")) or string(answer.get("originalFile"))
    parts = tuple(_structured(answer)) or patch_parts(string(answer.get("diff")) or "")
    for number, edit in enumerate(edits):
        old, new = string(edit.get("old_string")), string(edit.get("new_string"))
        if new is None or (old is None and not parts):
            yield Step("unknown", path)
        elif not old and not before and len(edits) == 1:
            yield Step("write", path, new, created=True, before="")
        else:
            yield Step(
                "replace",
                path,
                before=before if number == 0 else None,
                old=old or "",
                new=new,
                everywhere=edit.get("replace_all") is True,
                parts=parts if len(edits) == 1 else (),
                bounded=True,
            )


def _delete(given: Payload, answer: Payload) -> Iterator[Step]:
    if answer.get("deleted") is not False:
        for path in strings(given.get("file_paths")) or strings([given.get("file_path")]):
            yield Step("delete", path)


def _notebook(given: Payload, answer: Payload) -> Iterator[Step]:
    path = string(given.get("notebook_path")) or string(answer.get("notebook_path")) or _path(given, answer)
    if path is None:
        return
    before, after = string(answer.get("original_file")), string(answer.get("updated_file"))
    if after is not None:
        yield Step("write", path, after, created=None if before is None else False, before=before)
    else:
        yield Step("unknown", path)


def _move(given: Payload, answer: Payload) -> Iterator[Step]:
    old = string(given.get("source")) or string(given.get("old_path")) or string(given.get("file_path"))
    new = string(given.get("destination")) or string(given.get("new_path")) or string(given.get("move_path"))
    if old is not None and new is not None:
        yield Step("move", old, to=new)


# -- Patch, Diff --------------------------------------------------------------------------------------------------


def _patch(given: Payload, answer: Payload) -> Iterator[Step]:
    if answer.get("applied") is False or answer.get("success") is False:
        return
    for path, change in (record(answer.get("changes")) or record(given.get("changes"))).items():
        if isinstance(change, dict):
            yield from _change(path, change)


def _change(path: str, change: Payload) -> Iterator[Step]:
    kind, modify = change.get("type"), record(change.get("modify"))
    if kind == "add":
        text = string(record(change.get("add")).get("content"))
        yield (
            Step("unknown", path, created=True) if text is None else Step("write", path, text, created=True, before="")
        )
        return
    if kind == "delete":
        yield Step("delete", path, before=string(record(change.get("delete")).get("content")))
        return
    diff = string(change.get("unified_diff"))
    to = string(change.get("move_path"))
    old, new = modify.get("old_content"), modify.get("new_content")
    if diff is not None:
        if parts := patch_parts(diff):
            yield Step("patch", path, parts=parts)
    elif isinstance(old, str) and isinstance(new, str):
        yield Step("replace", path, old=old, new=new)
    elif found := records(modify.get("hunks")):
        for hunk in found:
            before, after = string(hunk.get("old_content")), string(hunk.get("new_content"))
            yield Step("replace", path, old=before or "", new=after or "")
    elif to is None:
        yield Step("unknown", path)
    if to is not None:
        yield Step("move", path, to=to)


def _structured(answer: Payload) -> Iterator[PatchHunk]:
    for hunk in records(answer.get("structuredPatch")):
        start, lines = whole(hunk.get("oldStart")), hunk.get("lines")
        if start is not None and isinstance(lines, list) and all(isinstance(line, str) for line in lines):
            yield _part(start, lines)


def patch_parts(diff: str) -> tuple[PatchHunk, ...]:
    """The hunks of one file's diff, also those of a patch without line numbers."""
    return tuple(_part(_start(one), [line or " " for line in one.lines]) for one in hunks(diff) if one.lines)


def _start(hunk: UnifiedHunk) -> int | None:
    """Number of the hunk's first line. A hunk that removes nothing and has no context names the line before it."""
    is_pure = all(line[:1] in ("+", "\\") for line in hunk.lines)
    return hunk.old_start + is_pure if hunk.old_start is not None else None


def _part(start: int | None, lines: list[str]) -> PatchHunk:
    marked: list[str] = []
    for line in lines:
        if line[:1] in (" ", "-", "+"):
            marked.append(f"{line}\n")
        elif line[:1] == "\\" and marked:
            marked[-1] = marked[-1].removesuffix("\n")
    return PatchHunk(start, marked)


FILE_TOOLS: dict[str, Callable[[Payload, Payload], Iterator[Step]]] = {
    "Read": _read,
    "Write": _write,
    "Edit": _edit,
    "MultiEdit": _multi_edit,
    "NotebookEdit": _notebook,
    "Delete": _delete,
    "Patch": _patch,
    "move": _move,
}
"""Name of the tool -> reader of its calls. A tool without a row changes no file that we know of."""
