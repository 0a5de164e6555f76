"""`tooltap baseline`: records the shape of an agent's lines and payloads, and checks recordings against it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tooltap.cli.common.commands import Check, Group
from tooltap.cli.common.printing import say, short, warn
from tooltap.cli.common.recordings import (
    Recording,
    baselines_option,
    recorded_stream_options,
    recordings,
    recordings_argument,
    usage_errors,
)

if TYPE_CHECKING:
    from tooltap.traces.drift.baselines import Failure, Observed, Origin

STRICT = "HAPPY_E2E_PROVIDER_STRICT_KEYS"
MAX_CHANGE = 400
"""Code points of a printed change of a shape."""
YES = frozenset({"1", "true", "yes", "y"})

scenario_option = click.option(
    "--scenario", metavar="NAME", help="The scenario of all recordings.  [default: the path of each file]"
)


@click.group(
    "baseline",
    cls=Group,
    examples=(
        "tooltap baseline record recordings/ --out baselines",
        "tooltap baseline check recordings/ --baselines baselines",
    ),
)
def command() -> None:
    """Record the shape of agents' lines, and check recordings against it.

    A baseline describes one version of an agent: for each scenario, the keys of its events
    (protocol/provider/kind[/tool]) and the shapes of their payloads; for all scenarios together, the shape of the raw
    lines. A shape holds types, never values.
    """


@command.command(
    "record",
    examples=(
        "tooltap baseline record recordings/ --out baselines",
        "tooltap baseline record claude.jsonl --scenario shell --agent-version 2.1.330",
    ),
)
@recordings_argument(required=True)
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default="baselines",
    show_default=True,
    metavar="DIR",
    help="Write to DIR/<dialect>/<provider>-<version>.json.",
)
@scenario_option
@recorded_stream_options
def record(
    paths: tuple[Path, ...], folder: Path, scenario: str | None, version: str | None, provider: str | None, dialect: str
) -> None:
    """Record traces or recorded streams.

    Each PATH is a file, or a folder of .jsonl files. In an existing baseline the recorded scenarios replace those of
    the same names; the others stay. Record many together: a field of a line is expected later only if several
    recordings had it, of more than one folder or setup.
    """
    from tooltap.traces.drift.baselines import Baseline
    from tooltap.traces.recording.whole_file import write_whole

    with usage_errors():
        for agent, scenarios in _observe(recordings(paths), scenario, version, provider, dialect).items():
            baseline = Baseline(agent)
            path = folder / baseline.place
            if path.exists():
                baseline = Baseline.read(path.read_bytes(), str(path))
            baseline.record(scenarios)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, baseline.write())
            say(f"{path}: {short(agent)}, {len(scenarios)} scenarios, {len(baseline.payloads)} keys")


@command.command(
    "check",
    cls=Check,
    examples=(
        "tooltap baseline check recordings/",
        "tooltap baseline check claude.jsonl --scenario shell --baselines baselines",
    ),
)
@recordings_argument(required=True)
@baselines_option
@scenario_option
@recorded_stream_options
@click.pass_context
def check(
    context: click.Context,
    paths: tuple[Path, ...],
    folder: Path | None,
    scenario: str | None,
    version: str | None,
    provider: str | None,
    dialect: str,
) -> None:
    """Compare traces or recorded streams with their baselines.

    Each recording is compared with the baseline of its agent's version, or of the newest version before it. Exit code 1
    if keys are missing, shapes have changed, a payload does not fit its canonical tool, or there is no baseline; with
    HAPPY_E2E_PROVIDER_STRICT_KEYS=1 also for keys that the baseline does not have.
    """
    from tooltap.traces.drift.baselines import PACKAGED, check, load, nearest

    strict = os.environ.get(STRICT, "").strip().lower() in YES
    failed = False
    with usage_errors():
        for agent, scenarios in _observe(recordings(paths), scenario, version, provider, dialect).items():
            baseline = nearest(load(folder or PACKAGED, agent.dialect), agent)
            if baseline is None:
                failed = True
                say(f"{short(agent)}: no baseline")
                continue
            failures = list(check(baseline, scenarios, strict=strict))
            failed |= bool(failures)
            compared = sum(one in baseline.scenarios for one in scenarios)
            verdict = f"{len(failures)} failures" if failures else "as recorded"
            against = f"{short(agent)} against {short(baseline.agent.version)}"
            say(f"{against}: {compared} of {len(scenarios)} scenarios, {verdict}")
            for failure in failures:
                _print_failure(failure)
    context.exit(1 if failed else 0)


def _observe(
    found: Iterable[Recording], scenario: str | None, version: str | None, provider: str | None, dialect: str
) -> dict[Origin, dict[str, Observed]]:
    """Agent -> scenario -> what its recordings showed."""
    from tooltap.normalizers.stream.normalizer import AUTO
    from tooltap.traces.drift.baselines import UNKNOWN, observe
    from tooltap.traces.recording.reader import read_streams

    agents: dict[Origin, dict[str, Observed]] = {}
    for recording in found:
        # A file's name need not be UTF-8; a baseline is.
        named = "-".join(os.fsencode(scenario or recording.scenario).decode(errors="replace").split())
        known = dialect if dialect != AUTO else recording.dialect or AUTO
        for stream in read_streams([recording.file], known):
            observed = observe(stream, provider=provider, version=version)
            if observed.agent.dialect == UNKNOWN:
                warn(f"{recording.file}: the dialect is not recognised, stream skipped; name it with --dialect")
                continue
            scenarios = agents.setdefault(observed.agent, {})
            if named in scenarios:
                scenarios[named].add(observed)
            else:
                scenarios[named] = observed
    return agents


def _print_failure(failure: Failure) -> None:
    from tooltap.traces.drift.shapes import render

    where = f"{short(failure.scenario)}: " if failure.scenario else ""
    say(f"  {where}{short(failure.key)}: {failure.kind.replace('-', ' ')}")
    for line in render(failure.changes):
        say(f"    {line[:MAX_CHANGE]}")  # with the blanks that align it
