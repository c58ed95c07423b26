"""PyTorch's side of the rows of transformers: norms, embedding, attention and training steps of GPTs.

Rows are registered with pytorch_rows.row; a row that returns (seconds, bytes) reports its peak memory too.
"""
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.fc_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.ln_1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.fc_proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, length, layers, heads, width):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(F.linear(self.norm(x), self.wte.weight).flatten(0, 1), targets.flatten())


def gpt_step(shape, batch, device, mode, median, repeat):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    vocabulary, length = shape[:2]
    torch._dynamo.reset()
    model = Gpt(*shape).to(device)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    tokens, targets = (torch.randint(0, vocabulary, (batch, length), device=device) for _ in range(2))
    loss_of = model
    if mode != "eager":
        loss_of = torch.compile(model, dynamic=False,
                                mode="reduce-overhead" if mode == "reduce-overhead" else None)
    gpu = device == "cuda"
    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def step():
        if gpu:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(device, dtype=torch.bfloat16) if gpu else contextlib.nullcontext():
            loss = loss_of(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad(set_to_none=True)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if mode == "compile-cudnn" else contextlib.nullcontext():
        seconds = median(step, repeat)
    if not gpu:
        return seconds
    peak = torch.cuda.max_memory_allocated()
    del model, adamw
    torch.cuda.empty_cache()
    return seconds, peak


def lstm_step(size, batch, steps, dtype, device, median, repeat):
    layer = nn.LSTM(size, size, dtype=dtype, device=device)
    layer.flatten_parameters()
    torch.backends.cudnn.allow_tf32 = False  # the same arithmetic on both sides
    x = torch.randn(steps, batch, size, dtype=dtype, device=device, requires_grad=True)

    def step():
        layer.zero_grad(set_to_none=True)
        x.grad = None
        layer(x)[0].sum().backward()
    return median(step, repeat)


def register(row, gpu, device_median, step_median, host_median):
    def both(prefix, f, *shapes):
        def forward():
            xs = [gpu(*s, dtype=torch.bfloat16) for s in shapes]
            return device_median(lambda: f(*xs))

        def backward():
            xs = [gpu(*s, dtype=torch.bfloat16, grad=True) for s in shapes]
            y = f(*xs)
            g = torch.randn_like(y)
            return device_median(lambda: torch.autograd.grad(y, xs, g, retain_graph=True))
        row(prefix + "_fwd", True)(forward)
        row(prefix + "_bwd", True)(backward)

    for rows, columns, name in ((32768, 1024, "O4"), (8192, 4096, "O4b")):
        both(f"{name}/layer_norm_bf16_{rows}x{columns}",
             lambda x, w, b, c=columns: F.layer_norm(x, (c,), w, b), (rows, columns), (columns,), (columns,))
    both("O5/rms_norm_bf16_8192x4096", lambda x, w: F.rms_norm(x, (4096,), w), (8192, 4096), (4096,))

    @row("O8/embedding_bf16_50304x768_bwd", True)
    def embedding():
        table = gpu(50304, 768, dtype=torch.bfloat16, grad=True)
        y = F.embedding(torch.randint(0, 50257, (32, 1024), device="cuda"), table)
        g = torch.randn_like(y)
        return device_median(lambda: torch.autograd.grad(y, table, g, retain_graph=True))

    def attention(shape, backend, backward):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        q, k, v = (gpu(*shape, dtype=torch.bfloat16, grad=backward) for _ in range(3))
        call = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
        with sdpa_kernel(getattr(SDPBackend, backend)):
            if not backward:
                return device_median(call)
            y = call()
            g = torch.randn_like(y)
            return device_median(lambda: torch.autograd.grad(y, (q, k, v), g, retain_graph=True))
    for name, shape in (("A1/attention_hd64_t1024", (32, 32, 1024, 64)),
                        ("A2/attention_hd64_t4096", (8, 32, 4096, 64)),
                        ("A3/attention_hd128_t4096", (8, 16, 4096, 128))):
        for mode, backend in (("flash", "FLASH_ATTENTION"), ("cudnn", "CUDNN_ATTENTION")):
            for suffix, backward in (("fwd", False), ("bwd", True)):
                row(f"{name}_{suffix}@{mode}", True)(
                    lambda s=shape, b=backend, w=backward: attention(s, b, w))

    modes = ("eager", "compile", "compile-cudnn", "reduce-overhead")
    for mode in modes:
        for batch in (32, 64):
            row(f"G1/gpt2_124M_bf16_b{batch}_t1024@{mode}", True)(
                lambda b=batch, m=mode: gpt_step((50304, 1024, 12, 12, 768), b, "cuda", m, step_median, 4))
        row(f"G2/chargpt_6l6h384_b64_t256@{mode}", True)(
            lambda m=mode: gpt_step((65, 256, 6, 6, 384), 64, "cuda", m, step_median, 40))
    row("C3/gpt_4l4h128_b12_t64")(
        lambda: gpt_step((65, 64, 4, 4, 128), 12, "cpu", "eager", host_median, 1))
    for name, dtype in (("bf16", torch.bfloat16), ("f32", torch.float32)):
        row(f"R1/lstm512_{name}_b64_t128", True)(
            lambda d=dtype: lstm_step(512, 64, 128, d, "cuda", step_median, 10))
    row("R2/lstm128_b16_t64")(lambda: lstm_step(128, 16, 64, torch.float32, "cpu", host_median, 1))
