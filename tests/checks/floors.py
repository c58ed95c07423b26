#!/usr/bin/env python3
"""Draws core/, ops/engine/, ops/ and nn/ from their includes: boxes, the floors that they stand on, arrows. Fails on circles and climbs.

  usage: floors.py SOURCE_DIR [--arrows]

A box of core is a room (core/NAME), a box of ops/engine an engine (ops/engine/NAME). A box of ops is a room (ops/NAME), the
engines together, or the door, the files of ops/ itself. The public headers of the rooms, which include none of each other's
kernels, are one box more, `functions`, on which implementations may stand: a rule calls other ops as a user does. The tests of
ops, ops/testing and the rooms' NAME_samples.cpp and NAME_oracle.cpp, are one box, `testing`, which stands on all rooms. A box
of nn is a folder (nn/NAME), the layers, the files of nn/ itself, or `state_dict`, the part of them that files hold. Tests and
benchmarks see everything and are left out.

  - An engine includes engines and core only: no room, no door, no tape.
  - A room includes engines, the door's headers and public headers of rooms; nothing private of another room.
  - Formats (nn/io, nn/data, nn/text) include no layer and no model.
  - No box stands on itself by way of others.
"""
import collections
import os
import re
import sys

MOST = {"core": (8, 5), "ops/engine": (8, 3), "ops": (24, 4), "nn": (12, 4)}  # boxes and floors
MOST_OF_OPS = (30, 6)  # of rooms and engines in one drawing, where headers stand in their rooms
FORMATS = ("io", "data", "text")

os.chdir(sys.argv[1])
private = re.compile(r"_(kernels|cpu|cuda|plain|internal)(_[a-z0-9_]+)?\.(h|cuh)$|/mma/")


def place_of(path):
    """The house of a file, its box there, and whether others may include it."""
    part = path.split("/")
    if path.startswith("ops/engine/"):
        return "ops/engine", part[2], True
    if part[0] != "ops":
        own = "state_dict" if part[1].startswith("state_dict") else "layers"
        return part[0], part[1] if len(part) > 2 else own, True
    if part[1] == "testing" or part[-1].endswith(("_samples.cpp", "_oracle.cpp")):
        return "ops", "testing", True
    if len(part) == 2:
        return "ops", "door", True
    public = part[-1].endswith(".h") and not private.search(path) and ".cuh" not in part[-1]
    return "ops", "functions" if public else part[1], public


problems = []


def draw(house):
    """Prints a house's floors and returns how many boxes and floors it has; adds to `problems`."""
    arrows = collections.defaultdict(set)
    boxes = set()
    for folder, _, names in os.walk(house):
        for name in sorted(names):
            path = f"{folder}/{name}"
            umbrella = path == f"{house}/{house}.h"
            if umbrella or not re.search(r"\.(h|cuh|cpp|cu)$", name) or re.search(r"_(test|bench)\.(cpp|cu)$", name):
                continue
            home, box, _ = place_of(path)
            if home != house:
                continue
            boxes.add(box)
            for number, line in enumerate(open(path, encoding="utf-8"), 1):
                match = re.match(r'\s*#\s*include\s*[<"]cotangent/(\w+/[^>"]+)', line)
                if not match or match[1].endswith(".inc"):
                    continue
                to_home, to, open_to_others = place_of(match[1])
                own = path.split("/")[1] == match[1].split("/")[1] and len(path.split("/")) > 2
                if house == "ops/engine" and to_home not in (house, "core"):
                    problems.append(f"{path}:{number}: an engine climbs to {match[1]}")
                if house == "nn" and box in FORMATS and to_home == house and to not in (*FORMATS, "state_dict"):
                    problems.append(f"{path}:{number}: a format climbs to {match[1]}")
                if to_home == house and not open_to_others and not own:
                    problems.append(f"{path}:{number}: {match[1]} is private to its room")
                if house == "ops" and to_home == "ops/engine":
                    to_home, to = "ops", "engine"
                    boxes.add(to)
                if to_home == house and to != box:
                    arrows[box].add(to)

    floor, on_the_way = {}, []

    def height(box):
        if box in on_the_way:
            problems.append("a circle: " + " -> ".join(on_the_way[on_the_way.index(box):] + [box]))
            return 0
        if box not in floor:
            on_the_way.append(box)
            floor[box] = 1 + max((height(b) for b in sorted(arrows[box])), default=-1)
            on_the_way.pop()
        return floor[box]

    for box in sorted(boxes):
        height(box)
    floors = 1 + max(floor.values())
    for level in range(floors - 1, -1, -1):
        print(f"floor {level}: " + "  ".join(sorted(b for b in boxes if floor[b] == level)))
    if "--arrows" in sys.argv:
        for box in sorted(boxes):
            print(f"{box} -> " + ", ".join(sorted(arrows[box])))
    print(f"{house}/: {len(boxes)} boxes on {floors} floors, {sum(len(a) for a in arrows.values())} arrows")
    most_boxes, most_floors = MOST[house]
    if len(boxes) > most_boxes or floors > most_floors:
        problems.append(f"{house}: more than {most_boxes} boxes or {most_floors} floors")
    return len(boxes), floors


size = {house: draw(house) for house in MOST}
# The boxes `engine` and `functions` of ops are no more than their parts, and the lowest floor is that of engines.
both = size["ops"][0] - 2 + size["ops/engine"][0], size["ops"][1] - 1 + size["ops/engine"][1]
print(f"ops/ with its engines: {both[0]} boxes on {both[1]} floors")
if both[0] > MOST_OF_OPS[0] or both[1] > MOST_OF_OPS[1]:
    problems.append(f"ops with its engines: more than {MOST_OF_OPS[0]} boxes or {MOST_OF_OPS[1]} floors")
for problem in dict.fromkeys(problems):
    print(problem, file=sys.stderr)
sys.exit(1 if problems else 0)
