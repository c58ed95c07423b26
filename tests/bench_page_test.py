#!/usr/bin/env python3
"""The page that bench.py writes keeps each row's latest figure, under the machine, commit and day it was measured on.

usage: bench_page_test.py SOURCE_DIR
"""
import os
import subprocess
import sys
import tempfile

# A stand-in for ct_bench: the rows and their nanoseconds are in its environment.
FAKE = """#!/usr/bin/env python3
import json, os, re, sys
rows = dict(pair.split("=") for pair in os.environ["ROWS"].split())
wanted = [a.split("=", 1)[1] for a in sys.argv if a.startswith("--benchmark_filter=")]
names = [n for n in rows if not wanted or re.search(wanted[0], n)]
if not wanted:
    print("\\n".join(names))
else:
    print(json.dumps({"benchmarks": [{"name": n, "real_time": float(rows[n]), "time_unit": "ns"} for n in names]}))
"""


def main():
    bench = os.path.join(sys.argv[1], "bench", "bench.py")
    with tempfile.TemporaryDirectory() as folder:
        binary, page = os.path.join(folder, "ct_bench"), os.path.join(folder, "measured.md")
        with open(binary, "w") as f:
            f.write(FAKE)
        os.chmod(binary, 0o755)
        with open(page, "w") as f:
            f.write("# Measured\n\nAn introduction.\n\n")

        def run(commit, rows):
            subprocess.run([sys.executable, bench, "--binary", binary, "--rounds", "1", "--no-peer", "--out", folder,
                            "--page", page], env=dict(os.environ, ROWS=rows, COTANGENT_COMMIT=commit),
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return open(page).read()

        run("aaa", "C4/one=100 C4/two=200")
        text = run("bbb", "C4/two=300")
        parts = text.split("\n## ")
        assert parts[0] == "# Measured\n\nAn introduction.\n", parts[0]
        assert len(parts) == 3 and " at bbb on " in parts[1] and " at aaa on " in parts[2], text
        assert "| C4/two | 300 ns |" in parts[1] and "C4/one" not in parts[1], parts[1]
        assert "| C4/one | 100 ns |" in parts[2] and "C4/two" not in parts[2], parts[2]
        text = run("ccc", "C4/one=400")
        assert " at aaa on " not in text and text.count("| row |") == 2, text  # a section without rows goes
        with open(page, "w") as f:
            f.write(text.replace(" at ccc on ", " at ccc on another "))
        text = run("ddd", "C4/one=500")
        assert "| C4/one | 400 ns |" in text and "| C4/one | 500 ns |" in text, text  # a machine's figures are its own
    table(sys.argv[1])


def table(source):
    """Peers in the binary and apart, lines for each number of threads, the geometric mean, targets of one peer."""
    sys.path.insert(0, os.path.join(source, "bench"))
    import bench
    figure = lambda seconds: [{"seconds": seconds, "bytes": None, "flops": 8 / seconds, "peak": None}]
    spec = [{"id": "C1", "each_threads": ".", "geomean": True, "limit": {"_t1": "limit/cpu_fma_t1"},
             "good": {"geomean": "3x", "": "2x eager"}, "moonshot": "50%"}, {"id": "limit", "each_threads": "fma"}]
    names = ["C1/a", "C1/a@eigen", "C1/b", "limit/cpu_fma"]
    ours = {"C1/a#1": figure(2), "C1/a#2": figure(1), "C1/b#1": figure(8), "limit/cpu_fma#1": figure(4)}
    peers = {"C1/a@eigen#1": figure(3), "C1/a#1": figure(4), "C1/a#2": figure(1), "C1/b@eigen#1": figure(32),
             "C1/b#1": figure(16)}
    rows = {row["name"]: row for row in bench.tabulate(ours, peers, spec, names, [])}
    a, b, mean = rows["C1/a_t1"], rows["C1/b_t1"], rows["C1/geomean_t1"]
    assert a["peers"] == {"eigen": 3, "eager": 4} and a["ratio"] == 1.5 and a["met_good"] and a["met_moonshot"], a
    assert rows["C1/a_t2"]["ratio"] == 1 and not rows["C1/a_t2"]["met_good"] and rows["C1/a_t2"]["share"] is None, rows
    assert b["peer_mode"] == "eager" and b["share"] == 0.5, b
    two = {"C1/a#1": figure(2) + figure(4)}  # of an even number of rounds both have the mean of the middle two
    even = next(r for r in bench.tabulate(two, two, spec, names, []) if r["name"] == "C1/a_t1")
    assert even["value"] == even["peer"] == 3 and even["flops"] == 3 and even["ratio"] == 1, even
    assert "C1/geomean_t2" not in rows, "a mean of a part of the rows"
    assert mean["value"] == 4 and mean["peer_mode"] == "best of each" and abs(mean["peer"] - 48 ** 0.5) < 1e-9, mean
    assert abs(mean["peers"]["eager"] - 8) < 1e-9 and not mean["met_good"] and mean["met_moonshot"], mean
    # Processors of one name are told apart by their level.
    zen = ["sse4_2", "avx2", "avx512vl", "avx512_bf16"]
    assert bench.cpu_level("AuthenticAMD", zen[:2]) == "v3" and bench.cpu_level("AuthenticAMD", zen) == "v4-bf16"
    assert bench.cpu_level("GenuineIntel", zen) == "v4" and bench.cpu_level("GenuineIntel", [*zen, "amx_bf16"]) == "v4-amx"
    assert bench.cpu_level(None, []) == ""


if __name__ == "__main__":
    main()
