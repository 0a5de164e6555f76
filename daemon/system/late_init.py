"""Import modules of a package without what the package's own `__init__` imports."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

__all__ = ["initialize_late"]


def initialize_late(*packages: str) -> None:
    """Let modules of these packages be imported while their `__init__` has not run. It runs when something is taken
    from the package that it would define, so the package stays whole. Name a package before those inside it."""
    for name in packages:
        if name not in sys.modules and (spec := find_spec(name)) is not None:
            module = sys.modules[name] = module_from_spec(spec)
            module.__dict__["__getattr__"] = lambda wanted, module=module: _initialized(module, wanted)
            parent, _, inside = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], inside, module)


def _initialized(module: ModuleType, wanted: str) -> Any:
    if wanted.startswith("__") or module.__spec__ is None or module.__spec__.loader is None:
        raise AttributeError(f"module {module.__name__!r} has no attribute {wanted!r}")
    del module.__dict__["__getattr__"]
    module.__spec__.loader.exec_module(module)
    return getattr(module, wanted)
