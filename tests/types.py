"""`make lab-types`: generators of types read the published JSON Schema, and what they write reads recorded events.

`datamodel-codegen` writes Python, and `quicktype` writes TypeScript, Go and Rust; both are installed in `build`. Python
and TypeScript decode every event of the fixtures, and nothing of it may be lost. Go is compiled where its compiler is.
Rust decodes the events, too, where `cargo` has the package serde, from its registry or from Debian's
`librust-serde-derive-dev` and `librust-serde-json-dev`. What was not done is said.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.schema import SNAPSHOT
from tests.test_layout import ROOT
from tooltap.normalizers.catalog.registry import dialects
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import encode
from tooltap.testing import normalize, read_recording

FOLDER = ROOT / "build" / "types"
GENERATOR = ROOT / "build" / "generators" / "bin" / "datamodel-codegen"
PACKAGES = ("quicktype@26.0.0", "typescript@5.9.3", "@types/node@20")
PROGRAM = """
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { Convert, type Event } from "./event.js";
let count = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const event: Event = Convert.toEvent(line);
  const seq: number | undefined = event.seq;
  assert.deepEqual(JSON.parse(Convert.eventToJson({ ...event, seq })), JSON.parse(line));
  count++;
}
console.log(count);
"""
CARGO = """
[package]
name = "decode"
version = "0.1.0"
edition = "2021"
[dependencies]
serde = { version = "1", features = ["derive"] }
serde_json = "1"
"""
RUST = """
mod event;
fn main() {
    let lines: Vec<String> = std::io::stdin().lines().map(|line| line.unwrap()).collect();
    for line in &lines {
        let _: event::Event = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
    }
    println!("{}", lines.len());
}
"""
OF_DEBIAN = Path("/usr/share/cargo/registry")
"""Where Debian's packages put the sources of those for Rust."""
TSC = ("--strict", "--target", "es2022", "--module", "nodenext", "--types", "node")
TOP = {
    "event.ts": r"^export interface Event \{\n(?:.*\n)*?\s+kind: +Kind;",
    "event.go": r"^type Event struct \{\n(?:.*\n)*?\s+Kind +Kind ",
    "event.rs": r"^pub struct Event \{\n(?:.*\n)*?\s+pub kind: Kind,",
}
"""File -> its type of events, which has the keys."""


class Failure(Exception):
    """What a generator did wrong, in one sentence."""


def recorded() -> list[bytes]:
    """Return the events of all fixtures, encoded."""
    return [
        encode(event)
        for dialect in dialects()
        for path in sorted((ROOT / "tests" / "fixtures" / dialect).rglob("*.json*"))
        for event in normalize(dialect, read_recording(path.read_bytes()), Context(stream="s"))
    ]


def python(events: list[bytes]) -> str:
    """Decode the events by the classes that `datamodel-codegen` writes."""
    path = FOLDER / "event.py"
    options = ("--input-file-type", "jsonschema", "--output-model-type", "pydantic_v2.BaseModel")
    _run([str(GENERATOR), "--input", str(SNAPSHOT), "--output", str(path), *options, "--formatters", "builtin"])
    spec = importlib.util.spec_from_file_location("event", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["event"] = module  # where the classes look each other up
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec.loader.exec_module(module)
    for text in events:
        value = json.loads(text)
        event: Any = module.AnyEvent.model_validate(value)
        if event.root.kind.value != value["kind"]:
            raise Failure(f"an event of the kind {value['kind']} became a {type(event.root).__name__}")
        if event.model_dump(mode="json", by_alias=True, exclude_unset=True) != value:
            raise Failure(f"this event is another one afterwards: {text[:500]!r}")
    return f"{len(events)} events were decoded"


def typescript(events: list[bytes]) -> str:
    """Compile what `quicktype` writes in strict mode, and decode the events."""
    _written("typescript", "event.ts")
    (FOLDER / "decode.ts").write_text(PROGRAM)
    _run([str(FOLDER / "node_modules" / ".bin" / "tsc"), *TSC, "decode.ts"])
    done = _run(["node", "decode.js"], b"\n".join(events))
    if int(done) != len(events):
        raise Failure(f"of {len(events)} events, {done} were decoded")
    return f"compiled, and {len(events)} events were decoded"


def go(_: list[bytes]) -> str:
    path = _written("go", "event.go")
    if shutil.which("go") is None:
        return "written; NOT COMPILED, because there is no compiler"
    _run(["go", "vet", str(path)])
    return "compiled"


def rust(events: list[bytes]) -> str:
    path = _written("rust", "event.rs")
    project = FOLDER / "rust"
    (project / "src").mkdir(parents=True, exist_ok=True)
    shutil.copy(path, project / "src")
    (project / "src" / "main.rs").write_text(RUST)
    (project / "Cargo.toml").write_text(CARGO)
    manifest = ["--quiet", "--manifest-path", str(project / "Cargo.toml")]
    source = _serde(manifest)
    if source is None:
        return "written; NOT COMPILED, because there is no cargo, or it has no package serde"
    done = _run(["cargo", "run", *manifest, *source], b"\n".join(events))
    if int(done) != len(events):
        raise Failure(f"of {len(events)} events, {done} were decoded")
    return f"compiled, and {len(events)} events were decoded"


def _serde(manifest: list[str]) -> list[str] | None:
    """Return the options with which `cargo` has the packages; None if it has not."""
    debian = [
        *("--offline", "--config", 'source.crates-io.replace-with="debian"'),
        *("--config", f'source.debian.directory="{OF_DEBIAN}"'),
    ]
    for options in ([], debian):
        command = ["cargo", "fetch", "--config", "net.retry=0", *manifest, *options]
        with suppress(OSError):
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return options
    return None


def main() -> int:
    """Return 1 if a generator or what it wrote failed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "package.json").write_text('{"private": true, "type": "module"}')
    events = recorded()
    languages: list[Callable[[list[bytes]], str]] = [python]
    if _has_quicktype():
        languages += [typescript, go, rust]
    else:
        print("NOT CHECKED: TypeScript, Go and Rust, because quicktype cannot be installed")
    return max([_failed(language, events) for language in languages])


def _failed(language: Callable[[list[bytes]], str], events: list[bytes]) -> bool:
    try:
        said = language(events)
    except (Failure, ValueError, SyntaxError, Warning) as error:
        print(f"{language.__name__}: FAILED: {error}")
        return True
    print(f"{language.__name__}: {said}")
    return False


def _has_quicktype() -> bool:
    if (FOLDER / "node_modules" / ".bin" / "quicktype").exists():
        return True
    npm = shutil.which("npm")
    command = [npm or "npm", "install", "--no-fund", "--no-audit", "--no-save", "--prefix", str(FOLDER), *PACKAGES]
    return npm is not None and subprocess.run(command, capture_output=True).returncode == 0


def _written(language: str, name: str) -> Path:
    """Let quicktype write the types in a language, and look for the type of events in them."""
    path = FOLDER / name
    program = FOLDER / "node_modules" / ".bin" / "quicktype"
    options = ("--quiet", "--src-lang", "schema", "--lang", language, "--top-level", "Event")
    _run([str(program), *options, str(SNAPSHOT), "--out", str(path)])
    if re.search(TOP[name], path.read_text(), re.MULTILINE) is None:
        raise Failure(f"the type of events has no keys in {path}")
    return path


def _run(command: list[str], given: bytes = b"") -> str:
    done = subprocess.run(command, cwd=FOLDER, input=given, capture_output=True, check=False)
    if done.returncode:
        raise Failure((done.stderr + done.stdout).decode(errors="replace").strip()[:2_000])
    return done.stdout.decode()


if __name__ == "__main__":
    sys.exit(main())
