"""Prints statistics objects on stderr: as text (`--stats`) and as JSON (`--stats-json`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from tooltap.cli.common.printing import MAX_ID, on_stderr, say_json, short
from tooltap.daemon.formats import counted
from tooltap.daemon.system.clock import iso_time

if TYPE_CHECKING:
    from tooltap.protocol.stats import Statistics

FIGURES = ("lines", "withEvents", "unparsed", "events", "bytes", "repaired")
MAX_SPOOL = 500
"""Maximum length of the sentence about one spool or one problem, in code points."""
MAX_UNREADABLE = 5
"""How many session files that cannot be read are named."""
MAX_VERSION = 40
"""Code points of a version, or of the id of a journal."""
MAX_NAMES = 40
"""Maximum number of names printed of a table; `--json` has all of them."""
TABLES = ("skipped", "kinds", "tools", "rawTools", "extensions")


def statistics_options(function: Any) -> Any:
    """Add `--stats` and `--stats-json` to a command."""
    function = click.option("--stats", is_flag=True, help="Print statistics on stderr.")(function)
    return click.option(
        "--stats-json",
        is_flag=True,
        help='Print statistics on stderr as JSON, one line per file; with several files a last line has "total":true.',
    )(function)


def print_statistics(all_statistics: list[Statistics], *, stats: bool, stats_json: bool) -> None:
    import msgspec

    objects: list[dict[str, Any]] = [msgspec.to_builtins(one) for one in all_statistics]
    if len(objects) > 1:
        objects.append(_total(objects))
    if stats:
        for one in objects:
            for line in describe_stream(one):
                on_stderr(line)
    if stats_json:
        for one in objects:
            say_json(msgspec.json.encode(one), err=True)


def _total(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum of several statistics objects."""
    summed: dict[str, Any] = {"total": True, "streams": len(objects)}
    for figure in FIGURES:
        summed[figure] = sum(one[figure] for one in objects)
    for table in TABLES:
        names: dict[str, int] = {}
        for one in objects:
            for name, number in one[table].items():
                names[name] = names.get(name, 0) + number
        summed[table] = names
    return summed


def describe_stream(one: dict[str, Any]) -> list[str]:
    """A statistics object, or the total of several, as a few lines of text."""
    if one.get("total"):
        head = f"total of {counted(one['streams'], 'stream')}"
    else:
        head = f"{short(one['stream'], MAX_ID)}: {short(one['dialect'])}, {short(one['provider'])}"
    skipped = sum(one["skipped"].values())
    lines = [
        head,
        f"  {counted(one['lines'], 'line')} ({counted(one['bytes'], 'byte')}) = {one['withEvents']} with events"
        f" + {one['unparsed']} unparsed + {skipped} skipped{_by_name(one['skipped'])}",
        f"  {counted(one['events'], 'event')}{_by_name(one['kinds'])}",
        f"  {counted(sum(one['tools'].values()), 'call')}{_by_name(one['tools'])}",
    ]
    if one["rawTools"] != one["tools"]:
        lines.append(f"  on the wire{_by_name(one['rawTools'])}")
    if one.get("extensions"):
        lines.append(f"  {counted(sum(one['extensions'].values()), 'line')} of extensions{_by_name(one['extensions'])}")
    if one["repaired"]:
        lines.append(f"  {counted(one['repaired'], 'line')} repaired")
    return lines


def _by_name(counts: dict[str, int] | Iterable[tuple[str, int]]) -> str:
    pairs = sorted(dict(counts).items(), key=lambda pair: (-pair[1], pair[0]))
    more = [f"and {len(pairs) - MAX_NAMES} more"] if len(pairs) > MAX_NAMES else []
    listed = [f"{short(what)} {number}" for what, number in pairs[:MAX_NAMES]]
    return f": {', '.join([*listed, *more])}" if pairs else ""


def describe_daemon(statistics: dict[str, Any]) -> list[str]:
    """The result of the daemon's `stats` request, without its streams, as a few lines of text."""
    journal, streams, trace = statistics["journal"], statistics["streams"], statistics["trace"]
    seconds = statistics["uptimeMs"] // 1000
    lines = [
        f"tooltap {short(statistics['version'], MAX_VERSION)}, pid {statistics['pid']},"
        f" up {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}",
        f"journal {short(journal['id'], MAX_VERSION)}: events {journal['oldest']} to {journal['latest']}"
        + (f"; lines cannot be committed: {short(journal['problem'], MAX_SPOOL)}" if "problem" in journal else ""),
        *_damage(journal),
        *_removed(journal.get("retention", {})),
        f"streams: {', '.join(f'{number} {state}' for state, number in streams.items())}",
        *_spools(statistics["spools"]),
        f"display outputs: {statistics['outputs']['kept']} kept, {counted(statistics['outputs']['bytes'], 'byte')}",
        f"connections: {statistics['connections']['open']},"
        f" publishing {statistics['connections']['publishing']},"
        f" subscribed {len(statistics['subscribers'])}",
    ]
    if (longest := statistics.get("loop", {}).get("longest")) is not None:
        what = short(longest["what"], MAX_SPOOL)
        lines.append(f"held up {counted(statistics['loop']['stalls'], 'time')}, at worst {longest['ms']} ms: {what}")
    if (following := statistics.get("following")) is not None:
        files = counted(following["files"], "file")
        states = f"{following['open']} open, {following['waiting']} waiting"
        lines.append(f"following: {files}, {states}{_backfill(following)}")
        unreadable = following.get("unreadable", {})
        for path, reason in list(unreadable.items())[:MAX_UNREADABLE]:
            lines.append(f"  cannot be read: {short(path, MAX_SPOOL)}: {short(reason, MAX_SPOOL)}")
        if (more := len(unreadable) - MAX_UNREADABLE) > 0:
            lines.append(f"  cannot be read: at least {counted(more, 'other file')}")
    if (web := statistics.get("web")) is not None:
        lines.append(f"web: {web['url']}, {counted(web['connections'], 'connection')}, {web['feeds']} live")
    for path in list(statistics.get("hardLinks", ()))[:MAX_UNREADABLE]:
        lines.append(f"another name (a hard link) leads to {short(path, MAX_SPOOL)}; see `tooltap doctor`")
    if trace is not None:
        lines.append(_trace(trace, statistics["limits"]["trace_total_bytes"]))
    return lines


def _removed(retention: dict[str, Any]) -> Iterator[str]:
    for setting, reason in (("retention_days", "age"), ("retention_bytes", "size")):
        one = retention.get(reason, {})
        if (at := iso_time(one.get("at"))) is not None:
            sizes = f"{counted(one['bodies'], 'output body', 'output bodies')} ({counted(one['bytes'], 'byte')})"
            what = f"{counted(one['sessions'], 'session')}, {counted(one['events'], 'event')}, {sizes}"
            happened = [time for time in (iso_time(one["oldest"]), iso_time(one["newest"])) if time is not None]
            since = f", from {happened[0]} to {happened[-1]}" if happened else ""
            yield f"{setting} has removed {what}{since}; the last of it at {at}"


def _backfill(following: dict[str, Any]) -> str:
    backfill = following["backfill"]
    if backfill["complete"]:
        return ""
    size = f"{backfill['bytesDone'] / 2**20:.1f} of {backfill['bytes'] / 2**20:.1f} MiB"
    return f"; backfill: {backfill['filesDone']} of {backfill['files']} files, {size}"


def _spools(spools: dict[str, Any]) -> Iterator[str]:
    quarantined = spools["quarantined"]
    held = f", {quarantined['files']} damaged ones in {quarantined['directory']}" if quarantined["files"] else ""
    yield f"spools: {spools['waiting']} waiting, {spools['drained']} drained{held}"
    for unread in quarantined.get("unread", ()):
        yield "  " + short(f"{unread}: its header cannot be read: none of its lines is in a journal", MAX_SPOOL)
    for one in spools.get("perSpool", ()):
        problem = f": {one['problem']}" if "problem" in one else ""
        where = f" ({one['socket']})" if "socket" in one else ""
        size = counted(one["bytes"], "byte")
        yield "  " + short(f"{one['stream']}: {one['state']}{where}, {size}{problem}", MAX_SPOOL)


def _damage(journal: dict[str, Any]) -> list[str]:
    corrupt, damages = journal.get("corrupt", 0), journal.get("damages", 0)
    if not corrupt and not damages:
        return []
    return [f"damaged: {counted(corrupt, 'event')}, {counted(damages, 'other part')}; see `tooltap journal check`"]


def _trace(trace: dict[str, Any], budget: int) -> str:
    size = f"{trace['totalBytes'] / 2**20:.1f} of {budget / 2**20:.0f} MiB"
    problem = f"; {short(trace['problem'], MAX_SPOOL)}" if trace["problem"] else ""
    return f"trace {trace['path']}: {counted(trace['records'], 'record')}, {trace['dropped']} dropped, {size}{problem}"
