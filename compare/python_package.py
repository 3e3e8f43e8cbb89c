"""Measures the overhead of the Python package over the Rust calls, and compares it with scipy; writes
PYTHON.md.

    python python_package.py [--output PYTHON.md]

Needs the package, scipy, torch and mpmath, which `make compare-python` installs. Times are the best
of several rounds that alternate between the sides.
"""

import argparse
import os
import time
from pathlib import Path
from unittest import mock

# Read by the libraries when they are loaded.
os.environ.setdefault("VMFKIT_NUM_THREADS", "2")

import mpmath
import numpy as np
import scipy.stats
import torch

import vmfkit
import vmfkit.torch
from run import cpu_name, table, verdict
from vmfkit import VonMisesFisherMixture, _vmfkit
from vmfkit._directions import Directions

HERE = Path(__file__).resolve().parent
ROUNDS = 15


def best(*works):
    """The best time of each, measured in turn."""
    times = [[] for _ in works]
    for _ in range(ROUNDS):
        for work, found in zip(works, times):
            start = time.perf_counter()
            work()
            found.append(time.perf_counter() - start)
    return [min(found) for found in times]


def of_calls(work, calls):
    def repeat():
        for _ in range(calls):
            work()

    return repeat


def fit_row():
    """Fits of the same rows, start and number of passes, their labels and probabilities: beside the Rust calls alone, and what a fit does outside of those it makes."""
    rows = np.random.default_rng(1).normal(size=(100_000, 100)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    shares = []

    def fit():
        within = []

        def timed(rust_call):
            def call(*arguments, **choices):
                start = time.perf_counter()
                found = rust_call(*arguments, **choices)
                within.append(time.perf_counter() - start)
                return found

            return call

        # Labels and probabilities are asked for by `ask`, whose own work is nothing beside the call.
        with mock.patch.object(_vmfkit, "fit", timed(_vmfkit.fit)), mock.patch.object(Directions, "ask", timed(Directions.ask)):
            start = time.perf_counter()
            VonMisesFisherMixture(20, random_state=0, tol=0, max_iter=30).fit(rows)
            shares.append(100 * ((time.perf_counter() - start) / sum(within) - 1))

    def bare_calls():
        mixture = _vmfkit.fit(rows, 20, seed=0, tolerance=0.0, passes=30).mixture
        return mixture.assign(rows), mixture.responsibilities(rows)

    bare, ours = best(bare_calls, fit)
    beside, outside = 100 * (ours / bare - 1), float(np.median(shares))
    return [
        "VonMisesFisherMixture.fit: time in addition to the Rust calls (fit, labels, probabilities), compared with these calls alone and measured within the fit, 100,000 x 100, K = 20, 30 passes",
        f"{beside:+.1f} %, {outside:+.2f} %",
        "at most +3 %",
        verdict(max(beside, outside), 3),
    ]


def one_row():
    rows = np.random.default_rng(1).normal(size=(5_000, 100))
    model = VonMisesFisherMixture(20, random_state=0, max_iter=5, tol=0).fit(rows)
    row = rows[:1] / np.linalg.norm(rows[0])
    (seconds,) = best(of_calls(lambda: model.predict_proba(row), 200))
    micros = 1e6 * seconds / 200
    return ["predict_proba of one row, d = 100, K = 20", f"{micros:.1f} us", "at most 20 us", verdict(micros, 20)]


def draws():
    mu = np.eye(100)[0]
    ours, theirs = vmfkit.vonmises_fisher(mu, 50.0), scipy.stats.vonmises_fisher(mu, 50.0)
    mine, other = best(lambda: ours.rvs(50_000, random_state=1), lambda: theirs.rvs(50_000, random_state=1))
    return ["rvs compared with scipy's, 50,000 draws, d = 100", f"{other / mine:.0f} times", "at least 20 times", "met" if other > 20 * mine else "missed"]


def normalizers():
    kappas = torch.from_numpy(np.random.default_rng(1).uniform(1, 2000, 1_000_000))
    few = kappas[:50].tolist()

    def there_and_back():
        leaf = kappas.detach().requires_grad_()
        vmfkit.torch.log_normalizer(768, leaf).sum().backward()

    def with_mpmath():
        # ln C and its derivative, as the paper's code does it: one value at a time.
        for kappa in few:
            i, next_i = mpmath.besseli(383, kappa), mpmath.besseli(384, kappa)
            mpmath.log(i), next_i / i

    mine, other = best(there_and_back, with_mpmath)
    ratio = (other / len(few)) / (mine / len(kappas))
    return [
        "log_normalizer in PyTorch, forward and backward, 1,000,000 kappas, d = 768, time per value, compared with mpmath",
        f"{1e9 * mine / len(kappas):.0f} ns, {ratio:.0f} times",
        "at least 500 times",
        "met" if ratio >= 500 else "missed",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE / "PYTHON.md")
    options = parser.parse_args()
    rows = [fit_row(), one_row(), draws(), normalizers()]
    text = "\n".join(
        [
            "# The Python package",
            "",
            f"Written by `python_package.py`: vmfkit {vmfkit.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, torch {torch.__version__}, mpmath {mpmath.__version__}; "
            f"{vmfkit.threads()} threads, best of {ROUNDS} rounds; {cpu_name()}, shared with other work, so compare ratios rather than times.",
            "",
        ]
        + table(["what", "measured", "goal", "met?"], rows)
    )
    options.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
