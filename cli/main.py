"""`tooltap`: the entry point.

`run` and `proxy` start the agent before anything is imported that the agent need not wait for, click included; and an
agent waits for `hook`. All else goes through the table of subcommands.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

from tooltap.cli.common import COMPLETION_VARIABLE

STARTING = 200_000
"""Allocations before the first garbage collection: more than the imports of any command make."""


def main() -> None:
    """The entry point of the console script."""
    _collect_late()
    arguments = sys.argv[1:]
    if arguments[:1] == ["hook"] and not any(one.startswith("-") for one in arguments):
        from tooltap.daemon.taps.hooks.run import run_hook

        sys.exit(run_hook(*arguments[1:]))
    from tooltap.cli.common.guard import guard  # it takes as long as the whole of a hook

    guard()
    code = _run(arguments)
    if code < 0:
        _die_of(-code)
    sys.exit(code)


def _die_of(number: int) -> None:
    """End by the signal that ended the agent, so that a parent sees the same as without tooltap. There is no memory
    dump: the agent has left its own."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)


def _collect_late() -> None:
    """Defer garbage collection past the imports, which leave no garbage, and exempt all objects from it at exit
    (`gc.freeze`)."""
    usual = gc.get_threshold()

    def collected(phase: str, _: object) -> None:
        if phase == "stop":
            gc.callbacks.remove(collected)
            gc.set_threshold(*usual)

    gc.callbacks.append(collected)
    gc.set_threshold(STARTING)
    atexit.register(gc.freeze)


def _run(arguments: list[str]) -> int:
    """Return the exit code; minus the number of a signal if `run` or `proxy` shall end by it, as its agent did."""
    if COMPLETION_VARIABLE in os.environ:
        import tooltap.cli.common.completion  # noqa: F401  # click uses them from now on
    elif arguments and arguments[0] in ("run", "proxy"):
        from tooltap.cli.tap.agent import plain_start, run_agent

        if (start := plain_start(*arguments)) is not None:
            try:
                return run_agent(start)
            except BaseException as error:
                from tooltap.cli.subcommands import exit_code

                return exit_code(error)
    from tooltap.cli.subcommands import run

    return run()
