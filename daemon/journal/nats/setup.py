"""The two JetStream streams of a journal: created if they do not exist, otherwise checked.

Both have the journal's id in their metadata. If the second one has another, its rows belong to a journal that was there
before, and are deleted. `rename` gives a journal a new id and says how much of the rows stays.
"""

from __future__ import annotations

import secrets
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.nats.link import GoneError, Link, RefusedError
from tooltap.daemon.journal.nats.rows import decode_row, encode_row

__all__ = ["Found", "Keep", "rename", "set_up"]

FORMAT = 1
"""Of messages and rows. A journal of another format is refused."""
ID_KEY, FORMAT_KEY = "tooltap-journal", "tooltap-format"
NEXT_KEY, KEEP_KEY = "tooltap-next", "tooltap-keep"
READ_BYTES = 1_048_576
ROW_TOKEN = ".row."

Keep: TypeAlias = Literal["all", "expired"]
"""Which rows a new id leaves: all, or those whose events retention has deleted."""


class Found(NamedTuple):
    id: str
    first: int
    last: int
    """Sequences of the journal's first and last message."""
    config: dict[str, Any]
    rows_are_lost: bool
    """The rows have to be made again, of the messages."""
    last_row: int
    """Sequence of the last message of the second stream."""


async def set_up(link: Link, events: tuple[str, str], state: tuple[str, list[str]]) -> Found:
    """`events`, `state`: name and subjects of the streams. Raises `AwayError`, `JournalError`."""
    options = link.place.options
    wishes = {"num_replicas": options.replicas, "max_bytes": options.max_bytes}
    name, subject = events
    info, _ = await _create(
        link,
        {
            "name": name,
            "subjects": [subject],
            "storage": "file",
            "allow_direct": True,
            "allow_atomic": True,
            "metadata": {ID_KEY: secrets.token_hex(8), FORMAT_KEY: str(FORMAT)},
            **_given(wishes),
        },
    )
    metadata = info["config"].get("metadata") or {}
    if ID_KEY not in metadata:
        raise JournalError(f"the stream {name} of {link.place} exists, but is not a tooltap journal")
    if metadata.get(FORMAT_KEY) != str(FORMAT):
        raise JournalError(
            f"the journal {link.place} has format {metadata.get(FORMAT_KEY)}, written by another version of tooltap;"
            f" this one knows only {FORMAT}"
        )
    journal_id = str(metadata[ID_KEY])
    await _change(link, info["config"], wishes)
    known = info["state"]
    are_lost, last_row = await _set_up_state(link, *state, journal_id)
    return Found(
        journal_id,
        known["first_seq"],
        known["last_seq"],
        info["config"],
        are_lost and bool(known["messages"]),
        last_row,
    )


async def rename(link: Link, events: str, state: str, journal_id: str, keep: Keep) -> None:
    """Give the journal another id. Raises `AwayError`, `JournalError`."""
    await _set_metadata(link, state, {NEXT_KEY: journal_id, KEEP_KEY: keep})
    await _set_metadata(link, events, {ID_KEY: journal_id})


async def _set_up_state(link: Link, name: str, subjects: list[str], journal_id: str) -> tuple[bool, int]:
    """Whether rows were lost, because they are those of another journal, or because there was no such stream; and
    the sequence of the last message."""
    wishes = {"num_replicas": link.place.options.replicas}
    info, is_new = await _create(
        link,
        {
            "name": name,
            "subjects": subjects,
            "storage": "file",
            "allow_direct": True,
            "allow_msg_ttl": True,
            "max_msgs_per_subject": 1,
            "metadata": {ID_KEY: journal_id},
            **_given(wishes),
        },
    )
    metadata = info["config"].get("metadata") or {}
    await _change(link, info["config"], wishes)
    if ID_KEY not in metadata:
        raise JournalError(f"the stream {name} of {link.place} exists, but is not of a tooltap journal")
    if metadata[ID_KEY] != journal_id:
        keep = metadata.get(KEEP_KEY) if metadata.get(NEXT_KEY) == journal_id else ""
        if keep != "all":
            await _delete_rows(link, name, subjects, keep_expired=keep == "expired")
            is_new = True
        await _set_metadata(link, name, {ID_KEY: journal_id})
    return is_new, info["state"]["last_seq"]


async def _delete_rows(link: Link, name: str, subjects: list[str], *, keep_expired: bool) -> None:
    rows = next(subject for subject in subjects if ROW_TOKEN in subject)
    kept: list[tuple[str, bytes]] = []
    first = 1
    while keep_expired and (found := await link.read(name, first, rows, READ_BYTES)):
        for subject, row in [(one.subject, decode_row(one.data)) for one in found]:
            if row.expired:  # its messages are not those that the journal has now
                kept.append((subject, encode_row(msgspec.structs.replace(row, message=0), READ_BYTES)))
        first = found[-1].seq + 1
    await link.api(f"STREAM.PURGE.{name}", filter=rows)
    for subject, data in kept:
        await link.publish(subject, [data])
    if not keep_expired:
        for subject in subjects:
            if ".meta." in subject:
                await link.api(f"STREAM.PURGE.{name}", filter=subject.replace(">", "expired"))


async def _create(link: Link, config: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Create the stream unless it exists. Return what is known of it, and whether it is new."""
    name = config["name"]
    try:
        return await _info(link, name), False
    except GoneError:
        pass
    try:
        await link.api(f"STREAM.CREATE.{name}", **config)
    except RefusedError:
        try:  # another daemon may have been faster
            return await _info(link, name), False
        except GoneError:
            pass
        raise
    return await _info(link, name), True


async def _info(link: Link, name: str) -> dict[str, Any]:
    return await link.api(f"STREAM.INFO.{name}")


async def _set_metadata(link: Link, name: str, changes: dict[str, str]) -> None:
    config = (await _info(link, name))["config"]
    await link.api(f"STREAM.UPDATE.{name}", **{**config, "metadata": {**(config.get("metadata") or {}), **changes}})


async def _change(link: Link, config: dict[str, Any], wishes: dict[str, Any]) -> None:
    """Apply the URL's options to an existing journal."""
    if any(config.get(key) != value for key, value in _given(wishes).items()):
        await link.api(f"STREAM.UPDATE.{config['name']}", **{**config, **_given(wishes)})


def _given(wishes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wishes.items() if value is not None}
