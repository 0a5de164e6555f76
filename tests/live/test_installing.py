"""Agents are installed with npm into a cache. Here npm is a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live import agents
from tests.live.agents import AGENTS, BUILDS, NODE, install

NPM = """#!/bin/sh
for last; do :; done
name=${last%@*}
test "$name" = "$REFUSED" && { echo "npm error code E404" >&2; echo "npm error not found" >&2; exit 1; }
for program in $PROGRAMS; do
    mkdir -p "node_modules/$(dirname "$program")"
    { echo "#!/bin/sh"; echo "$DOES"; } >"node_modules/$program"
    chmod +x "node_modules/$program"
done
"""
CLAUDE = BUILDS[AGENTS["claude"].build]


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "npm"
    program.write_text(NPM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DOES", "echo 1.0")
    monkeypatch.setenv("PROGRAMS", f"{NODE.program} {CLAUDE.program}")
    monkeypatch.setattr(agents, "CACHE", tmp_path / "cache")
    return program


@pytest.mark.process
@pytest.mark.parametrize("seconds", [None, 60.0])
@pytest.mark.usefixtures("npm")
def test_agent_is_installed_once_into_an_empty_cache(monkeypatch: pytest.MonkeyPatch, seconds: float | None) -> None:
    assert install(["claude"], seconds) == {}
    assert NODE.path.exists()
    assert CLAUDE.path.exists()
    monkeypatch.setenv("REFUSED", CLAUDE.package)
    assert install(["claude"], seconds) == {}


@pytest.mark.process
@pytest.mark.usefixtures("npm")
def test_what_cannot_be_installed_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFUSED", CLAUDE.package)

    assert install(["claude"], None) == {
        "claude": f"{CLAUDE.package} {CLAUDE.version} cannot be installed: not found",
    }
    assert not CLAUDE.path.exists()


@pytest.mark.process
def test_time_for_installing_may_be_over(npm: Path) -> None:
    npm.write_text("#!/bin/sh\nexec sleep 1000\n")

    [reason] = install(["claude"], 0.0).values()

    assert reason.endswith("the time for installing is over")


@pytest.mark.process
@pytest.mark.usefixtures("npm")
def test_program_that_does_not_start_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOES", "echo 'no such library' >&2; exit 127")

    [reason] = install(["claude"], None).values()

    assert reason.endswith("it does not start here: no such library")
    assert not NODE.path.exists()


@pytest.mark.process
@pytest.mark.usefixtures("npm")
def test_package_without_the_program_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROGRAMS", NODE.program)

    assert install(["claude"], None) == {
        "claude": f"{CLAUDE.package} {CLAUDE.version} cannot be installed: the package has no {CLAUDE.program}",
    }
