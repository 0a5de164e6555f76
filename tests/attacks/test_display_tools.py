"""Attacks on the display tools: files outside of the roots, and commands that outlive their call.

`TOOLTAP_RACE`: for how many seconds folders are exchanged while files are opened (`make lab-race`: a minute).
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from tests.attacks.loops import in_a_loop
from tests.attacks.other_user import needs_another_user, running_as_nobody
from tooltap.daemon.taps.mcp import files, keeper
from tooltap.daemon.taps.mcp.commands import Commands, Ran
from tooltap.daemon.taps.mcp.files import NotShownError, Roots

RACE = float(os.environ.get("TOOLTAP_RACE", "1"))
LONG = 60.0

# -- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    """The root: `sub/a/file` in it is shown, and `outside/a/file` is not. `link` names `outside`."""
    for name, text in (("allowed/sub", b"shown"), ("outside", b"secret"), ("other/sub", b"secret")):
        (tmp_path / name / "a").mkdir(parents=True)
        (tmp_path / name / "a" / "file").write_bytes(text)
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    return tmp_path / "allowed"


@contextmanager
def exchanging(name: Path, other: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.attacks.racer", str(name), str(other)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as racer:
        assert racer.stdout is not None
        racer.stdout.readline()
        try:
            yield
        finally:
            racer.kill()


def shown(roots: Roots) -> str:
    try:
        with roots.open("sub/a/file") as (file, _):
            return file.read().decode()
    except NotShownError as error:
        return str(error)


@pytest.mark.parametrize(("place", "other"), [("allowed/sub", "link"), ("allowed", "other")])
def test_exchanged_parents_leak_nothing(place: str, other: str, allowed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent below the root becomes a link to elsewhere, or the root another folder. Both ways to open are tried."""
    in_one_step = files.open_in_one_step
    steps = itertools.count()

    def open_in_one_step(folder: int, parts: tuple[str, ...]) -> int:
        if next(steps) % 2:
            raise files.Unknown
        return in_one_step(folder, parts)

    monkeypatch.setattr(files, "open_in_one_step", open_in_one_step)
    top = allowed.parent
    results = Counter[str]()
    roots = Roots([allowed])
    with exchanging(top / place, top / other):
        until = time.monotonic() + RACE / 2
        while time.monotonic() < until or not results["shown"]:
            results[shown(roots)] += 1
    roots.close()

    print(f"{place}: {dict(results)}")
    assert results["secret"] == 0
    assert next(steps) > 2


@pytest.mark.parametrize("way", [files.open_in_one_step, files.open_step_by_step])
def test_what_leads_out_is_not_opened(way: object, allowed: Path) -> None:
    """Whatever the path was resolved to before: links are not followed, neither as parents nor as the file."""
    assert callable(way)
    (allowed / "folder").symlink_to(allowed / "sub")
    (allowed / "file").symlink_to(allowed / "sub" / "a" / "file")
    with ExitStack() as stack:
        folder = files.open_folder(allowed)
        stack.callback(os.close, folder)
        for parts in (("folder", "a", "file"), ("file",)):
            with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
                way(folder, parts)
        descriptor = way(folder, ("sub", "a", "file"))
        stack.callback(os.close, descriptor)
        assert os.read(descriptor, 100) == b"shown"


# -- commands ---------------------------------------------------------------------------------------------------------

LIFE = 20
"""Seconds after which whatever an attack starts ends by itself, also where nothing ends it."""
DAEMON = f"""
import os, sys, time
for _ in range(2):
    os.setsid() if os.getpid() != os.getsid(0) else None
    if os.fork(): os._exit(0)
open(sys.argv[1], "w").close()
time.sleep({LIFE})
"""
CHAIN = f"""
import os, sys, time
end = time.monotonic() + {LIFE / 4}
for forks in range(20_000):
    if forks == 100: open(sys.argv[1], "w").close()
    if time.monotonic() > end or os.fork(): os._exit(0)
    os.setsid()
"""
WAIT = "tries=0; while [ ! -e $READY ] && [ $tries -lt 2000 ]; do sleep 0.01; tries=$((tries + 1)); done"
ATTACKS = {
    "leaves its session": f"setsid sh -c ': > $READY; sleep {LIFE}' &",
    "is a daemon": f"{sys.executable} -S -c '{DAEMON}' $READY",
    "forks over and over": f"{sys.executable} -S -c '{CHAIN}' $READY",
    "ignores signals": f"setsid sh -c 'trap : HUP INT TERM; : > $READY; sleep {LIFE}; sleep 1' &",
    "has stopped": f"setsid timeout -s KILL {LIFE} sh -c ': > $READY; kill -STOP $$' &",
    "leaves its control group": (
        "setsid sh -c 'for one in $(grep -l . /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs 2>/dev/null);"
        f" do echo $$ >$one; done; : > $READY; sleep {LIFE}' 2>/dev/null &"
    ),
}


def survivors(tag: str) -> list[int]:
    """Running processes with this text in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if tag.encode() in (entry / "environ").read_bytes():  # empty for a zombie
                found.append(int(entry.name))
        except OSError:
            continue
    return found


async def wait_for(path: Path) -> None:
    with anyio.fail_after(LONG):
        while not path.exists():
            await anyio.sleep(0.01)


async def none_left(tag: str) -> None:
    with anyio.fail_after(LONG):
        while survivors(tag):
            await anyio.sleep(0.01)


@pytest.fixture(params=["control group", "subreaper"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How processes are held together: as this machine can, or as it can without control groups."""
    make_group, made = keeper.make_group, list[str]()

    def make() -> str:
        made.append("" if request.param == "subreaper" else make_group())
        return made[-1]

    monkeypatch.setattr(keeper, "make_group", make)
    yield str(request.param)
    assert [one for one in made if one and Path(one).exists()] == []


@pytest.fixture
def tag(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A text in the environment of what a test starts, and of nothing else."""
    tag = uuid4().hex
    yield tag
    until = time.monotonic() + LIFE
    while (left := survivors(tag)) and time.monotonic() < until:  # again: they may have started others
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def tagged(tag: str, ready: Path, command: str) -> str:
    return f"export TAG={tag} READY={ready}; {command}"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process can leave")
@pytest.mark.parametrize("attack", ATTACKS)
@in_a_loop
@pytest.mark.process
async def test_nothing_outlives_its_command(attack: str, way: str, tmp_path: Path, tag: str) -> None:
    ready, held = tmp_path / "ready", tmp_path / "held"
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    command = tagged(tag, ready, f"exec 9>{held}; {ATTACKS[attack]}\n{WAIT}; echo done")
    ran = await Commands(tmp_path, timeout=LONG, max_bytes=100).run(command)

    assert ran == Ran(b"done\n", 0, None)
    assert survivors(tag) == []
    assert os.read(reader, 1) == b""  # of a pipe that none of them holds open
    os.close(reader)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_children_are_found_where_the_kernel_does_not_list_them() -> None:
    with subprocess.Popen(["sleep", str(LIFE)]) as child:
        try:
            assert child.pid in keeper._children_of_all()
            assert set(keeper._children()) == set(keeper._children_of_all())
        finally:
            child.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process can leave")
@in_a_loop
@pytest.mark.process
async def test_nothing_outlives_a_cancelled_command(way: str, tmp_path: Path, tag: str) -> None:
    ready = tmp_path / "ready"
    command = tagged(tag, ready, f"{ATTACKS['is a daemon']}\nsleep {LIFE}")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Commands(tmp_path, timeout=LONG, max_bytes=100).run, command)
        await wait_for(ready)
        tasks.cancel_scope.cancel()

    assert survivors(tag) == []


SERVER = """
import sys, anyio
from pathlib import Path
from tooltap.daemon.taps.mcp import keeper
from tooltap.daemon.taps.mcp.commands import Commands
if sys.argv[2] == "subreaper": keeper.make_group = str
keeper.become_subreaper()
print(anyio.run(Commands(Path("/"), timeout=60, max_bytes=100).run, sys.argv[1]), flush=True)
input()
"""
"""What `tooltap mcp` does with a command, without the rest of it."""


@contextmanager
def server(command: str, way: str) -> Iterator[subprocess.Popen[bytes]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", SERVER, command, way], **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process can leave")
@in_a_loop
async def test_command_that_kills_its_keeper_dies(way: str, tmp_path: Path, tag: str) -> None:
    ready = tmp_path / "ready"
    attack = f"{ATTACKS['is a daemon']}\n{WAIT}; kill -9 $PPID; sleep {LIFE}"
    with server(tagged(tag, ready, attack), way) as process:
        assert process.stdout is not None
        line = await anyio.to_thread.run_sync(process.stdout.readline)

        assert b"exit_code=137" in line
        assert survivors(tag) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process can leave")
@in_a_loop
async def test_nothing_outlives_a_killed_server(way: str, tmp_path: Path, tag: str) -> None:
    ready = tmp_path / "ready"
    with server(tagged(tag, ready, f"{ATTACKS['is a daemon']}\nsleep {LIFE}"), way) as process:
        await wait_for(ready)
        process.kill()
        await none_left(tag)


@needs_another_user
@in_a_loop
async def test_user_without_control_groups(shared: Path, tag: str) -> None:
    """`nobody` may not create any, and what it starts dies as well."""
    command = tagged(tag, shared / "ready", f"{ATTACKS['is a daemon']}\n{WAIT}; id -un")
    with running_as_nobody(f"import sys; sys.argv[2:] = ['']\n{SERVER}", command) as user:
        assert user.stdout is not None
        line = await anyio.to_thread.run_sync(user.stdout.readline)

    assert line.startswith(b"Ran(output=b'nobody\\n', exit_code=0")
    assert survivors(tag) == []
