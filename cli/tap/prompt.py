"""The prompt that `run` knows, because it starts the agent with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

import orjson

from tooltap.daemon.taps.child import STDIN
from tooltap.normalizers.catalog.registry import prompt_of
from tooltap.protocol.frames import PROMPT_LENGTH

PROMPT_BYTES = 192 * 1024
"""A prompt that is longer in JSON is left out: it must fit into a frame."""


def given_prompt(command: Sequence[str], stdin_at: int | None) -> str | None:
    """The prompt among the arguments, or in the file that is standard input, from `stdin_at` on; None if there is none,
    or none that we can see: what is typed or piped is the agent's alone."""
    prompt = prompt_of(command, partial(_file_text, stdin_at))
    if prompt is None or len(prompt) > PROMPT_LENGTH:
        return None
    try:
        return prompt if len(orjson.dumps(prompt)) <= PROMPT_BYTES else None
    except orjson.JSONEncodeError:  # arguments need not be UTF-8
        return None


def _file_text(position: int | None) -> str | None:
    if position is None:
        return None
    try:
        data = os.pread(STDIN, PROMPT_BYTES + 1, position)
        return None if len(data) > PROMPT_BYTES else data.decode()
    except (OSError, UnicodeDecodeError):
        return None
