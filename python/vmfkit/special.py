"""Special functions of the von Mises-Fisher distribution, accurate in any dimension and at any concentration.

Note the first argument. `log_iv` and `log_ive` take the ORDER v of a Bessel function, as in scipy. All others take the DIMENSION d:
`iv_ratio(d, k)` is I_{d/2}(k) / I_{d/2-1}(k), or exp(log_iv(d / 2, k) - log_iv(d / 2 - 1, k)).

All functions broadcast over numpy arrays and accept `out=`, like functions of numpy. An order, a concentration or a length outside the domain
gives nan. A dimension that is not an integer of at least 1 raises ValueError. Strings, booleans and dates raise TypeError.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _vmfkit
from ._rows import as_numbers

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


def _broadcast(call: Any, name: str, first: np.ndarray, values: Any, out: Any) -> Any:
    values = as_numbers(values, "values")
    shape = np.broadcast_shapes(first.shape, values.shape)
    # A single dimension or order is not repeated.
    firsts = first.reshape(1) if first.size == 1 else np.ascontiguousarray(np.broadcast_to(first, shape)).ravel()
    flat = np.ascontiguousarray(np.broadcast_to(values, shape)).ravel()
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        found = np.empty(shape)
        call(name, firsts, flat, found.reshape(-1))
        return found[()]
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be an array, found: `{type(out).__name__}`")
    if out.shape != shape:
        raise ValueError(f"out must have shape {shape}, found: `{out.shape}`")
    if not np.can_cast(np.float64, out.dtype, "same_kind"):
        raise TypeError(f"out must hold float64, found: `{out.dtype}`")
    plain = out.dtype == np.float64 and out.flags.c_contiguous and out.flags.aligned and out.flags.writeable
    if plain and not np.may_share_memory(out, firsts) and not np.may_share_memory(out, flat):
        call(name, firsts, flat, out.reshape(-1))
    else:
        np.copyto(out, _broadcast(call, name, first, values, None), casting="same_kind")
    return out


def _of_dim(name: str, dim: Any, values: Any, out: Any) -> Any:
    dims = np.asarray(dim)
    dims = dims if dims.dtype.kind in "iu" else as_numbers(dim, "dimensions")
    if dims.dtype.kind not in "iu" and not np.all(dims == np.floor(dims)):
        raise ValueError(f"the dimension must be an integer, found: `{dim}`")
    if dims.size and dims.min() < 1:
        raise ValueError(f"the dimension must be at least 1, found: `{dims.min()}`")
    return _broadcast(_vmfkit.of_concentrations, name, dims.astype(np.uintp), values, out)


def _of_order(name: str, order: Any, values: Any, out: Any) -> Any:
    return _broadcast(_vmfkit.of_orders, name, as_numbers(order, "orders"), values, out)


def log_iv(v: Any, x: Any, out: Any = None) -> Any:
    """ln I_v(x), the modified Bessel function of the first kind, for an order v >= 0 (not a dimension) and x >= 0."""
    return _of_order("log_iv", v, x, out)


def log_ive(v: Any, x: Any, out: Any = None) -> Any:
    """ln of I_v(x) exp(-x), for an order v >= 0 (not a dimension) and x >= 0."""
    return _of_order("log_ive", v, x, out)


def log_normalizer(dim: Any, kappa: Any, out: Any = None) -> Any:
    """ln C_d(kappa), where the density is C_d(kappa) exp(kappa mu.x)."""
    return _of_dim("log_normalizer", dim, kappa, out)


def iv_ratio(dim: Any, kappa: Any, out: Any = None) -> Any:
    """A_d(kappa) = I_{d/2}(kappa) / I_{d/2-1}(kappa), the mean of mu.x. `dim` is the dimension d, not an order."""
    return _of_dim("mean_length", dim, kappa, out)


def iv_ratio_c(dim: Any, kappa: Any, out: Any = None) -> Any:
    """1 - A_d(kappa), without cancellation where A_d is near 1."""
    return _of_dim("mean_length_complement", dim, kappa, out)


def iv_ratio_slope(dim: Any, kappa: Any, out: Any = None) -> Any:
    """Derivative of A_d with respect to kappa: the variance of mu.x and the Fisher information of kappa."""
    return _of_dim("mean_length_slope", dim, kappa, out)


def inverse_iv_ratio(dim: Any, r: Any, out: Any = None) -> Any:
    """The kappa with A_d(kappa) = r: the maximum likelihood estimate from a mean resultant length."""
    return _of_dim("concentration", dim, r, out)


def inverse_iv_ratio_c(dim: Any, c: Any, out: Any = None) -> Any:
    """The kappa with 1 - A_d(kappa) = c, accurate for small c."""
    return _of_dim("concentration_from_complement", dim, c, out)


def entropy(dim: Any, kappa: Any, out: Any = None) -> Any:
    """Differential entropy."""
    return _of_dim("entropy", dim, kappa, out)


def _divergence(dim: int, kappa: Any, other: Any) -> Any:
    """KL divergence of two distributions with the same mean direction."""
    kappa, other = np.broadcast_arrays(np.asarray(kappa, np.float64), np.asarray(other, np.float64))
    found = np.empty(kappa.size)
    _vmfkit.divergences(dim, np.ascontiguousarray(kappa).ravel(), np.ascontiguousarray(other).ravel(), found)
    return found.reshape(kappa.shape)[()]
