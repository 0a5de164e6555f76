"""`tooltap blame`: says which session and which call wrote each line of a file."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tooltap.cli.common.columns import columns_of, padded
from tooltap.cli.common.commands import Choice, Command
from tooltap.cli.common.connection import request, socket_option, wait_option, warn_of_unread
from tooltap.cli.common.filters import host_option, json_option, session_option
from tooltap.cli.common.moments import SECOND, brief_time, local_time
from tooltap.cli.common.options import bytes_option
from tooltap.cli.common.printing import (
    Clean,
    at_terminal,
    joined,
    on_stderr,
    say_object,
    say_text,
    short,
    styled,
    wants_colour,
    warn,
    write_text,
)
from tooltap.cli.common.terminal import paged
from tooltap.cli.read.sessions import find_session, short_ids
from tooltap.daemon.formats import counted
from tooltap.daemon.sessions.listing import THIS_MACHINE

if TYPE_CHECKING:
    from tooltap.cli.read.edits import Call, Edits

AGENT_TRACE = "agent-trace"
MAX_FILE = 1_048_576
MAX_EDITS = 2_000
MAX_PATH = 500
MAX_TEXT = 4_000
"""Code points of a line that are printed."""
NAMED = 5
"""Sessions that the summary names."""
HEADS = ("LINE", "SESSION", "AGENT", "SEQ", "WRITTEN", "TEXT")
UNKNOWN = "unknown"
TAB = 8
MAX_DIGITS = 10


class LineRange(click.ParamType[tuple[int, int | None]]):
    """Lines as `git blame -L` has them: `START,END`, `START,+COUNT`, `START`, `,END`."""

    name = "lines"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int | None]:
        start, _, end = str(value).partition(",")
        numbers = [one for one in (start, end.removeprefix("+")) if one]
        if numbers and all(one.isascii() and one.isdecimal() and len(one) < MAX_DIGITS for one in numbers):
            first = int(start or 1)
            last = int(end.removeprefix("+") or 0) + (first - 1 if end.startswith("+") else 0) if end else None
            if first >= 1 and (last is None or last >= first):
                return first, last
        return self.fail(f"{value!r} is not a range of lines such as 10,20 or 10,+5", param, ctx)


@click.command(
    "blame",
    cls=Command,
    examples=(
        "tooltap blame src/app.py",
        "tooltap blame src/app.py -L 10,20",
        "tooltap blame src/app.py --json | jq -r '.session // \"unknown\"'",
        "tooltap blame src/app.py --format agent-trace",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-L", "lines", type=LineRange(), metavar="START,END", help="Only these lines: 10,20 or 10,+5 or 10.")
@session_option("Only lines written in")
@host_option("Count edits of")
@json_option("Print a JSON object for each range of lines.")
@click.option("--format", "form", type=Choice([AGENT_TRACE]), help="Print a record of Agent Trace, for other programs.")
@bytes_option("--file-bytes", MAX_FILE, "Limit of the size of the file.")
@click.option(
    "--edits",
    "most",
    type=click.IntRange(1),
    default=MAX_EDITS,
    show_default=True,
    metavar="N",
    help="How many calls that read or changed the file to replay, the latest ones.",
)
@wait_option
@socket_option
def command(
    file: Path,
    lines: tuple[int, int | None] | None,
    session: str | None,
    host: tuple[str, ...],
    as_json: bool,
    form: str | None,
    file_bytes: int,
    most: int,
    socket: Path | None,
) -> None:
    """Show which session and which call wrote each line of a file.

    The edits of all sessions are replayed in the order in which they happened, and compared with the file as it is now.
    A line is a call's if it still is as the call wrote it. What a person, a formatter, a shell command or a merge has
    written or changed is unknown, and so is what two calls may have written.

    Only edits on this machine count, unless --host names others: there, the same path is another file.

    Pass the number before the time to `tooltap show`.
    """
    if as_json and form:
        raise click.UsageError("--json and --format exclude each other")
    from tooltap.cli.read.edits import other_hosts, read_edits

    data = _read(file, file_bytes)
    text = _text(file, data)
    wanted = None if session is None else find_session(socket, session)["session"]
    warn_of_unread(socket)
    hosts = host or (THIS_MACHINE,)
    found = read_edits(socket, os.path.abspath(file), hosts)
    texts = text.removesuffix("\n").split("\n") if text else []
    calls = _attribute(found, text, most)
    first, last = _bounds(file, lines, len(texts))
    shown = [
        (number, calls[number - 1])
        for number in range(first, last + 1)
        if wanted is None or ((call := calls[number - 1]) is not None and call.session == wanted)
    ]
    if form:
        from tooltap.cli.read.agent_trace import record_of

        path = Path(os.path.realpath(file))
        say_object(record_of(path, data, list(_ranges(shown)), found.sessions, _addresses(socket)))
    elif as_json:
        for start, end, call in _ranges(shown):
            say_object(_described(start, end, call, found.sessions))
    else:
        _print(shown, texts, found.sessions)
    if shown or wanted is None:
        on_stderr(_summary(shown, found.sessions))
    else:
        on_stderr(f"no line of it is known to have been written in session {short(short_ids([wanted])[0])}")
    if all(call is None for _, call in shown) and (others := other_hosts(socket, found.path, hosts)):
        options = " ".join(f"--host {short(one)}" for one in others)
        warn(f"a file with this path was changed elsewhere: to count these edits, add {options}")


def _read(file: Path, most: int) -> bytes:
    """Read the file. Raises `click.ClickException`, and `OSError`."""
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    name, mode = short(file, MAX_PATH), os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise click.ClickException(f"{name} {'is a folder' if stat.S_ISDIR(mode) else 'is not a regular file'}")
    with open(handle, "rb") as opened:
        data = opened.read(most + 1)
    if len(data) > most:
        raise click.ClickException(f"{name} has more than {most:,} bytes; --file-bytes is the limit")
    return data


def _text(file: Path, data: bytes) -> str:
    """Decode the file, and mask the secrets in it. Raises `click.ClickException`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise click.ClickException(f"{short(file, MAX_PATH)} is not text in UTF-8")
    return _masked(text.replace("\r\n", "\n"))


def _masked(text: str) -> str:
    """Mask the secrets in a text. One of several lines is masked in each of them, so that the others keep their
    numbers."""
    from tooltap.traces.recording.secrets import MASK, find_secrets

    data = text.encode("utf-8", "surrogatepass")
    done, at = list[bytes](), 0
    for start, end, kind in find_secrets(data):
        mask = b"%s%s]" % (MASK, kind.encode())
        done += [data[at:start], b"\n".join([mask] * (data.count(b"\n", start, end) + 1))]
        at = end
    return b"".join([*done, data[at:]]).decode("utf-8", "surrogatepass")


def _attribute(found: Edits, text: str, most: int) -> list[Call | None]:
    from tooltap.normalizers.changes.attribution import attribute

    edits = sorted(found.edits, key=lambda one: (one.ts, one.seq))
    if len(edits) > most:
        warn(f"only the latest {most:,} of {len(edits):,} reads and changes of the file are replayed: see --edits")
    result = attribute(edits[-most:], found.path, text, _masked)
    if result.unstated:
        changes = counted(len(result.unstated), "call")
        warn(f"{changes} changed the file without stating how, or stated too much: what they wrote is unknown")
    return [None if seq is None else found.calls[seq] for seq in result.seqs]


def _bounds(file: Path, lines: tuple[int, int | None] | None, count: int) -> tuple[int, int]:
    first, last = lines or (1, None)
    if lines is not None and first > count:
        raise click.ClickException(f"{short(file, MAX_PATH)} has only {counted(count, 'line')}")
    return first, count if last is None else min(last, count)


def _ranges(shown: list[tuple[int, Call | None]]) -> Iterator[tuple[int, int, Call | None]]:
    """Yield consecutive lines of one call: the first, the last, and the call."""
    start = 0
    for at in range(1, len(shown) + 1):
        number, call = shown[at - 1]
        if at == len(shown) or shown[at] != (number + 1, call):
            yield shown[start][0], number, call
            start = at


def _described(start: int, end: int, call: Call | None, sessions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    lines = {"start": start, "end": end}
    if call is None:
        return lines
    row = sessions.get(call.session, {})
    about = {
        "session": call.session,
        "provider": row.get("provider"),
        "title": row.get("title"),
        "host": row.get("host"),
        "seq": call.seq,
        "name": call.name,
        "ts": call.ts,
    }
    return lines | {key: value for key, value in about.items() if value is not None}


def _addresses(socket: Path | None) -> Callable[[str], str | None]:
    from tooltap.daemon.web.page.addresses import session_url

    web = request(socket, "stats", part="summary").get("web")
    return lambda session: None if web is None else f"{web['url'].removesuffix('/')}{session_url(session)}"


def _print(shown: list[tuple[int, Call | None]], texts: list[str], sessions: dict[str, dict[str, Any]]) -> None:
    names = sorted({call.session for _, call in shown if call is not None})
    ids = dict(zip(names, map(short, short_ids(names)), strict=True))
    agents = {name: short(sessions.get(name, {}).get("provider") or "") for name in names}
    if not at_terminal():
        say_text("\t".join(HEADS) + "\n")
        for number, call in shown:
            cells = (UNKNOWN, "", "", "") if call is None else _cells(call, agents)
            say_text("\t".join([str(number), *cells, _cut(texts[number - 1])]) + "\n")
        return
    widths = [
        max(map(columns_of, [UNKNOWN, *ids.values()])),
        max(map(columns_of, agents.values()), default=0),
        max((len(str(call.seq)) for _, call in shown if call is not None), default=0),
        len(str(shown[-1][0])) if shown else 0,
    ]
    in_colour = wants_colour()
    with paged():
        for number, call in shown:
            write_text(_line(number, call, texts[number - 1], ids, agents, widths, in_colour=in_colour) + "\n")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def _cells(call: Call, agents: dict[str, str]) -> tuple[str, ...]:
    return short(call.session, 200), agents[call.session], str(call.seq), local_time(call.ts, SECOND)


def _line(
    number: int,
    call: Call | None,
    text: str,
    ids: dict[str, str],
    agents: dict[str, str],
    widths: list[int],
    *,
    in_colour: bool,
) -> Clean:
    name = UNKNOWN if call is None else ids[call.session]
    agent = "" if call is None else agents[call.session]
    seq = "" if call is None else str(call.seq)
    when = "" if call is None else brief_time(call.ts)
    about = f"{padded(name, widths[0])}  {padded(agent, widths[1])}  {seq:>{widths[2]}}  {when:11}"
    shown = styled(about, "dim" if call is None else "cyan") if in_colour else about
    return joined([shown, f"  {number:>{widths[3]}}  ", _cut(text).expandtabs(TAB)])


def _summary(shown: list[tuple[int, Call | None]], sessions: dict[str, dict[str, Any]]) -> str:
    counts = Counter(call.session for _, call in shown if call is not None)
    unknown = len(shown) - counts.total()
    if not counts:
        return f"{counted(len(shown), 'line')}: no session is known to have written any of them"
    ids = dict(zip(counts, short_ids(list(counts)), strict=True))
    parts = []
    for name, lines in counts.most_common(NAMED):
        row = sessions.get(name, {})
        about = ", ".join(short(one) for one in (row.get("provider"), row.get("title")) if one)
        parts.append(f"{lines:,} by {short(ids[name])} ({about})")
    if len(counts) > NAMED:
        rest = sum(lines for _, lines in counts.most_common()[NAMED:])
        parts.append(f"{rest:,} by {counted(len(counts) - NAMED, 'more session')}")
    return f"{counted(len(shown), 'line')}: {', '.join(parts)}; {unknown:,} unknown"
