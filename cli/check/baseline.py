"""`tooltap baseline`: what an agent's streams looked like, recorded and checked."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tooltap.cli.common.commands import Group
from tooltap.cli.common.recordings import (
    Recording,
    baselines_option,
    in_words,
    recordings,
    recordings_argument,
    stream_options,
)

if TYPE_CHECKING:
    from tooltap.traces.drift.baselines import Agent, Failure, Observed

__all__ = ["command"]

STRICT = "HAPPY_E2E_PROVIDER_STRICT_KEYS"
YES = frozenset({"1", "true", "yes", "y"})

scenario_option = click.option(
    "--scenario", metavar="NAME", help="What was done in all recordings.  [default: each file's place and name]"
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
    """Record what agents' streams look like, and check whether they still do.

    A baseline says, for one version of an agent: of each scenario, which keys it gave (protocol/provider/kind[/tool])
    and the shape of each one's payloads; of all scenarios, the shape of the raw lines. Shapes are types, never values.
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
    help="Where to: DIR/<dialect>/<provider>-<version>.json.",
)
@scenario_option
@stream_options
def record(
    paths: tuple[Path, ...], folder: Path, scenario: str | None, version: str | None, provider: str | None, dialect: str
) -> None:
    """Record traces or recorded streams.

    Each PATH is a file, or a folder whose .jsonl files are all recorded. A baseline that exists gets these scenarios in
    place of its own of the same names, and keeps the others.
    """
    from tooltap.traces.drift.baselines import Baseline

    with in_words():
        for agent, scenarios in _observe(recordings(paths), scenario, version, provider, dialect).items():
            baseline = Baseline(agent)
            path = folder / baseline.place
            if path.exists():
                baseline = Baseline.read(path.read_bytes(), str(path))
            baseline.record(scenarios)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(baseline.write())
            click.echo(f"{path}: {agent}, {len(scenarios)} scenarios, {len(baseline.payloads)} keys")


@command.command(
    "check",
    examples=(
        "tooltap baseline check recordings/",
        "tooltap baseline check claude.jsonl --scenario shell --baselines baselines",
    ),
)
@recordings_argument(required=True)
@baselines_option
@scenario_option
@stream_options
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

    Each is held against the baseline of its version, else of the newest. Exit code 1 if keys are missing, shapes have
    changed, a payload does not fit its canonical tool, or there is no baseline; where HAPPY_E2E_PROVIDER_STRICT_KEYS is
    1, also for keys that the baseline does not have.
    """
    from tooltap.traces.drift.baselines import PACKAGED, check, load, nearest

    strict = os.environ.get(STRICT, "").strip().lower() in YES
    failed = False
    with in_words():
        for agent, scenarios in _observe(recordings(paths), scenario, version, provider, dialect).items():
            baseline = nearest(load(folder or PACKAGED, agent.dialect), agent)
            if baseline is None:
                failed = True
                click.echo(f"{agent}: no baseline")
                continue
            failures = list(check(baseline, scenarios, strict=strict))
            failed |= bool(failures)
            compared = sum(one in baseline.scenarios for one in scenarios)
            verdict = f"{len(failures)} failures" if failures else "as recorded"
            click.echo(f"{agent} against {baseline.agent.version}: {compared} of {len(scenarios)} scenarios, {verdict}")
            for failure in failures:
                _print(failure)
    context.exit(1 if failed else 0)


def _observe(
    found: Iterable[Recording], scenario: str | None, version: str | None, provider: str | None, dialect: str
) -> dict[Agent, dict[str, Observed]]:
    """Agent -> scenario -> what its streams showed."""
    from tooltap.traces.drift.baselines import UNKNOWN, observe
    from tooltap.traces.recording.streams import read_streams

    agents: dict[Agent, dict[str, Observed]] = {}
    for recording in found:
        name = "-".join((scenario or recording.scenario).split())
        for stream in read_streams([recording.file], dialect):
            observed = observe(stream, provider=provider, version=version)
            if observed.agent.dialect == UNKNOWN:
                click.echo(f"tooltap: {recording.file}: the dialect is not recognised, stream left out", err=True)
                continue
            scenarios = agents.setdefault(observed.agent, {})
            if name in scenarios:
                scenarios[name].add(observed)
            else:
                scenarios[name] = observed
    return agents


def _print(failure: Failure) -> None:
    from tooltap.traces.drift.shapes import render

    where = f"{failure.scenario}: " if failure.scenario else ""
    click.echo(f"  {where}{failure.key}: {failure.kind.replace('-', ' ')}")
    for line in render(failure.changes):
        click.echo(f"    {line}")
