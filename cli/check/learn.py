"""`tooltap learn`: says what is in recordings of an unknown agent, and writes a first dialect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tooltap.cli.check.dialect import MAX_BYTES, head_of
from tooltap.cli.common import completion
from tooltap.cli.common.commands import Command, did_you_mean
from tooltap.cli.common.printing import say, short
from tooltap.cli.common.recordings import UnreadableError, input_files
from tooltap.daemon.formats import counted

if TYPE_CHECKING:
    from tooltap.traces.learning.sketch import Sketch

NAMED = 12
"""Most types of records, or places, that are listed."""


def _check_dialects(context: click.Context, option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    from tooltap.normalizers.catalog.registry import dialects

    for name in names:
        if name not in dialects():
            raise click.BadParameter(f"there is no dialect {name!r}{did_you_mean(name, dialects())}", context, option)
    return names


@click.command(
    "learn",
    cls=Command,
    examples=("tooltap learn run.jsonl", "tooltap learn run.jsonl --write tooltap-quill --name quill-json"),
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="PATH...")
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write a package with a dialect to start from; of the first PATH, if there are several.",
)
@click.option("--name", metavar="NAME", help="The name of the dialect to write.  [default: that of DIR]")
@click.option(
    "--without",
    multiple=True,
    metavar="DIALECT",
    callback=_check_dialects,
    shell_complete=completion.dialects,
    help="Do not compare with this dialect. Can be given several times.",
)
def command(paths: tuple[str, ...], folder: Path | None, name: str | None, without: tuple[str, ...]) -> None:
    """Say what is in recordings of an unknown agent, and write a first dialect.

    Each PATH is a file, or a folder of .jsonl files. For each, it says how its records are framed and which types they
    have; which calls, results, texts, tokens and times were recognised by their shape, and where; which dialect is
    closest; and what was not recognised.
    """
    from tooltap.traces.learning.package import PackageError, check_name
    from tooltap.traces.learning.sketch import sketch
    from tooltap.traces.learning.writing import write_learned

    context = click.get_current_context(silent=True)
    try:
        if folder is not None:
            name = name or folder.absolute().name.removeprefix("tooltap-")
            check_name(name)
        for path in input_files(paths):
            data, is_whole = head_of(path)
            seen = sketch(data)
            say(f"{path}:" + ("" if is_whole else f" the first {MAX_BYTES // 1024 // 1024} MiB"))
            for sentence in _sentences(data, seen, without):
                say(f"  {sentence}")
            if folder is not None and name is not None:
                for written in write_learned(folder, name, seen, data):
                    say(str(written))
                break
    except PackageError as error:
        raise click.UsageError(str(error), context) from None
    except UnreadableError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder}: {error.strerror}") from None


def _sentences(data: bytes, seen: Sketch, without: tuple[str, ...]) -> Iterator[str]:
    from tooltap.traces.learning.review import closest

    where = "" if seen.each in ((), ("*",)) else f", its records in `{'.'.join(seen.each[:-1])}`"
    yield f"framing: {seen.framing}{where}; {counted(len(seen.records), 'record')}, other lines: {seen.other_lines}"
    if seen.key is not None:
        yield f"types: {short(seen.key)}: {_listed(seen.types)}"
    elif seen.records:
        yield "types: no field tells types of records apart"
    of_kinds = {
        "call": f"calls: {len(seen.calls)}"
        + (f", {len(seen.calls_in_texts)} more in texts" if seen.calls_in_texts else ""),
        "result": f"results: {len(seen.results)}, of {len(seen.results & seen.calls.keys())} of these calls",
        "text": f"texts: {_listed(Counter(role or 'author not stated' for role, _ in seen.texts))}",
        "piece": "texts in pieces",
        "usage": f"tokens: stated {counted(seen.usages, 'time')}",
    }
    shown = 0
    for kind, sentence in of_kinds.items():
        places = [place for place, _ in seen.places.values() if place.kind == kind]
        if places or (kind == "call" and seen.calls_in_texts):
            yield sentence
        for place in places:
            shown += 1
            if shown <= NAMED:
                keys = ", ".join(f"{part} `{'.'.join(names)}`" for part, names in place.keys.items())
                yield "  " + short(
                    f"at {path_of(place.path)}: {keys}" + (f" ({place.role})" if place.role else ""), 300
                )
    for (key, unit), number in seen.times.most_common(3):
        yield f"times: `{short(key)}`, {unit}, {number}"
    for key, number in seen.sessions.most_common(2):
        yield f"session: `{short(key)}`, {number}"
    found = closest(data, seen, without)[:3]
    for one in found:
        shares = {"lines": one.lines, "calls": one.calls, "results": one.results, "texts": one.texts}
        told = ", ".join(f"{what} {share:.0%}" for what, share in shares.items() if share >= 0)
        yield f"like {one.dialect}: {one.score:.0%} ({told})"
    if not found:
        yield "like no known dialect"
    lacking = [
        what
        for what, has in (
            ("calls", seen.calls),
            ("results", seen.results),
            ("texts", seen.texts),
            ("tokens", seen.usages),
            ("times", seen.times),
        )
        if not has
    ]
    if lacking:
        yield f"not found: {', '.join(lacking)}"
    if seen.unrecognised:
        yield f"not recognised: records of {_listed(seen.unrecognised)}"
    if seen.too_deep:
        yield "not looked at: what is beyond the bounds of depth and number"


def path_of(path: tuple[str | dict[str, str], ...]) -> str:
    """A path, for people: `messages.*[type=ai].tool_calls.*`."""
    text = ""
    for step in path:
        if isinstance(step, dict):
            text += f"[{', '.join(f'{key}={value}' for key, value in step.items())}]"
        else:
            text += f".{step}" if text else step
    return text or "the record"


def _listed(counts: Counter[str]) -> str:
    listed = [f"{short(name) or '?'} {number}" for name, number in counts.most_common(NAMED)]
    return ", ".join(listed) + (", …" if len(counts) > NAMED else "")
