"""Writes autoencoder.csv: what the paper's autoencoder makes of an image in PyTorch, with weights that any program can make.

    python3 autoencoder.py          needs torch

Number i of parameter p, with the weights of linear layers by input and output, is ((2654435761 i + 40503 p) mod 2^32 / 2^32 - 1/2) times 0.1
for a bias, and else times 2 / sqrt(n): n inputs of a linear layer, 16 times the second axis of a convolution. Pixel i of the image
is floor((2654435761 i mod 2^32) / 2^24) / 255. The file has the latent direction, and every 31st number of what is made of it again.
"""

import pathlib

import numpy as np
import torch
from torch import nn


def noise(count, offset=0):
    return (2654435761 * np.arange(count, dtype=np.uint64) + offset) % 2**32


def layers():
    sizes = [(3, 32), (32, 32), (32, 64)]
    convolutions = [nn.Conv2d(*size, 4, 2, 1) for size in sizes]
    shrink, widen = [nn.Linear(1024, 512), nn.Linear(512, 100)], [nn.Linear(100, 512), nn.Linear(512, 1024)]
    deconvolutions = [nn.ConvTranspose2d(after, before, 4, 2, 1) for before, after in reversed(sizes)]
    everything = convolutions + shrink + widen + deconvolutions
    for at, layer in enumerate(everything):
        for number, parameter in [(2 * at, layer.weight), (2 * at + 1, layer.bias)]:
            values = noise(parameter.numel(), 40503 * number) / 2**32 - 0.5
            if parameter.ndim == 1:
                values = 0.1 * values
            elif parameter.ndim == 2:
                inputs = parameter.shape[1]
                values = (2 / np.sqrt(inputs) * values).reshape(inputs, -1).T
            else:
                values = 2 / np.sqrt(16 * parameter.shape[1]) * values.reshape(parameter.shape)
            parameter.data = torch.tensor(np.ascontiguousarray(values))
    return convolutions, shrink, widen, deconvolutions


def main():
    convolutions, shrink, widen, deconvolutions = layers()
    x = torch.tensor(np.floor(noise(3 * 32 * 32) / 2**24) / 255).reshape(1, 3, 32, 32)
    with torch.no_grad():
        for layer in convolutions:
            x = nn.functional.leaky_relu(layer(x), 0.01)
        latent = shrink[1](nn.functional.leaky_relu(shrink[0](x.flatten(1)), 0.01))
        latent = latent / latent.norm(dim=1, keepdim=True)
        x = widen[1](widen[0](latent).relu()).relu().reshape(1, 64, 4, 4)
        x = deconvolutions[2](deconvolutions[1](deconvolutions[0](x).relu()).relu())
    decoded = x.flatten()[::31]
    lines = ["latent,decoded"] + [f"{a:.9f},{b:.9f}" for a, b in zip(latent[0], decoded)]
    (pathlib.Path(__file__).parent / "autoencoder.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
