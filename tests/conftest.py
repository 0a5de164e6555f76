"""With `TOOLTAP_NO_SKIP` set, a skipped test is a failure: where everything is installed, every test must run.

Hypothesis generates the same examples in every run, so that failures are reproducible; `make fuzz` generates new ones.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Generator

import pytest
from hypothesis import settings

# The spool folder of the agents and daemons that tests start.
os.environ["TOOLTAP_SPOOL"] = tempfile.mkdtemp(prefix="tooltap-spool-")
atexit.register(shutil.rmtree, os.environ["TOOLTAP_SPOOL"], ignore_errors=True)
# Tests do not read the user's own configuration.
os.environ["XDG_CONFIG_HOME"] = os.path.join(os.environ["TOOLTAP_SPOOL"], "no-configuration")

NO_SKIP = bool(os.environ.get("TOOLTAP_NO_SKIP"))


settings.register_profile("repeatable", derandomize=True, database=None)
settings.register_profile("fuzz", max_examples=2_000)
settings.load_profile(os.environ.get("TOOLTAP_HYPOTHESIS", "repeatable"))


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
