#!/usr/bin/env python3
"""Runs of mnist and gpt that are killed at random moments end in the bits of the run that was not.

   usage: kill_test.py FOLDER_OF_PROGRAMS [KILLS] [SEED]

Each chain of runs is killed by SIGKILL, SIGINT, SIGTERM or SIGHUP after a random time, and taken up again with what
the program says is right: --resume, or --out where there is no checkpoint yet. A kill comes at any moment: in
evaluations, within the first saves, at the start, while settings change hands between two folders. At the end of a
chain both checkpoints, the metrics without times, the samples and the settings must be those of the whole run. All
is done in memory (/dev/shm) where there is such a place: a kill loses nothing that was written.
"""
import gzip
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

programs = os.path.abspath(sys.argv[1])
kills_wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 10
seed = int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())
draw = random.Random(seed)
SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
memory = "/dev/shm"
work = tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None)
os.chdir(work)


def write_data():
    pixels = random.Random(1)
    os.mkdir("data")
    for part, count in ("train", 192), ("t10k", 40):
        images = struct.pack(">4I", 2051, count, 28, 28) + pixels.randbytes(count * 784)
        labels = struct.pack(">2I", 2049, count) + bytes(i % 10 for i in range(count))
        for kind, raw in ("images-idx3", images), ("labels-idx1", labels):
            with open(f"data/{part}-{kind}-ubyte", "wb") as file:
                file.write(raw)
    words = "zero one two three four five six seven eight nine".split()
    with open("text", "w") as file:
        file.write(" ".join(pixels.choice(words) for _ in range(800)))


RUNS = {
    "mnist": ["--data", "data", "--device", "cpu", "--hidden", "16,16", "--batch", "16", "--epochs", "5",
              "--dropout", "0.3"],
    "gpt": ["--text", "text", "--device", "cpu", "--preset", "tiny", "--embd", "16", "--block", "16", "--batch", "4",
            "--iters", "16", "--eval-interval", "3", "--eval-batches", "3", "--dropout", "0.2", "--accumulate", "2",
            "--sample", "6", "--ema", "0.9"],
}


def command(name, where):
    return [f"{programs}/{name}", "--threads", "1"] + where


def bits(folder):
    """Files and values that must be the same."""
    found = {}
    for file in "checkpoint-last.safetensors", "checkpoint-best.safetensors", "samples.txt", "tokenizer.json":
        path = f"{folder}/{file}"
        if os.path.exists(path):
            found[file] = hashlib.sha256(open(path, "rb").read()).hexdigest()
    rows = [line.split(",") for line in open(f"{folder}/metrics.csv").read().split("\n")]
    timed = {i for i, name in enumerate(rows[0]) if name in ("seconds", "samples_per_s", "tokens_per_s")}
    found["metrics"] = [[cell for i, cell in enumerate(row) if i not in timed] for row in rows]
    config = json.load(open(f"{folder}/config.json"))
    found["settings"] = {k: v for k, v in config.items() if k not in ("started", "command")}
    for line in open(f"{folder}/history.jsonl"):
        json.loads(line)
    return found


def give_up(text, output=""):
    print(f"FAIL: {text} (seed {seed})\n{output}")
    if os.environ.get("KEEP"):
        print(f"kept: {work}")
    else:
        shutil.rmtree(work)
    sys.exit(1)


def chain(name, whole, duration, number, counts):
    """One run, killed until it ends. Returns the number of kills."""
    folder, kills, where = f"{name}-{number}", 0, None
    moved = 0
    where = RUNS[name] + ["--out", folder]
    while True:
        process = subprocess.Popen(command(name, where), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        killed = None
        try:
            output, _ = process.communicate(timeout=draw.uniform(0, 1.1 * duration))
        except subprocess.TimeoutExpired:
            killed = draw.choice(SIGNALS)
            process.send_signal(killed)
            output, _ = process.communicate()
        output = output.decode(errors="replace")
        code = process.returncode
        if killed is not None and code not in (0, 1):  # these ended before the signal came
            kills += 1
            counts[killed.name] = counts.get(killed.name, 0) + 1
            if code not in (-killed, 130):
                give_up(f"{name}: exit code {code} after {killed.name}", output)
            # A folder that there is nothing in goes away again, or was never made.
            if not os.path.isdir(folder):
                continue
            resumed = ["--resume", folder]
            if draw.random() < 0.1 and os.path.exists(f"{folder}/checkpoint-last.safetensors"):
                moved += 1
                folder = f"{name}-{number}-{moved}"
                resumed += ["--out", folder]
            where = resumed
        elif code == 0:
            found = bits(folder)
            for key, value in whole.items():
                if found.get(key) != value:
                    give_up(f"{name}: {key} differs after {kills} kills:\n{found.get(key)}\n{value}", output)
            for path in [f"{name}-{number}"] + [f"{name}-{number}-{i + 1}" for i in range(moved)]:
                shutil.rmtree(path, ignore_errors=True)
            return kills
        elif code == 1 and where[0] == "--resume" and "begin it again with --out" in output:
            counts["begun again"] = counts.get("begun again", 0) + 1
            where = RUNS[name] + ["--out", folder]
        elif code == 1 and where[-2] == "--out" and where[0] == "--resume" and "go on with it (--resume" in output:
            where = ["--resume", folder]
        elif code == 1 and where[0] == "--resume" and "--out" not in where and "there is no checkpoint" in output:
            # Killed before it wrote anything: nothing says that this is a run.
            if set(os.listdir(folder)) - {".lock"} - {f for f in os.listdir(folder) if f.endswith(".tmp")}:
                give_up(f"{name}: neither --resume nor --out is named, {os.listdir(folder)}", output)
            where = (["--resume", source_of(folder)] if moved else RUNS[name]) + ["--out", folder]
        else:
            give_up(f"{name}: exit code {code} of {where}", output)


def source_of(folder):
    stem, _, last = folder.rpartition("-")
    return stem if last == "1" else f"{stem}-{int(last) - 1}"


write_data()
started = time.time()
kills, chains, counts = 0, 0, {}
whole, duration = {}, {}
for name in RUNS:
    begun = time.time()
    subprocess.run(command(name, RUNS[name] + ["--out", f"whole-{name}"]), check=True, stdout=subprocess.DEVNULL)
    duration[name] = time.time() - begun
    whole[name] = bits(f"whole-{name}")
while kills < kills_wanted:
    name = list(RUNS)[chains % 2]
    kills += chain(name, whole[name], duration[name], chains, counts)
    chains += 1
shutil.rmtree(work)
print(f"ok: {kills} kills in {chains} runs ended in the bits of the whole runs, which take "
      + ", ".join(f"{duration[n]:.2f} s ({n})" for n in RUNS)
      + f"; {time.time() - started:.0f} s; {counts}; seed {seed}")
