"""The two JetStream streams of a journal: created if they do not exist, otherwise checked."""

from __future__ import annotations

import secrets
from typing import Any

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.nats.link import NOT_FOUND, Link, RefusedError

__all__ = ["set_up"]

FORMAT = 2
"""Of messages and rows. Raise it with the first event that an older version cannot read. 2: blocks in tails."""
ID_KEY, FORMAT_KEY = "tooltap-journal", "tooltap-format"


async def set_up(link: Link, events: tuple[str, str], state: tuple[str, list[str]]) -> str:
    """`events`, `state`: name and subjects of the streams. Returns the journal's id. Raises `AwayError`,
    `JournalError`."""
    options = link.place.options
    wishes = {"num_replicas": options.replicas, "max_bytes": options.max_bytes}
    name, subject = events
    found = await _create(
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
    metadata = found.get("metadata") or {}
    if ID_KEY not in metadata:
        raise JournalError(f"the stream {name} of {link.place} exists, but is not a tooltap journal")
    if int(metadata[FORMAT_KEY]) > FORMAT:
        raise JournalError(
            f"the journal {link.place} has format {metadata[FORMAT_KEY]}, written by a newer tooltap;"
            f" this one knows up to {FORMAT}"
        )
    await _change(link, found, {**wishes, "metadata": {**metadata, FORMAT_KEY: str(FORMAT)}})
    state_name, subjects = state
    wishes = {"num_replicas": options.replicas}
    found = await _create(
        link,
        {
            "name": state_name,
            "subjects": subjects,
            "storage": "file",
            "allow_direct": True,
            "allow_msg_ttl": True,
            "max_msgs_per_subject": 1,
            **_given(wishes),
        },
    )
    await _change(link, found, wishes)
    return str(metadata[ID_KEY])


async def _create(link: Link, config: dict[str, Any]) -> dict[str, Any]:
    """Create the stream unless it exists, and return its actual configuration."""
    name = config["name"]
    try:
        return await _configuration(link, name)
    except RefusedError as error:
        if error.code != NOT_FOUND:
            raise
    try:
        await link.api(f"STREAM.CREATE.{name}", **config)
    except RefusedError:
        try:  # another daemon may have been faster
            return await _configuration(link, name)
        except RefusedError:
            pass
        raise
    return await _configuration(link, name)


async def _configuration(link: Link, name: str) -> dict[str, Any]:
    config: dict[str, Any] = (await link.api(f"STREAM.INFO.{name}"))["config"]
    return config


async def _change(link: Link, config: dict[str, Any], wishes: dict[str, Any]) -> None:
    """Apply the URL's options, and this version's format, to an existing journal."""
    if any(config.get(key) != value for key, value in _given(wishes).items()):
        await link.api(f"STREAM.UPDATE.{config['name']}", **{**config, **_given(wishes)})


def _given(wishes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wishes.items() if value is not None}
