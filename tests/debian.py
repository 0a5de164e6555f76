"""`make lab-suite SUITE=forky` and `make lab-image`: the release under other Pythons, and in a container, on a machine
that has neither other Pythons nor Docker.

Debootstrap installs a suite of Debian, which has a Python of its own. There, `make package` and tests that start no
process are run in a chroot, from what is committed. And a suite is the base image from which buildah builds the
Dockerfile as it is; podman and podman-compose run the image as `docker run` and the compose file do. This needs root.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.release import ROOT

CACHE = Path(os.environ.get("TOOLTAP_DEBIAN", Path.home() / ".cache" / "tooltap-debian"))
"""Where suites stay, for the next run."""
DOCKERFILE = ROOT / "packaging" / "Dockerfile"
COMPOSE = ROOT / "packaging" / "compose.yaml"
BASE_SUITE = "trixie"
"""A suite with the minor version of Python that the Dockerfile names."""
PACKAGES = "ca-certificates,git,make,python3,python3-venv"
BUSYBOX = "RUN apt-get update && apt-get install --yes busybox && ln -s busybox /usr/bin/wget\n"
"""Has the wget of Alpine, which checks the nats-server."""
SETTINGS = (
    Path("/etc/pip.conf"),
    Path.home() / ".config" / "pip",
    Path("/etc/ssl/certs"),
    Path("/etc/resolv.conf"),
)
"""How this machine reaches the package registry."""
QUICK = "not (process or browser or timing or slow or lab)"
TESTS = ("tests/protocol", "tests/normalizers", "tests/traces")
RECORDING = ROOT / "cli" / "static" / "demo" / "claude-code.jsonl"
SESSION = "101730e3-98ed-4d2b-8e93-5caa86bfc39f"
"""Session of the recording."""
PATIENCE = 120.0
PROCESSES = 4_096
"""Limit of a container: podman asks for more than it may have where this process has no CAP_SYS_RESOURCE."""
PROJECT = "tooltaplab"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["suite", "image"])
    parser.add_argument("--suite", default="forky")
    parser.add_argument("--python", default="python3", help="the interpreter in the suite, such as python3.14")
    options = parser.parse_args()
    needed = ("debootstrap", "unshare") if options.what == "suite" else ("buildah", "podman", "podman-compose", "runc")
    missing = [name for name in ("debootstrap", *needed) if shutil.which(name) is None]
    if missing or os.geteuid():
        print("NOT RUN:", f"{', '.join(missing)} is missing" if missing else "only root can do this")
        return int(bool(os.environ.get("TOOLTAP_NO_SKIP")))
    if options.what == "suite":
        check_suite(options.suite, options.python)
    else:
        with TemporaryDirectory(prefix="tooltap-image-") as folder:
            check_image(Path(folder))
    return 0


def installed(suite: str, python: str) -> Path:
    """Return the folder of a suite, which is installed if it is not there."""
    folder = CACHE / f"{suite}-{python}"
    if not folder.is_dir():
        begun = folder.with_suffix(".begun")
        shutil.rmtree(begun, ignore_errors=True)
        packages = f"{PACKAGES},{python}-venv"
        scripts = "/usr/share/debootstrap/scripts/sid"  # the same for all that are newer than debootstrap
        _run("debootstrap", "--variant=minbase", f"--include={packages}", suite, str(begun), "", scripts)
        begun.rename(folder)
    return folder


# -- in a suite -------------------------------------------------------------------------------------------------------


def check_suite(suite: str, python: str) -> None:
    root = installed(suite, python)
    shutil.rmtree(root / "source", ignore_errors=True)
    _run("git", "clone", "--quiet", str(ROOT), str(root / "source"))
    within(root, "make", "-C", "/source", "package", f"PYTHON={python}")
    tests = [".venv/bin/python", "-m", "pytest", "-q", "-n", "auto", "-m", QUICK, *TESTS]
    within(root, "env", "--chdir=/source", *tests)


def within(root: Path, *command: str) -> None:
    """Run a command in a suite, with the machine's network. The mounts end with it."""
    mounts = [f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
    for path in filter(Path.exists, SETTINGS):
        target = Path(f"{root}{path}")
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.touch()
        mounts.append(f"mount --bind {path} {target}")
    script = "\n".join(["set -e", *mounts, f'exec chroot {root} "$@"'])
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYENV", "VIRTUAL_ENV"))}
    variables["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    done = subprocess.run(["unshare", "--mount", "bash", "-c", script, "-", *command], env=variables, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} exited with {done.returncode} in {root}")


# -- an image ---------------------------------------------------------------------------------------------------------


def check_image(folder: Path) -> None:
    keep_in(folder)
    build(folder)
    run_without_systemd(folder)
    try:
        _run("podman", "run", "--detach", "--name", "alone", image())
        check_daemon("alone")
        check_stop("alone")
        print("the image alone: works", flush=True)
        _compose("up", "--detach", "--no-build")
        daemon, nats = f"{PROJECT}_tooltap_1", f"{PROJECT}_nats_1"
        _until_healthy(nats)
        check_daemon(daemon)
        check_stop(daemon)
        _run("podman", "stop", nats)
        _run("podman", "start", nats, daemon)
        if SESSION not in _run("podman", "exec", daemon, "tooltap", "sessions", "--wait", "60"):
            sys.exit("the session is gone after a restart of the daemon and of its nats-server")
        print("the daemon and the nats-server of the compose file: work, also after a restart", flush=True)
    finally:
        _compose("down", check=False)
        _run("podman", "rm", "--all", "--force", check=False)


def keep_in(folder: Path) -> None:
    """Have buildah and podman keep what they store in the folder."""
    settings = folder / "storage.conf"
    settings.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n')
    os.environ["CONTAINERS_STORAGE_CONF"] = str(settings)


def run_without_systemd(folder: Path) -> None:
    """Have podman run containers where there is no systemd, within the limits of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    settings = folder / "containers.conf"
    settings.write_text(
        f'[containers]\ndefault_ulimits = ["nofile={soft}:{hard}", "nproc={PROCESSES}:{PROCESSES}"]\n'
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{folder}/networks"\n'
    )
    os.environ["CONTAINERS_CONF"] = str(settings)


def image() -> str:
    return f"localhost/{PROJECT}_tooltap"


def build(folder: Path) -> None:
    """Build the base image and that of nats-server under their names, and the Dockerfile."""
    [base] = re.findall(r"^ARG BASE=(.+)$", DOCKERFILE.read_text(), re.MULTILINE)
    [nats] = re.findall(r"^ +image: (nats:.+)$", COMPOSE.read_text(), re.MULTILINE)
    context = folder / "context"
    context.mkdir()
    left_out = [
        f"--exclude=./{path}/*" for path in ("proc", "sys", "dev", "source", "var/cache/apt", "var/lib/apt/lists")
    ]
    root = installed(BASE_SUITE, "python3")
    _run("tar", "-C", str(root), *left_out, "-cf", str(context / "base.tar"), ".")
    shutil.copy(Path(sys.executable).with_name("nats-server"), context)
    made = {
        base: "FROM scratch\nADD base.tar /\n",
        nats: f'FROM docker.io/library/{base}\n{BUSYBOX}COPY nats-server /\nENTRYPOINT ["/nats-server"]\n',
    }
    for name, text in made.items():
        (context / "Containerfile").write_text(text)
        _run("buildah", "build", "--isolation", "chroot", "--tag", f"docker.io/library/{name}", str(context))
    settings = [f"--volume={path}:{path}:ro" for path in SETTINGS if path.exists()]
    ignored = ["--ignorefile", f"{DOCKERFILE}.dockerignore"]
    options = ["--isolation", "chroot", "--format", "docker", *settings, *ignored]
    _run("buildah", "build", *options, "--file", str(DOCKERFILE), "--tag", image(), str(ROOT))
    print(f"{DOCKERFILE.relative_to(ROOT)}: built", flush=True)


def check_daemon(container: str) -> None:
    """Check that a daemon becomes healthy, stores a recording, and finds nothing wrong."""
    _until_healthy(container)
    tooltap = ("podman", "exec", "--interactive", container, "tooltap")
    _run(*tooltap, "ingest", "-", stdin=RECORDING.read_bytes())
    if SESSION not in _run(*tooltap, "sessions"):
        sys.exit(f"{container} has not stored the recording")
    _run(*tooltap, "doctor")


def check_stop(container: str) -> None:
    """Check that the daemon ends as it should when the container is stopped."""
    _run("podman", "stop", "--time", "30", container)
    if (code := _run("podman", "inspect", container, "--format", "{{.State.ExitCode}}").strip()) != "0":
        sys.exit(f"the daemon of {container} exited with {code}")


def _compose(*command: str, check: bool = True) -> None:
    _run("podman-compose", "--project-name", PROJECT, "--file", str(COMPOSE), *command, check=check)


def _until_healthy(container: str) -> None:
    check = ("podman", "healthcheck", "run", container)
    _until(lambda: subprocess.run(check, capture_output=True, check=False).returncode == 0, f"{container} is healthy")


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.2)


def _run(*command: str, stdin: bytes = b"", check: bool = True) -> str:
    """Run a command and return what it prints. If it fails, exit with what it printed."""
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    if done.returncode and check:
        said = (done.stdout + done.stderr).decode(errors="replace")[-4_000:]
        sys.exit(f"{said}\n{' '.join(command)} exited with {done.returncode}")
    return done.stdout.decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
