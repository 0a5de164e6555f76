"""The tools that work on a machine: which functions of the modules beside show them, and their structs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from markupsafe import Markup

from tooltap.daemon.web.cards import display_tools as display
from tooltap.daemon.web.cards import edits, files, search, shell
from tooltap.daemon.web.html.look import Look
from tooltap.protocol.file_tools import BashInput, ChangeResult
from tooltap.protocol.tools import ToolTypes

__all__ = ["MACHINE", "MACHINE_TYPES"]

Show: TypeAlias = Callable[[Any, Look], Markup]

MACHINE: dict[str, tuple[str, Show, Show]] = {
    "Bash": ("❯", shell.shell_input, shell.shell_output),
    "BashOutput": ("❯", shell.follower_input, shell.shell_output),
    "KillShell": ("❯", shell.follower_input, shell.shell_output),
    "write_stdin": ("❯", shell.follower_input, shell.shell_output),
    "Read": ("▤", files.read_input, files.read_output),
    "Write": ("✎", files.write_input, edits.change_output),
    "Edit": ("✎", edits.edit_input, edits.change_output),
    "MultiEdit": ("✎", edits.multi_edit_input, edits.change_output),
    "NotebookEdit": ("✎", files.notebook_input, edits.change_output),
    "Delete": ("✕", edits.delete_input, edits.delete_output),
    "Patch": ("✎", edits.patch_input, edits.patch_output),
    "Diff": ("±", edits.diff_input, edits.diff_output),
    "Glob": ("⌕", search.glob_input, search.glob_output),
    "Grep": ("⌕", search.grep_input, search.grep_output),
    "LS": ("▤", search.ls_input, search.ls_output),
    "CodeSearch": ("⌕", search.code_search_input, search.grep_output),
    "mcp__tooltap__run_and_display": ("❯", shell.shell_input, display.display_output),
    "mcp__tooltap__render_file_contents": ("▤", display.display_file_input, display.display_output),
    "mcp__tooltap__display_image": ("▤", display.display_file_input, display.display_output),
}
"""Canonical name -> icon, renderer of the input, renderer of the output."""

MACHINE_TYPES: dict[str, ToolTypes] = {
    "BashOutput": ToolTypes(shell.FollowerInput, shell.FollowerResult),
    "KillShell": ToolTypes(shell.FollowerInput, shell.FollowerResult),
    "write_stdin": ToolTypes(shell.FollowerInput, shell.FollowerResult),
    "NotebookEdit": ToolTypes(files.NotebookEditInput, ChangeResult),
    "mcp__tooltap__run_and_display": ToolTypes(BashInput, display.DisplayResult),
    "mcp__tooltap__render_file_contents": ToolTypes(display.DisplayFileInput, display.DisplayResult),
    "mcp__tooltap__display_image": ToolTypes(display.DisplayFileInput, display.DisplayResult),
}
"""Structs of those that are not among the 24."""
