"""One von Mises-Fisher distribution, with the interface of `scipy.stats.vonmises_fisher`."""

from __future__ import annotations

import html
import operator
from typing import Any, NamedTuple

import numpy as np

from . import _vmfkit, special
from ._rows import as_generator, as_numbers, as_rows, as_seed, as_weights, is_column, is_path

# Tolerance of the length of a row, as in scipy (numpy.allclose).
_UNIT_TOLERANCE = 1e-5


class FitResult(NamedTuple):
    """Result of `fit_report`; the first two fields are those that scipy's `fit` returns."""

    mu: np.ndarray
    kappa: float
    # At the given level: the confidence interval of kappa, and the half angle of the confidence cone of mu, in radians.
    interval: tuple[float, float]
    cone: float
    standard_error: float
    # The estimate of kappa with small-sample bias correction.
    corrected_kappa: float
    # p-value of the Rayleigh test of uniformity.
    uniformity_p_value: float


def _direction(mu: Any) -> np.ndarray:
    mu = np.asarray(mu, np.float64)
    if mu.ndim != 1:
        raise ValueError("'mu' must have one-dimensional shape.")
    if mu.size < 2:
        raise ValueError("'mu' must have at least two entries.")
    if not np.isclose(np.linalg.norm(mu), 1.0, rtol=_UNIT_TOLERANCE):
        raise ValueError("'mu' must be a unit vector of norm 1.")
    return mu / np.linalg.norm(mu)


def _concentration(kappa: Any) -> np.ndarray:
    kappa = as_numbers(kappa, "'kappa'")
    if not np.all(np.isfinite(kappa) & (kappa >= 0)):
        raise ValueError("'kappa' must be a positive scalar, zero, or an array of such.")
    return kappa


def _check_lengths(lengths: np.ndarray) -> None:
    if not np.allclose(lengths, 1.0, rtol=_UNIT_TOLERANCE):
        raise ValueError("'x' must be unit vectors of norm 1 along last dimension.")


def _points(x: Any, dim: int) -> np.ndarray:
    x = np.asarray(as_rows(x).argument if is_column(x) else x, np.float64)
    if x.ndim == 0 or x.shape[-1] != dim:
        raise ValueError(
            "The dimensionality of the last axis of 'x' must match the dimensionality of the von Mises Fisher distribution."
        )
    lengths = np.linalg.norm(x, axis=-1)
    _check_lengths(lengths)
    return x / lengths[..., np.newaxis]


def _shape(size: Any) -> tuple[int, ...]:
    if size is None:
        return ()
    return (operator.index(size),) if np.ndim(size) == 0 else tuple(operator.index(n) for n in size)


class _Seeded:
    """Stores the random state for calls without one."""

    _random_state: Any = None

    @property
    def random_state(self) -> Any:
        """A numpy RandomState or Generator, which advances with every draw. It can be set to a seed."""
        return as_generator(self._random_state)

    @random_state.setter
    def random_state(self, seed: Any) -> None:
        self._random_state = None if seed is None else as_generator(seed)


class VonMisesFisherFrozen(_Seeded):
    """A von Mises-Fisher distribution with a given mean direction and concentration.

    `kappa` may be an array; its shape is broadcast with that of the points.
    """

    def __init__(self, mu: Any, kappa: Any = 1, seed: Any = None) -> None:
        self.mu = _direction(mu)
        self.kappa = _concentration(kappa)[()]
        self.random_state = seed

    @property
    def dim(self) -> int:
        return self.mu.size

    def _deviations(self, x: Any) -> np.ndarray:
        """1 - mu.x, without cancellation near mu."""
        if is_path(x) or hasattr(x, "tocsr"):
            return _vmfkit.deviations(self.mu, as_rows(x).argument)
        difference = _points(x, self.dim) - self.mu
        return 0.5 * np.einsum("...i,...i->...", difference, difference)

    def logpdf(self, x: Any) -> Any:
        """Computes the log density of each point; for files and sparse matrices, of each row."""
        peak = special._of_dim("log_peak", self.dim, self.kappa, None)
        return (peak - self.kappa * self._deviations(x))[()]

    def pdf(self, x: Any) -> Any:
        """Computes the density of each point; for files and sparse matrices, of each row."""
        return np.exp(self.logpdf(x))

    def entropy(self) -> Any:
        """Differential entropy."""
        return special.entropy(self.dim, self.kappa)

    def mean(self) -> np.ndarray:
        """Mean vector, E[x] = A_d(kappa) mu."""
        return np.multiply.outer(special.iv_ratio(self.dim, self.kappa), self.mu)

    def rvs(self, size: Any = 1, random_state: Any = None) -> np.ndarray:
        """Exact draws, of shape `kappa.shape` + `size` + (dim,)."""
        seed = as_seed(self._random_state if random_state is None else random_state)
        shape = _shape(size)
        count = int(np.prod(shape))
        kappas = np.atleast_1d(self.kappa).ravel()
        rows = np.empty((kappas.size, count, self.dim))
        # Each concentration has its own seed, so draws of different concentrations are independent.
        children = [np.random.SeedSequence(seed, spawn_key=(i,)) for i in range(kappas.size)] if np.ndim(self.kappa) else []
        seeds = [int(child.generate_state(1, np.uint64)[0]) for child in children] or [seed] * kappas.size
        for kappa, own, out in zip(kappas, seeds, rows):
            _vmfkit.sample_density(self.mu, kappa, out, own)
        return rows.reshape(*np.shape(self.kappa), *shape, self.dim)

    def cdf_projection(self, t: Any) -> Any:
        """P(mu.x <= t)."""
        return self._of_projection("cdf", t)

    def sf_projection(self, t: Any) -> Any:
        """P(mu.x > t), accurate in the far tail."""
        return self._of_projection("survival", t)

    def ppf_projection(self, q: Any) -> Any:
        """Quantile of mu.x: the t with P(mu.x <= t) = q."""
        return self._of_projection("quantile", q)

    def _of_projection(self, name: str, values: Any) -> Any:
        values = np.asarray(values, np.float64)
        kappa, flat = np.broadcast_arrays(self.kappa, values)
        if np.ndim(self.kappa) == 0:
            distribution = _vmfkit.ProjectionLaw(self.dim, float(self.kappa))
            return distribution.evaluate(name, np.ascontiguousarray(values).ravel()).reshape(values.shape)[()]
        found = [_vmfkit.ProjectionLaw(self.dim, k).evaluate(name, np.array([t]))[0] for k, t in zip(kappa.flat, flat.flat)]
        return np.reshape(found, kappa.shape)

    def kl_divergence(self, other: VonMisesFisherFrozen) -> Any:
        """Kullback-Leibler divergence KL(self || other)."""
        if other.dim != self.dim:
            raise ValueError(f"expected dimension {self.dim}, found: `{other.dim}`")
        difference = self.mu - other.mu
        # One term for the concentrations and one for the directions; neither cancels.
        angle = 0.5 * np.dot(difference, difference)
        return special._divergence(self.dim, self.kappa, other.kappa) + other.kappa * special.iv_ratio(self.dim, self.kappa) * angle

    def __repr__(self) -> str:
        return f"vonmises_fisher(dim={self.dim}, kappa={self.kappa})"

    def _repr_html_(self) -> str:
        rows = {
            "dimension": self.dim,
            "concentration": np.array2string(np.asarray(self.kappa), precision=6, threshold=6),
            "mean of mu.x": np.array2string(np.asarray(special.iv_ratio(self.dim, self.kappa)), precision=6, threshold=6),
            "half within": f"{np.degrees(np.arccos(np.clip(self.ppf_projection(0.5), -1, 1))):.2f} degrees"
            if np.ndim(self.kappa) == 0
            else "-",
        }
        cells = "".join(f"<tr><th>{name}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows.items())
        return f"<table><caption>von Mises-Fisher distribution</caption>{cells}</table>"


class VonMisesFisherGenerator(_Seeded):
    """The von Mises-Fisher distribution, with the interface of `scipy.stats.vonmises_fisher`: `vonmises_fisher(mu, kappa)` freezes it.

    Beyond scipy: kappa = 0, arrays of kappa, any dimension and concentration, weights, intervals, and files in place of points.
    """

    def __call__(self, mu: Any = None, kappa: Any = 1, seed: Any = None) -> VonMisesFisherFrozen:
        return self._frozen(mu, kappa, seed)

    @staticmethod
    def _frozen(mu: Any, kappa: Any, seed: Any = None) -> VonMisesFisherFrozen:
        if mu is None:
            raise ValueError("'mu' must have one-dimensional shape.")
        return VonMisesFisherFrozen(mu, kappa, seed)

    def logpdf(self, x: Any, mu: Any = None, kappa: Any = 1) -> Any:
        """Log of the density at each point."""
        return self._frozen(mu, kappa).logpdf(x)

    def pdf(self, x: Any, mu: Any = None, kappa: Any = 1) -> Any:
        """Density at each point."""
        return self._frozen(mu, kappa).pdf(x)

    def rvs(self, mu: Any = None, kappa: Any = 1, size: Any = 1, random_state: Any = None) -> np.ndarray:
        """Exact draws."""
        return self._frozen(mu, kappa).rvs(size, self._random_state if random_state is None else random_state)

    def cdf_projection(self, t: Any, mu: Any = None, kappa: Any = 1) -> Any:
        """P(mu.x <= t)."""
        return self._frozen(mu, kappa).cdf_projection(t)

    def sf_projection(self, t: Any, mu: Any = None, kappa: Any = 1) -> Any:
        """P(mu.x > t), accurate in the far tail."""
        return self._frozen(mu, kappa).sf_projection(t)

    def ppf_projection(self, q: Any, mu: Any = None, kappa: Any = 1) -> Any:
        """Quantile of mu.x: the t with P(mu.x <= t) = q."""
        return self._frozen(mu, kappa).ppf_projection(q)

    def entropy(self, mu: Any = None, kappa: Any = 1) -> Any:
        """Differential entropy."""
        return self._frozen(mu, kappa).entropy()

    def kl_divergence(self, mu: Any, kappa: Any, other_mu: Any, other_kappa: Any) -> Any:
        """Kullback-Leibler divergence KL(first || second)."""
        return self._frozen(mu, kappa).kl_divergence(self._frozen(other_mu, other_kappa))

    def fit(self, x: Any, weights: Any = None, *, estimator: str = "exact", level: float = 0.95) -> tuple[np.ndarray, float]:
        """Computes the maximum likelihood estimate.

        Parameters
        ----------
        x : array, sparse matrix, column of lists, or files
            The points, as rows.
        weights : array, optional
            Row weights.
        estimator : {"exact", "banerjee", "tanabe", "sra", "song"}, default="exact"
            Estimator of kappa.
        level : float, default=0.95
            Has no effect on the estimate.

        Returns
        -------
        mu : array
        kappa : float
        """
        found = self.fit_report(x, weights, estimator=estimator, level=level)
        return found.mu, found.kappa

    def fit_report(self, x: Any, weights: Any = None, *, estimator: str = "exact", level: float = 0.95) -> FitResult:
        """Computes the estimate with a confidence interval, a confidence cone and a test of uniformity.

        Parameters
        ----------
        x, weights, estimator
            As for `fit`.
        level : float, default=0.95
            Confidence level of the interval and the cone.

        Returns
        -------
        report : FitResult
        """
        if not (is_path(x) or is_column(x)):
            x = x if hasattr(x, "tocsr") else np.asarray(x)
            if x.ndim != 2:
                raise ValueError("'x' must be two dimensional.")
        rows = as_rows(x)
        if isinstance(rows.argument, np.ndarray):
            _check_lengths(np.sqrt(np.einsum("ij,ij->i", rows.argument, rows.argument, dtype=np.float64)))
        # The lengths above are computed without a copy of the rows. The tolerance of the extension module is tighter, so it may rescale rows.
        normalize = isinstance(rows.argument, np.ndarray)
        found = _vmfkit.fit_density(rows.argument, as_weights(weights, rows.length), normalize, estimator, level)
        return FitResult(
            found["mean_direction"],
            found["concentration"],
            found["interval"],
            found["cone"],
            found["standard_error"],
            found["corrected_concentration"],
            found["uniformity_p_value"],
        )


vonmises_fisher = VonMisesFisherGenerator()
