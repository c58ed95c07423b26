#!/usr/bin/env python3
"""Draws core/ and ops/ from their includes: boxes, the floors that they stand on, arrows. Fails on circles and climbs.

  usage: floors.py SOURCE_DIR [--arrows]

A box of core is a room (core/NAME). A box of ops is a room (ops/NAME), an engine (ops/engine/NAME) or a part of the door (ops/NAME.*). The public headers of the
rooms, which include none of each other's kernels, are one box more, `functions`, on which implementations may stand:
a rule calls other ops as a user does. The tests of ops, ops/testing and the rooms' NAME_samples.cpp and
NAME_oracle.cpp, are one box, `testing`, which stands on all rooms. Tests and benchmarks see everything and are left
out.

  - An engine includes engines only: no room, no door.
  - A room includes engines, the door's headers and public headers of rooms; nothing private of another room.
  - No box stands on itself by way of others.
"""
import collections
import os
import re
import sys

MOST = {"core": (8, 5), "ops": (35, 6)}  # boxes and floors

os.chdir(sys.argv[1])
private = re.compile(r"_(kernels|cpu|cuda|plain|internal)(_[a-z0-9_]+)?\.(h|cuh)$")


def box_of(path):
    """The box of a file below core/ or ops/, and whether others may include it."""
    part = path.split("/")
    if part[0] == "core":
        return part[1], True
    if part[1] == "engine":
        return f"engine/{part[2]}", True
    if part[1] == "testing" or part[-1].endswith(("_samples.cpp", "_oracle.cpp")):
        return "testing", True
    if len(part) == 2:
        return re.sub(r"(_internal|_cpu|_cuda|_nocuda)?\..*$", "", part[1]), True
    public = part[2].endswith(".h") and not private.search(part[2]) and ".cuh" not in part[2]
    return ("functions" if public else part[1]), public


problems = []


def draw(house):
    """Prints a house's floors; adds to `problems`."""
    arrows = collections.defaultdict(set)
    boxes = set()
    for folder, _, names in os.walk(house):
        for name in sorted(names):
            path = f"{folder}/{name}"
            if not re.search(r"\.(h|cuh|cpp|cu)$", name) or re.search(r"_(test|bench)\.(cpp|cu)$", name):
                continue
            box, _ = box_of(path)
            boxes.add(box)
            for number, line in enumerate(open(path, encoding="utf-8"), 1):
                match = re.match(rf'\s*#\s*include\s*[<"]cotangent/({house}/[^>"]+)', line)
                if not match or match[1].endswith(".inc"):
                    continue
                to, open_to_others = box_of(match[1])
                own = path.split("/")[1] == match[1].split("/")[1] and len(path.split("/")) > 2
                if box.startswith("engine/") and not to.startswith("engine/"):
                    problems.append(f"{path}:{number}: an engine climbs to {match[1]}")
                elif not open_to_others and not own:
                    problems.append(f"{path}:{number}: {match[1]} is private to its room")
                if to != box:
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


for house in MOST:
    draw(house)
for problem in dict.fromkeys(problems):
    print(problem, file=sys.stderr)
sys.exit(1 if problems else 0)
