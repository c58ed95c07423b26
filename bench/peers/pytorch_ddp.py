"""PyTorch's side of weak scaling: a GPT-2 124M step on each GPU, gradients averaged by DistributedDataParallel.

  usage: pytorch_ddp.py RANKS BATCH_A_GPU [compile]     prints a line of JSON: ms a step, tokens/s of all
"""
import contextlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pytorch_models import Gpt  # noqa: E402

SHAPE = (50304, 1024, 12, 12, 768)  # vocabulary, length, layers, heads, width


def work(rank, ranks, batch, compiled):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29577")
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    model = Gpt(*SHAPE).cuda()
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    loss_of = model
    if ranks > 1:
        dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
        loss_of = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=True)
    if compiled:
        loss_of = torch.compile(loss_of, dynamic=False)
    tokens, targets = (torch.randint(0, SHAPE[0], (batch, SHAPE[1]), device="cuda") for _ in range(2))

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad(set_to_none=True)

    times = []
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if compiled else contextlib.nullcontext():
        for i in range(8 + 3):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(1 if i < 8 else 10):
                step()
            torch.cuda.synchronize()
            if i >= 8:
                times.append((time.perf_counter() - begin) * 100)
    ms = sorted(times)[1]
    if rank == 0:
        print(json.dumps({"row": f"ddp_{ranks}x{batch}_{'compile' if compiled else 'eager'}", "ms": round(ms, 3),
                          "tok_per_s": round(ranks * batch * SHAPE[1] / ms * 1e3), "torch": torch.__version__}), flush=True)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    count, size, use = int(sys.argv[1]), int(sys.argv[2]), "compile" in sys.argv[3:]
    if count == 1:
        work(0, 1, size, use)
    else:
        torch.multiprocessing.spawn(work, (count, size, use), nprocs=count)
