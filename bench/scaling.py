#!/usr/bin/env python3
"""Weak scaling of GPT-2 124M by arithmetic, for numbers of GPUs that there is no machine for: buckets and overlap from measured parts.

  usage: scaling.py STEP_MS BACKWARD_MS ALL_REDUCE_GB_S [GPUS...]     a table in Markdown, for docs/measured.md

STEP_MS and BACKWARD_MS are of one GPU, ALL_REDUCE_GB_S the bus bandwidth of NCCL within a machine: bytes * 2 (n - 1) / n over
the time. Within a machine of eight, buckets go at that rate; beyond it, each GPU has a card of 400 Gb/s of its own, of which a
ring reaches nine tenths: the slower of the two counts. A gradient is there when the share of backward's products that lies
behind it is done; buckets are those of nn/parallel (Buckets), reduced one after the other. What is left after backward is
exposed: where communication runs beside it at no cost, and where it costs as much as it hides. The model knows no stragglers.
"""
import sys

VOCABULARY, LENGTH, LAYERS, WIDTH = 50304, 1024, 12, 768
BUCKET, FIRST, LATENCY_MS, CARD_GB_S = 25 << 20, 1 << 20, 0.02, 45
MACHINE = 8


def parameters():
    """(numbers, products of its backward) in the order in which gradients come: the last layer's first."""
    c = WIDTH
    block = [(c, 0), (4 * c * c, 4 * c * c), (4 * c, 0), (4 * c * c, 4 * c * c), (c, 0), (c, 0),
             (c, 0), (c * c, c * c + LENGTH * c), (3 * c, 0), (3 * c * c, 3 * c * c), (c, 0), (c, 0)]
    # The output layer's products come first, and its weight's gradient is whole with that of the embedding, the last.
    return [(c, VOCABULARY * c), (c, 0)] + block * LAYERS + [(LENGTH * c, 0), (VOCABULARY * c, 0)]


def buckets(bytes_of_a_number):
    """(bytes, share of backward after which it is full)."""
    params = parameters()
    whole = sum(work for _, work in params)
    filled, done = [], 0
    for numbers, work in params:
        done += work
        size = numbers * 4
        most = FIRST if len(filled) <= 1 else BUCKET
        if not filled or filled[-1][0] + size > most:
            filled.append([0, 0])
        filled[-1][0] += size
        filled[-1][1] = done / whole
    return [(size * bytes_of_a_number / 4, share) for size, share in filled]


def exposed_ms(gpus, backward_ms, gb_s, bytes_of_a_number):
    """Milliseconds left after a backward pass that hides what it can, and after one that hides nothing."""
    rate = gb_s if gpus <= MACHINE else min(gb_s, CARD_GB_S)
    end = alone = 0.0
    for size, share in buckets(bytes_of_a_number):
        took = LATENCY_MS * (1 + gpus // MACHINE) + size * 2 * (gpus - 1) / gpus / rate / 1e6
        end = max(end, share * backward_ms) + took
        alone += took
    return max(0.0, end - backward_ms), alone


def main():
    step, backward, gb_s = map(float, sys.argv[1:4])
    print("| GPUs | f32, hidden | f32, not hidden | bf16, hidden | bf16, not hidden |\n|---|---|---|---|---|")
    for gpus in map(int, sys.argv[4:] or (2, 4, 8, 64)):
        cells = [f"{ms:.2f} ms, {100 * step / (step + ms):.1f}%" for size in (4, 2)
                 for ms in exposed_ms(gpus, backward, gb_s, size)]
        print(f"| {gpus} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
