#!/usr/bin/env python3
"""Times two builds of the benchmarks against each other: did a change make any row slower?

usage: compare.py --old BINARY --new BINARY [--rows REGEX] [--rounds N] [--bound PERCENT] [--json FILE]

One pass of every row and round, old and new in turn, which of the two goes first changing from round to round: a
machine whose speed drifts slows both. A row's figure is the median of the rounds' ratios new / old; beside it stands
how far these lie apart. Rows of the CPU run with as many threads as COTANGENT_NUM_THREADS says. Exit status: 1 if the
median of some row is slower by more than --bound (2 percent).
"""
import argparse
import json
import re
import statistics
import sys

from bench import names_of, one_pass, these


def seconds(binary, row):
    """One pass of one row; None where it cannot run here (no GPU, not enough memory)."""
    runs = one_pass(binary, these([row], "(/|$)"))
    return runs[0]["seconds"] if runs else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--rows", default="^(?!limit/)[^@]*$", help="regular expression over row names, e.g. '^(C2|C4)'")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bound", type=float, default=2, help="percent by which a row may be slower")
    parser.add_argument("--json", help="where to write the figures of every round")
    args = parser.parse_args()
    rows = [n for n in sorted({*names_of(args.old)} & {*names_of(args.new)}) if re.search(args.rows, n)]
    figures = {row: [] for row in rows}
    for turn in range(args.rounds):
        for row in rows:
            sides = [args.old, args.new]
            times = {side: seconds(side, row) for side in (sides if turn % 2 == 0 else sides[::-1])}
            if None not in times.values():
                figures[row].append((times[args.old], times[args.new]))
        if args.json:
            with open(args.json, "w") as file:
                json.dump(figures, file, indent=1)
    slower = []
    print("| row | old | new | new / old | rounds from .. to |\n|---|---|---|---|---|")
    for row in rows:
        if not figures[row]:
            continue
        ratios = [new / old for old, new in figures[row]]
        ratio = statistics.median(ratios)
        old, new = (statistics.median(side) for side in zip(*figures[row]))
        print(f"| {row} | {old:.4g} s | {new:.4g} s | {ratio:.3f} | {min(ratios):.3f} .. {max(ratios):.3f} |")
        if ratio > 1 + args.bound / 100:
            slower.append(row)
    print(f"\n{len(slower)} of {len(rows)} rows slower by more than {args.bound:g} %" + "".join(f"\n  {r}" for r in slower))
    return 1 if slower else 0


sys.exit(main())
