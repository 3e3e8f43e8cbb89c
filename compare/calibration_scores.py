"""Calibration errors, temperatures and ROC areas of probabilities, and peers that give probabilities."""

import time

import numpy as np
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

BINS = 15


def bins(probability, right):
    """Fraction of rows, mean probability and fraction that was right, for each of 15 bins."""
    number = np.minimum((probability * BINS).astype(int), BINS - 1)
    rows = np.bincount(number, minlength=BINS)
    per_row = np.maximum(rows, 1)
    sums = [np.bincount(number, values, BINS) / per_row for values in (probability, right)]
    return rows / len(number), *sums


def calibration_error(probability, right):
    fraction, expected, found = bins(probability, right)
    return float((fraction * abs(expected - found)).sum())


def softmax(logits):
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def best_temperature(logits, labels):
    """The temperature of the largest likelihood of the labels, by bisection of ln beta."""
    logits = logits - logits.max(1, keepdims=True)
    own = logits[np.arange(len(labels)), labels].sum()
    low, high = -9.0, 3.0
    for _ in range(30):
        middle = (low + high) / 2
        expected = (softmax(np.exp(middle) * logits) * logits).sum()
        low, high = (middle, high) if own > expected else (low, middle)
    return float(np.exp(-middle))


def majority_right(component, labels):
    """Whether a row has the most frequent label of its component; rows without one (-1) are wrong."""
    right = np.zeros(len(labels), bool)
    for one in np.unique(component[component >= 0]):
        rows = component == one
        right[rows] = labels[rows] == np.bincount(labels[rows]).argmax()
    return right


def gaussian(rows, components, kind):
    clock = time.perf_counter()
    found = GaussianMixture(components, covariance_type=kind, random_state=0).fit(rows)
    probability = found.predict_proba(rows)
    return probability.argmax(1), probability.max(1), time.perf_counter() - clock


def hdbscan(rows):
    """Soft membership of HDBSCAN on 50 principal components; full dimension takes hours and finds one cluster."""
    import hdbscan

    clock = time.perf_counter()
    reduced = PCA(50, random_state=0).fit_transform(rows).astype(np.float64)
    found = hdbscan.HDBSCAN(min_cluster_size=15, prediction_data=True).fit(reduced)
    membership = np.atleast_2d(hdbscan.all_points_membership_vectors(found))
    if membership.shape[0] != len(rows):
        membership = membership.T
    return membership.argmax(1), membership.max(1), time.perf_counter() - clock
