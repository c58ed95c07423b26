"""A typed program: test_types.py has checkers read it."""
import os
import tempfile

import cotangent as ct
from cotangent import nn, optim
from cotangent.data import DataLoader, Dataset, TensorDataset


class Squares(Dataset):
    def __init__(self, n: int) -> None:
        self.x = ct.linspace(-1, 1, n).unsqueeze(1)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[ct.Tensor, ct.Tensor]:
        return self.x[index], self.x[index].square()


class Net(nn.Module):
    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.first = nn.Linear(1, hidden)
        self.second = nn.Linear(hidden, 1)
        self.scale = nn.Parameter(ct.ones(1))
        self.register_buffer("seen", ct.zeros(1))

    def forward(self, x: ct.Tensor) -> ct.Tensor:
        hidden = ct.tanh(self.first(x))
        return self.second(hidden) * self.scale


def train(net: nn.Module, loader: DataLoader, device: str) -> float:
    net.to(device).train()
    adam = optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.0)
    schedule = optim.CosineAnnealingLR(adam, steps=20)
    loss = ct.zeros(())
    for _ in range(20):
        for x, y in loader:
            adam.zero_grad()
            loss = nn.functional.mse_loss(net(x.to(device)), y.to(device))
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            adam.step()
        schedule.step()
    return loss.item()


def main() -> None:
    ct.manual_seed(0)
    net = Net()
    final = train(net, DataLoader(Squares(64), batch_size=16, shuffle=True), "cuda" if ct.cuda.is_available() else "cpu")
    count = sum(p.numel() for p in net.parameters())
    for name, p in net.named_parameters():
        print(name, tuple(p.shape), p.dtype)
    print(f"{count} parameters, loss {final:.4f}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.safetensors")
        ct.save(net.state_dict(), path)
        net.load_state_dict(ct.load(path))
    net.eval()
    with ct.no_grad():
        x = ct.arange(4, dtype=ct.f32).view(-1, 1) / 4
        y = net(x)
        values, indices = y.max(dim=0)
        z = 2 * x + 1 - x[1:3].mean() ** 2
        best = float(values[0]) + int(indices[0])
        print(best, z.numpy().mean(), (y > 0.5).float().mean().item(), y.argmax().item())
    pairs = TensorDataset(x, y)
    print(len(pairs), ct.device("cpu").type, ct.einsum("ij,kj->ik", x, x).shape)


main()
