"""Makes a parser a dialect of an installed package, for one test: in this process, or in those that it starts."""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import pytest

from tooltap.normalizers.catalog import registry


def plug(source: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`name`: of the dialect. No test may use a name again: parser classes are remembered by it."""
    spec = spec_from_file_location(source.stem, source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, source.stem, module)
    spec.loader.exec_module(module)
    [found] = (
        one
        for one in vars(module).values()
        if getattr(one, "__module__", "") == source.stem and hasattr(one, "dialect")
    )
    point = SimpleNamespace(value=source.stem, load=lambda: found, dist=None, name=name)
    monkeypatch.setattr(registry, "_plugins", lambda: {name: point})


def install(folder: Path, name: str, source: str) -> str:
    """Write an installed package with the dialect `name`, whose parser is the class of that name in `source`. Returns
    the `PYTHONPATH` of processes that have it."""
    information = folder / f"tooltap_{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / f"tooltap_{name}.py").write_text(source)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tooltap-{name}\nVersion: 1.0\n")
    point = f"{name} = tooltap_{name}:{name.capitalize()}"
    (information / "entry_points.txt").write_text(f"[tooltap.dialects]\n{point}\n")
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
