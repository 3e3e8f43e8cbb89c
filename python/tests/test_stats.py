"""Hypothesis tests, compared with formulas computed by scipy."""

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

from vmfkit import stats, vonmises_fisher

CIRCLE = [
    np.radians([94, 65, 45, 52, 38, 47, 73, 82, 90, 40, 87]),
    np.radians([77, 70, 61, 45, 50, 35, 48, 65, 36]),
    np.radians([40, 70, 55, 80, 62, 44]),
]


def on_circle(angles):
    return np.column_stack([np.cos(angles), np.sin(angles)])


def sample(mu, kappa, n, seed):
    return vonmises_fisher(np.asarray(mu) / np.linalg.norm(mu), kappa).rvs(n, random_state=seed)


def watson_williams(samples):
    """F of angles with the factor 1 + 3/(8 kappa), as in packages for circular statistics."""
    lengths = np.array([abs(np.exp(1j * angles).sum()) for angles in samples])
    total, n, q = abs(sum(np.exp(1j * angles).sum() for angles in samples)), sum(map(len, samples)), len(samples)
    mean = lengths.sum() / n
    kappa = scipy.optimize.brentq(lambda k: scipy.special.i1e(k) / scipy.special.i0e(k) - mean, 1e-6, 1e6)
    f = (1 + 3 / (8 * kappa)) * (n - q) * (lengths.sum() - total) / ((q - 1) * (n - lengths.sum()))
    return f, scipy.stats.f.sf(f, q - 1, n - q)


@pytest.mark.parametrize("count", [2, 3])
def test_watson_and_williams_on_the_circle(count):
    angles = CIRCLE[:count]
    found = stats.equal_mean_directions_test(*map(on_circle, angles), method="high-concentration")
    f, p = watson_williams(angles)
    assert found.statistic == pytest.approx(f, rel=1e-9)
    assert found.pvalue == pytest.approx(p, rel=3e-6)
    assert found.degrees_of_freedom == (count - 1, sum(map(len, angles)) - count)


def test_the_f_test_of_directions_in_any_dimension():
    first, second = sample([1, 2, 3, 4], 300, 12, 1), sample([1, 2, 3, 4.3], 300, 9, 2)
    resultants = np.array([first.sum(0), second.sum(0)])
    within, total = np.linalg.norm(resultants, axis=1).sum(), np.linalg.norm(resultants.sum(0))
    f = (21 - 2) * (total - within) / (within - 21)
    found = stats.equal_mean_directions_test(first, second, method="high-concentration")
    assert found.statistic == pytest.approx(f, rel=1e-9)
    assert found.p_value == pytest.approx(scipy.stats.f.sf(f, 3, 57), rel=3e-6)
    # For concentrated rows the simulated statistic has the F distribution.
    simulated = stats.equal_mean_directions_test(first, second, n_resamples=19999, random_state=3)
    assert simulated.p_value == pytest.approx(found.p_value, rel=0.15, abs=0.005)


def test_likelihood_ratios_match_the_densities():
    first, second = sample([1, 0, 0], 8, 30, 3), sample([1, 0.4, 0], 8, 25, 4)
    pooled, groups = np.concatenate([first, second]), [first, second]

    def best(kappa):
        # Each group has its own mean direction, all have this concentration.
        means = [group.sum(0) / np.linalg.norm(group.sum(0)) for group in groups]
        return -sum(scipy.stats.vonmises_fisher(mu, kappa).logpdf(group).sum() for mu, group in zip(means, groups))

    free = -scipy.optimize.minimize_scalar(best, bounds=(0.1, 100), method="bounded", options={"xatol": 1e-9}).fun
    mu, kappa = scipy.stats.vonmises_fisher.fit(pooled)
    statistic = 2 * (free - scipy.stats.vonmises_fisher(mu, kappa).logpdf(pooled).sum())
    found = stats.equal_mean_directions_test(first, second, method="likelihood-ratio")
    assert found.statistic == pytest.approx(statistic, abs=1e-6)
    assert found.p_value == pytest.approx(scipy.stats.chi2.sf(statistic, 2), rel=1e-5)
    permuted = stats.equal_mean_directions_test(first, second, method="permutation", n_resamples=199)
    assert abs(permuted.p_value - found.p_value) < 0.15


def test_concentrations():
    first, second, third = sample([1, 0, 0], 20, 40, 1), sample([0, 1, 0], 20, 40, 2), sample([0, 1, 1], 300, 40, 3)
    for method in ["simulation", "likelihood-ratio", "high-concentration"]:
        assert stats.equal_concentrations_test(first, second, method=method).p_value > 0.01
        assert stats.equal_concentrations_test(first, third, method=method).p_value < 0.01
        assert stats.equal_concentrations_test(first, second, third, method=method).p_value < 0.01
    found = stats.equal_concentrations_test(first, second, method="high-concentration")
    variances = [(len(x) - np.linalg.norm(x.sum(0))) / (len(x) - 1) for x in (first, second)]
    f = variances[0] / variances[1]
    two_sided = 2 * min(scipy.stats.f.sf(f, 78, 78), scipy.stats.f.cdf(f, 78, 78))
    assert (found.statistic, found.p_value) == (pytest.approx(f), pytest.approx(two_sided, rel=3e-6))


def test_mean_direction():
    rows = sample([0, 0, 1], 5, 20, 5)
    for method in ["conditional", "likelihood-ratio", "high-concentration"]:
        assert stats.mean_direction_test(rows, [0, 0, 1], method=method).p_value > 0.01
        assert stats.mean_direction_test(rows, [1, 0, 0], method=method).p_value < 1e-4
    r, c = np.linalg.norm(rows.sum(0)), rows.sum(0)[2]
    found = stats.mean_direction_test(rows, [0, 0, 1], method="high-concentration")
    assert found.statistic == pytest.approx(19 * (r - c) / (20 - r), rel=1e-9)
    assert stats.mean_direction_test(7 * rows, [0, 0, 1], normalize=True).p_value > 0.01


def test_uniformity():
    rows = sample([0, 1], 0, 2, 1)
    # The angle between two rows of the plane is uniform.
    angle = np.arccos(np.clip(rows[0] @ rows[1], -1, 1))
    assert stats.rayleigh_test(rows).p_value == pytest.approx(angle / np.pi, rel=3e-6)
    assert stats.rayleigh_test(sample([0, 1, 1], 4, 50, 1)).p_value < 1e-6


def test_symmetry_and_projections():
    rows = sample([0, 0, 1], 40, 300, 1)
    fair = stats.rotational_symmetry_test(rows)
    assert fair.p_value > 0.01 and fair.limit_p_value > 0.01 and fair.rows == 300
    assert stats.rotational_symmetry_test(rows) == fair
    elliptical = rows * [1.2, 0.83, 1.0]
    found = stats.rotational_symmetry_test(elliptical, normalize=True)
    assert found.p_value == 0.001 and found.limit_p_value < 1e-4
    assert stats.projection_test(elliptical, normalize=True, n_resamples=99).p_value > 0.01
    high = sample(np.ones(500), 400, 40, 2)
    assert stats.rotational_symmetry_test(high, n_resamples=99).limit_p_value is None


def test_the_symmetry_statistic_is_near_kents_for_many_rows():
    """Kent (1982): n (k/2)^2 I_{1/2}(k)/I_{5/2}(k) (l1 - l2)^2, chi-squared with 2 degrees of freedom."""
    rows = sample([0, 0, 1], 30, 20000, 7) * [1.012, 1.0, 1.0]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    mu, kappa = scipy.stats.vonmises_fisher.fit(rows)
    basis = np.linalg.svd(mu[None])[2][1:]
    values = np.linalg.eigvalsh(np.cov((rows @ basis.T).T, bias=True))
    kent = len(rows) * (kappa / 2) ** 2 * scipy.special.ive(0.5, kappa) / scipy.special.ive(2.5, kappa) * (values[1] - values[0]) ** 2
    found = stats.rotational_symmetry_test(rows, n_resamples=19)
    assert found.statistic == pytest.approx(kent, rel=0.05, abs=0.3)


def test_bad_arguments_are_refused():
    rows = sample([0, 0, 1], 5, 10, 1)
    with pytest.raises(ValueError, match="at least two groups"):
        stats.equal_mean_directions_test(rows)
    with pytest.raises(ValueError, match="one of conditional"):
        stats.mean_direction_test(rows, [0, 0, 1], method="bayes")
    with pytest.raises(ValueError, match="must have length 1"):
        stats.mean_direction_test(rows, [0, 0, 2])
    with pytest.raises(ValueError, match="one axis"):
        stats.mean_direction_test(rows, np.eye(3))
    with pytest.raises(ValueError, match="dimension"):
        stats.equal_mean_directions_test(rows, rows[:, :2], normalize=True)
    with pytest.raises(ValueError, match="dimension"):
        stats.equal_mean_directions_test(rows, rows[:, :2], normalize=True, method="permutation")
    with pytest.raises(TypeError, match="in memory"):
        stats.equal_mean_directions_test("a.npy", "b.npy", method="permutation")
    with pytest.raises(ValueError, match="separate concentrations"):
        stats.equal_mean_directions_test(rows, rows, method="high-concentration", equal_concentrations=False)
