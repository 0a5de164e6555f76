"""The page on OpenTelemetry: its table, and the commands that send a file."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import CLAUDE, here
from tests.daemon.export.collector import collecting, spans_of
from tests.docs.pages import DOCS, blocks_of, tagged
from tooltap.daemon.export.otlp_names import CONVENTIONS, Metric, Name

PAGE = DOCS / "how-to" / "opentelemetry.md"


def test_table_has_every_attribute_and_no_other() -> None:
    table = PAGE.read_text().partition("\n## Attributes\n")[2]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]

    assert sorted(re.findall(r"`([^`]+)`", " ".join(first))) == sorted(Name)


def test_table_has_every_metric_and_no_other() -> None:
    table = PAGE.read_text().partition("\n## Metrics\n")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(Metric)


def test_version_of_the_conventions_is_that_of_the_names() -> None:
    assert f"version {CONVENTIONS.rpartition(' ')[2]}." in PAGE.read_text()


def test_configuration_is_valid(tmp_path: Path) -> None:
    [block] = [one for one in blocks_of(PAGE) if one.language == "toml"]
    (tmp_path / "tooltap.toml").write_text(block.text)

    assert here("config", "check", tmp_path / "tooltap.toml").returncode == 0


@pytest.mark.programs("curl")
def test_file_is_sent_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "session.otlp.jsonl"
    here("export", "--format", "otlp", CLAUDE, "-o", file)
    with collecting() as (url, sent):
        script = tagged(PAGE, "otlp").replace("http://127.0.0.1:4318", url)
        subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True)

    assert [one.path for one in sent] == ["/v1/traces"]
    assert spans_of(sent[0].body) == spans_of(file.read_text())
