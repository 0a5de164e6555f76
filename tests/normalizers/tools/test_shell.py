"""Bash: inputs and results of all providers."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.normalizers.tools.registry import tool_input, tool_output


@pytest.mark.parametrize(
    ("wrapped", "command"),
    [
        ("""/bin/bash -lc "sed -n '1,200p' src/app.py\"""", "sed -n '1,200p' src/app.py"),
        ("/bin/bash -lc 'git status --short; sleep 1; echo done'", "git status --short; sleep 1; echo done"),
        ("/bin/zsh -lc ls", "ls"),
        ("/usr/bin/sh -c 'ls'", "ls"),
        (r'/bin/bash -lc "echo \$HOME \`date\` \"x\" \\n"', r'echo $HOME `date` "x" \n'),
        ("""/bin/bash -lc 'echo '"'"'a b'"'"' c'""", "echo 'a b' c"),
        ("/bin/bash -lc 'cat <<EOF\na\n\nEOF\n'", "cat <<EOF\na\n\nEOF\n"),
        (r"/bin/bash -lc echo\ \'a", "echo 'a"),
        ("/bin/bash -lc ''", ""),
        ("powershell.exe -Command 'Get-Item .'", "Get-Item ."),
        (r"'C:\Program Files\PowerShell\7\pwsh.exe' -NoProfile -Command 'Get-Item C:\a'", r"Get-Item C:\a"),
        (r"C:\Windows\System32\cmd.exe /c 'dir \\host\a'", r"dir \\host\a"),
        ("pwsh -Command '[Console]::OutputEncoding=[System.Text.Encoding]::UTF8;\nls'", "ls"),
        ("bash -lc ls", "ls"),  # codex exec of September 2025
        ("bash -lc 'cat test.js'", "cat test.js"),
        # not a wrapper:
        ("bash -c 'ls'", "bash -c 'ls'"),
        ("sh -lc 'ls'", "sh -lc 'ls'"),
        ("bash -lc ls && rm x", "bash -lc ls && rm x"),
        ("powershell.exe -File a.ps1", "powershell.exe -File a.ps1"),
        ("cmd /k dir", "cmd /k dir"),
        ("", ""),
        (" ", " "),
        ("bash build.sh -lc", "bash build.sh -lc"),
        ("bash -c 'ls' && rm x", "bash -c 'ls' && rm x"),
        ("bash -c 'echo $0' name", "bash -c 'echo $0' name"),
        ("cd /bin; bash -lc ls", "cd /bin; bash -lc ls"),
        ("mybash -c ls", "mybash -c ls"),
        ("bash -c 'ls", "bash -c 'ls"),
        ("  ls  ", "  ls  "),
    ],
)
def test_command_is_unwrapped(wrapped: str, command: str) -> None:
    assert tool_input("Bash", {"command": wrapped}, "command_execution")["command"] == command


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"command": ["/bin/bash", "-lc", "echo a  b"]}, "echo a  b"),
        ({"command": ["bash", "-c", "ls 'a b'"]}, "ls 'a b'"),
        ({"command": ["powershell.exe", "-NoLogo", "-NonInteractive", "-Command", "Get-ChildItem"]}, "Get-ChildItem"),
        ({"command": ["pwsh", "-noprofile", "-ExecutionPolicy", "Bypass", "-c", "ls"]}, "ls"),
        ({"command": ["CMD.EXE", "/d", "/s", "/c", "dir"]}, "dir"),
        ({"command": ["powershell.exe", "-File", "a.ps1"]}, "powershell.exe -File a.ps1"),
        ({"command": ["git", "commit", "-m", "two words"]}, "git commit -m 'two words'"),
        ({"command": ["bash", "-lc", "echo $1", "name", "x y"]}, "bash -lc 'echo $1' name 'x y'"),
        ({"cmd": "ls src", "yield_time_ms": 1000}, "ls src"),
        ({"command": None, "argv": ["ls", "-la"]}, "ls -la"),
        ({"items": ["ls", "-la"]}, "ls -la"),
        ("ls src", "ls src"),
    ],
)
def test_command_is_one_string(value: Any, expected: str) -> None:
    assert tool_input("Bash", value, "shell")["command"] == expected


def test_batch_is_one_command_and_a_list() -> None:
    """Cline 3.0.65: `run_commands`."""
    commands = ["git status --short; sleep 1; echo done", "/bin/bash -lc 'echo second'"]

    assert tool_input("Bash", {"commands": commands}, "run_commands") == {
        "commands": commands,
        "command": "git status --short; sleep 1; echo done\n/bin/bash -lc 'echo second'",
    }


@pytest.mark.parametrize("command", ["bash -c ls", "/bin/bash -c ls", "pwsh -Command ls", "cmd /c dir"])
def test_only_codex_wraps_commands(command: str) -> None:
    assert tool_input("Bash", {"command": command}, "Bash")["command"] == command


def test_login_shell_is_codexs_under_any_name() -> None:
    """codex-acp 0.16 names no tool in a request for permission."""
    assert tool_input("Bash", {"command": "/bin/bash -lc 'rm README.md'"}, "execute")["command"] == "rm README.md"


def test_unknown_input_keys_are_retained() -> None:
    value = {"command": "ls", "description": "List", "timeout": 120000, "run_in_background": True, "workdir": "/tmp/ws"}

    assert tool_input("Bash", value, "Bash") == {**value, "cwd": "/tmp/ws"}


@pytest.mark.parametrize("command", [[], ["ls", 1], 3, "", {"a": 1}])
def test_invalid_command_stays_unchanged(command: Any) -> None:
    assert tool_input("Bash", {"command": command}, "Bash") == {"command": command}


CLAUDE = {"stdout": "waited", "stderr": "", "interrupted": False, "isImage": False}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\nb\n", {"stdout": "a\nb\n"}),
        ("", {"stdout": ""}),
        ([{"type": "text", "text": "done\n"}], {"stdout": "done\n"}),
        ({**CLAUDE, "content": "waited"}, CLAUDE),
        ({"stdout": "", "stderr": "boom\n", "content": "boom"}, {"stdout": "", "stderr": "boom\n"}),
        ({"stdout": "", "stderr": "boom\n", "aggregated_output": "boom\n"}, {"stdout": "", "stderr": "boom\n"}),
        ({"stdout": "", "stderr": "", "aggregated_output": "x\n"}, {"stdout": "x\n", "stderr": ""}),
        ({"aggregated_output": "x\n", "exit_code": 0}, {"stdout": "x\n", "exit_code": 0}),
        ({"aggregated_output": "", "exit_code": None}, {"stdout": ""}),
        ({"output": "x\n", "metadata": {"exit": 3}}, {"stdout": "x\n", "exit_code": 3}),
        ({"output": "x\n", "metadata": {"exit": None}}, {"stdout": "x\n"}),
        ({"output": "x\n", "metadata": {"exit_code": 0, "duration_seconds": 0.1}}, {"stdout": "x\n", "exit_code": 0}),
        ({"stdout": "x", "exitCode": 2}, {"stdout": "x", "exit_code": 2}),
        ({"stdout": "x", "exit_code": -9}, {"stdout": "x", "exit_code": -9}),
        ("<output>a</output>", {"stdout": "<output>a</output>"}),  # Auggie's alone means something else
        (None, {}),
    ],
)
def test_command_output(value: Any, expected: dict[str, Any]) -> None:
    output = tool_output("Bash", value, "Bash")

    found = {key: output.get(key) for key in ("stdout", "stderr", "exit_code")}
    assert found == {key: expected.get(key) for key in found}


def test_result_keys_are_retained_without_repeated_text() -> None:
    assert tool_output("Bash", {**CLAUDE, "content": "waited"}, "Bash") == CLAUDE


def test_boolean_is_not_an_exit_code() -> None:
    assert tool_output("Bash", {"stdout": "", "exitCode": True}, "Bash") == {"stdout": "", "exitCode": True}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"stdout": "a", "stderr": "warning: x\n", "exit_code": 0}, None),
        ({"stdout": "a", "stderr": "warning: x\n"}, None),
        ({"stdout": "a", "stderr": "boom\n", "exit_code": 3}, "boom"),
        ({"stdout": "boom", "exit_code": 3}, None),
        ({"error": "no approval"}, "no approval"),
        ({"error": {"message": "Path does not exist", "code": "failure"}}, "Path does not exist"),
        ({"error": {"code": 3}}, '{"code":3}'),
        ({"error": "", "stderr": ""}, None),
        ({"error": "x", "message": "x"}, "x"),
        ({"is_error": True, "message": "killed"}, "killed"),
        ({"status": "failed", "text": "timed out"}, "timed out"),
        ({"errorMessage": "mine", "error": "other"}, "mine"),
    ],
)
def test_failure_message(value: dict[str, Any], message: str | None) -> None:
    assert tool_output("Bash", value, "Bash").get("errorMessage") == message


def test_exit_code_as_a_text() -> None:
    assert tool_output("Bash", {"stdout": "", "exitCode": "3", "returncode": "x"}, "shell")["exit_code"] == 3
    assert tool_output("Bash", {"stdout": "", "exit_code": "none"}, "shell")["exit_code"] == "none"


def test_shell_without_a_path_is_the_models_own_in_other_tools() -> None:
    assert tool_input("Bash", {"command": "bash -lc 'ls'"}, "exec_command")["command"] == "bash -lc 'ls'"
