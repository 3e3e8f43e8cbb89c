#!/usr/bin/env python3
"""Writes testdata/agreement.csv: random pairs of labelings with scikit-learn's scores of them.

    python3 testdata/agreement.py        (needs numpy, scipy and scikit-learn; made with scikit-learn 1.9)
"""

import os

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn import metrics

rng = np.random.default_rng(7)
cases = []
for rows, first, second, noise in [
    (1, 1, 1, 0), (2, 1, 2, 1), (2, 2, 2, 0), (7, 7, 1, 1), (10, 3, 3, 0.5), (30, 2, 9, 0.8), (50, 6, 4, 0.3), (60, 5, 5, 0.1),
    (60, 5, 5, 1), (80, 80, 80, 0), (80, 12, 3, 0.6), (100, 10, 10, 0.2), (100, 1, 1, 1), (120, 20, 25, 0.4),
]:
    a = rng.integers(first, size=rows)
    b = np.where(rng.random(rows) < noise, rng.integers(second, size=rows), a % second)
    cases.append((a * 3 - 2, b))
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "agreement.csv"), "w") as out:
    out.write("first,second,ari,nmi,homogeneity,completeness,v,matched\n")
    for a, b in cases:
        table = metrics.cluster.contingency_matrix(a, b)
        pairs = linear_sum_assignment(-table)
        scores = [
            metrics.adjusted_rand_score(a, b),
            metrics.normalized_mutual_info_score(a, b),
            *metrics.homogeneity_completeness_v_measure(a, b),
            table[pairs].sum() / len(a),
        ]
        labels = [" ".join(map(str, x)) for x in (a, b)]
        out.write(",".join(labels + [repr(float(s)) for s in scores]) + "\n")
