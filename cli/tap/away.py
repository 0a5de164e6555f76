"""`tooltap away`: says that the user is away, so that hooks may hide agents' dialogs."""

from __future__ import annotations

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.printing import say


@click.command("away", cls=Command, examples=("tooltap away", "tooltap away --wait 300", "tooltap away --off"))
@click.option("--off", is_flag=True, help="You are back.")
@click.option("--status", is_flag=True, help="Only say whether you are away.")
@click.option(
    "--wait",
    type=click.IntRange(1, 600),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="For how long a question waits for an answer from elsewhere, before the agent's own dialog appears.",
)
def command(off: bool, status: bool, wait: int) -> None:
    """Say that you are away: then hooks wait for answers from elsewhere also where they hide the agent's dialog.

    Codex, Copilot and Qwen Code show no dialog while their hook runs, and `claude -p` has none. As long as you are
    away, their questions wait for an answer from the page or `tooltap answer`; without one, the agent goes on as
    without a hook. In Claude Code's dialog you can answer at any time, so this makes no difference there.
    """
    import os
    from pathlib import Path

    from tooltap.daemon.system.paths import away_file
    from tooltap.traces.recording.own_file import private_folder
    from tooltap.traces.recording.whole_file import write_whole

    file = Path(away_file())
    if off:
        file.unlink(missing_ok=True)
    elif not status:
        private_folder(os.fspath(file.parent))
        write_whole(file, f"{wait}\n")
    if file.exists():
        say(f"you are away: hooks that hide a dialog wait {file.read_text().strip()} s for an answer")
    else:
        say("you are not away: hooks do not hide dialogs")
