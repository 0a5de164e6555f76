"""Paths, of Windows as well."""

from __future__ import annotations

import pytest

from tooltap.normalizers.tools.paths import absolute, relative
from tooltap.normalizers.tools.registry import preview

HOME = "C:\\work\\shop"


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [
        ("src/./a.py", "/work", "/work/src/a.py"),
        ("src/a.py", None, "src/a.py"),
        ("file:///work/a.py", None, "/work/a.py"),
        ("/work/x\\y.py", "/work", "/work/x\\y.py"),  # elsewhere a backslash is part of a name
        ("src\\a.py", HOME, "C:/work/shop/src/a.py"),
        ("c:\\work\\shop\\..\\a.py", HOME, "C:/work/a.py"),
        ("file:///C:/work/a.py", None, "C:/work/a.py"),
        ("\\\\server\\share\\a.py", HOME, "//server/share/a.py"),
        ("a.py", "\\\\server\\share", "//server/share/a.py"),
    ],
)
def test_absolute_path(path: str, cwd: str | None, expected: str) -> None:
    assert absolute(path, cwd) == expected


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [
        ("/work/src/a.py", "/work/", "src/a.py"),
        ("/works/a.py", "/work", "/works/a.py"),
        ("C:\\work\\shop\\src\\a.py", HOME, "src\\a.py"),
        ("c:/work/shop/src/a.py", HOME, "src/a.py"),
        ("C:\\work\\shopping\\a.py", HOME, "C:\\work\\shopping\\a.py"),
        ("\\\\server\\share\\a.py", "\\\\server\\share", "a.py"),
        ("/work/a.py", None, "/work/a.py"),
    ],
)
def test_relative_path(path: str, cwd: str | None, expected: str) -> None:
    assert relative(path, cwd) == expected
    assert preview("Read", {"file_path": path}, cwd) == expected
