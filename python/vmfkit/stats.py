"""Hypothesis tests for directions: mean directions, concentrations, uniformity and rotational symmetry.

Each function returns a `HypothesisTestResult` with `statistic` and `p_value`. Rows are arrays, sparse matrices, columns of lists or files.
They must have unit length unless `normalize=True`. With the default methods, a true hypothesis is rejected at the nominal rate, even with few
rows and in high dimensions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _vmfkit
from ._rows import as_rows, as_seed, is_path

__all__ = [
    "HypothesisTestResult",
    "equal_concentrations_test",
    "equal_mean_directions_test",
    "mean_direction_test",
    "projection_test",
    "rayleigh_test",
    "rotational_symmetry_test",
]

_tests = _vmfkit.hypothesis


class HypothesisTestResult(NamedTuple):
    """Result of a test; the first two fields are those of scipy's tests."""

    statistic: float
    p_value: float
    # One for the chi-squared limit, two for F; empty if neither applies.
    degrees_of_freedom: tuple[float, ...] = ()
    method: str = ""
    # `rotational_symmetry_test` only: p-value of the chi-squared limit, with at least 10 rows per dimension.
    limit_p_value: float | None = None
    # `rotational_symmetry_test` only: number of rows used.
    rows: int | None = None

    @property
    def pvalue(self) -> float:
        """Alias of `p_value`, as in scipy."""
        return self.p_value


def _result(found: dict[str, Any], method: str) -> HypothesisTestResult:
    return HypothesisTestResult(**found, method=method)


def rayleigh_test(rows: Any, *, normalize: bool = False) -> HypothesisTestResult:
    """Tests whether the rows are uniform on the sphere, against the alternative of a preferred direction.

    The p-value is exact for two and three rows and a saddlepoint approximation for more.

    Parameters
    ----------
    rows : array, sparse matrix, column of lists, or files
    normalize : bool, default=False
        Divide rows by their length.

    Returns
    -------
    result : HypothesisTestResult
    """
    found = as_rows(rows, normalize=normalize)
    method = "exact" if found.length in (2, 3) else "saddlepoint"
    return _result(_tests.rayleigh(found.argument, normalize), method)


def mean_direction_test(
    rows: Any, mean_direction: Any, *, method: str = "conditional", normalize: bool = False
) -> HypothesisTestResult:
    """Tests whether the mean direction of the rows is `mean_direction`; the concentration is unknown.

    Parameters
    ----------
    rows : array, sparse matrix, column of lists, or files
    mean_direction : array of shape (n_features,)
    method : {"conditional", "likelihood-ratio", "high-concentration"}, default="conditional"
        "conditional" is valid for any number of rows in any dimension, "likelihood-ratio" (the chi-squared limit) for many rows,
        "high-concentration" (an F test) for concentrated rows.
    normalize : bool, default=False
        Divide rows by their length.

    Returns
    -------
    result : HypothesisTestResult
    """
    direction = np.ascontiguousarray(mean_direction, np.float64)
    if direction.ndim != 1:
        raise ValueError(f"the mean direction must have one axis, found shape: `{direction.shape}`")
    found = _tests.mean_direction(as_rows(rows, normalize=normalize).argument, direction, method, normalize)
    return _result(found, method)


def equal_mean_directions_test(
    *samples: Any,
    method: str = "simulation",
    equal_concentrations: bool = True,
    n_resamples: int = 999,
    random_state: Any = 0,
    normalize: bool = False,
) -> HypothesisTestResult:
    """Tests whether two or more samples have equal mean directions.

    Parameters
    ----------
    *samples : array, sparse matrix, column of lists, or files
        The rows of each sample.
    method : {"simulation", "permutation", "likelihood-ratio", "high-concentration"}, default="simulation"
        "simulation" compares the likelihood ratio with samples drawn under the fitted hypothesis. "permutation" is for exchangeable rows of
        any distribution, "likelihood-ratio" (the chi-squared limit) for many more rows than dimensions, "high-concentration" (the F test of
        Watson and Williams) for concentrated rows.
    equal_concentrations : bool, default=True
        Whether the samples have equal concentrations. False is possible with "simulation" and "likelihood-ratio".
    n_resamples : int, default=999
        Number of simulated samples or permutations.
    random_state : int, RandomState, Generator or None, default=0
        Random seed.
    normalize : bool, default=False
        Divide rows by their length.

    Returns
    -------
    result : HypothesisTestResult
    """
    seed = as_seed(random_state)
    if method == "permutation":
        return _result(_permuted(samples, n_resamples, seed, normalize), method)
    test = "mean_directions" if equal_concentrations else "separate_mean_directions"
    return _result(_tests.groups(_arguments(samples, normalize), test, method, n_resamples, seed, normalize), method)


def equal_concentrations_test(
    *samples: Any, method: str = "simulation", n_resamples: int = 999, random_state: Any = 0, normalize: bool = False
) -> HypothesisTestResult:
    """Tests whether two or more samples have equal concentrations; their mean directions may differ.

    Parameters
    ----------
    *samples : array, sparse matrix, column of lists, or files
        The rows of each sample.
    method : {"simulation", "likelihood-ratio", "high-concentration"}, default="simulation"
        "likelihood-ratio" is the chi-squared limit of the marginal likelihood ratio; "high-concentration" is the F test for two samples and
        Bartlett's test for more.
    n_resamples, random_state, normalize
        As for `equal_mean_directions_test`.

    Returns
    -------
    result : HypothesisTestResult
    """
    arguments = _arguments(samples, normalize)
    return _result(_tests.groups(arguments, "concentrations", method, n_resamples, as_seed(random_state), normalize), method)


def rotational_symmetry_test(
    rows: Any, *, n_resamples: int = 999, random_state: Any = 0, normalize: bool = False
) -> HypothesisTestResult:
    """Tests whether the rows scatter symmetrically around their mean direction, as rows of a von Mises-Fisher density do.

    The test needs at least 3 rows in at least 3 dimensions. Large data sets are tested on a random sample of the rows.

    Parameters
    ----------
    rows : array, sparse matrix, column of lists, or files
    n_resamples : int, default=999
        Number of random rotations.
    random_state, normalize
        As for `equal_mean_directions_test`.

    Returns
    -------
    result : HypothesisTestResult
        Its `limit_p_value` and `rows` are set.
    """
    argument = as_rows(rows, normalize=normalize).argument
    return _result(_tests.rotational_symmetry(argument, n_resamples, as_seed(random_state), normalize), "random rotations")


def projection_test(
    rows: Any, *, n_resamples: int = 199, random_state: Any = 0, normalize: bool = False
) -> HypothesisTestResult:
    """Tests whether the cosines between the rows and their mean direction are distributed as for a von Mises-Fisher density.

    The statistic is that of Anderson and Darling. To test symmetry around the mean direction, use `rotational_symmetry_test`.

    Parameters
    ----------
    rows : array, sparse matrix, column of lists, or files
    n_resamples : int, default=199
        Number of simulated samples.
    random_state, normalize
        As for `equal_mean_directions_test`.

    Returns
    -------
    result : HypothesisTestResult
    """
    argument = as_rows(rows, normalize=normalize).argument
    return _result(_tests.projection(argument, n_resamples, as_seed(random_state), normalize), "simulation")


def _arguments(samples: tuple[Any, ...], normalize: bool) -> list[Any]:
    return [as_rows(sample, normalize=normalize).argument for sample in samples]


def _permuted(samples: tuple[Any, ...], n_resamples: int, seed: int, normalize: bool) -> dict[str, Any]:
    if any(is_path(sample) or hasattr(sample, "tocsr") for sample in samples):
        raise TypeError("a permutation test needs dense rows in memory\nhint: load the rows first, or use method='simulation'")
    arrays = [np.asarray(as_rows(sample, normalize=normalize).argument) for sample in samples]
    if len({array.shape[1] for array in arrays}) > 1:
        raise ValueError(f"samples must have the same dimension, found: `{[array.shape[1] for array in arrays]}`")
    labels = np.repeat(np.arange(len(arrays), dtype=np.uintp), [len(array) for array in arrays])
    rows = np.ascontiguousarray(np.concatenate(arrays)) if arrays else np.empty((0, 2))
    return _tests.permutation(rows, labels, len(arrays), n_resamples, seed, normalize)
