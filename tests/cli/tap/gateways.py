"""Runs `tooltap gateway openai` in its own process, with requests and responses for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.cli.command import Child, environment, start
from tests.cli.tap.test_attach import log
from tests.daemon.running import Running
from tests.http_server import Request, Response

TIMEOUT = 60


@contextmanager
def gateway(upstream: str, socket: Path, *options: object, **changes: str) -> Iterator[tuple[Child, httpx.Client]]:
    """A gateway and a client."""
    arguments = ["--upstream", upstream, "--listen", "127.0.0.1:0", "--socket", socket, *options]
    with start("gateway", "openai", *arguments, env=environment(**changes)) as child:
        url = log(child, "listening")["url"]
        with httpx.Client(base_url=url, timeout=TIMEOUT, trust_env=False) as client:
            yield child, client


def answers(*bodies: bytes) -> Callable[[Request, Response], None]:
    """Return a handler that sends these bodies one after the other."""
    left = list(bodies)
    return lambda _, answer: answer.whole(200, left.pop(0), "Content-Type: application/json")


def completion(text: str, answer_id: str = "c-1") -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": answer_id, "object": "chat.completion", "choices": [choice]}).encode()


def chunk(text: str, answer_id: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: %s\n\n" % json.dumps({"id": answer_id, "choices": [choice]}).encode()


def ask(*contents: str, stream: bool = False) -> dict[str, Any]:
    """A request with a conversation: user, assistant, user, …"""
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(contents)]
    return {"model": "m", "messages": messages, **({"stream": True} if stream else {})}


def messages(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["role"], event["text"]) for event in events if event["kind"] == "message"]


def streams(daemon: Running) -> list[dict[str, Any]]:
    return list(daemon.stats()["perStream"])[::-1]
