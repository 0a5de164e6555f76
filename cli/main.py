"""`tooltap`: the entry point.

`run` and `proxy` start the agent before anything is imported that the agent need not wait for, click included. All else
goes through the table of subcommands.
"""

from __future__ import annotations

import os
import sys

__all__ = ["main"]

COMPLETES = "_TOOLTAP_COMPLETE"
"""Set by shells that ask for completions."""


def main() -> None:
    """The entry point of the console script."""
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    if arguments and arguments[0] in ("run", "proxy") and COMPLETES not in os.environ:
        from tooltap.cli.tap.agent import plain_start, run_agent

        if (start := plain_start(*arguments)) is not None:
            try:
                return run_agent(start)
            except BaseException as error:
                from tooltap.cli.subcommands import exit_code

                return exit_code(error)
    from tooltap.cli.subcommands import run

    return run()
