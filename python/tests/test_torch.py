"""`vmfkit.torch`. Tests of draws have fixed seeds; with another seed each would fail with a probability below 1e-6 (five standard errors)."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import vmfkit
import vmfkit.torch as vt
from torch.distributions import kl_divergence
from torch.nn.functional import normalize
from vmfkit import _series, special
from vmfkit.torch import _special

DIMS = [2, 3, 4, 5, 8, 64, 768, 4096]
KAPPAS = [1e-6, 1e-3, 0.1, 1.0, 7.0, 30.0, 400.0, 1e4, 1e6]
DOUBLE = torch.float64


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(7)


def direction(dim: int, dtype: torch.dtype = DOUBLE) -> torch.Tensor:
    return normalize(torch.randn(dim, dtype=dtype), dim=0)


def scale_of(dim: int, kappa: np.ndarray) -> np.ndarray:
    """Size of the terms whose difference is ln C."""
    nu = 0.5 * dim - 1
    return np.maximum.reduce([np.ones_like(kappa), np.full_like(kappa, nu * math.log(max(nu, 1))), kappa])


# ln C and its derivatives


@pytest.mark.parametrize("dim", DIMS)
def test_gradients_agree_with_differences(dim):
    for kappa in KAPPAS:
        # Relative to kappa: a step of 1e-6 is useless at kappa = 1e-6 or 1e6.
        relative = torch.tensor([1.0], dtype=DOUBLE, requires_grad=True)
        of_relative = lambda x: vt.log_normalizer(dim, kappa * x)
        # Error of differences due to the rounding of ln C.
        atol = 1e-10 * float(scale_of(dim, np.array([kappa]))[0])
        assert torch.autograd.gradcheck(of_relative, relative, eps=1e-5, atol=atol, rtol=1e-6, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(of_relative, relative, eps=1e-5, atol=atol, rtol=1e-6)
        for function in (vt.log_peak, vt.mean_length, vt.entropy):
            assert torch.autograd.gradcheck(lambda x: function(dim, kappa * x), relative, eps=1e-4, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("dim", DIMS)
def test_gradcheck(dim):
    kappas = torch.tensor([1e-2, 1.0, 50.0, 300.0], dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(lambda k: vt.log_normalizer(dim, k), kappas)
    assert torch.autograd.gradgradcheck(lambda k: vt.log_normalizer(dim, k), kappas)


@pytest.mark.parametrize("dim", DIMS)
def test_derivatives_match_the_core(dim):
    kappa = torch.tensor([0.0, *KAPPAS], dtype=DOUBLE, requires_grad=True)
    value = vt.log_normalizer(dim, kappa)
    (first,) = torch.autograd.grad(value.sum(), kappa, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), kappa)
    points = kappa.detach().numpy()
    assert np.array_equal(value.detach().numpy(), special.log_normalizer(dim, points))
    assert np.array_equal(first.detach().numpy(), -special.iv_ratio(dim, points))
    assert np.array_equal(second.numpy(), -special.iv_ratio_slope(dim, points))


def test_derivatives_agree_with_mpmath():
    mp = pytest.importorskip("mpmath")
    with mp.workdps(60):
        for dim, k in [(2, 0.5), (5, 2.0), (20, 30.0), (100, 3.0), (300, 1e3)]:
            kappa = torch.tensor(k, dtype=DOUBLE, requires_grad=True)
            order = mp.mpf(dim) / 2 - 1
            log_c = lambda x: order * mp.log(x) - mp.mpf(dim) / 2 * mp.log(2 * mp.pi) - mp.log(mp.besseli(order, x))
            found = vt.log_normalizer(dim, kappa)
            for n in range(4):
                expected = float(mp.diff(log_c, mp.mpf(k), n))
                assert float(found.detach()) == pytest.approx(expected, rel=1e-12 if n < 3 else 1e-10), (dim, k, n)
                if n < 3:
                    (found,) = torch.autograd.grad(found, kappa, create_graph=True)


def test_fourth_derivative_is_refused():
    kappa = torch.tensor(2.0, dtype=DOUBLE, requires_grad=True)
    found = vt.log_normalizer(5, kappa)
    for _ in range(3):
        (found,) = torch.autograd.grad(found, kappa, create_graph=True)
    with pytest.raises(NotImplementedError, match="up to the third order"):
        torch.autograd.grad(found, kappa)


def test_shapes_and_dtypes():
    for shape in [(), (0,), (3,), (2, 3), (2, 1, 4)]:
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            kappa = torch.rand(shape).to(dtype).requires_grad_()
            found = vt.log_normalizer(7, kappa)
            assert found.shape == shape and found.dtype == dtype
            found.sum().backward()
            assert kappa.grad.shape == shape and kappa.grad.dtype == dtype
    strided = (torch.rand(4, 6, dtype=DOUBLE) * 9).T[::2]
    assert torch.equal(vt.log_normalizer(4, strided), vt.log_normalizer(4, strided.contiguous()))
    # Single precision is rounded once, at the end.
    kappa = torch.logspace(-6, 6, 50)
    expected = special.log_normalizer(768, kappa.double().numpy()).astype(np.float32)
    assert np.array_equal(vt.log_normalizer(768, kappa).numpy(), expected)
    assert float(vt.log_normalizer(3, 2)) == pytest.approx(special.log_normalizer(3, 2), rel=1e-6)
    assert math.isnan(vt.log_normalizer(3, -1.0))
    with pytest.raises(ValueError, match="integer of at least 2, found: `1`"):
        vt.log_normalizer(1, 2.0)
    with pytest.raises(TypeError, match="must be real, found: `torch.complex64`"):
        vt.log_normalizer(3, torch.tensor(1j))


def test_function_transforms():
    kappa = torch.tensor([0.5, 2.0, 90.0], dtype=DOUBLE)
    of_kappa = lambda k: vt.log_normalizer(5, k)
    expected = torch.from_numpy(-special.iv_ratio(5, kappa.numpy()))
    assert torch.equal(torch.func.vmap(torch.func.grad(of_kappa))(kappa), expected)
    assert torch.equal(torch.func.jvp(of_kappa, (kappa,), (torch.ones_like(kappa),))[1], expected)
    curvature = torch.func.vmap(torch.func.hessian(of_kappa))(kappa)
    assert torch.allclose(curvature, torch.from_numpy(-special.iv_ratio_slope(5, kappa.numpy())), rtol=1e-15)


def test_torch_compile():
    kappa = torch.tensor([0.5, 2.0], dtype=DOUBLE, requires_grad=True)
    compiled = torch.compile(lambda k: (k * vt.log_normalizer(5, k)).sum(), backend="aot_eager", fullgraph=True)
    (found,) = torch.autograd.grad(compiled(kappa), kappa)
    (expected,) = torch.autograd.grad((kappa * vt.log_normalizer(5, kappa)).sum(), kappa)
    assert torch.allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 6, 7, 19, 20, 21, 50, 58, 59, 60, 64, 97, 98, 99, 128, 300, 768, 1024, 4096])
def test_other_devices_agree_with_the_core(dim):
    kappa = np.concatenate([[0.0], np.logspace(-6, 6, 301), np.linspace(1, 60, 300), [28.0, 28.5, np.nextafter(28.0, 0)]])
    tensor = torch.from_numpy(kappa)
    for name in ("mean_length", "mean_length_complement", "mean_length_slope"):
        found, expected = _series.evaluate(torch, name, dim, tensor).numpy(), special._of_dim(name, dim, kappa, None)
        np.testing.assert_allclose(found, expected, rtol=2e-14, err_msg=name)
    for name in ("log_normalizer", "log_peak", "entropy", "divergence_from_uniform"):
        found, expected = _series.evaluate(torch, name, dim, tensor).numpy(), special._of_dim(name, dim, kappa, None)
        assert np.max(np.abs(found - expected) / scale_of(dim, kappa)) < 1e-14, name
    single = _series.evaluate(torch, "mean_length", dim, tensor.float()).double().numpy()
    np.testing.assert_allclose(single, special.iv_ratio(dim, np.float64(np.float32(kappa))), rtol=2e-6)
    pair = _special.divergence_by_series(dim, tensor, tensor.flip(0)).numpy()
    expected = special._divergence(dim, kappa, kappa[::-1])
    assert np.max(np.abs(pair - expected) / (scale_of(dim, kappa) + scale_of(dim, kappa[::-1]))) < 1e-14


def test_derivatives_of_other_devices(monkeypatch):
    # Treats the CPU like a device that the extension module cannot read.
    monkeypatch.setattr(_special, "_is_readable", lambda tensor: False)
    for dim in (2, 40, 768):
        kappas = torch.tensor([0.5, 8.0, 300.0], dtype=DOUBLE, requires_grad=True)
        assert torch.autograd.gradcheck(lambda k: vt.log_normalizer(dim, k), kappas)
        assert torch.autograd.gradgradcheck(lambda k: vt.log_normalizer(dim, k), kappas)
        assert torch.autograd.gradgradcheck(lambda k: vt.entropy(dim, k), kappas)
        p, q = vt.VonMisesFisher(direction(dim), kappas), vt.VonMisesFisher(direction(dim), kappas.flip(0))
        found = kl_divergence(p, q)
        monkeypatch.undo()
        assert torch.allclose(found, kl_divergence(p, q), rtol=1e-9)
        monkeypatch.setattr(_special, "_is_readable", lambda tensor: False)


def test_tensors_stay_on_their_device():
    # The device "meta" has shapes but no numbers, so nothing may be computed on the CPU.
    kappa = torch.empty(3, 4, device="meta")
    assert vt.log_normalizer(768, kappa).device.type == "meta"
    density = vt.VonMisesFisher(torch.empty(4, 8, device="meta"), torch.empty(4, device="meta"), validate_args=False)
    assert density.log_prob(torch.empty(3, 4, 8, device="meta")).shape == (3, 4)


# One distribution


def test_log_prob_and_moments():
    for dim in (2, 3, 10, 768):
        mu, kappa = direction(dim), torch.tensor([0.0, 0.3, 40.0, 1e6], dtype=DOUBLE)
        density = vt.VonMisesFisher(mu, kappa)
        assert density.batch_shape == (4,) and density.event_shape == (dim,)
        x = density.sample((5,))
        assert x.shape == (5, 4, dim)
        expected = [vmfkit.vonmises_fisher(mu.numpy(), k).logpdf(x[:, i].numpy()) for i, k in enumerate(kappa.tolist())]
        np.testing.assert_allclose(density.log_prob(x).numpy(), np.stack(expected, 1), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(density.entropy().numpy(), special.entropy(dim, kappa.numpy()), rtol=1e-14)
        np.testing.assert_allclose(density.mean.norm(dim=-1).numpy(), special.iv_ratio(dim, kappa.numpy()), rtol=1e-13)
        # The coordinates' variances add to 1 - A^2.
        np.testing.assert_allclose(density.variance.sum(-1).numpy(), 1 - special.iv_ratio(dim, kappa.numpy()) ** 2, atol=1e-13)
        assert torch.allclose(density.covariance_matrix.diagonal(dim1=-2, dim2=-1), density.variance)
        assert torch.equal(density.mode, density.loc)


def test_single_precision_is_accurate_near_the_mode():
    mu = direction(64, torch.float32)
    density = vt.VonMisesFisher(mu, torch.tensor(1e6))
    x = density.sample((200,))
    assert x.dtype == torch.float32
    exact = vt.VonMisesFisher(mu.double(), torch.tensor(1e6, dtype=DOUBLE)).log_prob(x.double())
    # In single precision kappa mu.x would have an error of 0.06.
    assert float((density.log_prob(x) - exact).abs().max()) < 5e-4


def test_arguments_are_checked():
    mu = direction(3)
    for loc, kappa in [(2 * mu, 1.0), (mu, -1.0), (mu, math.nan)]:
        with pytest.raises(ValueError):
            vt.VonMisesFisher(loc, torch.tensor(kappa), validate_args=True)
    with pytest.raises(ValueError, match="at least one axis"):
        vt.VonMisesFisher(torch.tensor(1.0), 1.0)
    with pytest.raises(ValueError, match="at least 2"):
        vt.VonMisesFisher(torch.ones(1), 1.0)
    with pytest.raises(ValueError):
        vt.VonMisesFisher(mu, 1.0, validate_args=True).log_prob(2 * mu)


def test_expand():
    density = vt.VonMisesFisher(normalize(torch.randn(3, 1, 5), dim=-1), torch.rand(4))
    assert density.batch_shape == (3, 4)
    wider = density.expand((2, 3, 4))
    assert wider.batch_shape == (2, 3, 4) and wider.sample((6,)).shape == (6, 2, 3, 4, 5)
    assert torch.equal(wider.entropy(), density.entropy().expand(2, 3, 4))
    assert density.rsample().shape == (3, 4, 5) and density.sample((0,)).shape == (0, 3, 4, 5)
    assert density.log_prob(density.sample((2,))).shape == (2, 3, 4)
    torch.manual_seed(3)
    first = density.sample((2,))
    torch.manual_seed(3)
    assert torch.equal(density.sample((2,)), first)
    independent = torch.distributions.Independent(density, 1)
    assert independent.log_prob(density.sample()).shape == (3,)


@pytest.mark.parametrize(("dim", "kappa"), [(2, 0.0), (2, 3.0), (3, 2.0), (4, 9.0), (5, 2.0), (64, 20.0), (768, 900.0), (5, 1e6)])
def test_gradient_of_draws_in_kappa_is_unbiased(dim, kappa):
    draws = 200_000 if dim < 10 else 20_000
    kappas = torch.full((draws,), kappa, dtype=DOUBLE, requires_grad=True)
    mu = direction(dim)
    # One draw per concentration, so the gradient of the sum is a sample of derivatives.
    x = vt.VonMisesFisher(mu, kappas).rsample()
    across = normalize(torch.randn(dim, dtype=DOUBLE), dim=0)
    across = normalize(across - (across @ mu) * mu, dim=0)
    for value, expected in [
        # d E[mu.x] = A', d E[(a.x)^2] for a across mu = d (A/kappa), d E[a.x] = 0
        (x @ mu, lambda k: vt.mean_length(dim, k)),
        ((x @ across) ** 2, lambda k: 1 / (dim + k * vt.mean_length(dim + 2, k))),
        ((x @ (0.6 * mu + 0.8 * across)) ** 3, None),
        (x @ across, lambda k: 0 * k),
    ]:
        (sample,) = torch.autograd.grad(value.sum(), kappas, retain_graph=True)
        error = 5 * float(sample.std()) / draws**0.5
        if expected is None:
            # The score function estimate has the same mean.
            score = value.detach() * ((x.detach() @ mu) - vt.mean_length(dim, kappas.detach()))
            error += 5 * float(score.std()) / draws**0.5
            exact = float(score.mean())
        else:
            point = torch.tensor(kappa, dtype=DOUBLE, requires_grad=True)
            exact = float(torch.autograd.grad(expected(point), point)[0])
        assert abs(float(sample.mean()) - exact) <= error + 1e-12 * abs(exact), (float(sample.mean()), exact, error)


def test_the_documented_gradient_is_reproduced():
    kappa = torch.full((400_000,), 2.0, dtype=DOUBLE, requires_grad=True)
    mu = direction(5)
    (sample,) = torch.autograd.grad((vt.VonMisesFisher(mu, kappa).rsample() @ mu).sum(), kappa)
    error = 5 * float(sample.std()) / 400_000**0.5
    assert error < 1e-3 and abs(float(sample.mean()) - 0.147389) < error


@pytest.mark.parametrize(("dim", "kappa"), [(2, 2.0), (3, 5.0), (5, 2.0), (64, 60.0)])
@pytest.mark.parametrize("side", [1.0, -1.0, 0.0])
def test_gradient_of_draws_in_mu_is_unbiased(dim, kappa, side):
    draws = 200_000 if dim < 10 else 20_000
    start = direction(dim)
    # On both sides of the sign change of the reflection, and at it.
    start[0] = side * start[0].abs()
    start = normalize(start, dim=0)
    raw = start.expand(draws, dim).clone().requires_grad_()
    x = vt.VonMisesFisher(normalize(raw, dim=-1), torch.tensor(kappa, dtype=DOUBLE)).rsample()
    target = direction(dim)
    length = float(vt.mean_length(dim, torch.tensor(kappa, dtype=DOUBLE)))
    variance = 1 / (dim + kappa * float(vt.mean_length(dim + 2, torch.tensor(kappa, dtype=DOUBLE))))
    tangent = normalize(target - (target @ start) * start, dim=0)
    for value, exact in [
        (x @ target, length * target),
        # E[(a.x)^2] = A/kappa + (1 - d A/kappa) (a.mu)^2
        ((x @ target) ** 2, 2 * (1 - dim * variance) * (target @ start) * target),
    ]:
        (sample,) = torch.autograd.grad(value.sum(), raw, retain_graph=True)
        along = sample @ tangent
        error = 5 * float(along.std()) / draws**0.5
        assert abs(float(along.mean()) - float(exact @ tangent)) < error
        # The length of `raw` has no effect.
        assert float((sample @ start).abs().max()) < 1e-12


def test_draws_follow_their_distribution():
    for dim, kappa in [(2, 1.5), (5, 30.0), (100, 50.0)]:
        mu = direction(dim)
        x = vt.VonMisesFisher(mu, torch.tensor(kappa, dtype=DOUBLE, requires_grad=True)).rsample((20_000,)).detach()
        p = np.sort(vmfkit.vonmises_fisher(mu.numpy(), kappa).cdf_projection((x @ mu).clamp(-1, 1).numpy()))
        distance = np.max(np.abs(p - (np.arange(p.size) + 0.5) / p.size))
        # Kolmogorov-Smirnov at 1e-6.
        assert distance < 2.7 / math.sqrt(p.size), (dim, kappa)


def test_draws_of_a_batch_are_independent():
    x = vt.VonMisesFisher(direction(4), torch.linspace(0, 3, 50, dtype=DOUBLE)).sample((4000,))
    y = (x - x.mean(0)).flatten(1)
    correlation = (y.T @ y) / 4000 / torch.outer(y.std(0), y.std(0))
    apart = correlation.view(50, 4, 50, 4)[torch.arange(50), :, :][:, :, torch.arange(50)]
    apart = apart[~torch.eye(50, dtype=torch.bool).unsqueeze(1).expand(50, 4, 50)]
    # The largest of 40,000 normals of deviation 1/sqrt(4000), at 1e-6.
    assert float(apart.abs().max()) < 7 / math.sqrt(4000)


def test_draws_in_single_precision_have_gradients():
    mu = normalize(torch.randn(3, 16), dim=-1).requires_grad_()
    kappa = torch.tensor([0.0, 5.0, 1e5], requires_grad=True)
    x = vt.VonMisesFisher(mu, kappa).rsample((7,))
    assert x.dtype == torch.float32 and torch.allclose(x.norm(dim=-1), torch.ones(7, 3), atol=1e-6)
    (x * torch.randn(16)).sum().backward()
    assert kappa.grad.dtype == torch.float32 and bool(torch.isfinite(kappa.grad).all() and torch.isfinite(mu.grad).all())
    with torch.no_grad():
        assert not vt.VonMisesFisher(mu, kappa).rsample().requires_grad


def test_draws_have_the_same_derivatives_in_every_mode():
    mu, to = direction(5), direction(5)
    kappa = torch.tensor([0.5, 2.0, 40.0], dtype=DOUBLE)

    def value(k):
        torch.manual_seed(3)
        return (vt.VonMisesFisher(mu, k).rsample((4,)) @ to) ** 2

    expected = torch.autograd.functional.jacobian(lambda k: value(k).sum(0), kappa).diagonal()
    torch.testing.assert_close(torch.func.grad(lambda k: value(k).sum())(kappa), expected)
    found, tangent = torch.func.jvp(value, (kappa,), (torch.ones_like(kappa),))
    torch.testing.assert_close(tangent.sum(0), expected)
    torch.testing.assert_close(found, value(kappa))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(kappa, torch.ones_like(kappa))
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(value(dual)).tangent.sum(0), expected)
    # Also in the mean direction.
    shifted = lambda m: (vt.VonMisesFisher(normalize(m, dim=-1), kappa).rsample() @ to).sum()
    torch.manual_seed(3)
    assert bool(torch.isfinite(torch.func.grad(shifted)(mu)).all())


def test_a_second_derivative_of_draws_is_refused():
    kappa = torch.tensor(2.0, dtype=DOUBLE, requires_grad=True)
    value = lambda k: (vt.VonMisesFisher(direction(4), k).rsample((3,)) ** 3).sum()
    (slope,) = torch.autograd.grad(value(kappa), kappa, create_graph=True)
    with pytest.raises(NotImplementedError, match="differentiated once"):
        slope.backward()
    for twice in (torch.func.grad(torch.func.grad(value)), lambda k: torch.func.jvp(torch.func.grad(value), (k,), (torch.ones_like(k),))):
        with pytest.raises(NotImplementedError, match="differentiated once"):
            twice(kappa.detach())


def test_divergences_have_derivatives_in_forward_mode():
    p, q = direction(6), direction(6)
    value = lambda k, m: kl_divergence(vt.VonMisesFisher(p, k), vt.VonMisesFisher(q, m))
    point = tuple(torch.tensor(number, dtype=DOUBLE) for number in (3.0, 8.0))
    slopes = torch.func.grad(value, (0, 1))(*point)
    for i, tangents in enumerate(torch.eye(2, dtype=DOUBLE)):
        torch.testing.assert_close(torch.func.jvp(value, point, tuple(tangents))[1], slopes[i])
    # In one argument only.
    torch.testing.assert_close(torch.func.jvp(lambda k: value(k, point[1]), point[:1], (torch.ones((), dtype=DOUBLE),))[1], slopes[0])


def test_divergences_from_a_uniform_batch_have_its_shape():
    one, several = vt.VonMisesFisher(direction(3), 2.0), vt.UniformSphere(3, (4,), dtype=DOUBLE)
    assert kl_divergence(one, several).shape == kl_divergence(several, one).shape == (4,)
    assert kl_divergence(one.expand((5, 1)), several).shape == (5, 4)


def test_parameters_that_are_not_tensors_keep_their_precision():
    assert float(vt.VonMisesFisher(direction(3), 0.1).concentration) == 0.1


def test_divergences():
    mu, other = direction(6), direction(6)
    k, m = (torch.tensor(value, dtype=DOUBLE, requires_grad=True) for value in (3.0, 8.0))
    p, q = vt.VonMisesFisher(mu, k), vt.VonMisesFisher(other, m)
    expected = vmfkit.vonmises_fisher(mu.numpy(), 3.0).kl_divergence(vmfkit.vonmises_fisher(other.numpy(), 8.0))
    assert float(kl_divergence(p, q)) == pytest.approx(float(expected), rel=1e-13)
    uniform = vt.UniformSphere(6, dtype=DOUBLE)
    # KL = -H(p) - E[ln uniform]
    by_entropy = -p.entropy() - uniform.log_prob(mu)
    assert float(kl_divergence(p, uniform)) == pytest.approx(float(by_entropy), rel=1e-12)
    zero = vt.VonMisesFisher(other, torch.tensor(0.0, dtype=DOUBLE))
    assert float(kl_divergence(uniform, q)) == pytest.approx(float(kl_divergence(zero, q)), rel=1e-12)
    assert float(kl_divergence(uniform, uniform)) == 0
    x = p.sample((40_000,))
    sample = p.log_prob(x) - q.log_prob(x)
    assert abs(float((sample.mean() - kl_divergence(p, q)).detach())) < 5 * float(sample.std().detach()) / 200
    loc = lambda raw: normalize(raw, dim=0)
    arguments = [tensor.detach().clone().requires_grad_() for tensor in (mu, k, other, m)]
    of_all = lambda a, b, c, d: kl_divergence(vt.VonMisesFisher(loc(a), b), vt.VonMisesFisher(loc(c), d))
    assert torch.autograd.gradcheck(of_all, arguments) and torch.autograd.gradgradcheck(of_all, arguments)
    assert torch.autograd.gradcheck(lambda k: kl_divergence(vt.VonMisesFisher(mu, k), uniform), [arguments[1]])
    with pytest.raises(ValueError, match="expected dimension 6, found: `3`"):
        kl_divergence(p, vt.UniformSphere(3))


def test_log_prob_gradients():
    mu, kappa = torch.randn(2, 4, dtype=DOUBLE, requires_grad=True), torch.tensor([0.7, 20.0], dtype=DOUBLE, requires_grad=True)
    x = normalize(torch.randn(3, 2, 4, dtype=DOUBLE), dim=-1)
    log_prob = lambda m, k: vt.VonMisesFisher(normalize(m, dim=-1), k).log_prob(x)
    assert torch.autograd.gradcheck(log_prob, (mu, kappa)) and torch.autograd.gradgradcheck(log_prob, (mu, kappa))


def test_uniform():
    uniform = vt.UniformSphere(5, (2,), dtype=DOUBLE)
    x = uniform.rsample((3,))
    assert x.shape == (3, 2, 5) and torch.allclose(x.norm(dim=-1), torch.ones(3, 2, dtype=DOUBLE))
    assert float(uniform.log_prob(x)[0, 0]) == pytest.approx(special.log_normalizer(5, 0.0), rel=1e-14)
    assert uniform.expand((4, 2)).entropy().shape == (4, 2)
    assert float(uniform.variance[0, 0]) == 0.2


# Mixtures


def three_clusters(count: int = 3000, dim: int = 8) -> tuple[np.ndarray, vmfkit.Mixture]:
    axes = np.ascontiguousarray(np.eye(dim)[:3])
    truth = vmfkit.Mixture(np.array([0.5, 0.3, 0.2]), axes, np.array([20.0, 40.0, 10.0]))
    return truth.sample(count, 1)[0], truth


def test_mixture_agrees_with_the_core():
    rows, truth = three_clusters()
    x = torch.from_numpy(rows)
    module = vt.MixtureVonMisesFisher.from_mixture(truth, dtype=DOUBLE)
    np.testing.assert_allclose(module(x).detach(), truth.ln_densities(rows), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(module.responsibilities(x).detach(), truth.responsibilities(rows), atol=1e-12)
    np.testing.assert_allclose(module.component_log_prob(x).detach(), truth.component_ln_densities(rows), atol=1e-11)
    assert np.array_equal(module.predict(x).numpy(), truth.assign(rows))
    assert torch.allclose(module.distribution().log_prob(x), module(x))
    back = module.to_mixture()
    for name in ("weights", "directions", "concentrations"):
        np.testing.assert_allclose(getattr(back, name), getattr(truth, name), rtol=1e-14)
    single = vt.MixtureVonMisesFisher.from_mixture(truth)
    assert single(x.float()).dtype == torch.float32
    np.testing.assert_allclose(single(x.float()).detach(), truth.ln_densities(rows), atol=1e-4)


def test_mixture_of_an_estimator_and_with_a_background():
    rows, truth = three_clusters()

    class Estimator:
        mixture_ = truth

    assert vt.MixtureVonMisesFisher.from_mixture(Estimator()).components == 3
    with pytest.raises(TypeError, match="found: `int`"):
        vt.MixtureVonMisesFisher.from_mixture(3)
    noisy = vmfkit.Mixture(truth.weights, truth.directions, truth.concentrations, background=0.1)
    module = vt.MixtureVonMisesFisher.from_mixture(noisy, dtype=DOUBLE)
    np.testing.assert_allclose(module(torch.from_numpy(rows)).detach(), noisy.ln_densities(rows), rtol=1e-11, atol=1e-11)
    optimiser = torch.optim.Adam(module.parameters())
    for _ in range(3):
        optimiser.zero_grad()
        (-module(torch.from_numpy(rows)).mean()).backward()
        optimiser.step()
    assert float(module.concentrations[3].detach()) == 0 and bool(torch.isfinite(module.unnormalized).all())


def test_a_background_survives_a_round_trip():
    rows, truth = three_clusters()
    noisy = vmfkit.Mixture(truth.weights, truth.directions, truth.concentrations, background=0.1)
    again = vt.MixtureVonMisesFisher.from_mixture(noisy, dtype=DOUBLE).to_mixture()
    assert again.has_background and again.components == 4
    np.testing.assert_allclose(again.weights, noisy.weights, rtol=1e-14)
    np.testing.assert_allclose(again.ln_densities(rows), noisy.ln_densities(rows), rtol=1e-11, atol=1e-11)
    assert not vt.MixtureVonMisesFisher.from_mixture(truth).to_mixture().has_background
    assert not vt.MixtureVonMisesFisher(4, 1, concentration=0).to_mixture().has_background


def test_rows_and_module_may_differ_in_precision():
    rows, truth = three_clusters()
    x, expected = torch.from_numpy(rows), torch.from_numpy(truth.ln_densities(rows))
    single, double = (vt.MixtureVonMisesFisher.from_mixture(truth, dtype=dtype) for dtype in (torch.float32, DOUBLE))
    for module, values, tolerance in [
        (single, x, 1e-5),
        (double, x.float(), 1e-5),
        (single, x.half(), 0.1),
        (single, x.bfloat16(), 1.0),
        (vt.MixtureVonMisesFisher.from_mixture(truth, dtype=torch.bfloat16), x, 2.0),
    ]:
        found = module(values)
        assert found.dtype == module.logits.dtype
        torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=0.02 if module.logits.dtype == torch.bfloat16 else tolerance)
    torch.manual_seed(0)
    for dtype in (torch.half, torch.bfloat16):
        assert vt.MixtureVonMisesFisher.from_rows(x.to(dtype), 3, normalize=True).logits.dtype == torch.float32
    with pytest.raises(ValueError, match="row 0 must have length 1"):
        vt.MixtureVonMisesFisher.from_rows(2 * x, 3)
    torch.manual_seed(0)
    first = vt.MixtureVonMisesFisher.from_rows(x, 3)
    torch.manual_seed(0)
    torch.testing.assert_close(vt.MixtureVonMisesFisher.from_rows(2 * x, 3, normalize=True).concentrations, first.concentrations)


def test_module_html_representation():
    assert "<table>" in vt.MixtureVonMisesFisher(4, 2)._repr_html_()


def test_gradients_of_the_mixture():
    rows, truth = three_clusters(20)
    module = vt.MixtureVonMisesFisher.from_mixture(truth, dtype=DOUBLE)
    x = torch.from_numpy(rows)
    names = [name for name, _ in module.named_parameters()]
    of_parameters = lambda *values: torch.func.functional_call(module, dict(zip(names, values)), (x,))
    values = [parameter.detach().clone().requires_grad_() for parameter in module.parameters()]
    assert torch.autograd.gradcheck(of_parameters, values)


def test_training_reaches_the_likelihood_of_em():
    rows, truth = three_clusters()
    em = vmfkit._vmfkit.fit(rows, 3, seed=2, policy="free").mixture
    best = float(np.mean(em.ln_densities(rows)))
    x = torch.from_numpy(rows)
    for seed in range(3):
        torch.manual_seed(seed)
        module = vt.MixtureVonMisesFisher.from_rows(x, 3)
        assert module.logits.dtype == DOUBLE
        optimiser = torch.optim.Adam(module.parameters(), lr=0.05)
        for _ in range(150):
            optimiser.zero_grad()
            loss = -module(x).mean()
            loss.backward()
            optimiser.step()
        assert -float(loss.detach()) == pytest.approx(best, abs=1e-3)
    with pytest.raises(ValueError, match="at least 1, found: `0`"):
        vt.MixtureVonMisesFisher.from_rows(x, 3, passes=0)


def test_training_from_random_directions():
    rows, truth = three_clusters()
    module, x = vt.MixtureVonMisesFisher(8, 3), torch.from_numpy(rows).float()
    before = float(module(x).mean().detach())
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(50):
        optimiser.zero_grad()
        loss = -module(x).mean()
        loss.backward()
        optimiser.step()
    assert -float(loss.detach()) > before + 1


def test_mixture_in_single_precision_at_large_concentrations():
    dim = 32
    truth = vmfkit.Mixture(np.array([0.5, 0.5]), np.ascontiguousarray(np.eye(dim)[:2]), np.array([1e6, 1e5]))
    rows = truth.sample(50, 3)[0].astype(np.float32)
    module = vt.MixtureVonMisesFisher.from_mixture(truth)
    np.testing.assert_allclose(module(torch.from_numpy(rows)).detach(), truth.ln_densities(rows), atol=0.3)


def test_state_dict_round_trip():
    module, other = vt.MixtureVonMisesFisher(4, 2), vt.MixtureVonMisesFisher(4, 2)
    other.load_state_dict(module.state_dict())
    x = normalize(torch.randn(3, 4), dim=1)
    assert torch.equal(module(x), other(x)) and "dim=4, components=2" in repr(module)
    for bad in ({"dim": 1, "components": 2}, {"dim": 4, "components": 0}, {"dim": 4, "components": 2, "concentration": -1.0}):
        with pytest.raises(ValueError):
            vt.MixtureVonMisesFisher(**bad)
    with pytest.raises(ValueError, match="rows must have 4 coordinates, found: `5`"):
        module(torch.ones(1, 5))


def test_the_example_learns(capsys):
    example = Path(__file__).parents[1] / "examples" / "learn_directions.py"
    runpy.run_path(str(example), run_name="__main__")
    rows = [line.split() for line in capsys.readouterr().out.strip().splitlines()[-7:]]
    for _, degrees, _, learned, true in rows:
        assert float(degrees) < 4 and 0.75 < float(learned) / float(true) < 1.33
