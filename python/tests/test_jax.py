"""`vmfkit.jax`."""

from __future__ import annotations

import math

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp
import vmfkit.jax as vj
from jax.test_util import check_grads
from vmfkit import special

DIMS = [2, 5, 20, 59, 768, 4096]


@pytest.fixture(autouse=True)
def _doubles():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("dim", DIMS)
def test_derivatives_match_the_core(dim):
    kappa = np.concatenate([[0.0], np.logspace(-6, 6, 121), np.linspace(20, 50, 61)])
    nu = 0.5 * dim - 1
    scale = np.maximum(np.maximum(1, nu * math.log(max(nu, 1))), kappa)
    value = jax.jit(lambda k: vj.log_normalizer(dim, k))(kappa)
    assert np.max(np.abs(value - special.log_normalizer(dim, kappa)) / scale) < 1e-14
    first = jax.jit(jax.vmap(jax.grad(lambda k: vj.log_normalizer(dim, k))))(kappa)
    np.testing.assert_allclose(first, -special.iv_ratio(dim, kappa), rtol=1e-13)
    second = jax.jit(jax.vmap(jax.grad(jax.grad(lambda k: vj.log_normalizer(dim, k)))))(kappa)
    np.testing.assert_allclose(second, -special.iv_ratio_slope(dim, kappa), rtol=1e-13)
    entropy = jax.jit(lambda k: vj.entropy(dim, k))(kappa)
    assert np.max(np.abs(entropy - special.entropy(dim, kappa)) / scale) < 1e-14


def test_derivatives_agree_with_differences():
    for dim in (2, 100):
        for function in (vj.log_normalizer, vj.log_peak, vj.mean_length, vj.entropy):
            check_grads(lambda k: function(dim, k), (jnp.array([0.5, 7.0, 40.0]),), order=2, eps=1e-4, rtol=1e-4, atol=1e-6)


def test_shapes_and_dtypes():
    for shape in [(), (0,), (2, 3)]:
        for dtype in (jnp.float32, jnp.float64, jnp.bfloat16):
            found = vj.log_normalizer(7, jnp.ones(shape, dtype))
            assert found.shape == shape and found.dtype == dtype
    kappa = np.logspace(-6, 6, 60).astype(np.float32)
    found = vj.mean_length(768, kappa)
    np.testing.assert_allclose(found, special.iv_ratio(768, kappa.astype(np.float64)), rtol=2e-6)
    assert float(vj.log_normalizer(3, 2)) == pytest.approx(float(special.log_normalizer(3, 2)), rel=1e-14)
    assert math.isnan(vj.log_normalizer(3, -1.0))
    with pytest.raises(ValueError, match="at least 2, found: `1`"):
        vj.log_normalizer(1, 2.0)
    with pytest.raises(TypeError, match="must be real, found: `complex"):
        vj.log_normalizer(5, 1j)


def test_no_intermediate_nan():
    # The discarded branch of a traced `where` must also be finite, otherwise jax_debug_nans raises.
    jax.config.update("jax_debug_nans", True)
    try:
        for dim in (2, 3, 40, 768):
            jax.jit(jax.vmap(jax.grad(lambda k: vj.log_normalizer(dim, k))))(jnp.array([0.0, 1.0, 1e6]))
    finally:
        jax.config.update("jax_debug_nans", False)


def test_maximum_likelihood_by_gradients():
    # Newton's method on the mean log-likelihood converges to the inverse of the core.
    r = 0.6
    likelihood = lambda k: vj.log_normalizer(10, k) + k * r
    step = jax.jit(lambda k: k - jax.grad(likelihood)(k) / jax.grad(jax.grad(likelihood))(k))
    kappa = jnp.array(5.0)
    for _ in range(20):
        kappa = step(kappa)
    assert float(kappa) == pytest.approx(float(special.inverse_iv_ratio(10, r)), rel=1e-12)
