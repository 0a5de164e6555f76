"""A session with everything that an overview shows: turns, a subagent, failures, a pause of a night, an open
question."""

from __future__ import annotations

from typing import Any

from tests.browser.recordings import answered, assistant_message, called
from tests.browser.serving import Publisher, Site

__all__ = ["CALLS", "PROMPTS", "SESSION", "Scene"]

SESSION = "ledger"
START = 1_790_000_000_000
MINUTE = 60_000
NIGHT = 9 * 60 * MINUTE
PROMPTS = (
    "Migrate the billing tables to UUID keys without downtime",
    "Use a shadow column first, then switch",
    "Check who else writes to invoices before we switch",
    "Run it on staging",
)
CALLS = 46
"""Number of calls of the main agent and of its subagent."""
FILES = ("ledger/models/invoice.py", "ledger/api/invoices.py", "importer/load.py", "jobs/dunning.py")


class Scene:
    """`play` plays the session until the agent waits; after that, `call`, `answer` and `end` continue it. `options`: of
    its publisher."""

    def __init__(self, site: Site, **options: Any) -> None:
        self.agent: Publisher = site.publish("ledger", "claude-stream", framing="tapped", **options)
        self.now = START
        self._call = 0

    def play(self) -> None:
        self._line(
            {
                "type": "system",
                "subtype": "init",
                "session_id": SESSION,
                "cwd": "/src/ledger",
                "model": "claude-opus-5-5",
            }
        )
        self._prompt(PROMPTS[0])
        for n in range(4):
            self.call("Grep", {"pattern": f"invoice_id_{n}"}, 400, "src/a.py:1: invoice_id")
            self.call("Read", {"file_path": f"/src/ledger/{FILES[n]}"}, 300, "1\timport db")
        self.call("TodoWrite", {"todos": [{"content": "Plan the migration", "status": "in_progress"}]}, 100, "ok")
        self.call("WebFetch", {"url": "https://example.org/uuid", "prompt": "x"}, 9_000, "UUIDs sort by time.")
        self._edit(0)
        self._end(2.1)
        self.now += NIGHT
        self._prompt(PROMPTS[1])
        for n in range(6):
            self.call("Read", {"file_path": f"/src/ledger/{FILES[n % 4]}"}, 200, "1\timport db")
            self._edit(n)
            self.call("Bash", {"command": "pytest -q tests/models"}, 21_000, "31 passed", failed=n == 2)
        self._end(4.54)
        self._prompt(PROMPTS[2])
        self._say("I'll have a subagent look through the services while I read the migration again.")
        self._subagent()
        self._say("Three writers: the API, the importer and a cron job that nobody documented, `jobs/dunning.py`.")
        self._edit(3)
        self.call("Bash", {"command": "pytest -q tests/jobs"}, 14_000, "1 failed, 31 passed", failed=True)
        self.call("Bash", {"command": "pytest -q tests/jobs"}, 13_000, "32 passed")
        self._end(5.25)
        self._prompt(PROMPTS[3])
        self.call("Bash", {"command": "psql -c 'select count(*) from invoices'"}, 400, "1204331")
        self._ask("Bash", {"command": "psql -f migrations/0042_uuid_backfill.sql"})
        self.agent.wait_stored()

    def call(
        self,
        name: str,
        arguments: dict[str, Any],
        took: int,
        output: str,
        *,
        failed: bool = False,
        parent: str | None = None,
    ) -> None:
        self._call += 1
        call = f"c{self._call}"
        self._line(called(name, arguments, call, SESSION) | {"parent_tool_use_id": parent}, 2_500)
        more = {"is_error": True} if failed else {}
        self._line(answered(call, output, SESSION, **more) | {"parent_tool_use_id": parent}, took)

    def answer(self) -> None:
        """Answer the question."""
        self._line(
            {
                "type": "control_response",
                "response": {"subtype": "success", "request_id": "r1", "response": {"behavior": "allow"}},
            },
            30_000,
            direction="in",
        )
        self._line(answered("asked", "UPDATE 1204331", SESSION), 60_000)

    def end(self) -> None:
        self._say("Done.")
        self._end(6.12)

    def _subagent(self) -> None:
        prompt = {"description": "Explore: writers of invoices", "prompt": "Find all.", "subagent_type": "Explore"}
        self._line(called("Task", prompt, "task", SESSION))
        for n in range(10):
            name = ("Grep", "Read")[n % 2]
            given = (
                {"pattern": "INSERT INTO invoices"} if name == "Grep" else {"file_path": f"/src/ledger/{FILES[n % 4]}"}
            )
            self.call(name, given, 1_500, "jobs/dunning.py:42: insert", parent="task")
        self._line(answered("task", "Three writers.", SESSION), 4_000)

    def _edit(self, number: int) -> None:
        edit = {"file_path": f"/src/ledger/{FILES[number % 4]}", "old_string": "id", "new_string": f"uid{number}"}
        self.call("Edit", edit, 100, "updated")

    def _prompt(self, text: str) -> None:
        self._line({"type": "user", "message": {"role": "user", "content": text}, "session_id": SESSION}, 5_000)

    def _say(self, text: str) -> None:
        self._call += 1
        self._line(assistant_message(text, self._call, SESSION), 4_000)

    def _ask(self, name: str, arguments: dict[str, Any]) -> None:
        self._line(called(name, arguments, "asked", SESSION))
        request = {"subtype": "can_use_tool", "tool_name": name, "input": arguments, "tool_use_id": "asked"}
        self._line({"type": "control_request", "request_id": "r1", "request": request}, 200)

    def _end(self, cost: float) -> None:
        self._say("That is done; the tests pass.")
        result = {"type": "result", "subtype": "success", "is_error": False, "result": "", "session_id": SESSION}
        self._line(result | {"total_cost_usd": cost, "usage": {"input_tokens": 900, "output_tokens": 90}}, 1_000)

    def _line(self, line: dict[str, Any], after: int = 1_000, direction: str = "out") -> None:
        self.now += after
        self.agent.write({"t": self.now, "dir": direction, "line": line})
