"""Lists the slow tests: `python -m tests.slow` runs those without a process or a browser, and writes `slow.txt`.

A test function is slow if one of its cases takes more than `LIMIT` on an idle machine. `make quick` leaves it out.
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

LIMIT = 0.15
"""Maximum duration of a test that is not slow, in seconds."""
FILE = Path(__file__).with_name("slow.txt")
MARKERS = "not (process or browser or timing or lab)"


def slow_tests() -> frozenset[str]:
    """Return test functions as `tests/…/test_x.py::test_y`."""
    return frozenset(FILE.read_text().split())


def measure(report: Path) -> None:
    options = ("-q", "-n", "2", "-m", MARKERS, "-o", "junit_family=xunit1", "--junitxml", str(report))
    subprocess.run([sys.executable, "-m", "pytest", *options], check=True)
    found = {
        f"{case.attrib['file']}::{case.attrib['name'].partition('[')[0]}"
        for case in ET.parse(report).iter("testcase")
        if float(case.attrib["time"]) > LIMIT
    }
    FILE.write_text("".join(f"{one}\n" for one in sorted(found)))


if __name__ == "__main__":
    measure(Path("build/slow.xml"))
