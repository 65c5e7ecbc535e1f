#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes point one way. A room of the library may include itself and the rooms listed
here, and every file lies in a room. Run without arguments. Prints every other include with its file
and line, and exits with 1 if there is one."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

PUBLIC = "core/include"
KIT = "core/src/kit"
# Each room, and what it may include besides itself. `core` never includes a backend. Backends
# include only the public headers of the core and the kit.
MAY_INCLUDE = {
    PUBLIC: set(),
    "core/src/maths": {PUBLIC, KIT},
    KIT: {PUBLIC},
    "core/src/scalar": {PUBLIC, KIT},
    "core/src/dispatch": {PUBLIC, KIT},
    "core/src/filter": {PUBLIC, KIT},
    "core/src/files": {PUBLIC, KIT, "core/src/filter"},
    "core/src/bank": {PUBLIC, KIT, "core/src/filter", "core/src/files"},
    "cpu_simd": {PUBLIC, KIT},
    "cuda/include": {PUBLIC},
    "cuda/src": {PUBLIC, KIT, "cuda/include"},
    "index/include": {PUBLIC},
    "index/src": {PUBLIC, "index/include"},
    "cli": {PUBLIC, "core/src/files", "index/include", "bench/driver"},
    "bench/driver": {PUBLIC},
    "bench": {PUBLIC, "index/include", "cuda/include", "bench/driver"},
    "examples": {PUBLIC, "index/include", "cuda/include"},
    "python/src": {PUBLIC, "cuda/include"},
    "python/src/keys": {PUBLIC, "python/src"},
    "python/src/calls": {PUBLIC, "python/src", "python/src/keys"},
    "python/src/classes": {PUBLIC, "index/include", "python/src", "python/src/keys", "python/src/calls"},
    "python/src/device": {PUBLIC, "cuda/include", "cuda/src", "python/src", "python/src/keys", "python/src/calls",
                          "python/src/classes"},
}
# Where the compiler looks for a quoted include, after the folder of the file itself. Two rooms may
# have headers of one name: those around the file come first.
INCLUDE_FOLDERS = ["core/include", "cuda/include", "index/include", "core/src", "cuda/src",
                   "index/src", "cli", "cli/index", "bench", "cpu_simd", "python/src", "."]
SOURCES = {".hpp", ".cpp", ".h", ".cu", ".cuh", ".inl"}
QUOTED = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def room_of(path):
    """The room that a file lies in, or None."""
    within = [room for room in MAY_INCLUDE if path.is_relative_to(room)]
    return max(within, key=len, default=None)


def resolve(including, name):
    """The file of this project that an include means, or None for another library's."""
    around = [folder for folder in INCLUDE_FOLDERS if including.is_relative_to(folder)]
    for folder in [including.parent, *around, *INCLUDE_FOLDERS]:
        candidate = (ROOT / folder / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(ROOT):
            return candidate.relative_to(ROOT)
    return None


def complaints(path, text):
    """What is wrong with the includes of one file."""
    room = room_of(path)
    if room is None:
        yield f"{path}: lies in no room (tests/rooms/check_includes.py lists them)"
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = QUOTED.match(line)
        included = match and resolve(path, match[1])
        if not included:
            continue
        other = room_of(included)
        if other != room and other not in MAY_INCLUDE[room]:
            yield f"{path}:{number}: {room} must not include {included} ({other or 'no room'})"


def self_test():
    """The check must be able to fail: a good include passes, a bad one does not."""
    good = '#include "kit/executor.hpp"\n#include "scbf/filter.hpp"\n#include <vector>\n'
    bad = '#include "filter/stage.hpp"\n'
    engine = pathlib.Path("cpu_simd/direct.cpp")
    assert not list(complaints(engine, good)), "a good include is refused"
    assert len(list(complaints(engine, bad))) == 1, "a bad include passes"
    assert len(list(complaints(pathlib.Path("attic/x.cpp"), good))) == 1, "a file without a room"


def main():
    self_test()
    top = sorted({room.split("/")[0] for room in MAY_INCLUDE})
    files = [path for folder in top for path in sorted((ROOT / folder).rglob("*"))
             if path.suffix in SOURCES]
    wrong = [what for path in files
             for what in complaints(path.relative_to(ROOT), path.read_text(encoding="utf-8"))]
    print("\n".join(wrong) or f"{len(files)} files, {len(MAY_INCLUDE)} rooms: includes point one way")
    return 1 if wrong or len(files) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
