"""The log-normaliser in JAX, with exact derivatives; supports `jit`, `vmap` and `grad`.

    pip install './python[jax]'    # in a clone of the repository
"""

from __future__ import annotations

import functools
from typing import Any

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise ImportError("vmfkit.jax needs JAX\nhint: pip install './python[jax]' in a clone of the repository") from error

from . import _series

__all__ = ["entropy", "log_normalizer", "log_peak", "mean_length"]


# Compiled even if the caller is not, because hundreds of separate operations would take milliseconds.
@functools.partial(jax.jit, static_argnums=(0, 1))
def _evaluate(name: str, dim: int, kappa: jax.Array) -> jax.Array:
    # Half precision is computed in single precision.
    work = kappa if kappa.dtype in (jnp.float32, jnp.float64) else kappa.astype(jnp.float32)
    return _series.evaluate(jnp, name, dim, work).astype(kappa.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _special(name: str, dim: int, kappa: jax.Array) -> jax.Array:
    return _evaluate(name, dim, kappa)


@_special.defjvp
def _(name: str, dim: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (kappa,), (tangent,) = primals, tangents
    return _special(name, dim, kappa), _derivative(name, dim, kappa) * tangent


def _derivative(name: str, dim: int, kappa: jax.Array) -> jax.Array:
    if name == "log_normalizer":
        return -_special("mean_length", dim, kappa)
    if name == "log_peak":
        return _special("mean_length_complement", dim, kappa)
    if name == "mean_length":
        return _special("mean_length_slope", dim, kappa)
    if name == "mean_length_complement":
        return -_special("mean_length_slope", dim, kappa)
    if name == "mean_length_slope":
        return _special("mean_length_curvature", dim, kappa)
    if name == "entropy":
        return -kappa * _special("mean_length_slope", dim, kappa)
    raise NotImplementedError("the log-normaliser has derivatives up to the third order, requested: `the fourth`")


def _of(name: str, dim: Any, kappa: Any) -> jax.Array:
    if int(dim) != dim or dim < 2:
        raise ValueError(f"the dimension must be an integer of at least 2, found: `{dim}`")
    kappa = jnp.asarray(kappa)
    if jnp.issubdtype(kappa.dtype, jnp.complexfloating):
        raise TypeError(f"kappa must be real, found: `{kappa.dtype}`")
    if not jnp.issubdtype(kappa.dtype, jnp.floating):
        kappa = kappa.astype(jnp.result_type(float))
    return _special(name, int(dim), kappa)


def log_normalizer(dim: int, kappa: Any) -> jax.Array:
    """ln C_d(kappa), where the density is C_d(kappa) exp(kappa mu.x); differentiable three times. `dim` must not be traced.

    The result has the precision of `kappa`; for double precision set `jax.config.update("jax_enable_x64", True)`. A negative kappa gives nan.
    """
    return _of("log_normalizer", dim, kappa)


def log_peak(dim: int, kappa: Any) -> jax.Array:
    """kappa + ln C_d(kappa), the log density at the mode; use it for large kappa."""
    return _of("log_peak", dim, kappa)


def mean_length(dim: int, kappa: Any) -> jax.Array:
    """A_d(kappa), the mean of mu.x."""
    return _of("mean_length", dim, kappa)


def entropy(dim: int, kappa: Any) -> jax.Array:
    """Differential entropy."""
    return _of("entropy", dim, kappa)
