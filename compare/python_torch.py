#!/usr/bin/env python3
"""Compares the log-normaliser and its derivative in `vmfkit.torch` and `vmfkit.jax` with the paper's
way, which calls mpmath for one value at a time.

    python compare/python_torch.py [values]

Prints a table of nanoseconds per value, forward and backward together, for a million concentrations
between 1 and 1e4, or for the given number. mpmath computes a few dozen of them, spread over the same
range; its time per value does not depend on their number.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Callable

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import paper_torch
import vmfkit
import vmfkit.torch

DIMS = (64, 768, 4096)
OF_MPMATH = 40


def best(work: Callable[[], object], runs: int = 5) -> float:
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def there_and_back(function: Callable[[int, torch.Tensor], torch.Tensor], dim: int, kappa: torch.Tensor) -> torch.Tensor:
    kappa = kappa.detach().requires_grad_()
    function(dim, kappa).sum().backward()
    return kappa.grad


def of_jax(dim: int, kappa: np.ndarray) -> float | None:
    try:
        import jax
        import vmfkit.jax
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    both = jax.jit(jax.value_and_grad(lambda k: vmfkit.jax.log_normalizer(dim, k).sum()))
    values = jax.numpy.asarray(kappa)
    jax.block_until_ready(both(values))
    return best(lambda: jax.block_until_ready(both(values)))


def main() -> None:
    count = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    torch.set_num_threads(1)
    vmfkit.set_threads(1)
    kappa = torch.logspace(0, 4, count, dtype=torch.float64)
    few = kappa[:: max(1, count // OF_MPMATH)].clone()
    print(f"{count} values, one thread (JAX: its own); ns per value, forward and backward\n")
    print("| d | mpmath (the paper's way) | vmfkit.torch, f64 | f32 | vmfkit.jax, f64 | mpmath / vmfkit.torch |")
    print("|---|---|---|---|---|---|")
    for dim in DIMS:
        slow = best(lambda: there_and_back(paper_torch.LnNormalizer.apply, dim, few), 1) / len(few) * 1e9
        double = best(lambda: there_and_back(vmfkit.torch.log_normalizer, dim, kappa)) / count * 1e9
        single = best(lambda: there_and_back(vmfkit.torch.log_normalizer, dim, kappa.float())) / count * 1e9
        jax_seconds = of_jax(dim, kappa.numpy())
        jax_text = "-" if jax_seconds is None else f"{jax_seconds / count * 1e9:.0f}"
        print(f"| {dim} | {slow:.3g} | {double:.0f} | {single:.0f} | {jax_text} | {slow / double:.0f} |")
        difference = there_and_back(paper_torch.LnNormalizer.apply, dim, few) - there_and_back(vmfkit.torch.log_normalizer, dim, few)
        assert float(difference.abs().max()) < 1e-9, "both ways find the same derivative"


if __name__ == "__main__":
    main()
