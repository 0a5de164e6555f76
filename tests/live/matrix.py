"""What is run: agents that print, the ways in which they are tapped, and the scenarios, with what each means."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from tests.live.agents import AGENTS, BUILDS, CODEX_WAITS, Agent, Place, environment
from tests.live.model import SEARCH, Call, Found, Refusal, Step

KEPT_VARIABLE = "TOOLTAP_LIVE_KEPT"
"""Variable with the folder in which recordings of what the agents print are kept."""
MODEL_SAYS = "It is done."


class Printer(NamedTuple):
    """An agent that gets its prompt on the command line and prints lines of JSON."""

    name: str
    agent: Agent
    words: tuple[str, ...]
    """Of its command line. `PROMPT` stands for the prompt, `AGAIN` for the words that go on with a session, and
    `PERMISSIONS` for those that say what may run."""
    store: tuple[str, str]
    """The variable that names its store to tooltap, and the store's folder below the home folder."""
    resume: tuple[str, ...]
    """Words that go on with the session `SESSION` in a new process."""
    serve: Callable[[Place, list[str]], tuple[str, ...]]
    """Lets the agent start an MCP server, `tooltap`, by this command. Returns words that let its tools run."""
    shows: tuple[Call, ...]
    """The calls that show a file with that server."""
    fork: tuple[str, ...] = ()
    """Words that go on with a copy of it; empty: the agent has none."""
    variables: tuple[tuple[str, str], ...] = ()
    asks_again: bool = True
    """Whether it asks the model again when its quota is used up for the moment (429)."""
    permissions: tuple[str, ...] = ()
    """Words that let the command run."""
    auto: tuple[str, ...] = ()
    """Words of the mode `auto`; empty: the agent has none."""
    script_model: tuple[str, ...] = ()
    """Words that choose a model that calls its tools from scripts; empty: there is none."""

    def permissions_in(self, scenario: str) -> tuple[str, ...]:
        if scenario == "script":
            return (*self.permissions, *self.script_model)
        return {"default": (), "auto": self.auto}.get(scenario, self.permissions)

    def command(self, prompt: str, again: tuple[str, ...], permissions: tuple[str, ...]) -> list[str]:
        stands_for = {"PROMPT": (prompt,), "AGAIN": again, "PERMISSIONS": permissions}
        return [self.agent.command()[0], *(one for word in self.words for one in stands_for.get(word, (word,)))]

    def variables_in(self, scenario: str, place: Place) -> dict[str, str]:
        """Configure the agent, and return the variables of its environment."""
        if scenario == "default":
            return environment(self.agent.unconfigured(), place)
        return {**environment(self.agent, place), **dict(self.variables)}


SHOWN = "shown.txt"
_SHOW, _SHOWS = "render_file_contents", {"path": SHOWN}


def _serve_claude(_: Place, command: list[str]) -> tuple[str, ...]:
    servers = {"mcpServers": {"tooltap": {"command": command[0], "args": command[1:]}}}
    return ("--strict-mcp-config", "--mcp-config", json.dumps(servers), "--allowedTools", f"mcp__tooltap__{_SHOW}")


def _serve_codex(place: Place, command: list[str]) -> tuple[str, ...]:
    server = (f"command = {json.dumps(command[0])}", f"args = {json.dumps(command[1:])}", "required = true")
    configured = (place.home / ".codex/config.toml").read_text()
    place.write(".codex/config.toml", "\n".join((configured, "[mcp_servers.tooltap]", *server, "")))
    return ("-s", "danger-full-access")


def _serve_gemini(place: Place, command: list[str]) -> tuple[str, ...]:
    return _serve_by_settings(place, ".gemini/settings.json", command)


def _serve_qwen(place: Place, command: list[str]) -> tuple[str, ...]:
    return _serve_by_settings(place, ".qwen/settings.json", command)


def _serve_by_settings(place: Place, path: str, command: list[str]) -> tuple[str, ...]:
    place.change(path, mcpServers={"tooltap": {"command": command[0], "args": command[1:]}})
    return ("--approval-mode", "yolo")


def _serve_opencode(place: Place, command: list[str]) -> tuple[str, ...]:
    place.change(".config/opencode/opencode.json", mcp={"tooltap": {"type": "local", "command": command}})
    return ()


_TYPED = Call(
    "write_stdin", {"session_id": Found(r"(?<=session ID )\d+", number=True), "chars": "one\n", **CODEX_WAITS}
)
"""What the model types into Codex' running command."""
SCRIPT_MODEL = "gpt-6.2-sol"
"""A model to which Codex (0.171.0) offers its tools for scripts only."""


def _script_of_codex(call: Call) -> Call:
    waits, arguments = f"// @exec: {json.dumps(CODEX_WAITS)}", json.dumps(call.arguments)
    return Call("exec", f"{waits}\nconst r = await tools.{call.tool}({arguments}); text(r.output);")


PRINTERS = {
    "claude": Printer(
        "Claude Code, `-p`",
        AGENTS["claude"],
        ("-p", "PROMPT", "AGAIN", "--output-format", "stream-json", "--verbose", "PERMISSIONS"),
        ("CLAUDE_CONFIG_DIR", ".claude"),
        ("--resume", "SESSION"),
        fork=("--resume", "SESSION", "--fork-session"),
        permissions=("--strict-mcp-config", "--permission-mode", "default", "--allowedTools", "Bash"),
        auto=("--strict-mcp-config", "--permission-mode", "auto"),
        serve=_serve_claude,
        shows=(Call(f"mcp__tooltap__{_SHOW}", _SHOWS),),
    ),
    "codex": Printer(
        "Codex, `exec`",
        AGENTS["codex"],
        ("exec", "--json", "--skip-git-repo-check", "PERMISSIONS", "AGAIN", "PROMPT"),
        ("CODEX_HOME", ".codex"),
        ("resume", "SESSION"),
        fork=("fork", "SESSION"),
        permissions=("-s", "danger-full-access"),
        script_model=("-m", SCRIPT_MODEL),
        serve=_serve_codex,
        shows=(Call(SEARCH, {"query": _SHOW, "limit": 8}), Call(_SHOW, _SHOWS, "mcp__tooltap")),
        asks_again=False,
    ),
    "gemini": Printer(
        "Gemini CLI, `-p`",
        AGENTS["gemini"],
        ("-p", "PROMPT", "AGAIN", "--output-format", "stream-json", "PERMISSIONS"),
        ("GEMINI_CLI_HOME", ""),
        ("--resume", "SESSION"),
        permissions=("--approval-mode", "yolo"),
        serve=_serve_gemini,
        shows=(Call(f"mcp_tooltap_{_SHOW}", _SHOWS),),
    ),
    "opencode": Printer(
        "OpenCode, `run`",
        AGENTS["opencode"],
        ("run", "--format", "json", "AGAIN", "PROMPT"),
        ("XDG_DATA_HOME", ""),
        ("--session", "SESSION"),
        fork=("--session", "SESSION", "--fork"),
        variables=(("OPENCODE_CONFIG_CONTENT", json.dumps({"permission": {"bash": "allow"}})),),
        serve=_serve_opencode,
        shows=(Call(f"tooltap_{_SHOW}", _SHOWS),),
    ),
    "qwen": Printer(
        "Qwen Code, `-p`",
        AGENTS["qwen"],
        ("-p", "PROMPT", "AGAIN", "--output-format", "stream-json", "PERMISSIONS"),
        ("QWEN_HOME", ".qwen"),
        ("--resume", "SESSION"),
        permissions=("--approval-mode", "yolo"),
        serve=_serve_qwen,
        shows=(Call(f"mcp__tooltap__{_SHOW}", _SHOWS),),
    ),
}


class Way(NamedTuple):
    """How an agent is tapped."""

    what: str
    run: bool = False
    """By `tooltap run`."""
    follow: bool = False
    """By the daemon, in what the agent stores."""
    daemon: Literal["there", "absent", "killed"] = "there"
    """`absent`: started when the agent has ended; `killed`: in the middle, with SIGKILL, and started again."""
    gateway: bool = False
    """By `tooltap gateway`, between the agent and its model."""
    clients: Mapping[str, str] = {}
    """Agent -> key in `AGENTS` of what a scripted client or person starts, in place of a prompt on the command line."""
    lacks: str = ""
    """Why an agent that is not in `clients` cannot be tapped in this way."""


_ACP = {"claude-agent-acp": "claude-agent-acp", "gemini": "gemini", "opencode": "opencode-acp", "qwen": "qwen"}
_NO_CLIENT = "No client talks to this agent in a protocol that `proxy` is for; Claude Agent, ACP, has its own table."
_NO_SERVER = "The agent has no server that `attach` can join."
WAYS = {
    "run": Way("`tooltap run`, beside a daemon", run=True),
    "absent": Way("`tooltap run`; the daemon is started when the agent has ended", run=True, daemon="absent"),
    "killed": Way("`tooltap run`; the daemon is killed in mid-command, and started again", run=True, daemon="killed"),
    "follow": Way("`tooltap serve --follow`; nothing else", run=False, follow=True),
    "both": Way("`tooltap run` and `--follow`: one session, once", run=True, follow=True),
    "both-killed": Way("the same; the daemon is killed in mid-command, and started again", True, True, "killed"),
    "gateway": Way("`tooltap gateway` between the agent and its model", gateway=True),
    "gateway-killed": Way(
        "the same; the daemon is killed in mid-command, and started again", gateway=True, daemon="killed"
    ),
    "mcp": Way("`tooltap mcp`, as a server of the agent, and `tooltap run`", run=True),
    "proxy": Way(
        "`tooltap proxy` between the agent and its client, which answers (ACP; Codex: its app-server)",
        clients={**_ACP, "codex": "codex"},
        lacks=_NO_CLIENT,
    ),
    "proxy-killed": Way(
        "the same; the daemon is killed in mid-command, and started again",
        daemon="killed",
        clients={**_ACP, "codex": "codex"},
        lacks=_NO_CLIENT,
    ),
    "answers": Way(
        "`tooltap proxy --answers`, Claude Code: `run --answers`; a client of the daemon answers",
        clients={**_ACP, "codex": "codex", "claude": "claude"},
    ),
    "attach": Way(
        "`tooltap attach` to OpenCode's server, and to Codex in a terminal; a client of the daemon answers",
        clients={"opencode": "opencode", "codex": "codex-terminal"},
        lacks=_NO_SERVER,
    ),
    "hooks": Way(
        "`tooltap hooks install`, and Claude Code in a terminal; a client of the daemon answers",
        clients={"claude": "claude-terminal"},
        lacks="The agent has no dialog of its own that stays usable while a hook waits.",
    ),
    "stored": Way(
        "`tooltap ingest --acp`, twice, when the agent has ended",
        clients={one: _ACP[one] for one in ("claude-agent-acp", "opencode", "qwen")},
        lacks="The agent lists no sessions over ACP.",
    ),
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
    """Whether the agent gets SIGINT while the command runs, or its client interrupts it."""
    again: Literal["", "resume", "fork"] = ""
    """How a second process goes on."""
    outcome: Literal["", "allowed", "denied"] = ""
    """How the question is answered, if the scenario is about that."""
    steers: bool = False
    """Whether a client of the daemon sends a prompt while the command runs."""
    shows: bool = False
    """Whether the model calls a display tool."""
    rewinds: bool = False
    """Whether the client takes the turn back, and prompts again."""
    script: bool = False
    """Whether a script calls the shell."""
    types: bool = False
    """Whether the model types what the command reads."""

    def steps(self, agent: Agent) -> list[Step]:
        if self.script:
            return [_script_of_codex(agent.shell(self.waits)), MODEL_SAYS]
        calls: list[Call] = [agent.shell(self.waits)] if self.command else []
        if self.types:
            calls = [calls[0].with_arguments(tty=True, yield_time_ms=1_000), _TYPED]
        return [*self.refusals, *calls, MODEL_SAYS]

    @property
    def waits(self) -> str:
        return f"touch runs; until test -e go; do sleep 0.05; done; {self.command}"

    def steps_of(self, printer: Printer) -> list[Step]:
        if self.shows:
            return [*printer.shows, MODEL_SAYS]
        return self.steps(printer.agent)


TWICE: Any = {"says": (MODEL_SAYS,) * 2, "ends": ("completed",) * 2}
SCENARIOS = {
    "text": Scenario("the model says a text"),
    "default": Scenario("the same; the agent has no configuration but which model there is, its address and a key"),
    "shell": Scenario("the model runs a command, and says a text", "echo one"),
    "script": Scenario("the model runs a script, which calls the shell", "echo one", script=True),
    "auto": Scenario("the same, in Claude Code's mode `auto`, which asks nobody", "echo one"),
    "fails": Scenario("the command fails", "echo some; exit 3", status=("failed",)),
    "refused": Scenario("the model's server refuses", refusals=(Refusal(400, 1_000),), says=(), ends=("failed",)),
    "quota": Scenario("the model's server says once that the quota is used up (429)", refusals=(Refusal(429, 1),)),
    "sigint": Scenario(
        "the agent gets SIGINT in mid-command; where it has a client, an interrupt",
        "echo one",
        status=("cancelled", "interrupted"),
        says=(),
        ends=("cancelled",),
        interrupted=True,
    ),
    "resume": Scenario("a new process goes on with the session", "echo one", again="resume", **TWICE),
    "fork": Scenario("a new process goes on with a copy of the session", "echo one", again="fork", **TWICE),
    "rewind": Scenario("the client takes the turn back, and prompts again", "echo one", rewinds=True, **TWICE),
    "types": Scenario("the model types into a command that waits for it", "read line; echo $line", types=True),
    "allowed": Scenario("the agent asks before the command, which is allowed", "echo one", outcome="allowed"),
    "denied": Scenario(
        "the agent asks before the command, which is denied", "echo one", status=("denied",), outcome="denied"
    ),
    "shows": Scenario("the model shows a file with a display tool, and says a text", shows=True),
    "steer": Scenario("a client of the daemon sends a prompt in mid-command", "echo one", steers=True),
}


def meaning(agent: str, scenario: str) -> Scenario:
    """Return what a scenario means for an agent."""
    meant = SCENARIOS[scenario]
    if scenario == "quota" and agent in PRINTERS and not PRINTERS[agent].asks_again:
        return meant._replace(says=(), ends=("failed",))
    return meant


STOPS_WHEN_DENIED = ("opencode", "qwen")
"""Agents that end the turn when a call is denied, and do not ask their model again."""
OWN_TURNS = ("opencode",)
"""Agents that answer a prompt in mid-turn together with the one before, each in a turn of its own."""
BY_THE_MINUTE = ("gemini",)
"""Agents that name the file of a session by the minute: loaded in the minute in which it began, it is begun anew."""
EXPLAINED = {
    "gemini/follow/sigint": "Gemini CLI stores no end of an interrupted turn, which goes on for tooltap.",
    "opencode/follow/sigint": "OpenCode stores no end of an interrupted turn, which goes on for tooltap.",
    "qwen/follow/sigint": "Qwen Code stores no end of an interrupted turn, which goes on for tooltap.",
    "gemini/(run|absent|killed|both|both-killed|proxy|proxy-killed)/fails": "Gemini CLI prints `success`, or over ACP "
    "`completed`, and no exit code, for a command that fails and has printed something: it reads `completed`.",
    "qwen/(gateway|gateway-killed)/resume": "Qwen Code names no session to its model, and changes the first prompt of "
    "one that it resumes: its model, and so the gateway, sees another conversation.",
    "qwen/gateway/default": "Unless it is configured otherwise, Qwen Code asks its model after the answer what to "
    "remember, and repeats the conversation for that: for the gateway it is another prompt.",
    "claude-agent-acp/(proxy|stored)/refused": "Claude Agent says in a message of the model that the server refuses.",
    "claude-agent-acp/stored/fork": "What Claude Agent repeats of a copy has the copied turns, too, and nothing that "
    "says which they are: they are there twice.",
    "opencode/stored/fork": "What OpenCode repeats of a copy has the copied turns, too, and nothing that says "
    "which they are: they are there twice.",
    "opencode/stored/refused": "When OpenCode loads a session, it repeats nothing of a request that was refused: its "
    "turn has no answer, and reads `cancelled`.",
    "qwen/stored/refused": "When Qwen Code loads a session, it repeats nothing of a request that was refused: its turn "
    "has no answer, and reads `cancelled`.",
    "claude/gateway/refused": "Claude Code repeats a request that is refused twice, each time with fewer of the API's "
    "beta features: for the gateway, each is a turn.",
    "opencode/(gateway|gateway-killed)/fails": "OpenCode tells its model no exit code of a command: it reads "
    "`completed`.",
}
"""Pattern of `agent/way/scenario` -> why these cells are red."""


NAMES = {**{key: one.name for key, one in PRINTERS.items()}, "claude-agent-acp": AGENTS["claude-agent-acp"].name}
"""All agents of the matrix."""


_NOTHING_ELSE = "The server shows what the model wants to show, and no more."
_ONLY_MCP = "The way `mcp` has it."
_NO_MODE = "The agent has no such mode."
_NO_SCRIPTS = "The agent runs no scripts that call tools."
_NO_TYPING = "The agent has no tool that types into a running command."
_COPIES = ("claude-agent-acp", "codex", "codex-terminal", "opencode", "opencode-acp")
"""Keys in `AGENTS` of those whose client, or person, can go on with a copy of a session."""


def version(agent: str) -> str:
    """The version of an agent's build."""
    return BUILDS[AGENTS[agent].build].version


def impossible(agent: str, way: str, scenario: str) -> str:
    """Return why there can be no such run, or nothing."""
    tapped, meant = WAYS[way], SCENARIOS[scenario]
    if tapped.clients:
        return (tapped.lacks if agent not in tapped.clients else "") or _impossible_for_client(agent, way, scenario)
    if agent not in PRINTERS:
        return "The agent does not take a prompt on its command line, but from its client."
    if (way == "mcp") != meant.shows:
        return _NOTHING_ELSE if way == "mcp" else _ONLY_MCP
    if tapped.daemon == "killed" and not meant.command:
        return "The daemon is killed in mid-command, and there is none."
    if meant.again == "fork" and not PRINTERS[agent].fork:
        return "The agent has no option that copies a session."
    if meant.outcome or meant.steers:
        return "An agent that has its prompt on the command line asks nobody, and takes no other."
    if scenario == "auto" and not PRINTERS[agent].auto:
        return _NO_MODE
    if meant.script and not PRINTERS[agent].script_model:
        return _NO_SCRIPTS
    if meant.types and agent != "codex":
        return _NO_TYPING
    if meant.rewinds:
        return "The agent's command line states no option that takes a turn back."
    if tapped.gateway and meant.interrupted:
        return "The agent asks its model no more, so the gateway cannot see what becomes of the call."
    return ""


def _impossible_for_client(agent: str, way: str, scenario: str) -> str:
    tapped, meant = WAYS[way], SCENARIOS[scenario]
    started_as = tapped.clients[agent]
    speaks = AGENTS[started_as].speaks
    if meant.shows:
        return _ONLY_MCP
    if way == "hooks" and not meant.outcome:
        return "A hook tells what the agent asks, and no more."
    if way == "answers" and not (meant.outcome or meant.steers):
        return "Nothing but answers and prompts differs from `proxy`, or for Claude Code from `run`."
    if way == "stored" and meant.outcome:
        return "What was answered is not stored."
    if tapped.daemon == "killed" and not meant.command:
        return "The daemon is killed in mid-command, and there is none."
    if meant.steers and (speaks == "acp" or way not in ("answers", "attach")):
        return "ACP has no prompt in mid-turn." if speaks == "acp" else "The way `answers` has it."
    if (meant.script or meant.types) and agent != "codex":
        return _NO_SCRIPTS if meant.script else _NO_TYPING
    if meant.rewinds and speaks not in ("codex", "codex-terminal", "opencode"):
        return "ACP has no request that takes a turn back."
    if meant.again == "fork" and started_as not in _COPIES:
        return "The agent's protocol has no request that copies a session."
    if scenario == "auto" and started_as != "claude-agent-acp":
        return _NO_MODE
    if scenario == "default" and AGENTS[started_as].default is None:
        return "In a terminal that it does not know, the agent asks a person questions first."
    return ""


def cells() -> list[tuple[str, str, str]]:
    """All (agent, way, scenario) that there can be."""
    return [
        (agent, way, scenario)
        for agent in NAMES
        for way in WAYS
        for scenario in SCENARIOS
        if not impossible(agent, way, scenario)
    ]
