"""The peers' side of the comparison: what a user of scipy or mpmath would write."""

import mpmath
import numpy as np
from scipy.optimize import root_scalar
from scipy.special import gammaln, ive
from scipy.stats import vonmises_fisher

LN_2PI = np.log(2 * np.pi)


def scipy_ratio(d, k):
    return ive(d / 2, k) / ive(d / 2 - 1, k)


def scipy_ratio_and_slope(d, k):
    ratio = scipy_ratio(d, k)
    return ratio, 1 - ratio, 1 - ratio**2 - (d - 1) * ratio / k


def scipy_ln_bessel(d, k):
    return np.log(ive(d / 2 - 1, k)) + k


def scipy_ln_peak(d, k):
    return (d / 2 - 1) * np.log(k) - d / 2 * LN_2PI - np.log(ive(d / 2 - 1, k))


# vonmises_fisher's public methods want a mean direction of d coordinates, and d goes up to 1e7: they call these.
def scipy_ln_normalizer(d, k):
    return vonmises_fisher._log_norm_factor(d, k)


def scipy_entropy(d, k):
    return vonmises_fisher._entropy(d, k)


def scipy_phi(d, k):
    return gammaln(d / 2) - np.log(2) - d / 2 * np.log(np.pi) - scipy_ln_normalizer(d, k)


def scipy_kl(d, k1, k2):
    return scipy_ln_normalizer(d, k1) - scipy_ln_normalizer(d, k2) + (k1 - k2) * scipy_ratio(d, k1)


def scipy_kl_uniform(d, k):
    return k * scipy_ratio(d, k) - scipy_phi(d, k)


@np.vectorize
def scipy_inverse(d, r):
    """The root finder inside vonmises_fisher.fit, with its bracket; NaN where fit raises."""
    try:
        found = root_scalar(lambda k: scipy_ratio(d, k) - r, method="brentq", bracket=(1e-8, 1e9))
    except ValueError:
        return np.nan
    return found.root if found.converged else np.nan


def scipy_inverse_complement(d, complement):
    return scipy_inverse(d, 1 - complement)


def mpmath_ln_bessel(d, k):
    return mpmath.log(mpmath.besseli(mpmath.mpf(d) / 2 - 1, k))


def mpmath_ratio(d, k):
    return mpmath.besseli(mpmath.mpf(d) / 2, k) / mpmath.besseli(mpmath.mpf(d) / 2 - 1, k)
