"""Rows and a start for the comparison of mixture fits, as files that both sides read."""

from pathlib import Path
from typing import NamedTuple

import numpy as np


class Problem(NamedTuple):
    """Rows, and the mixture that one pass starts from. `x` and `directions` have unit rows and one type, f32 or f64; `weights`
    and `concentrations` are f64. The names are those of the .npy files."""

    x: np.ndarray
    directions: np.ndarray
    weights: np.ndarray
    concentrations: np.ndarray


def mean_length(dim, concentration):
    """A_d(k), roughly: k / (s + sqrt(s^2 + k^2)) with s = (d - 1)/2. Only for choosing how wide the data spread."""
    s = (dim - 1) / 2
    return concentration / (s + np.hypot(s, concentration))


def concentration_of(dim, length):
    """The inverse of `mean_length`."""
    return (dim - 1) * length / (1 - length**2)


def unit_rows(x):
    """Divides each row by its length, in place."""
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x


def make_data(rows, dim, k, concentration, seed, dtype=np.float32):
    """Rows of k equally likely components around random directions, and a start for fitting them: k of the rows as directions,
    equal weights, the given concentration everywhere.

    A row is mu s + normal/sqrt(d), normalised, with s such that a component's mean length is about A_d(concentration). That is
    not exactly von Mises-Fisher, but as good for measuring time.
    """
    rng = np.random.default_rng(seed)
    length = mean_length(dim, concentration)
    along = dtype(length / np.sqrt(1 - length**2))
    truth = unit_rows(rng.standard_normal((k, dim), dtype))
    x = rng.standard_normal((rows, dim), dtype)
    x *= dtype(dim**-0.5)
    x += along * truth[rng.integers(k, size=rows)]
    unit_rows(x)
    directions = x[rng.choice(rows, k, replace=False)]
    return Problem(x, directions, np.full(k, 1 / k), np.full(k, float(concentration)))


def save(problem, folder):
    """Writes x.npy, directions.npy, weights.npy and concentrations.npy."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in problem._asdict().items():
        np.save(folder / f"{name}.npy", array)


def load(folder):
    """Reads what `save` wrote."""
    return Problem(*(np.load(Path(folder) / f"{name}.npy") for name in Problem._fields))
