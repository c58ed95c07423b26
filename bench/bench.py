#!/usr/bin/env python3
"""Runs the benchmark rows beside their peers and prints one table; writes it as JSON and Markdown too.

usage: bench.py --binary build/.../ct_bench [--rows REGEX] [--rounds N] [--out DIR] [--size-json FILE] [--page FILE]

Peers are PyTorch, if the Python that runs this has it (its modes are "eager", "compile", ...), and the rows NAME@PEER
of our own binary, such as NAME@openblas. Row by row ours and the peers' run in turn, each in a process of its own, so that
a machine whose speed drifts slows all. Figures are medians over the rounds; the spread is (max - min) / median of ours. The CPU
rows run with one and two threads on all sides (or --threads 1,4,16); each side keeps its best median, or the row has a
line for each number of threads ("each_threads" in targets.json). A page (docs/measured.md) has a section for each run
whose figures are the latest of their rows.
"""
import argparse
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PEER = os.path.join(HERE, "peers", "pytorch_rows.py")
START = time.perf_counter()


def sh(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def cpu_level(vendor, flags):
    """The level of kernels that a library with several takes on a processor, by its /proc/cpuinfo (core/device/cpu_level.h); ""
    where there are none."""
    levels = {"v4-amx": "amx_bf16", "v4-bf16": "avx512_bf16" if vendor == "AuthenticAMD" else None, "v4": "avx512vl",
              "v3": "avx2", "v2": "sse4_2"}
    return next((level for level, flag in levels.items() if flag in flags), "")


def processor():
    """Its name, and its level where there are several: some machines give processors of three generations one name."""
    text = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
    entry = dict(re.findall(r"^([^:\n]*?)\s*: (.*)$", text, re.MULTILINE))
    level = cpu_level(entry.get("vendor_id"), entry.get("flags", "").split())
    return entry.get("model name", platform.processor()) + (f", {level}" if level else "")


def environment():
    gpu = sh("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
    nvcc = re.search(r"release ([0-9.]+)", sh("nvcc", "--version"))
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": os.environ.get("COTANGENT_COMMIT") or sh("git", "-C", HERE, "rev-parse", "--short", "HEAD") or "unknown",
        "cpu": processor(),
        "cores": os.cpu_count(),
        "gpu": gpu[0] if gpu else "none",
        "cuda": nvcc.group(1) if nvcc else "none",
    }


def openblas_name():
    """The version of OpenBLAS, and the processor that it takes this one for. A process of its own is asked: its threads end
    with it."""
    config = sh(sys.executable, "-c", "import ctypes; f = ctypes.CDLL('libopenblas.so.0').openblas_get_config; "
                                      "f.restype = ctypes.c_char_p; print(f().decode())").split()
    return f"{config[0]} {config[1]} ({config[-2]})" if config else ""


def literal(name):
    """A pattern for this name alone, in POSIX's syntax: re.escape() also escapes what has no meaning there."""
    return re.sub(r"([.\[\](){}*+?^$|\\])", r"\\\1", name)


def one_pass(binary, rows, env=None):
    """Google Benchmark's report of the rows that ran, each with its time in "seconds": the median where it ran several times."""
    out = subprocess.run([binary, f"--benchmark_filter={rows}", "--benchmark_format=json"], env=env,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if out.returncode != 0 or not out.stdout.strip():
        say(f"{binary}: no figures for {rows} (exit {out.returncode}): {out.stderr.strip()[-500:]}")
        return []
    scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    return [dict(b, seconds=b["real_time"] * scale[b["time_unit"]])
            for b in json.loads(out.stdout)["benchmarks"]
            if not b.get("error_occurred") and b.get("aggregate_name", "median") == "median"]


def run_ours(binary, rows, threads):
    """{name: {"seconds", "bytes" per second, "flops" per second, "peak" bytes in use}} of one pass of our binary."""
    results = {}
    for b in one_pass(binary, rows, dict(os.environ, COTANGENT_NUM_THREADS=str(threads))):
        # Arguments and timing modes are appended to a benchmark's name; ours ends at the second slash.
        name = "/".join(b["name"].split("/")[:2])
        results[name] = {"seconds": b["seconds"], "bytes": b.get("bytes"), "flops": b.get("flops"),
                         "peak": b.get("peak")}
    return results


class PyTorch:
    """PyTorch with a number of threads, in a process that waits to be asked for its figures of a row."""

    name = "none"

    def __init__(self, threads, modes, timeout):
        self.command = [sys.executable, PEER, str(threads), modes]
        self.threads, self.timeout = threads, timeout
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        PyTorch.name = json.loads(self.process.stdout.readline() or "{}").get("peer", PyTorch.name)

    def figures(self, row):
        """{row[@MODE]: {"seconds", "peak"}}; what it printed before the timeout counts."""
        if self.process is None or (self.process.poll() is not None and PyTorch.name != "none"):
            self.start()
        timer, results = threading.Timer(self.timeout, self.process.kill), {}
        timer.start()
        try:
            print(row, file=self.process.stdin, flush=True)
            for line in self.process.stdout:
                entry = json.loads(line) if line.startswith("{") else {}
                if "done" in entry:
                    break
                if "seconds" in entry:
                    results[entry["row"]] = {"seconds": entry["seconds"], "peak": entry.get("peak")}
                elif "error" in entry:
                    say(f"peer: {entry['row']}: {entry['error']}")
            else:
                if PyTorch.name != "none":
                    say(f"peer: stopped in {row} after {self.timeout} s; --peer-timeout gives it more")
        except OSError:  # there is no PyTorch
            pass
        finally:
            timer.cancel()
        return results

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()


def names_of(binary):
    """The rows and, as NAME@PEER, those of the peers in the binary, without Google Benchmark's suffixes."""
    listed = subprocess.run([binary, "--benchmark_list_tests=true"], capture_output=True, text=True).stdout
    return sorted({"/".join(line.split("/")[:2]) for line in listed.split()})


def these(names, end):
    """A pattern for rows of these names."""
    return "^(" + "|".join(map(literal, names)) + ")" + end


def say(text):
    """Progress, apart from the table: standard error."""
    print(f"[{time.perf_counter() - START:5.0f} s] {text}", file=sys.stderr, flush=True)


def collect(store, results):
    for name, value in results.items():
        store.setdefault(name, []).append(value)


def target_for(target, name):
    if isinstance(target, dict):
        return next((v for k, v in target.items() if k in name), "")
    return target


def met(target, ratio, share, value, ratios={}):
    """True/False, or None where there is nothing to compare with. "1.2x": than the best peer, "1.2x eager": than that."""
    match = re.fullmatch(r"(<=?)?\s*([0-9.]+)\s*(x|%|s|ms|us|ns|MB)?( \S+)?", target or "")
    if not match:
        return None
    bound, number, unit = match.group(1), float(match.group(2)), match.group(3)
    if match.group(4):
        ratio = ratios.get(match.group(4).strip())
    if unit == "x":
        return None if ratio is None else ratio >= number
    if unit == "%":
        return None if share is None else share * 100 >= number
    if value is None:
        return None
    number *= {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "MB": 1e6}.get(unit, 1)
    return value <= number if bound == "<=" else value < number


def human(row):
    if row.get("unit") == "lines":
        return f"{row['value']:.0f} lines"
    if row.get("unit") == "GiB":
        return amount(row, row["value"])
    if row.get("unit") in ("MB", "fraction"):
        return f"{row['value']:.4g} {row['unit'].replace('fraction', '')}".strip()
    for rate, unit in (("bytes", "GB/s"), ("flops", "GFLOP/s")):
        if row.get(rate):
            return f"{seconds(row['value'])} ({row[rate] / 1e9:.0f} {unit})"
    return seconds(row["value"])


def amount(row, value):
    return f"{value / 2**30:.1f} GiB" if row.get("unit") == "GiB" else seconds(value)


def seconds(s):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if s >= scale:
            return f"{s / scale:.3g} {unit}"
    return f"{s / 1e-9:.3g} ns"


def write_page(path, heading, head, lines):
    """Puts the rows of this run into the page as a section of its own; older ones of this machine lose the rows that it has."""
    text = open(path).read()
    intro, *sections = re.split(r"^## (?=Measured )", text, flags=re.M)
    name_of = lambda line: line.split("|")[1].strip()
    machine_of = lambda title: re.search(r" on (.*), CUDA", title).group(1)
    fresh = {name_of(line) for line in lines}
    kept = []
    for section in sections:
        title, *rest = section.rstrip().split("\n")
        gone = fresh if machine_of(title) == machine_of(heading) else set()
        rows = [line for line in rest if line.startswith("| ") and line not in head and name_of(line) not in gone]
        if title == heading:  # measured in parts
            lines = sorted(lines + rows, key=lambda line: (name_of(line).startswith("limit/"), name_of(line)))
        elif rows:
            kept.append((title, rows))
    with open(path + ".new", "w") as f:
        f.write(intro)
        f.write("\n\n".join(f"## {title}\n\n" + "\n".join(head + rows) for title, rows in [(heading, lines), *kept]))
        f.write("\n")
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".new", path)


def yes_no(flag):
    return {True: "yes", False: "no", None: ""}[flag]


def measure(args, names):
    """The samples of all rounds, ours and the peers', by "NAME[@MODE]#THREADS"; and which PyTorch it was."""
    ours, peers = {}, {}
    thread_counts = sorted({int(n) for n in args.threads.split(",")})
    others = {threads: PyTorch(threads, args.peer_modes, args.peer_timeout) for threads in thread_counts}
    try:
        for turn in range(args.rounds):
            for threads in thread_counts:
                say(f"round {turn + 1} of {args.rounds}, CPU threads: {threads}")
                wanted = [n for n in names if threads == thread_counts[-1] or re.search("^C|[_/]cpu", n)]
                for row in [n for n in wanted if "@" not in n]:
                    take_turns(args, row, [n for n in wanted if n.startswith(row + "@")], others[threads], ours, peers)
    except KeyboardInterrupt:
        say("stopped: the table is of what has been measured")
    finally:
        for other in others.values():
            other.end()
    return ours, peers, PyTorch.name


def take_turns(args, row, inside, other, ours, peers):
    """Adds a sample of `row`, ours and those of the peers, of which `inside` are in our binary and `other` is PyTorch."""
    store = lambda to, got: collect(to, {f"{n}#{other.threads}": v for n, v in got.items()})
    got = run_ours(args.binary, these([row], "(/|$)"), other.threads)
    store(ours, got)
    if got and not args.no_peer:
        inside = [n for n in inside if re.search(args.peer_modes, n.split("@")[1])]
        store(peers, run_ours(args.binary, these(inside, "(/|$)"), other.threads) if inside else {})
        store(peers, other.figures(row))


def best(store, name, threads=None):
    """The samples of a row with that number of threads, or, of several numbers, with the best."""
    wanted = f"{name}#{threads or ''}"
    samples = [v for key, v in store.items() if key == wanted or (not threads and key.startswith(wanted))]
    return min(samples, key=lambda s: statistics.median(v["seconds"] for v in s), default=None)


def tabulate(ours, peers, spec, names, sizes):
    """The rows of the table: figures beside those of the peers and the limits, and whether they met their targets.
    `names` are all rows that there are, measured or not."""
    by_id = {r["id"]: r for r in spec}
    table, limits = [], {}
    for name in sorted({key.split("#")[0] for key in ours}):
        id = name.split("/")[0]
        each = re.search(by_id.get(id, {}).get("each_threads", "$^"), name)
        for threads in sorted(int(key.split("#")[1]) for key in ours if key.split("#")[0] == name) if each else [None]:
            samples = best(ours, name, threads)
            middle = {key: statistics.median(s[key] for s in samples) if samples[0][key] else None
                      for key in ("seconds", "bytes", "flops", "peak")}
            times = [s["seconds"] for s in samples]
            row = {"id": id, "name": name + (f"_t{threads}" if each else ""), "timed": name, "threads": threads,
                   "value": middle["seconds"], "bytes": middle["bytes"], "flops": middle["flops"],
                   "spread": (max(times) - min(times)) / middle["seconds"]}
            table.append(row)
            if middle["peak"]:
                table.append({"id": id + "b", "name": id + "b" + name[len(id):] + " memory", "value": middle["peak"],
                              "unit": "GiB", "timed": name})
            if id == "limit":
                limits[row["name"]] = middle["bytes"] or middle["flops"]
    for row in table:
        target = by_id.get(row["id"], {})
        row["peers"] = {}
        for key in {k.split("#")[0] for k in peers}:
            if key.split("@")[0] == row["timed"] and (samples := best(peers, key, row.get("threads"))):
                values = [v["peak" if "unit" in row else "seconds"] for v in samples]
                if None not in values:  # a peer need not say what memory it took
                    row["peers"][key.partition("@")[2] or "eager"] = statistics.median(values)
        limit = limits.get(target_for(target.get("limit"), row["name"]))
        rate = row.get("bytes") or row.get("flops")
        row["share"] = rate / limit if limit and rate else None
    for id in [r["id"] for r in spec if "geomean" in r]:
        for threads in sorted({row["threads"] for row in table if row["id"] == id and row["threads"]}):
            rows = [row for row in table if (row["id"], row.get("threads")) == (id, threads)]
            if len(rows) == sum(n.split("/")[0] == id and "@" not in n for n in names):  # not of a part
                table.append(geomean(rows, f"{id}/geomean_t{threads}"))
    for row in table:
        judge(row, by_id.get(row["id"], {}))
    for entry in sizes:
        table.append(size_row(entry))
    return table


def geomean(rows, name):
    """A row of the geometric means of `rows`. The peer "best of each" is, in every row, the fastest of them."""
    mean = lambda values: statistics.geometric_mean(values) if None not in values else None
    peers = [row["peers"] for row in rows]
    means = {mode: mean([p[mode] for p in peers]) for mode in peers[0] if all(mode in p for p in peers)}
    if all(peers) and len(means) > 1:
        means["best of each"] = mean([min(p.values()) for p in peers])
    return {"id": rows[0]["id"], "name": name, "value": mean([row["value"] for row in rows]), "peers": means,
            "share": mean([row["share"] for row in rows])}


def judge(row, target):
    """Adds the ratio to the best peer, the targets, and whether they are met."""
    peers = row["peers"]
    if peers:
        row["peer_mode"] = min(peers, key=peers.get)
        row["peer"] = peers[row["peer_mode"]]
        row["ratio"] = row["peer"] / row["value"]
    ratios = {mode: peer / row["value"] for mode, peer in peers.items()}
    for level in ("good", "moonshot"):
        row[level] = target_for(target.get(level, ""), row["name"])
        row[f"met_{level}"] = met(row[level], row.get("ratio"), row["share"], row["value"], ratios)


def size_row(entry):
    """A size brings its own bounds, in its own unit."""
    row = {"id": entry["row"], "name": f"{entry['row']}: {entry['name']}", "value": entry["value"],
           "unit": entry["unit"]}
    for level in ("good", "moonshot"):
        row[level] = "" if entry[level] is None else f"<{entry[level]} {row['unit']}"
        row[f"met_{level}"] = None if entry[level] is None else row["value"] < entry[level]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--rows", default="^(?!op/|optim/)",
                        help="regular expression over row names, e.g. '^(C2|C4)'; rows of no peer are for compare.py")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--peer-timeout", type=float, default=900, help="seconds for one row of the peer")
    parser.add_argument("--peer-modes", default=".", metavar="REGEX",
                        help="of the peer's modes only these, e.g. 'eager|graph' (compiling takes minutes)")
    parser.add_argument("--threads", default=",".join(map(str, sorted({1, min(2, os.cpu_count() or 1)}))), metavar="N,N,...",
                        help="the CPU rows run with each of these numbers of threads")
    parser.add_argument("--out", default=os.path.join(HERE, "..", "build", "bench"))
    parser.add_argument("--size-json", help="JSON lines {row, value, unit} of the S rows, measured by bench/size.sh")
    parser.add_argument("--page", help="a page of Markdown to write the rows into, docs/measured.md")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the rows measured so far are shown
    spec = json.load(open(os.path.join(HERE, "targets.json")))["rows"]
    rows = f"({args.rows})|^limit/"

    names = names_of(args.binary)
    ours, peers, peer_name = measure(args, [n for n in names if re.search(rows, n.split("@")[0])])
    sizes = map(json.loads, open(args.size_json)) if args.size_json and os.path.exists(args.size_json) else []
    table = tabulate(ours, peers, spec, names, [entry for entry in sizes if re.search(args.rows, entry["row"])])

    measured = {row["id"] for row in table}
    missing = [r["id"] for r in spec if r["id"] not in measured]
    env = environment()
    env["peer"] = f"{peer_name}, {openblas}" if (openblas := openblas_name()) else peer_name
    heading = (f"Measured {env['date']} at {env['commit']} on {env['cpu']} ({env['cores']} cores), GPU {env['gpu']}, "
               f"CUDA {env['cuda']}; peer: {env['peer']}")
    head = ["| row | ours | spread | peers | ratio | share of limit | good | met | moonshot | met |",
            "|---|---|---|---|---|---|---|---|---|---|"]
    lines = []
    for row in sorted(table, key=lambda r: (r["id"] == "limit", r["name"])):
        peers = sorted(row.get("peers", {}).items(), key=lambda peer: peer[1])
        peer = ", ".join(f"{amount(row, value)} ({mode})" for mode, value in peers)
        ratio = f"{row['ratio']:.2f}x" if row.get("ratio") else ""
        share = f"{100 * row['share']:.0f}%" if row.get("share") else ""
        spread = f"{100 * row['spread']:.0f}%" if row.get("spread") is not None else ""
        lines.append(f"| {row['name']} | {human(row)} | {spread} | {peer} | {ratio} | {share} | {row['good']} | "
                     f"{yes_no(row['met_good'])} | {row['moonshot']} | {yes_no(row['met_moonshot'])} |")
    if args.page:
        write_page(args.page, heading, head, lines)
    tail = ["", "Not measured: " + ", ".join(missing) + "."] if missing and args.rows == "." else []
    text = "\n".join([heading + ".", "", *head, *lines, *tail]) + "\n"
    print(text)
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "bench.md"), "w") as f:
        f.write(text)
    with open(os.path.join(args.out, "bench.json"), "w") as f:
        json.dump({"environment": env, "rows": table, "not_measured": missing}, f, indent=1)
    return 0 if table else 1


if __name__ == "__main__":
    sys.exit(main())
