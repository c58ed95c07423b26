"""PyTorch's side of the rows of convolutional networks. Rows are registered with pytorch_rows.row."""
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.around = nn.Sequential()
        if inputs != outputs or stride != 1:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.around(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        layers += [ResidualBlock(inputs, outputs, 1 if outputs == 64 else 2), ResidualBlock(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def two_convolutions():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


def training_step(model, images, classes, device, low, mode, median, repeat):
    torch._dynamo.reset()
    model = model.to(device)
    x, y = torch.randn(images, device=device), torch.randint(0, classes, (images[0],), device=device)
    if low:  # the layout in which cuDNN's convolutions of 16 bits are fastest
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    gpu = device == "cuda"
    sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=gpu)
    run = model if mode == "eager" else torch.compile(
        model, dynamic=False, mode="reduce-overhead" if mode == "reduce-overhead" else None)

    def step():
        if gpu:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(device, dtype=torch.bfloat16) if low else contextlib.nullcontext():
            loss = F.cross_entropy(run(x), y)
        loss.backward()
        sgd.step()
        sgd.zero_grad(set_to_none=True)
    return median(step, repeat)


def register(row, step_median, host_median):
    for mode in ("eager", "compile", "reduce-overhead"):
        row(f"N2/resnet18_bf16_b256@{mode}", True)(
            lambda m=mode: training_step(resnet18(), (256, 3, 224, 224), 1000, "cuda", True, m, step_median, 3))
        row(f"N3/two_convolutions_b128@{mode}", True)(
            lambda m=mode: training_step(two_convolutions(), (128, 1, 28, 28), 10, "cuda", False, m, step_median, 50))
    row("N3c/two_convolutions_b128_cpu")(
        lambda: training_step(two_convolutions(), (128, 1, 28, 28), 10, "cpu", False, "eager", host_median, 1))
