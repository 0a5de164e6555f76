"""With `TOOLTAP_NO_SKIP` set, a skipped test is a failure: where everything is installed, every test must run.

Hypothesis generates the same examples in every run, so that failures can be repeated; `make lab-nonsense`
generates others.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator

import pytest
import structlog
from hypothesis import settings

from tests.markers import ProcessGuard, mark
from tests.programs import need_programs_of, undeclared

pytest_plugins = ["tests.leaks"]

# The spool folder of the agents and daemons that tests start.
os.environ["TOOLTAP_SPOOL"] = tempfile.mkdtemp(prefix="tooltap-spool-")
atexit.register(shutil.rmtree, os.environ["TOOLTAP_SPOOL"], ignore_errors=True)
# Tests do not read the user's own configuration, nor write where the user's own daemons do.
os.environ["XDG_DATA_HOME"] = os.environ["TOOLTAP_SPOOL"] + "-data"
atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)
os.environ["XDG_CONFIG_HOME"] = os.path.join(os.environ["TOOLTAP_SPOOL"], "no-configuration")
# What lies above the tests' folders, such as a file `.git` in /tmp, is nothing to the git that tests run.
os.environ["GIT_CEILING_DIRECTORIES"] = os.path.realpath(tempfile.gettempdir())

# A daemon in this process logs where no command that runs here has its output, and tracebacks as a daemon does: without
# local variables, whose printing takes half a minute on a busy machine.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ],
    logger_factory=structlog.PrintLoggerFactory(sys.__stderr__),
)

# Images of containers set it. Without bytecode every run would rewrite and compile every test again, and each of the
# processes that tests start would compile the product again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell ignores them for what it runs in the background, and every program that a test starts would, too.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

PROCESSES = ProcessGuard()
SAFE_PATH = "PYTHONSAFEPATH"
USERS_SAFE_PATH = os.environ.get(SAFE_PATH)
NO_SKIP = bool(os.environ.get("TOOLTAP_NO_SKIP"))


settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("fuzz", max_examples=2_000, deadline=None)
settings.load_profile(os.environ.get("TOOLTAP_HYPOTHESIS", "repeatable"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt collected tests from garbage collection: they stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    PROCESSES.started()
    PROCESSES.programs.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    done = yield
    started = PROCESSES.started()
    if unknown := undeclared(PROCESSES.programs):
        pytest.fail(f"it starts {', '.join(sorted(unknown))}: mark it with `programs`, see tests/programs.py")
    if started is not None and item.get_closest_marker("process") is item.get_closest_marker("browser") is None:
        pytest.fail(f"it starts a process: mark it with `process` ({started})")
    return done


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose programs are missing; forget the contained errors of earlier tests in this process."""
    need_programs_of(item)
    if (logs := sys.modules.get("tooltap.daemon.system.logs")) is not None:
        logs.faults.counts.clear()


def pytest_runtest_teardown() -> None:
    """Remove a variable that a daemon in this process sets for the processes that it starts: it must not affect other
    tests."""
    if USERS_SAFE_PATH is None:
        os.environ.pop(SAFE_PATH, None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if NO_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although TOOLTAP_NO_SKIP is set: {call.excinfo.value if call.excinfo else ''}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if NO_SKIP and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid}: skipped although TOOLTAP_NO_SKIP is set"
    return report
