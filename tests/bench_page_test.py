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


if __name__ == "__main__":
    main()
