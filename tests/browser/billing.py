"""A session with everything that the tabs show, in the form of Claude Code's session files: four turns, edits of
several files, a to-do list, a subagent, a compaction, and the tokens of every request."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeAlias

__all__ = ["SESSION", "TITLE", "Billing"]

SESSION = "b1111111-0000-4000-8000-00000000b111"
TITLE = "Migrate the billing tables to UUID keys without downtime"
START = datetime(2026, 11, 22, 13, 20, tzinfo=UTC)
FOLDER = "/home/you/src/ledger"
STEPS = ("Add a shadow column", "Write both keys", "Backfill in batches", "Run it on staging")
INVOICE = """from ledger.db import Column, Integer, Model, Text


class Invoice(Model):
    id = Column(Integer, primary_key=True)
    customer = Column(Text)
    total = Column(Integer)

    def is_paid(self):
        return self.total == 0
"""
DUNNING = """def remind(db, rows):
    for row in rows:
        with db.begin() as tx:
            tx.insert("invoices", id=next_id(), **row)
        metrics.count("dunning.created")
"""
BATCHES = [f"UPDATE invoices SET uid = uuid7() WHERE id % 12 = {batch};\n" for batch in range(12)]
MIGRATION = "".join(["-- Backfill of invoices.uid, in batches.\n", *BATCHES])
AFTER_COMPACTION = 31_200

Lines: TypeAlias = Iterator[dict[str, Any]]


class Billing:
    """Writes the lines of the session: those of `begun`, and then others."""

    def __init__(self) -> None:
        self._number = count(1)
        self._calls = count(1)
        self._now = START
        self._used = 9_000

    def begun(self) -> Lines:
        yield {"type": "permission-mode", "permissionMode": "acceptEdits", "sessionId": SESSION}
        yield self._asked(TITLE)
        yield {"type": "ai-title", "aiTitle": TITLE, "sessionId": SESSION}
        yield from self._first_turn()
        yield self._asked("Use a shadow column first, then switch over")
        yield from self._second_turn()
        yield self._compacted()
        yield self._asked("Check who else writes to `invoices` before we switch.")
        yield from self._third_turn()
        yield self._asked("Run it on staging.")
        yield from self.planned(3)

    def planned(self, done: int) -> Lines:
        states = ["completed"] * done + ["in_progress"] + ["pending"] * len(STEPS)
        todos = [{"content": step, "status": state} for step, state in zip(STEPS, states, strict=False)]
        return self._called("TodoWrite", {"todos": todos}, "Todos have been modified successfully.")

    def edited(self, path: str, old: str, new: str) -> Lines:
        given = {"file_path": f"{FOLDER}/{path}", "old_string": old, "new_string": new}
        return self._called("Edit", given, f"The file {path} has been updated.")

    def _first_turn(self) -> Lines:
        model = "ledger/models/invoice.py"
        column = "    customer = Column(Text)\n"
        yield from self.planned(0)
        yield from self._read(model, INVOICE)
        yield from self.edited(model, column, f"    uid = Column(Uuid, index=True)\n{column}")
        yield from self.edited(model, "Integer, Model, Text\n", "Integer, Model, Text, Uuid\n")
        yield from self._called("Bash", {"command": "pytest -q tests/models"}, "31 passed in 4.10s")
        yield from self._ended("The model has the shadow column.", 720)

    def _second_turn(self) -> Lines:
        yield from self.planned(1)
        yield from self._wrote("migrations/0042_uuid_backfill.sql", MIGRATION)
        yield from self.edited("ledger/models/invoice.py", "index=True)", "index=True, default=uuid7)")
        for number in range(14):
            yield from self._called("Grep", {"pattern": f"invoice_{number}", "path": FOLDER}, "No matches found")
        yield from self._called("Bash", {"command": "pytest -q"}, "Exit code 1\n1 failed, 30 passed", fails=True)
        yield from self._ended("One test needs the new column.", 1_020)

    def _third_turn(self) -> Lines:
        task = {"description": "writers of invoices", "prompt": "Find them.", "subagent_type": "Explore"}
        yield from self._called("Task", task, "The API, the importer, and jobs/dunning.py.")
        yield from self.planned(2)
        yield from self._read("jobs/dunning.py", DUNNING)
        yield from self.edited("jobs/dunning.py", "id=next_id(), **row)", "id=next_id(), uid=uuid7(), **row)")
        yield from self.edited("tests/jobs/test_dunning.py", "assert row.id", "assert row.uid")
        yield from self._ended("Three writers; the cron job needed it, too.", 360)

    # -- lines ------------------------------------------------------------------------------------------------------

    def _line(self, kind: str, **fields: Any) -> dict[str, Any]:
        self._now += timedelta(seconds=20)
        number = next(self._number)
        return {
            "parentUuid": f"u{number - 1}" if number > 1 else None,
            "isSidechain": False,
            "userType": "external",
            "cwd": FOLDER,
            "sessionId": SESSION,
            "version": "2.1.330",
            "gitBranch": "main",
            "type": kind,
            "uuid": f"u{number}",
            "timestamp": self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **fields,
        }

    def _asked(self, text: str) -> dict[str, Any]:
        return self._line("user", promptId=f"p{text[:8]}", message={"role": "user", "content": text})

    def _said(self, block: dict[str, Any], stop: str, output: int) -> dict[str, Any]:
        usage = {
            "input_tokens": 12,
            "cache_creation_input_tokens": 900,
            "cache_read_input_tokens": self._used,
            "output_tokens": output,
        }
        self._used += 4_600 + output
        message = {
            "model": "claude-opus-4-5",
            "id": f"msg_{next(self._calls)}",
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": stop,
            "usage": usage,
        }
        return self._line("assistant", message=message)

    def _called(
        self,
        tool: str,
        given: dict[str, Any],
        answer: str,
        *,
        structured: dict[str, Any] | None = None,
        fails: bool = False,
    ) -> Lines:
        call = f"toolu_{next(self._calls)}"
        yield self._said({"type": "tool_use", "id": call, "name": tool, "input": given}, "tool_use", 320)
        block = {"type": "tool_result", "tool_use_id": call, "content": answer, "is_error": fails}
        more = {} if structured is None else {"toolUseResult": structured}
        yield self._line("user", message={"role": "user", "content": [block]}, **more)

    def _ended(self, text: str, seconds: int) -> Lines:
        yield self._said({"type": "text", "text": text}, "end_turn", 90)
        yield self._line("system", subtype="turn_duration", durationMs=seconds * 1_000, messageCount=9, isMeta=False)

    def _compacted(self) -> dict[str, Any]:
        about = {"trigger": "auto", "preTokens": self._used, "postTokens": AFTER_COMPACTION}
        self._used = AFTER_COMPACTION
        return self._line("system", subtype="compact_boundary", content="Conversation compacted", compactMetadata=about)

    def _read(self, path: str, text: str) -> Lines:
        lines = text.count("\n")
        file = {"filePath": f"{FOLDER}/{path}", "content": text, "numLines": lines, "startLine": 1, "totalLines": lines}
        return self._called("Read", {"file_path": f"{FOLDER}/{path}"}, text, structured={"type": "text", "file": file})

    def _wrote(self, path: str, text: str) -> Lines:
        given = {"file_path": f"{FOLDER}/{path}", "content": text}
        created = {"type": "create", "filePath": given["file_path"]}
        return self._called("Write", given, "File created successfully.", structured=created)
