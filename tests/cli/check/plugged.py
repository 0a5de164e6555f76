"""Makes the parser in a file a dialect of an installed package, in this process and for one test."""

from __future__ import annotations

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
