"""Special functions, compared with mpmath and scipy, and their behaviour as numpy functions."""

import threading

import mpmath
import numpy as np
import pytest
import scipy.special

from vmfkit import special, vonmises_fisher

CASES = [(d, k) for d in (2, 3, 5, 20, 768, 4096) for k in (1e-6, 0.3, 7.0, 150.0, 5e3, 1e6)]


def ratio(d, k):
    nu = mpmath.mpf(d) / 2
    return mpmath.besseli(nu, k) / mpmath.besseli(nu - 1, k)


@pytest.mark.parametrize(("d", "k"), CASES)
def test_values_agree_with_mpmath(d, k):
    with mpmath.workdps(60):
        nu, kappa = mpmath.mpf(d) / 2 - 1, mpmath.mpf(k)
        ln_i = mpmath.log(mpmath.besseli(nu, kappa))
        ln_c = nu * mpmath.log(kappa) - (nu + 1) * mpmath.log(2 * mpmath.pi) - ln_i
        a = ratio(d, kappa)
        assert special.log_iv(d / 2 - 1, k) == pytest.approx(float(ln_i), rel=1e-14, abs=1e-13)
        assert special.log_ive(d / 2 - 1, k) == pytest.approx(float(ln_i - kappa), rel=1e-13, abs=1e-13)
        assert special.log_normalizer(d, k) == pytest.approx(float(ln_c), rel=1e-14, abs=1e-13)
        assert special.iv_ratio(d, k) == pytest.approx(float(a), rel=1e-14)
        assert special.iv_ratio_c(d, k) == pytest.approx(float(1 - a), rel=1e-14)
        slope = 1 - a**2 - (d - 1) * a / kappa
        assert special.iv_ratio_slope(d, k) == pytest.approx(float(slope), rel=1e-12)
        assert special.inverse_iv_ratio(d, float(a)) == pytest.approx(k, rel=1e-9 * max(1, k / d))
        assert special.inverse_iv_ratio_c(d, float(1 - a)) == pytest.approx(k, rel=1e-9 * max(1, d / k))


def test_arrays_are_broadcast_and_out_is_filled():
    d, k = np.array([2, 3, 768])[:, None], np.linspace(0.1, 50, 7)
    found = special.log_normalizer(d, k)
    assert found.shape == (3, 7)
    assert found[2, 3] == special.log_normalizer(768, k[3])
    out = np.empty((3, 7))
    assert special.log_normalizer(d, k, out=out) is out and (out == found).all()
    narrow = np.empty((3, 7), np.float32)
    special.log_normalizer(d, k, out=narrow)
    np.testing.assert_allclose(narrow, found, rtol=1e-6)
    with pytest.raises(ValueError, match="out must have shape"):
        special.log_normalizer(d, k, out=np.empty(3))
    assert isinstance(special.iv_ratio(3, 1.0), float)
    np.testing.assert_allclose(special.log_iv([0, 1.5], 2.0), np.log(scipy.special.iv([0, 1.5], 2.0)), rtol=1e-14)


def test_out_may_be_an_input():
    k = np.linspace(0.1, 50, 7)
    expected = special.iv_ratio(5, k)
    values = k.copy()
    assert special.iv_ratio(5, values, out=values) is values
    np.testing.assert_array_equal(values, expected)
    # Partial overlap, and overlap with the first argument.
    both = np.concatenate([k, [0.0]])
    special.iv_ratio(5, both[:-1], out=both[1:])
    np.testing.assert_array_equal(both[1:], expected)
    orders = np.arange(7.0)
    expected = special.log_iv(orders, 3.0)
    np.testing.assert_array_equal(special.log_iv(orders, 3.0, out=orders), expected)


def test_out_behaves_as_in_numpy():
    k = np.linspace(0.1, 50, 7)
    out = np.empty(7)
    assert special.iv_ratio(5, k, out=(out,)) is out
    np.testing.assert_array_equal(out, special.iv_ratio(5, k))
    with pytest.raises(TypeError, match="found: `int64`"):
        special.iv_ratio(5, k, out=np.empty(7, np.int64))
    with pytest.raises(TypeError, match="out must be an array"):
        special.iv_ratio(5, k, out=[0.0] * 7)
    locked = np.empty(7)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        special.iv_ratio(5, k, out=locked)


def test_long_arrays_are_computed_in_pieces():
    k = np.random.default_rng(1).uniform(0, 1e3, 100_000)
    d = np.where(np.arange(100_000) % 2, 3, 768)
    found = special.iv_ratio(d, k)
    for i in (0, 16_384, 50_001, 99_999):
        assert found[i] == special.iv_ratio(int(d[i]), k[i])


def test_values_outside_the_domain_are_nan_or_an_error():
    assert np.isnan(special.log_normalizer(3, -1.0)) and np.isnan(special.iv_ratio(3, np.nan))
    assert special.iv_ratio(3, 0.0) == 0 and special.iv_ratio_c(3, 0.0) == 1
    with pytest.raises(ValueError, match="at least 1"):
        special.log_normalizer(0, 1.0)
    with pytest.raises(ValueError, match="must be an integer"):
        special.log_normalizer(2.5, 1.0)


def test_other_python_threads_run_during_a_long_call():
    density = vonmises_fisher(np.eye(5)[0], np.linspace(1, 50, 1_000_000))
    calls = {
        "divergence": lambda: density.kl_divergence(vonmises_fisher(np.eye(5)[0], 3)),
        "quantiles": lambda: vonmises_fisher(np.eye(5)[0], 3).ppf_projection(np.linspace(0, 1, 300_000)),
    }
    for name, call in calls.items():
        done, turns = threading.Event(), 0

        def work(done=done, call=call):
            call()
            done.set()

        worker = threading.Thread(target=work)
        worker.start()
        while not done.wait(0.001):
            turns += 1
        worker.join()
        # A thread that waits for the interpreter lock would run only once or twice.
        assert turns > 10, name
