"""Special functions as array operations, for arrays that the extension module cannot read: on other devices and in traced code.

The methods are those of the Rust core (MATH.md sections 2 to 4): the expansion in 1/u, u = sqrt(nu^2 + kappa^2), for large u; otherwise the
downward recurrence for the ratio and the 0F1 series for the logarithm. The number of steps suffices for every concentration of the dimension.
`xp` is the array module: `torch` or `jax.numpy`. Concentrations may be up to 1e150 in double precision and 1e18 in single precision.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any, NamedTuple

from . import special

# Cut-offs of the expansion: u for the ratio, or kappa for orders up to _RATIO_LOW_ORDER; u for the logarithm.
_RATIO_FROM, _RATIO_LOW_ORDER, _RATIO_LOW_FROM = 48.0, 9.0, 28.0
_LOG_FROM = 28.5
# Number of terms of sigma and of L by the smallest u of a dimension; the truncation error is below 1e-16.
_RATIO_TERMS = ((48.0, 19), (72.0, 12), (126.0, 10), (441.0, 8), (7200.0, 6), (math.inf, 4))
_LOG_TERMS = ((31.5, 14), (40.0, 13), (56.4, 12), (97.6, 10), (246.0, 8), (1480.0, 6), (math.inf, 4))


class Ratio(NamedTuple):
    """A_d, 1 - A_d and A'_d."""

    value: Any
    complement: Any
    slope: Any


@functools.cache
def _expansion(count: int) -> tuple[list[list[float]], list[list[float]]]:
    """The coefficients, in powers of q, of tau_2 .. tau_{count+1} and of D_1 .. D_count, MATH.md (3.2) and (3.3)."""
    t = [[Fraction(1)]]
    ratios, logs = [], []
    for j in range(1, count + 2):
        total = [Fraction(0)] * (j + 1)
        for i in range(1, j):
            for a, x in enumerate(t[i]):
                for b, y in enumerate(t[j - i]):
                    total[a + b] += x * y
        # (1 - q) ((2 - j) t_{j-1} - 2 q t_{j-1}')
        for i, x in enumerate(t[j - 1]):
            total[i] += (2 - j - 2 * i) * x
            total[i + 1] -= (2 - j - 2 * i) * x
        t.append([-x / 2 for x in total])
        # t_j = (1 - q) tau_j: the partial sums divide by 1 - q.
        tau, carry = [], Fraction(0)
        for x in t[j][:-1]:
            carry += x
            tau.append(carry)
        if j >= 2:
            ratios.append([float(x) for x in tau])
            logs.append([float(-x / (j - 1 + 2 * i)) for i, x in enumerate(tau)])
    return ratios, logs


def _sum(coefficients: list[list[float]], q: Any, w: Any) -> Any:
    """sum_j w^j p_j(q) by Horner's rule in both."""
    total = 0.0 * w
    for polynomial in reversed(coefficients):
        inner = 0.0 * q
        for coefficient in reversed(polynomial):
            inner = inner * q + coefficient
        total = total * w + inner
    return total


def _terms(table: tuple[tuple[float, int], ...], u: float) -> int:
    return next(terms for end, terms in table if u < end)


def _away_from_zero(xp: Any, nu: float, kappa: Any) -> Any:
    """Keeps the expansion finite where it is evaluated but not used."""
    return kappa if nu >= _LOG_FROM else xp.clip(kappa, 1.0, None)


def _ratio_edge(nu: float) -> float:
    """The smallest kappa for which the ratio comes from the expansion."""
    return _RATIO_LOW_FROM if nu <= _RATIO_LOW_ORDER else math.sqrt(_RATIO_FROM**2 - nu**2)


def _series_terms(nu: float) -> int:
    """Number of 0F1 terms needed at the largest kappa where the series is used."""
    x = 0.25 * (_LOG_FROM**2 - nu**2)
    term, total, j = 1.0, 1.0, 0
    while term > 1e-18 * total:
        j += 1
        term *= x / (j * (nu + j))
        total += term
    return j


def ratio(xp: Any, dim: int, kappa: Any) -> Ratio:
    """A_d, 1 - A_d and A'_d for d >= 2."""
    nu = 0.5 * dim - 1.0
    outer = _ratio_outer(xp, nu, kappa)
    if nu >= _RATIO_FROM:
        return outer
    inner = _ratio_inner(xp, dim, kappa)
    return Ratio(*(xp.where(kappa >= _ratio_edge(nu), far, near) for far, near in zip(outer, inner)))


def _ratio_outer(xp: Any, nu: float, kappa: Any) -> Ratio:
    """MATH.md (3.4) to (3.6)."""
    kappa = _away_from_zero(xp, nu, kappa)
    u = xp.sqrt(nu * nu + kappa * kappa)
    w = 1.0 / u
    q = (nu * w) * (nu * w)
    sigma = _sum(_expansion(_terms(_RATIO_TERMS, nu))[0][: _terms(_RATIO_TERMS, nu)], q, w)
    h = 0.5 - sigma * w
    inverse = 1.0 / (u + nu)
    cosine = kappa * w
    return Ratio(
        kappa * (inverse - h * w * w),
        (nu + nu * nu / (u + kappa)) * inverse + cosine * h * w,
        (nu * u * inverse - 2.0 * sigma + h * (1.0 - cosine * cosine * h)) * w * w,
    )


def _ratio_inner(xp: Any, dim: int, kappa: Any) -> Ratio:
    """MATH.md (2.6) downwards from the start of (4.2), then (2.3) to (2.5)."""
    nu = 0.5 * dim - 1.0
    # The number of steps of (4.2) at the cut-off.
    steps = math.ceil(math.sqrt(nu * nu + 28.0 * _ratio_edge(nu)) - nu) + 5
    mu = 0.5 * dim + steps
    u = xp.sqrt(mu * mu + kappa * kappa)
    q = (mu / u) * (mu / u)
    a = kappa / (mu - 0.5 + u + 0.5 * q + (1.0 - q) * (5.0 * q - 1.0) / (8.0 * u))
    w = mu * (1.0 + mu / u) - 0.5 * (1.0 - q) * (1.0 - 2.0 * q)
    for step in reversed(range(steps)):
        d = dim + 2 * step
        w = d - a * a * w
        a = kappa / (d + kappa * a)
    half = 0.5 * (dim - 1)
    s = xp.sqrt(kappa * kappa + half * half + w)
    inverse = 1.0 / (half + s)
    return Ratio(kappa * inverse, (half + (half * half + w) / (kappa + s)) * inverse, w * inverse * inverse)


def curvature(xp: Any, dim: int, kappa: Any, slope: Any, next_value: Any, next_slope: Any) -> Any:
    """A''_d by MATH.md (10.2), from A'_d and from A and A' of d + 2; for large kappa its relative error grows by a factor kappa."""
    inverse = 1.0 / (dim + kappa * next_value)
    return (dim - 1) * inverse * inverse * (next_value + kappa * next_slope) - 2.0 * kappa * inverse * slope


def log_normalizer(xp: Any, dim: int, kappa: Any) -> Any:
    """ln C_d for d >= 2, MATH.md (3.7) and (4.3)."""
    return _log(xp, dim, kappa, lambda nu, u: u, 0.0 * kappa)


def log_peak(xp: Any, dim: int, kappa: Any) -> Any:
    """kappa + ln C_d for d >= 2."""
    return _log(xp, dim, kappa, lambda nu, u: nu * nu / (kappa + u), kappa)


def _log(xp: Any, dim: int, kappa: Any, fall: Any, rise: Any) -> Any:
    nu = 0.5 * dim - 1.0
    far = _away_from_zero(xp, nu, kappa)
    u = xp.sqrt(nu * nu + far * far)
    w = 1.0 / u
    terms = _terms(_LOG_TERMS, max(nu, _LOG_FROM))
    series = w * _sum(_expansion(terms)[1][:terms], (nu * w) * (nu * w), w)
    turn = 1.0 / (2.0 * math.pi)
    outer = nu * xp.log((nu + u) * turn) + 0.5 * xp.log(u * turn) - series - fall(nu, u)
    if nu >= _LOG_FROM:
        return outer
    x = 0.25 * kappa * kappa
    inner = 1.0 + 0.0 * kappa
    # Horner's rule for 0F1, whose terms are all positive.
    for j in range(_series_terms(nu), 0, -1):
        inner = 1.0 + inner * x / (j * (nu + j))
    uniform = float(special.log_normalizer(dim, 0.0))
    return xp.where(kappa * kappa >= _LOG_FROM**2 - nu**2, outer, uniform + rise - xp.log(inner))


def evaluate(xp: Any, name: str, dim: int, kappa: Any) -> Any:
    """Evaluates a function by the name that the extension module uses."""
    if name == "log_normalizer":
        found = log_normalizer(xp, dim, kappa)
    elif name == "log_peak":
        found = log_peak(xp, dim, kappa)
    elif name == "mean_length":
        found = ratio(xp, dim, kappa).value
    elif name == "mean_length_complement":
        found = ratio(xp, dim, kappa).complement
    elif name == "mean_length_slope":
        found = ratio(xp, dim, kappa).slope
    elif name == "mean_length_curvature":
        beyond = ratio(xp, dim + 2, kappa)
        found = curvature(xp, dim, kappa, ratio(xp, dim, kappa).slope, beyond.value, beyond.slope)
    elif name == "entropy":
        found = kappa * ratio(xp, dim, kappa).complement - log_peak(xp, dim, kappa)
    elif name == "divergence_from_uniform":
        uniform = float(special.log_normalizer(dim, 0.0))
        found = log_peak(xp, dim, kappa) - uniform - kappa * ratio(xp, dim, kappa).complement
    else:
        raise ValueError(f"unknown function of a dimension and a number, found: `{name}`")
    return xp.where(kappa >= 0, found, math.nan)
