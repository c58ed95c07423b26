"""The first page of a PyTorch user, in cells: test_first_page.py runs each with PyTorch, then with the imports replaced."""
# %% creation
import torch

a = torch.zeros(2, 3)
b = torch.ones((2, 3), dtype=torch.float32)
c = torch.full((2, 3), 7.0)
d = torch.arange(0, 10, 2)
e = torch.linspace(0, 1, steps=5)
eye = torch.eye(3)
f = torch.tensor([[1, 2], [3, 4]])
g = torch.zeros_like(a) + torch.stack([b[0], c[0]])
h = torch.cat([a, b], dim=0)
print(a.shape, h.size(0), h.size(), d.tolist(), e.tolist(), eye.sum().item(), g.tolist())
print(f.dtype == torch.int64, torch.is_tensor(f), f.dim(), f.numel(), len(f), torch.where(f > 2, f, 0).tolist())
torch.manual_seed(0)
r = torch.rand(3, 4)
n = torch.randn(3, 4, requires_grad=True)
assert 0 <= r.min() and r.max() < 1 and n.requires_grad and torch.randint(0, 10, (5,)).max() < 10
assert sorted(torch.randperm(5).tolist()) == [0, 1, 2, 3, 4]

# %% indexing
import torch

x = torch.arange(24).view(2, 3, 4)
print(x[0].tolist(), x[:, 1].tolist(), x[..., -1].tolist(), x[0, 1, 2].item())
print(x[x > 20].tolist(), x[:, [0, 2]].shape, x[None].shape, x[:, :, ::2].tolist())
mask = x % 2 == 0
x[mask] = -1
x[1, 2] = 0
x[0, :, 0] += 100
print(x.tolist(), mask.sum().item(), (~mask).any().item())
index = torch.tensor([1, 0])
print(x[index].shape, x.view(-1).shape, x.reshape(6, -1).shape, x.permute(2, 0, 1).shape, x.unsqueeze(1).shape)
print(torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0], [1]])).tolist())
for row in x[1]:
    print(row.tolist())

# %% device
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.ones(3).to(device)
y = torch.zeros(3, device=device)
print(device, x.device, x.device.type, x.device == device, (x + y).device, y.is_cuda == (device.type == "cuda"))
print(torch.device("cuda:1").index, torch.device("cpu").index, torch.device("cuda", 0))
assert torch.cuda.device_count() >= 0 and torch.get_num_threads() >= 1
if torch.cuda.is_available():
    torch.cuda.synchronize()
z = x.cpu().to(torch.float64)
print(z.dtype == torch.float64, z.to("cpu", torch.float32).tolist(), x.double().float().long().tolist())

# %% module
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, kernel_size=3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.fc1 = nn.Linear(4 * 4 * 4, hidden)
        self.fc2 = nn.Linear(hidden, 10)
        self.dropout = nn.Dropout(p=0.25)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.conv1(x))), 2)
        x = torch.flatten(x, 1)
        x = self.dropout(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


model = Net()
out = model(torch.randn(5, 1, 8, 8))
print(out.shape, model.training, model.fc1.in_features, model.conv1.weight.shape)
assert torch.allclose(out.exp().sum(dim=1), torch.ones(5), atol=1e-5)
model.eval()
with torch.no_grad():
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(model(x), model(x)) and not model(x).requires_grad

# %% counting parameters
import torch
from torch import nn

model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
total = sum(p.numel() for p in model.parameters())
trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
print(f"{total:,} parameters, {trainable:,} trainable, {sum(p.numel() * p.element_size() for p in model.parameters())} bytes")
for name, p in model.named_parameters():
    print(name, tuple(p.shape), p.dtype == torch.float32, p.requires_grad)
print([type(m).__name__ for m in model.children()], len(list(model.modules())), list(model.state_dict().keys()))

# %% initialising
import torch
from torch import nn


def init_weights(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight)
        nn.init.zeros_(m.bias)
    elif isinstance(m, nn.Embedding):
        nn.init.normal_(m.weight, mean=0.0, std=0.02)


model = nn.Sequential(nn.Linear(300, 200), nn.Tanh(), nn.Linear(200, 10))
model.apply(init_weights)
bound = (6 / 500) ** 0.5
w = model[0].weight
assert w.abs().max().item() <= bound and w.std().item() > 0.5 * bound and model[2].bias.abs().sum().item() == 0
nn.init.kaiming_normal_(w, mode="fan_in", nonlinearity="relu")
assert abs(w.std().item() - (2 / 300) ** 0.5) < 0.01
nn.init.constant_(model[0].bias, 0.5)
nn.init.orthogonal_(model[2].weight)
with torch.no_grad():
    model[2].bias.fill_(1.0)
    model[2].weight[0] = 0.0
print(model[0].bias.mean().item(), model[2].bias.data.sum().item(), model[2].weight[0].tolist(), w.requires_grad)

# %% own dataset
import torch
from torch.utils.data import Dataset, DataLoader, TensorDataset, random_split


class Squares(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.tensor([float(i)]), i * i


loader = DataLoader(Squares(10), batch_size=4, shuffle=False)
for x, y in loader:
    print(x.shape, y.tolist(), y.dtype == torch.int64)
print(len(loader), len(loader.dataset), loader.batch_size)
seen = [int(v) for x, y in DataLoader(Squares(10), batch_size=3, shuffle=True, drop_last=True, num_workers=0) for v in y]
assert len(seen) == len(set(seen)) == 9
whole = TensorDataset(torch.arange(10.0), torch.arange(10))
train, test = random_split(whole, [8, 2])
x, y = next(iter(DataLoader(train, batch_size=8)))
print(len(train), len(test), x.shape, y.shape, whole[3][1].item())
texts = DataLoader([{"x": torch.ones(2), "name": "a"}, {"x": torch.zeros(2), "name": "b"}], batch_size=2)
print([(batch["x"].tolist(), batch["name"]) for batch in texts])

# %% loop
import torch
import torch.optim as optim
from torch import nn

torch.manual_seed(0)
X = torch.randn(200, 2)
y = (X[:, 0] * X[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
criterion = nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=1e-2)
losses = []
for epoch in range(100):
    model.train()
    running_loss = 0.0
    for i in range(0, len(X), 50):
        inputs, labels = X[i:i + 50], y[i:i + 50]
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.item() * inputs.size(0)
    losses.append(running_loss / len(X))
    if epoch % 50 == 0:
        f"Epoch {epoch + 1:3d} | loss {losses[-1]:.4f}"
assert losses[-1] < 0.3 * losses[0], losses

# %% hand-written SGD
import torch

x = torch.linspace(-1, 1, 50).unsqueeze(1)
y = 3 * x + 0.5
w = torch.zeros(1, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for step in range(200):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w, b):
            p -= 0.2 * p.grad
            p.grad.zero_()
print(round(w.item(), 3), round(b.item(), 3), loss.item() < 1e-4, w.requires_grad, w.is_leaf, loss.grad_fn is not None)
u = torch.tensor(2.0, requires_grad=True)
(du,) = torch.autograd.grad(u ** 3, u)
print(du.item(), u.grad)

# %% accuracy
import torch

logits = torch.tensor([[2.0, 1.0, 0.1], [0.5, 2.5, 0.3], [0.2, 0.1, 3.0], [1.5, 2.0, 0.1]])
y = torch.tensor([0, 1, 2, 0])
pred = logits.argmax(dim=1)
correct = (pred == y).sum().item()
print(pred.tolist(), correct, (pred == y).float().mean().item(), f"{100 * correct / len(y):.1f}%")
values, indices = torch.max(logits, dim=1)
probs = torch.softmax(logits, dim=-1)
top = logits.topk(2, dim=1)
print(values.tolist(), indices.eq(y).tolist(), torch.allclose(probs.sum(-1), torch.ones(4)), top.indices.tolist())
confusion = torch.zeros(3, 3, dtype=torch.int64)
for t, p in zip(y, pred):
    confusion[t, p] += 1
print(confusion.tolist(), confusion.diag().sum().item(), torch.bincount(y, minlength=3).tolist())

# %% save and load
import os
import tempfile
import torch
from torch import nn, optim

model = nn.Linear(3, 2)
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model(torch.ones(1, 3)).sum().backward()
optimizer.step()
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "model.pt")
    torch.save(model.state_dict(), path)
    other = nn.Linear(3, 2)
    print(other.load_state_dict(torch.load(path, map_location="cpu")))
    assert torch.equal(other.weight, model.weight)
    torch.save({"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "loss": 0.5}, path)
    checkpoint = torch.load(path)
    other.load_state_dict(checkpoint["model"])
    optimizer2 = optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    optimizer2.load_state_dict(checkpoint["optimizer"])
    print(checkpoint["epoch"], checkpoint["loss"])
for m, o in ((model, optimizer), (other, optimizer2)):
    o.zero_grad()
    m(torch.ones(1, 3)).pow(2).sum().backward()
    o.step()
assert torch.allclose(other.weight, model.weight) and torch.allclose(other.bias, model.bias)

# %% Function
import torch
from torch.autograd import Function, gradcheck


class MyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, slope):
        ctx.save_for_backward(input)
        ctx.slope = slope
        return torch.where(input > 0, input, input * slope)

    @staticmethod
    def backward(ctx, grad_output):
        input, = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input < 0] *= ctx.slope
        return grad_input, None


x = torch.tensor([-1.0, 2.0, -3.0], requires_grad=True)
y = MyReLU.apply(x, 0.5)
y.sum().backward()
print(y.tolist(), x.grad.tolist(), issubclass(MyReLU, Function))
print(gradcheck(lambda t: MyReLU.apply(t, 0.5), (torch.tensor([-1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True),)))

# %% freezing
import torch
from torch import nn, optim

backbone = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
head = nn.Linear(8, 2)
for param in backbone.parameters():
    param.requires_grad = False
optimizer = optim.SGD(filter(lambda p: p.requires_grad, [*backbone.parameters(), *head.parameters()]), lr=0.1)
before = [p.clone() for p in backbone.parameters()]
old = head.weight.detach().clone()
head(backbone(torch.randn(3, 4))).pow(2).sum().backward()
optimizer.step()
print(backbone[0].weight.grad, head.weight.grad is not None, backbone[0].weight.requires_grad)
assert all(torch.equal(p, q) for p, q in zip(backbone.parameters(), before)) and not torch.equal(old, head.weight)
backbone.requires_grad_(True)
groups = optim.SGD([{"params": backbone.parameters(), "lr": 1e-3}, {"params": head.parameters()}], lr=1e-1)
print([group["lr"] for group in groups.param_groups], all(p.requires_grad for p in backbone.parameters()))

# %% plotting
import numpy as np
import torch

x = torch.linspace(-3, 3, 7)
y = torch.sin(x).detach().cpu().numpy()
line = np.column_stack([x.numpy(), y])
w = torch.randn(8, 8, requires_grad=True)
counts, edges = np.histogram(w.detach().numpy().ravel(), bins=10)
image = np.asarray(torch.ones(3, 4, 5).permute(1, 2, 0))
losses = [torch.tensor(0.5), torch.tensor(0.25)]
print(line.shape, line.dtype, y.round(3).tolist(), counts.sum(), image.shape, np.array([l.item() for l in losses]).tolist())
print(np.asarray(losses[0]) == 0.5, [float(l) for l in losses], np.mean(losses[1].numpy()), max(x).item(), sum(x).item())

# %% repr
import torch
from torch import nn

print(torch.tensor([1.0, 2.5, -3.0]))
print(torch.tensor([[1, 2], [3, 4]]))
print(torch.tensor([True, False]))
print(torch.tensor(1.5).item(), f"{torch.tensor(1.23456):.3f}")
print(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
print(torch.zeros(2, 3).shape, str(torch.zeros(2).dtype))

# %% help
import inspect
import pydoc
import torch
from torch import nn, optim

for thing in (nn.Linear, optim.Adam, torch.softmax, torch.Tensor.sum, nn.functional.cross_entropy, nn.Module.load_state_dict):
    text = pydoc.plain(pydoc.render_doc(thing))
    assert len(text.splitlines()) > 3 and thing.__name__ in text, text
print(list(inspect.signature(nn.Linear).parameters)[:2], "lr" in inspect.signature(optim.Adam).parameters)
assert {"backward", "sum", "view"} <= set(dir(torch.ones(1))) and {"weight", "bias"} <= set(dir(nn.Linear(1, 1)))
assert "Linear" in dir(nn) and torch.__version__ and torch.matmul.__doc__

# %% mypy
from typing import Iterator

import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])])
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x * self.scale


def batches(x: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    for start in range(0, x.shape[0], size):
        yield x[start:start + size]


def mean_norm(model: nn.Module, x: torch.Tensor) -> float:
    with torch.no_grad():
        norms = [model(part).norm(dim=1).mean() for part in batches(x, 4)]
    return float(torch.stack(norms).mean())


mlp = Mlp([3, 5, 2])
value: float = mean_norm(mlp, torch.ones(8, 3))
print(type(value).__name__, len(mlp.layers), mlp(torch.ones(1, 3)).shape)

# %% error
import torch
from torch import nn

for attempt in (lambda: torch.ones(2, 3) @ torch.ones(2, 3), lambda: nn.Linear(3, 2)(torch.ones(1, 4)),
                lambda: torch.ones(2).backward(), lambda: torch.ones(3, requires_grad=True).numpy()):
    try:
        attempt()
    except RuntimeError as error:
        assert str(error)
        print("RuntimeError")
for kind, attempt in ((IndexError, lambda: torch.ones(3)[5]), (TypeError, lambda: nn.Linear(3)),
                      (AttributeError, lambda: torch.ones(3).nothing), (TypeError, lambda: torch.ones(3) + "a"),
                      (FileNotFoundError, lambda: torch.load("no_such_file.pt"))):
    try:
        attempt()
    except kind as error:
        assert str(error)
        print(kind.__name__)

# %% progress bar
import io
import sys
import time
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def progress(loader, desc, out):
    total, begin = len(loader), time.time()
    for i, batch in enumerate(loader):
        yield batch
        out.write(f"\r{desc}: {100 * (i + 1) // total:3d}%|{'#' * (10 * (i + 1) // total):10s}| {i + 1}/{total}")
    out.write(f" [{time.time() - begin:.1f}s]\n")


out = io.StringIO()
model, loss_fn = nn.Linear(1, 1), nn.MSELoss()
opt = optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.ones(20, 1), torch.zeros(20, 1))
for epoch in range(2):
    for xb, yb in progress(DataLoader(data, batch_size=4, shuffle=True), f"epoch {epoch}", out):
        loss = loss_fn(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        out.write(f" loss={loss.item():.3f}, lr={opt.param_groups[0]['lr']:.2g}")
print(out.getvalue().count("5/5"), out.getvalue().count("100%|##########|"))
sys.stdout.flush()

# %% NumPy
import numpy as np
import torch

a = np.arange(6, dtype=np.float32).reshape(2, 3)
t = torch.from_numpy(a)
t[0, 0] = 42
print(a[0, 0], t.numpy().dtype, torch.tensor(a).dtype == torch.float32, torch.as_tensor([1, 2]).tolist())
print((t * np.float32(2)).sum().item(), np.sqrt(a[1]).shape, (t + torch.from_numpy(np.ones(3, np.float32))).shape)
print(torch.tensor(np.array([1, 2, 3])).dtype == torch.int64, torch.from_numpy(np.eye(2)).dtype == torch.float64)
print(np.array(t).shape, np.allclose(t, a), np.argmax(t.numpy(), axis=1).tolist(), int(torch.tensor(np.int64(7))))
print(torch.tensor(np.array([True, False])).dtype == torch.bool, t.numpy().mean(), np.stack([t, t]).shape)

# %% pickle
import io
import pickle
import torch
from torch import nn

x = torch.arange(4.0, requires_grad=True)
y = pickle.loads(pickle.dumps(x))
print(y.tolist(), y.requires_grad, pickle.loads(pickle.dumps(torch.float32)) == torch.float32)
model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.1)).eval()
file = io.BytesIO()
pickle.dump({"model": model, "data": [torch.ones(2), torch.zeros(1, dtype=torch.int64)]}, file)
file.seek(0)
read = pickle.load(file)
print(read["model"].training, read["data"][1].dtype == torch.int64)
assert torch.equal(read["model"](torch.ones(1, 2)), model(torch.ones(1, 2)))

# %% deepcopy
import copy
import torch
from torch import nn

model = nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 1))
best = copy.deepcopy(model)
best_weights = copy.deepcopy(model.state_dict())
with torch.no_grad():
    for p in model.parameters():
        p.add_(1.0)
assert not torch.equal(best[0].weight, model[0].weight) and torch.equal(best_weights["0.weight"], best[0].weight)
model.load_state_dict(best_weights)
assert torch.equal(best(torch.ones(1, 2)), model(torch.ones(1, 2)))
layers = nn.ModuleList([copy.deepcopy(nn.Linear(3, 3)) for _ in range(4)])
print(len(layers), best[0].weight.requires_grad, copy.copy(torch.ones(2)).tolist(), best[0].weight is model[0].weight)

# %% torch both ways
import numpy as np
import torch
import torch as reference

x = torch.arange(4.0)
there = reference.from_dlpack(x)
there += 1
print(x.tolist(), there.tolist())
back = torch.from_dlpack(reference.ones(2, 2))
print(back.sum().item(), (back @ back).tolist())
layer, other = torch.nn.Linear(2, 3), reference.nn.Linear(2, 3)
layer.load_state_dict({name: torch.from_numpy(value.numpy()) for name, value in other.state_dict().items()})
given = np.ones((1, 2), np.float32)
assert np.allclose(layer(torch.tensor(given)).detach().numpy(), other(reference.tensor(given)).detach().numpy())
other.load_state_dict({name: reference.from_numpy(value.numpy()) for name, value in layer.state_dict().items()})

# %% sklearn-like batch
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4))
y = (X.sum(axis=1) > 0).astype(int)
X_train, X_test, y_train, y_test = X[:90], X[90:], y[:90], y[90:]
mean, std = X_train.mean(0), X_train.std(0)
X_train = torch.tensor((X_train - mean) / std, dtype=torch.float32)
X_test = torch.FloatTensor((X_test - mean) / std)
y_train, y_test = torch.LongTensor(y_train), torch.tensor(y_test, dtype=torch.long)
model = nn.Linear(4, 2)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=20)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(X_train), y_train)
    loss.backward()
    return loss


first = closure().item()
optimizer.step(closure)
assert closure().item() < 0.5 * first
y_pred = model(X_test).argmax(1).numpy()
print(y_pred.shape, (y_pred == y_test.numpy()).mean() > 0.9, X_train.mean(dim=0).abs().max().item() < 1e-6)

# %% EMA
import copy
import torch
from torch import nn

model = nn.Linear(2, 2)
ema = copy.deepcopy(model)
for p in ema.parameters():
    p.requires_grad_(False)
with torch.no_grad():
    for p in model.parameters():
        p.zero_()
    for e in ema.parameters():
        e.fill_(1.0)
    for _ in range(10):
        for e, p in zip(ema.parameters(), model.parameters()):
            e.mul_(0.9).add_(p, alpha=0.1)
    for e, p in zip(ema.parameters(), model.parameters()):
        e.data = 0.9 * e.data + 0.1 * p.data
        e.lerp_(p, 0.0)
    for b_ema, b in zip(ema.buffers(), model.buffers()):
        b_ema.copy_(b)
print([round(p.mean().item(), 5) for p in ema.parameters()], next(ema.parameters()).requires_grad)

# %% scheduler
import torch
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR, CosineAnnealingLR

model = nn.Linear(1, 1)
optimizer = optim.SGD(model.parameters(), lr=0.1)
scheduler = StepLR(optimizer, step_size=2, gamma=0.5)
rates = []
for epoch in range(5):
    optimizer.step()
    scheduler.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 6))
print(rates, scheduler.get_last_lr())
cosine = CosineAnnealingLR(optim.AdamW(model.parameters(), lr=1.0), T_max=4)
values = [round(cosine.get_last_lr()[0], 6)]
for _ in range(4):
    cosine.optimizer.step()
    cosine.step()
    values.append(round(cosine.get_last_lr()[0], 6))
print(values)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
warm = torch.optim.lr_scheduler.LambdaLR(opt, lr_lambda=lambda step: min(1.0, (step + 1) / 4))
opt.step()
warm.step()
print(round(opt.param_groups[0]["lr"], 6))
for g in opt.param_groups:
    g["lr"] = 0.003
print(opt.param_groups[0]["lr"])
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="min", factor=0.1, patience=1)
for metric in (1.0, 1.0, 1.0, 1.0):
    plateau.step(metric)
print(round(opt.param_groups[0]["lr"], 7))

# %% clipping
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
(1000 * model(torch.ones(2, 4))).sum().backward()
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
after = torch.sqrt(sum(p.grad.pow(2).sum() for p in model.parameters()))
assert norm.item() > 1 and abs(after.item() - 1) < 1e-4
nn.utils.clip_grad_value_(model.parameters(), 0.01)
print(max(p.grad.abs().max().item() for p in model.parameters()) <= 0.0100001)
x = torch.tensor([-2.0, 0.5, 2.0])
print(x.clamp(-1, 1).tolist(), torch.clamp(x, min=0).tolist(), x.clamp_(max=1).tolist(), torch.isnan(x).any().item())

# %% evaluation
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Dropout(0.5)).to(device)
with torch.no_grad():
    model[1].weight.copy_(torch.eye(4)[:3])
    model[1].bias.zero_()
data = TensorDataset(torch.eye(4).reshape(4, 2, 2).repeat(3, 1, 1), torch.tensor([0, 1, 2, 0] * 3))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss, correct, predictions = 0.0, 0, []
    for x, y in loader:
        x, y = x.to(device), y.to(device, non_blocking=True)
        logits = model(x)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        correct += logits.argmax(1).eq(y).sum().item()
        predictions.append(logits.softmax(1).cpu())
    model.train()
    return loss / len(loader.dataset), correct / len(loader.dataset), torch.cat(predictions)


loss, accuracy, predictions = evaluate(model, DataLoader(data, batch_size=5))
print(f"{loss:.4f} {accuracy:.2%}", predictions.shape, predictions.requires_grad, model.training)
with torch.inference_mode():
    print(model(torch.ones(1, 2, 2).to(device)).requires_grad, torch.is_grad_enabled())
