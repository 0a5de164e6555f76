"""What is run: agents that print, the ways in which they are tapped, and the scenarios, with what each means."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

from tests.live.agents import AGENTS, Agent
from tests.live.model import Call, Refusal, Step

KEPT_VARIABLE = "TOOLTAP_LIVE_KEPT"
"""Variable with the folder in which recordings of what the agents print are kept."""
MODEL_SAYS = "It is done."


class Printer(NamedTuple):
    """An agent that gets its prompt on the command line and prints lines of JSON."""

    name: str
    agent: Agent
    words: tuple[str, ...]
    """Of its command line. `PROMPT` stands for the prompt, `AGAIN` for the words that go on with a session."""
    store: tuple[str, str]
    """The variable that names its store to tooltap, and the store's folder below the home folder."""
    resume: tuple[str, ...]
    """Words that go on with the session `SESSION` in a new process."""
    fork: tuple[str, ...] = ()
    """Words that go on with a copy of it; empty: the agent has none."""
    variables: tuple[tuple[str, str], ...] = ()
    asks_again: bool = True
    """Whether it asks the model again when its quota is used up for the moment (429)."""

    def command(self, prompt: str, again: tuple[str, ...] = ()) -> list[str]:
        words = [one for word in self.words for one in (again if word == "AGAIN" else (word,))]
        return [self.agent.command()[0], *(prompt if word == "PROMPT" else word for word in words)]


PRINTERS = {
    "claude": Printer(
        "Claude Code, `-p`",
        AGENTS["claude"],
        (
            *("-p", "PROMPT", "AGAIN", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"),
            *("--permission-mode", "default", "--allowedTools", "Bash"),
        ),
        ("CLAUDE_CONFIG_DIR", ".claude"),
        ("--resume", "SESSION"),
        ("--resume", "SESSION", "--fork-session"),
    ),
    "codex": Printer(
        "Codex, `exec`",
        AGENTS["codex"],
        ("exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", "AGAIN", "PROMPT"),
        ("CODEX_HOME", ".codex"),
        ("resume", "SESSION"),
        asks_again=False,
    ),
    "gemini": Printer(
        "Gemini CLI, `-p`",
        AGENTS["gemini"],
        ("-p", "PROMPT", "AGAIN", "--output-format", "stream-json", "--approval-mode", "yolo"),
        ("GEMINI_CLI_HOME", ""),
        ("--resume", "SESSION"),
    ),
    "opencode": Printer(
        "OpenCode, `run`",
        AGENTS["opencode"],
        ("run", "--format", "json", "AGAIN", "PROMPT"),
        ("XDG_DATA_HOME", ""),
        ("--session", "SESSION"),
        ("--session", "SESSION", "--fork"),
        (("OPENCODE_CONFIG_CONTENT", json.dumps({"permission": {"bash": "allow"}})),),
    ),
    "qwen": Printer(
        "Qwen Code, `-p`",
        AGENTS["qwen"],
        ("-p", "PROMPT", "AGAIN", "--output-format", "stream-json", "--approval-mode", "yolo"),
        ("QWEN_HOME", ".qwen"),
        ("--resume", "SESSION"),
    ),
}


class Way(NamedTuple):
    """How an agent is tapped."""

    what: str
    run: bool
    """By `tooltap run`."""
    follow: bool = False
    """By the daemon, in what the agent stores."""
    daemon: Literal["there", "absent", "killed"] = "there"
    """`absent`: started when the agent has ended; `killed`: in the middle, with SIGKILL, and started again."""


WAYS = {
    "run": Way("`tooltap run`, beside a daemon", run=True),
    "absent": Way("`tooltap run`; the daemon is started when the agent has ended", run=True, daemon="absent"),
    "killed": Way("`tooltap run`; the daemon is killed in mid-command, and started again", run=True, daemon="killed"),
    "follow": Way("`tooltap serve --follow`; nothing else", run=False, follow=True),
    "both": Way("`tooltap run` and `--follow`: one session, once", run=True, follow=True),
    "both-killed": Way("the same; the daemon is killed in mid-command, and started again", True, True, "killed"),
}


class Scenario(NamedTuple):
    what: str
    command: str = ""
    """The shell command that the model calls first; it makes `runs` when it begins, and waits for `go`."""
    refusals: tuple[Refusal, ...] = ()
    """What the model's server says first."""
    status: tuple[str, ...] = ("completed",)
    """Of the call, one of these."""
    says: tuple[str, ...] = (MODEL_SAYS,)
    ends: tuple[str, ...] = ("completed",)
    """How each turn ends."""
    interrupted: bool = False
    """Whether the agent gets SIGINT while the command runs."""
    again: Literal["", "resume", "fork"] = ""
    """How a second process goes on."""

    def steps(self, agent: Agent) -> list[Step]:
        waits = f"touch runs; until test -e go; do sleep 0.05; done; {self.command}"
        call: list[Call] = [agent.shell(waits)] if self.command else []
        return [*self.refusals, *call, MODEL_SAYS]


TWICE: Any = {"says": (MODEL_SAYS,) * 2, "ends": ("completed",) * 2}
SCENARIOS = {
    "text": Scenario("the model says a text"),
    "shell": Scenario("the model runs a command, and says a text", "echo one"),
    "fails": Scenario("the command fails", "echo some; exit 3", status=("failed",)),
    "refused": Scenario("the model's server refuses", refusals=(Refusal(400, 1_000),), says=(), ends=("failed",)),
    "quota": Scenario("the model's server says once that the quota is used up (429)", refusals=(Refusal(429, 1),)),
    "sigint": Scenario(
        "the agent gets SIGINT in mid-command",
        "echo one",
        status=("cancelled", "interrupted"),
        says=(),
        ends=("cancelled",),
        interrupted=True,
    ),
    "resume": Scenario("a new process goes on with the session", "echo one", again="resume", **TWICE),
    "fork": Scenario("a new process goes on with a copy of the session", "echo one", again="fork", **TWICE),
}
EXPLAINED = {
    "gemini/follow/sigint": "Gemini CLI stores no end of an interrupted turn, which goes on for tooltap.",
    "claude/.*/sigint": "Claude Code says of the interrupted call that the user has rejected it: it reads `denied`.",
    "opencode/both/sigint": "OpenCode prints a call with its result, so the interrupted one is only in what it stores, "
    "and of that, a session that is tapped as well takes no calls.",
    "gemini/(run|absent|killed)/fails": "Gemini CLI prints `success` for a command that fails: it reads `completed`.",
}
"""Pattern of `agent/way/scenario` -> why these cells are red."""


def impossible(agent: str, way: str, scenario: str) -> str:
    """Return why there can be no such run, or nothing."""
    meant = SCENARIOS[scenario]
    if WAYS[way].daemon == "killed" and not meant.command:
        return "The daemon is killed in mid-command, and there is none."
    if meant.again == "fork" and not PRINTERS[agent].fork:
        return "The agent has no option that copies a session."
    return ""


def cells() -> list[tuple[str, str, str]]:
    """All (agent, way, scenario) that there can be."""
    return [
        (agent, way, scenario)
        for agent in PRINTERS
        for way in WAYS
        for scenario in SCENARIOS
        if not impossible(agent, way, scenario)
    ]
