"""The scenarios that agents were recorded in: what the model was scripted to say, to think and to call.

The prompts of these recordings name their scenario in double brackets. The words are the script's, not an agent's; how
an agent calls a tool is in `TOOLS`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PICTURE", "SCENARIOS", "TOOLS", "Call", "Scenario"]

PICTURE = "a picture"
"""Stands in a call's `shows` for an attachment that is an image."""
SETTLED = ("completed", "failed")

TOOLS: dict[str, tuple[str, ...]] = {
    "ask": ("AskUserQuestion",),
    "change": ("Edit", "MultiEdit", "Patch", "Write"),
    "edit": ("Edit", "MultiEdit", "Patch"),
    "fetch": ("WebFetch", "WebSearch"),
    "find": ("Glob", "LS"),
    "list": ("LS", "Glob", "Read"),
    "none": ("NoSuchTool", "no_such_tool", "invalid"),
    "notebook": ("NotebookEdit",),
    "plan": ("ExitPlanMode",),
    "read": ("Read",),
    "search": ("Grep",),
    "shell": ("Bash",),
    "task": ("Task",),
    "title": ("update_topic", "change_title", "mcp__fixture__change_title"),
    "todo": ("TodoWrite", "sql"),
    "write": ("Write", "Patch"),
}
"""Action -> the canonical tools that do it."""
BY_COMMAND = frozenset({"find", "list", "read", "search"})
"""Actions that an agent may also do with a shell command."""


class Call(NamedTuple):
    does: str
    """A key of `TOOLS`, or `mcp:` and the tool of the server `fixture`."""
    with_: tuple[str, ...]
    """Texts in its input; the first distinguishes this call from the others."""
    status: tuple[str, ...] = ("completed",)
    shows: tuple[str, ...] = ()
    """Texts in its results."""
    exit_code: int | None = None
    by_subagent: bool = False
    optional: bool = False
    """Whether the agent may have continued without it."""


class Scenario(NamedTuple):
    calls: tuple[Call, ...] = ()
    says: tuple[str, ...] = ()
    thinks: tuple[str, ...] = ()
    ends: tuple[str, ...] = ("completed",)
    error: str | None = None
    """Part of the error that the model's server gave."""


UNICODE = "Unicode text: café 日本語 😀 👩\u200d💻 مرحبا é."
PLAN = ("Read the code", "Edit the greeting", "Run the tests")
PAGE = "18080/page"
READS_APP = Call("read", ("src/app.py",), shows=("def greet",))
IN_SUBAGENT = (
    Call("search", ("def greet",), ("completed", "failed"), ("app.py",), by_subagent=True, optional=True),
    Call("read", ("src/app.py",), shows=("def greet",), by_subagent=True, optional=True),
)

SCENARIOS: dict[str, Scenario] = {
    "S0": Scenario(says=("Hello from the scripted model.",)),
    "S1": Scenario(
        (READS_APP,), ("I'll read the file.", "It prints a greeting: `greet(name)` returns **Hello, name!**.")
    ),
    "S2": Scenario(
        (Call("write", ("docs/notes.md", "- first"), SETTLED),), ("Creating the notes.", "Created docs/notes.md.")
    ),
    "S3": Scenario(
        (READS_APP, Call("edit", ("src/app.py", "Howdy, "))), ("Now the edit.", "Changed Hello to Howdy in src/app.py.")
    ),
    "S4": Scenario(
        (Call("shell", ("echo hello from shell; ls src",), shows=("hello from shell", "app.py")),),
        ("Running it.", "src has app.py and util.py."),
    ),
    "S5": Scenario(
        (Call("shell", ("echo partial output;",), ("failed",), ("partial output", "boom: something broke"), 3),),
        ("The command failed with exit code 3.",),
    ),
    "S6": Scenario((Call("search", ("greet",), shows=("app.py",)),), ("Found greet in src/app.py.",)),
    "S7": Scenario(
        (Call("find", ("*.py",), SETTLED, ("app.py",)), Call("list", ("src",), SETTLED, ("util.py",))),
        ("Two Python files.",),
    ),
    "S8": Scenario(tuple(Call("todo", (step,)) for step in PLAN), ("Plan",)),
    "S9": Scenario((Call("fetch", (PAGE,), SETTLED, optional=True),), ("The page says 42.",)),
    "S10": Scenario((Call("read", ("src/missing.py",), ("failed",)),), ("That file does not exist.",)),
    "S11": Scenario((Call("shell", ("seq -f",), shows=("line 000001: the quick",)),), ("Printed 2000 lines.",)),
    "S12": Scenario((Call("task", ("[[S12sub]]",)), *IN_SUBAGENT), ("Delegating.",)),
    "S12sync": Scenario((Call("task", ("[[S12sub]]",)), *IN_SUBAGENT), ("Delegating.", "Found it.")),
    "S13": Scenario(
        (
            Call("mcp:echo", ("hi there",), shows=("echo: hi there",)),
            Call("mcp:change_title", ("Demo title",), shows=("Title changed to: Demo title",)),
            Call("mcp:fail", ("testing",), ("failed",), ("failed: testing",)),
            Call("mcp:picture", ('"p"',), shows=("a picture", PICTURE)),
        ),
        ("Echoed and retitled.",),
    ),
    "S14": Scenario((Call("shell", ("rm README.md",), ("denied",)),), ("I need to delete it.",), ends=()),
    "S15": Scenario(
        (
            Call("read", ("src/app.py",), shows=("def greet",)),
            Call("read", ("src/util.py",), shows=("def add",)),
            Call("shell", ("git status --short; sleep 1; echo done",), shows=("done",)),
        ),
        ("Doing three things at once.",),
    ),
    "S16": Scenario(
        (
            READS_APP,
            Call("edit", ("src/app.py", "Good day, ")),
            Call("shell", ("/usr/bin/python3 src/app.py",), shows=("Good day",)),
        ),
        ("First I will read the file.", "Now editing.", "Fixed: it now says *Good day*."),
        ("Let me think. The user wants the greeting fixed", "The string is on line 6.", "Verify.", "All fine."),
    ),
    "S17": Scenario(
        (Call("shell", ("echo tick $i",), ("interrupted", "cancelled", "failed")),),
        ("Starting the slow command.",),
        ends=("cancelled", "failed"),
    ),
    "S18": Scenario(
        (
            Call("shell", ("31mred",), shows=("bold green", "日本語 😀", "مرحبا")),
            Call("write", ("docs/ünïcöde 😀.txt", "café 日本語"), SETTLED),
        ),
        (UNICODE, "Done ✅"),
    ),
    "S19": Scenario(ends=("failed",), error="scripted bad request"),
    "S20": Scenario((Call("read", ("logo.png",), shows=(PICTURE,)),), ("A one-pixel picture.",)),
    "S21": Scenario((Call("ask", ("Which database?",), shows=("SQLite",)),), ("Thanks for the answer.",)),
    "S22": Scenario((Call("plan", ("1. Read",), ("completed", "failed", "denied")),), ("Here is the plan.",)),
    "S23": Scenario((Call("shell", ("for i in 1 2 3",), ("completed", "cancelled")),), ("Background done.",)),
    "S24": Scenario(
        (
            Call("change", ("README.md", "no such text"), ("failed",)),
            Call("none", (), ("failed",)),
        ),
        ("Errors seen.",),
    ),
    "S25": Scenario(
        (Call("change", ("src/util.py", "src/maths.py", "docs/new.md")),), ("Moved, added and deleted.",)
    ),
    "S26": Scenario((Call("title", ("Greeting work",)),), ("Topic set.",)),
    "S27": Scenario(ends=("failed",), error="Overloaded"),
}  # fmt: skip
