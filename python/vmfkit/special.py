"""Special functions of the von Mises-Fisher distribution, to the last digits in any dimension and at any concentration.

All of them broadcast over numpy arrays and take `out=`, as numpy's own functions do. What is outside of a function's domain is nan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _vmfkit

__all__ = [
    "entropy",
    "inverse_iv_ratio",
    "inverse_iv_ratio_c",
    "iv_ratio",
    "iv_ratio_c",
    "iv_ratio_slope",
    "log_iv",
    "log_ive",
    "log_normalizer",
]


def _broadcast(call: Any, name: str, first: np.ndarray, values: Any, out: np.ndarray | None) -> Any:
    values = np.asarray(values, np.float64)
    shape = np.broadcast_shapes(first.shape, values.shape)
    # One number for all values need not be repeated.
    firsts = first.reshape(1) if first.size == 1 else np.ascontiguousarray(np.broadcast_to(first, shape)).ravel()
    if out is not None and out.shape != shape:
        raise ValueError(f"out must have shape {shape}, found: `{out.shape}`")
    in_place = out is not None and out.dtype == np.float64 and out.flags.c_contiguous
    found = out if out is not None and in_place else np.empty(shape)
    call(name, firsts, np.ascontiguousarray(np.broadcast_to(values, shape)).ravel(), found.reshape(-1))
    if out is None:
        return found[()]
    if not in_place:
        out[...] = found
    return out


def _of_dim(name: str, dim: Any, values: Any, out: np.ndarray | None) -> Any:
    dims = np.asarray(dim)
    if dims.dtype.kind not in "iu" and not np.all(dims == np.floor(dims)):
        raise ValueError(f"the dimension must be a whole number, found: `{dim}`")
    if dims.size and dims.min() < 1:
        raise ValueError(f"the dimension must be at least 1, found: `{dims.min()}`")
    return _broadcast(_vmfkit.of_concentrations, name, dims.astype(np.uintp), values, out)


def _of_order(name: str, order: Any, values: Any, out: np.ndarray | None) -> Any:
    return _broadcast(_vmfkit.of_orders, name, np.asarray(order, np.float64), values, out)


def log_iv(v: Any, x: Any, out: np.ndarray | None = None) -> Any:
    """ln I_v(x), the modified Bessel function of the first kind, for v >= 0 and x >= 0."""
    return _of_order("log_iv", v, x, out)


def log_ive(v: Any, x: Any, out: np.ndarray | None = None) -> Any:
    """ln of I_v(x) exp(-x), for v >= 0 and x >= 0."""
    return _of_order("log_ive", v, x, out)


def log_normalizer(dim: Any, kappa: Any, out: np.ndarray | None = None) -> Any:
    """ln C_d(kappa), where the density is C_d(kappa) exp(kappa mu.x)."""
    return _of_dim("log_normalizer", dim, kappa, out)


def iv_ratio(dim: Any, kappa: Any, out: np.ndarray | None = None) -> Any:
    """A_d(kappa) = I_{d/2}(kappa) / I_{d/2-1}(kappa): the mean of mu.x."""
    return _of_dim("mean_length", dim, kappa, out)


def iv_ratio_c(dim: Any, kappa: Any, out: np.ndarray | None = None) -> Any:
    """1 - A_d(kappa), without cancellation where A_d is near 1."""
    return _of_dim("mean_length_complement", dim, kappa, out)


def iv_ratio_slope(dim: Any, kappa: Any, out: np.ndarray | None = None) -> Any:
    """The derivative of A_d in kappa: the variance of mu.x, and the Fisher information of kappa."""
    return _of_dim("mean_length_slope", dim, kappa, out)


def inverse_iv_ratio(dim: Any, r: Any, out: np.ndarray | None = None) -> Any:
    """The kappa with A_d(kappa) = r: the maximum likelihood estimate from a mean resultant length."""
    return _of_dim("concentration", dim, r, out)


def inverse_iv_ratio_c(dim: Any, c: Any, out: np.ndarray | None = None) -> Any:
    """The kappa with 1 - A_d(kappa) = c, to all digits where c is small."""
    return _of_dim("concentration_from_complement", dim, c, out)


def entropy(dim: Any, kappa: Any, out: np.ndarray | None = None) -> Any:
    """The differential entropy."""
    return _of_dim("entropy", dim, kappa, out)


def _divergence(dim: int, kappa: Any, other: Any) -> Any:
    """KL of two distributions with one mean direction."""
    kappa, other = np.broadcast_arrays(np.asarray(kappa, np.float64), np.asarray(other, np.float64))
    found = np.empty(kappa.size)
    _vmfkit.divergences(dim, np.ascontiguousarray(kappa).ravel(), np.ascontiguousarray(other).ravel(), found)
    return found.reshape(kappa.shape)[()]
