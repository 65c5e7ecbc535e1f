#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A part of scripts/python: tries a wheel where there is nothing but Python.

usage: wheel_alone.py WHEEL FOLDER

Installs the wheel, and what it says it needs, into an environment of its own in FOLDER; what it needs must be pinned
in python/requirements.txt. Then it runs python/tests/alone.py in a root (chroot) that has Python's interpreter and
standard library, /proc, and of the libraries of this machine only those that a manylinux tag promises. It needs root
or user namespaces. Where there is neither, the program runs in the environment alone, unless SCBF_REQUIRE_CHROOT is
set.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
# What the wheel may take from the machine: a part of what every policy of auditwheel lets it.
PROMISED = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2",
            "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6", "libz.so.1"}

ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"}


def pip(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


def pinned(package: str) -> str:
    """The lines of python/requirements.txt on one package, with its hashes."""
    found = re.search(rf"^{package}==(?:.*\\\n)*.*\n", (HERE / "python/requirements.txt").read_text(), re.MULTILINE)
    assert found, f"python/requirements.txt does not pin {package}"
    return found[0]


def install(wheel: Path, environment: Path, folder: Path) -> None:
    """Into a new environment, without a network if the pinned packages were fetched before."""
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    fetched, pins = folder / "fetched", folder / "requirements.txt"
    needs = pinned("numpy")
    if not any(fetched.glob("*.whl")) or not pins.is_file() or pins.read_text() != needs:
        shutil.rmtree(fetched, ignore_errors=True)
        pins.write_text(needs)
        pip("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", fetched,
            "--requirement", pins)
    # pip resolves what the wheel says it needs, from nothing but that folder.
    pip("--python", environment / "bin/python", "install", "--quiet", "--no-compile", "--no-index", "--find-links",
        fetched, wheel)


def libraries(*files: Path) -> dict[str, Path]:
    """The libraries that files need of this machine, or find beside themselves: their names and where they are."""
    found: dict[str, Path] = {}
    for file in files:
        for line in subprocess.run(["ldd", file], check=True, capture_output=True, text=True).stdout.splitlines():
            if place := re.search(r"(/\S+) \(0x", line):
                found[line.split()[0].rpartition("/")[2]] = Path(place[1])
    return found


def make_root(root: Path, environment: Path) -> list[str]:
    """Moves the environment to its own path in a new root, with Python and libraries. Returns the latter's names."""
    def copy(path: Path) -> None:
        to = root / path.relative_to("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)

    copied = set()
    interpreter = (environment / "bin/python").resolve()
    home = re.search(r"^home = (.*)$", (environment / "pyvenv.cfg").read_text(), re.MULTILINE)
    assert home
    for path in {interpreter, Path(home[1], "python3"), Path(home[1], interpreter.name)}:
        copy(path)
    for path in libraries(interpreter).values():
        copy(path)
    [package] = environment.glob("lib/python*/site-packages/scbf")
    for name, path in libraries(*package.glob("_scbf*.so"), package / "bin/scbf").items():
        if name in PROMISED:
            copy(path)
            copied.add(name)
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, root / library.relative_to("/"), symlinks=True, ignore=shutil.ignore_patterns(
        "test", "idlelib", "ensurepip", "site-packages", "dist-packages", "config-*", "*.a"))
    moved = root / environment.relative_to("/")
    moved.parent.mkdir(parents=True, exist_ok=True)
    environment.rename(moved)
    (root / "tmp").mkdir(exist_ok=True)
    shutil.copy(HERE / "python/tests/alone.py", root / "alone.py")
    return sorted(copied)


def way_into(root: Path) -> list[str] | None:
    """The beginning of a command line that runs a program in another root, with a /proc; None if this user may not."""
    # The loader needs /proc for $ORIGIN, by which a program finds libraries beside itself.
    mount = ["unshare", *(["--map-root-user"] if os.getuid() else []), "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc"]
    (root / "proc").mkdir(parents=True)
    try:
        tried = subprocess.run([*mount, "chroot", "/", "true"], capture_output=True, env=ENVIRONMENT, check=False)
    except FileNotFoundError:
        return None
    return [*mount, "chroot", str(root)] if tried.returncode == 0 else None


def main() -> None:
    wheel, folder = (Path(argument).resolve() for argument in sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    environment, root = folder / "env", folder / "root"
    install(wheel, environment, folder)
    python = environment / "bin/python"
    if root.exists():
        shutil.rmtree(root)  # says so if another user made it
    inside = way_into(root)
    if inside is None:
        print(f"the wheel alone: not tried in a root without libraries, because user {os.getuid()} may not `unshare` "
              "and `chroot` here; only in an environment of its own", flush=True)
        if os.environ.get("SCBF_REQUIRE_CHROOT"):
            sys.exit("error: SCBF_REQUIRE_CHROOT is set")
        subprocess.run([python, "-I", HERE / "python/tests/alone.py"], check=True, cwd="/")
        return
    names = make_root(root, environment)
    subprocess.run([*inside, python, "-I", "/alone.py"], check=True, env=ENVIRONMENT)
    print(f"the wheel alone: {wheel.name} needs of the machine {', '.join(names)}", flush=True)


if __name__ == "__main__":
    main()
