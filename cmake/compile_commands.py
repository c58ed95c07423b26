#!/usr/bin/env python3
"""Writes a compile_commands.json with an entry for each source file, for clangd and clang-tidy. CMake's own has one for each
batch of files (COTANGENT_BATCH), of which it is made: each file of a batch is compiled as the batch is.

usage: compile_commands.py BUILD_DIR [OUT]    OUT: ./compile_commands.json"""
import json
import pathlib
import re
import sys

# Options of g++ and nvcc that clangd does not know.
FOREIGN = re.compile(r"--param \S+|-Winvalid-pch|-fno-gnu-unique|-femit-class-debug-always|-Wno-error=\S+|-include \S*cmake_pch\S*")


def main(build, out="compile_commands.json"):
    entries = {}
    for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        batch = re.search(r"/Unity/|/batch(\.cu|_\d+\.cpp)$", entry["file"]) and path.exists()
        command = FOREIGN.sub("", entry["command"])
        for file in re.findall(r'^#include "(/.+)"', path.read_text(), re.M) if batch else [entry["file"]]:
            # A level's copy of a kernel (core/device/cpu_level.h) comes again and again: the last has the widest vectors.
            entries[file] = {**entry, "file": file, "command": command.replace(entry["file"], file)}
    pathlib.Path(out).write_text(json.dumps(list(entries.values()), indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
