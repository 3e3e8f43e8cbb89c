"""The paper's two loops in PyTorch and mpmath (arXiv:2102.05340,
github.com/minyoungkim21/vmf-lib), written from its description: one module per component, the
log-normaliser as an autograd function that calls mpmath for one ln I at a time, an N x K x d product
for the resultants of EM, and Adam on all parameters for SGD.

`mixture_peers.py` has the same in numpy, for machines without PyTorch.
"""

import mpmath
import numpy as np
import torch

TINY = 1e-10
FLOOR = 1e-6
# np.vectorize calls a function once more to learn the type of its answer, as it does in the paper's code.
besseli = np.vectorize(mpmath.besseli)
log = np.vectorize(mpmath.log)


def ln_bessel(order, concentrations):
    values = log(besseli(order, mpmath.mpf(1) * concentrations.detach().numpy()))
    return torch.tensor(np.array(values.tolist(), float)).to(concentrations)


class LnNormalizer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dim, concentration):
        ln_i = ln_bessel(0.5 * dim - 1, concentration)
        ctx.dim = dim
        ctx.save_for_backward(concentration, ln_i)
        return -0.5 * dim * np.log(2 * np.pi) + (0.5 * dim - 1) * concentration.log() - ln_i

    @staticmethod
    def backward(ctx, gradient):
        concentration, ln_i = ctx.saved_tensors
        return None, -gradient * (ln_bessel(0.5 * ctx.dim, concentration) - ln_i).exp()


class Component(torch.nn.Module):
    def __init__(self, direction, concentration):
        super().__init__()
        self.unnormalised = torch.nn.Parameter(direction.clone())
        self.ln_concentration = torch.nn.Parameter(concentration.log())

    def forward(self, x):
        direction = self.unnormalised / self.unnormalised.norm()
        concentration = self.ln_concentration.exp() + FLOOR
        along = (direction.unsqueeze(0) * x).sum(1)
        return concentration * along + LnNormalizer.apply(x.shape[1], concentration)


class Mixture(torch.nn.Module):
    def __init__(self, weights, directions, concentrations):
        super().__init__()
        self.logits = torch.nn.Parameter((weights + TINY).log())
        self.components = torch.nn.ModuleList(map(Component, directions, concentrations))

    def forward(self, x):
        """ln p of each row, and ln p of each row under each component."""
        ln_densities = torch.stack([component(x) for component in self.components], dim=1)
        return (self.logits.log_softmax(0) + ln_densities).logsumexp(1), ln_densities


def mixture_of(problem):
    """The start of a problem, and its rows."""
    tensor = lambda values: torch.from_numpy(np.asarray(values, problem.x.dtype))
    return Mixture(tensor(problem.weights), tensor(problem.directions), tensor(problem.concentrations)), tensor(problem.x)


@torch.no_grad()
def em_pass(mixture, x):
    """The log-likelihood of the mixture, and the weights, directions and concentrations (by Banerjee's formula) that follow it."""
    ln_likelihoods, ln_densities = mixture(x)
    assignment = (mixture.logits.log_softmax(0) + ln_densities).softmax(1)
    resultants = (assignment.unsqueeze(2) * x.unsqueeze(1)).sum(0)
    masses = assignment.sum(0)
    lengths = resultants.norm(dim=1, keepdim=True)
    r = lengths[:, 0] / (masses + TINY)
    concentrations = (x.shape[1] * r - r**3) / (1 - r**2)
    return float(ln_likelihoods.double().sum()), masses / len(x), resultants / lengths, concentrations


def sgd_steps(mixture, batches):
    """A step of Adam for each batch; the losses."""
    adam = torch.optim.Adam(mixture.parameters(), lr=0.1, betas=(0.9, 0.99))
    losses = []
    for batch in batches:
        loss = -mixture(batch)[0].mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(float(loss.detach()))
    return losses
