"""Trains a small network that predicts the mean direction mu(y) and the concentration kappa(y) of directions x.

The directions lie on the unit sphere of R^3. As y increases from 0 to 1, their mean moves around the equator and toward the north, and
their scatter increases. The network sees pairs (y, x) and maximises the mean of ln p(x | y). This needs the derivative of the normaliser in
kappa (Kim, arXiv:2102.05340).

    python python/examples/learn_directions.py
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from vmfkit.torch import VonMisesFisher


def truth(y: Tensor) -> VonMisesFisher:
    """The true distribution of x given y."""
    azimuth, height = 2 * math.pi * y, y - 0.5
    flat = (1 - height**2).sqrt()
    mean = torch.stack([flat * azimuth.cos(), flat * azimuth.sin(), height], -1)
    return VonMisesFisher(mean, 200 * (-3 * y).exp())


class Network(nn.Module):
    """Maps y to a density. Three outputs give the direction mu, one gives ln kappa."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4))

    def forward(self, y: Tensor) -> VonMisesFisher:
        found = self.layers(y.unsqueeze(-1))
        return VonMisesFisher(nn.functional.normalize(found[..., :3], dim=-1), found[..., 3].exp())


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    y = torch.rand(20_000)
    x = truth(y).sample()

    network = Network()
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    steps = 900
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    print("step   mean ln p (of the truth: %.3f)" % truth(y).log_prob(x).mean())
    for step in range(steps):
        rows = torch.randint(len(y), (512,))
        loss = -network(y[rows]).log_prob(x[rows]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if (step + 1) % 300 == 0:
            with torch.no_grad():
                print("%4d   %.3f" % (step + 1, network(y).log_prob(x).mean()))

    print("\n   y   angle of mu to the truth   kappa   of the truth")
    points = torch.linspace(0.05, 0.95, 7)
    with torch.no_grad():
        learned, true = network(points), truth(points)
    degrees = torch.rad2deg(torch.acos((learned.loc * true.loc).sum(-1).clamp(-1, 1)))
    for row in zip(points, degrees, learned.concentration, true.concentration):
        print("%4.2f   %13.2f degrees   %9.1f   %12.1f" % tuple(map(float, row)))


if __name__ == "__main__":
    main()
