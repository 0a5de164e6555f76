"""Writes a dialect to start from, from the sketch of a recording, with the recording as its fixture."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orjson

from tooltap.normalizers.catalog.registry import recognise
from tooltap.normalizers.wire.recording import read_recording
from tooltap.traces.learning.package import PackageError, class_of, filled, provider_of, write_package
from tooltap.traces.learning.sketch import Place, Sketch
from tooltap.traces.recording.redact import Redactor

MAX_FIXTURE = 512 * 1024
"""Bytes of a recording that become a fixture."""


def write_learned(folder: Path, name: str, seen: Sketch, data: bytes) -> list[Path]:
    """Write a package with a dialect that reads what was recognised; return its files. Raises `PackageError`,
    `OSError`."""
    if not seen.places:
        raise PackageError("nothing was recognised of which a dialect could be made")
    lacking = gaps(seen)
    text = "\n".join(["What it does not read:", "", *(f"- {gap}." for gap in lacking)] if lacking else [])
    is_taken = any(recognise(record) for record in seen.records)
    return write_package(
        folder,
        name,
        module=module_of(name, seen, text or "It reads all that was recognised."),
        fixtures={"recording.jsonl": fixture_of(seen, data)},
        gaps=f"\n{text}" if text else "",
        recognised=not is_taken and bool(_common(seen)),
    )


def module_of(name: str, seen: Sketch, gaps_text: str) -> str:
    """The source of the parser. All that comes from the recording is in it as literals."""
    time = next(
        (
            key
            for (key, unit), _ in seen.times.most_common()
            if unit in ("ISO 8601", "s", "ms") and _is_usual(seen, key)
        ),
        None,
    )
    session = next((key for key, _ in seen.sessions.most_common() if _is_usual(seen, key)), None)
    types = sorted(one for one, number in seen.types.items() if number > seen.unrecognised[one])
    words = {
        "name": name,
        "provider": provider_of(name),
        "class_name": class_of(name),
        "gaps": gaps_text.replace("\\", "\\\\").replace('"', "'"),
        "each": repr(() if seen.each == ("*",) else seen.each),
        "key": repr(seen.key),
        "types": repr(types),
        "common": repr(sorted(_common(seen))),
        "time": repr(time),
        "session": repr(session),
        "places": "".join(f"    {_row(place)},\n" for place, _ in seen.places.values()),
    }
    return filled("learned", words)


def _row(place: Place) -> str:
    return repr((place.kind, place.path, place.keys, place.role))


def _is_usual(seen: Sketch, key: str) -> bool:
    """Whether most records have the key themselves."""
    return sum(key in record for record in seen.records) * 2 > len(seen.records)


def _common(seen: Sketch) -> set[str]:
    """The keys that all records have; of a document, its own first key on the way to them."""
    if seen.each and seen.each != ("*",):
        return {seen.each[0]}
    return set.intersection(*(set(record) for record in seen.records)) if seen.records else set()


def gaps(seen: Sketch) -> list[str]:
    """What a dialect that is made of the sketch does not read, as sentences without their full stops."""
    found = [
        f"{number} records of the type {name!r}, in which nothing was recognised"
        for name, number in seen.unrecognised.items()
    ]
    if seen.other_lines:
        found.append(f"{seen.other_lines} lines that are no JSON objects")
    if seen.calls_in_texts:
        found.append(f"{len(seen.calls_in_texts)} calls that are in the texts of the model")
    if lacking := seen.calls.keys() - seen.results:
        found.append(f"the results of {len(lacking)} calls")
    if any(place.kind == "piece" for place, _ in seen.places.values()):
        found.append("where a text ends that comes in pieces: it is a message when its turn ends")
    if any(place.kind == "text" and not place.role for place, _ in seen.places.values()):
        found.append("whose some texts are: they count as the model's")
    if units := Counter(unit for _, unit in seen.times) - Counter(["ISO 8601", "s", "ms"] * len(seen.times)):
        found.append(f"times in {', '.join(units)}")
    if seen.each and seen.each != ("*",):
        found.append("what is new in a document that was rewritten: all of it is read each time")
    if seen.too_deep:
        found.append("what is nested more deeply, or is more, than was looked at")
    found.append("how a turn ends, and whether a call failed")
    return found


def fixture_of(seen: Sketch, data: bytes) -> bytes:
    """The beginning of the recording, without secrets and names. Raises `PackageError`."""
    if seen.each:
        lines = [orjson.dumps(orjson.loads(data))]
    else:
        lines = [line.data if isinstance(line.data, bytes) else line.data.head for line in read_recording(data)]
    redactor = Redactor()
    for line in lines:
        redactor.learn(line)
    written = bytearray()
    for line in lines:
        redacted = redactor.redact(line) + b"\n"
        if len(written) + len(redacted) > MAX_FIXTURE:
            break
        written += redacted
    if not written:
        raise PackageError(f"the recording begins with more than {MAX_FIXTURE // 1024} KiB, too much for a fixture")
    return bytes(written)
