"""F2 in numexpr: the three gradients of the chains of bench/fusion.cpp, 2^24 numbers each, written out by hand.

usage: numexpr_cpu.py [THREADS ...]     (numpy and numexpr from PyPI; 1 and 2 threads unless told)
"""
import statistics
import sys
import time

import numexpr as ne
import numpy as np

N = 1 << 24

# Each line is an array of its own; later lines read earlier ones. The shortest time of several ways to cut them is what counts.
ARITHMETIC = {
    "three expressions": [
        ("dx", "g * (2 * (where(x * w + b > 0, x * w + b, 0) * k - x) * w + where(H > 0, 1, where(H < 0, -1, 0)))"
               " * (where(x * w + b > 0, k, 0) * w - 1)"),
        ("dw", "g * ((2 * H * w + where(H > 0, 1, where(H < 0, -1, 0))) * where(x * w + b > 0, k, 0) * x + H * H)"),
        ("db", "g * ((2 * H * w + where(H > 0, 1, where(H < 0, -1, 0))) * where(x * w + b > 0, k, 0) - 1)"),
    ],
    "h and its gradient kept": [
        ("h", "where(x * w + b > 0, x * w + b, 0) * k - x"),
        ("d", "g * (2 * h * w + where(h > 0, 1, where(h < 0, -1, 0)))"),
        ("dx", "d * (where(x * w + b > 0, k, 0) * w - 1)"),
        ("dw", "d * where(x * w + b > 0, k, 0) * x + g * h * h"),
        ("db", "d * where(x * w + b > 0, k, 0) - g"),
    ],
}
FUNCTIONS = {
    "three expressions": [
        ("db", "DV * (1 - T * T) * (S + P * S * (1 - S))"),
        ("dx", "DV + db * w"),
        ("dw", "db * x - 2 * (where(T + x > 0, T + x, 0) * k - w) * g"),
    ],
    "functions kept": [
        ("s", "1 / (1 + exp(-(x * w + b)))"),
        ("t", "tanh((x * w + b) * s)"),
        ("dz", "2 * (where(t + x > 0, t + x, 0) * k - w) * g"),
        ("db", "where(t + x > 0, k, 0) * dz * (1 - t * t) * (s + (x * w + b) * s * (1 - s))"),
        ("dx", "where(t + x > 0, k, 0) * dz + db * w"),
        ("dw", "db * x - dz"),
    ],
}
NAMES = [("DV", "(where(T + x > 0, 3, 0) * (where(T + x > 0, T + x, 0) * k - w) * g)"), ("T", "tanh(P * S)"),
         ("S", "(1 / (1 + exp(-P)))"), ("P", "(x * w + b)"), ("H", "(where(x * w + b > 0, x * w + b, 0) * k - x)")]


def expanded(text: str) -> str:
    for name, meaning in NAMES:
        text = text.replace(name, meaning)
    return text


def seconds(lines, given) -> float:
    arrays = dict(given)
    for name, _ in lines:
        arrays[name] = np.empty(N, np.float32)
    times = []
    for _ in range(6):
        begin = time.perf_counter()
        for name, text in lines:
            ne.evaluate(expanded(text), local_dict=arrays, out=arrays[name], casting="same_kind")
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def main() -> None:
    rng = np.random.default_rng(0)
    given = {name: rng.standard_normal(N, np.float32) for name in ("x", "w", "b")}
    given |= {"g": np.ones(N, np.float32), "k": np.float32(1.5)}  # a literal would make all of it f64
    for threads in [int(t) for t in sys.argv[1:]] or [1, 2]:
        ne.set_num_threads(threads)
        for row, ways in (("arithmetic", ARITHMETIC), ("functions", FUNCTIONS)):
            best = min((seconds(lines, given), way) for way, lines in ways.items())
            print(f"F2/{row}_2^24@numexpr, {threads} threads: {1e3 * best[0]:.1f} ms ({best[1]})")


if __name__ == "__main__":
    main()
