"""Attribution as a record of Agent Trace (agent-trace.dev), version 0.1 of January 2026.

The specification calls itself 0.1.0, and its examples say so; its JSON schema demands two numbers, and is what programs
check.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from tooltap import __version__
from tooltap.cli.read.edits import Call

VERSION = "0.1"
PROVIDERS = {
    "claude-": "anthropic",
    "gpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4-": "openai",
    "codex-": "openai",
    "gemini-": "google",
    "grok-": "xai",
    "mistral-": "mistral",
    "devstral-": "mistral",
    "deepseek-": "deepseek",
}
"""How the name of a model begins -> its provider at models.dev."""
MAX_MODEL = 250
GIT_TIMEOUT = 10.0


def record_of(
    file: Path,
    data: bytes,
    ranges: Sequence[tuple[int, int, Call | None]],
    sessions: dict[str, dict[str, Any]],
    address_of: Callable[[str], str | None],
) -> dict[str, Any]:
    """Return the record of one file. `data`: its bytes. `ranges`: first line, last line, the call that wrote them.
    `address_of`: returns the address of a session's page, if there is one."""
    conversations: dict[str | None, dict[str, Any]] = {}
    calls: list[dict[str, Any]] = []
    for first, last, call in ranges:
        session = None if call is None else call.session
        one = conversations.get(session)
        if one is None:
            one = conversations[session] = _conversation(session, sessions.get(session or "", {}), address_of)
        one["ranges"].append({"start_line": first, "end_line": last})
        if call is None:
            continue
        link = {"type": "tool-call", "url": f"tooltap://event/{call.seq}"}
        if link not in (related := one.setdefault("related", [])):
            related.append(link)
        calls.append({"startLine": first, "endLine": last, "session": call.session, "seq": call.seq})
    root, revision = _repository(file, data)
    name = os.path.relpath(file, root) if root else file.name
    return {
        "version": VERSION,
        "id": str(uuid4()),
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        **({"vcs": {"type": "git", "revision": revision}} if revision else {}),
        "tool": {"name": "tooltap", "version": __version__},
        "files": [{"path": name, "conversations": list(conversations.values())}],
        "metadata": {"tooltap": {"calls": calls}},
    }


def _conversation(session: str | None, row: dict[str, Any], address_of: Callable[[str], str | None]) -> dict[str, Any]:
    if session is None:
        return {"contributor": {"type": "unknown"}, "ranges": []}
    address, models = address_of(session), row.get("models") or []
    # Of a session with several models, the calls do not say which of them made each.
    model = {"model_id": _model_id(models[0])} if len(models) == 1 and len(_model_id(models[0])) <= MAX_MODEL else {}
    return {
        **({"url": address} if address else {}),
        "contributor": {"type": "ai", **model},
        "ranges": [],
    }


def _model_id(model: str) -> str:
    if "/" in model:
        return model
    provider = next((name for start, name in PROVIDERS.items() if model.startswith(start)), None)
    return model if provider is None else f"{provider}/{model}"


def _repository(file: Path, data: bytes) -> tuple[str | None, str | None]:
    """Return the folder of the file's repository, and the commit that is checked out. The commit only if the file is
    unchanged: else the numbers of its lines are others."""
    root = _git(file.parent, "--show-toplevel")
    if root is None:
        return None, None
    named = _git(file.parent, "HEAD", f"HEAD:./{file.name}")
    commit, _, blob = (named or "").partition("\n")
    sha = hashlib.sha256 if len(blob) == 64 else hashlib.sha1
    is_committed = blob == sha(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return root, commit if is_committed else None


def _git(folder: Path, *names: str) -> str | None:
    """Return what `git rev-parse` says of names; None if it fails. It runs nothing that the repository names, and
    fetches nothing."""
    command = ["git", "-c", "protocol.allow=never", "rev-parse", *names]
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=GIT_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout).removesuffix("\n")
