"""Sets of rows for `calibration.py`: halves of labelled sets, and sets with rows of another one mixed in."""

import numpy as np
import scipy.sparse

from quality_data import SETS, write

# Halves are random, except those of banking77, whose test rows are published with it.
SPLITS = {
    "banking77": ("banking77", None),
    "news20": ("news20", 0.5),
    "news20, 30 %": ("news20", 0.3),
    "news20-tfidf": ("news20-tfidf", 0.5),
    "fashion-mnist": ("fashion-mnist", 0.5),
}


def load(data, name, scratch):
    _, source, read = SETS[name]
    if not (data / source).is_dir():
        return None
    return read(data / source, scratch)


def split(data, name, labels, fraction, seed=0):
    """True for rows to fit."""
    if fraction is None:
        return np.load(data / name / f"{name}_is_test_u8.npy") == 0
    return np.random.default_rng(seed).random(len(labels)) < fraction


def write_halves(data, out, title, scratch):
    """Writes the folders `fit` and `fresh`; gives the labels of the two, or None if the set is missing."""
    name, fraction = SPLITS[title]
    found = load(data, name, scratch)
    if found is None:
        return None
    rows, labels = found
    fitted = split(data, name, labels, fraction)
    write(out / "fit", rows[fitted], labels[fitted])
    write(out / "fresh", rows[~fitted], labels[~fitted])
    return labels[fitted], labels[~fitted]


def planted(data, out, name, other, scratch, seed=0):
    """The rows of a set, of which 1 % more are of another set, in random order; gives them and which they are."""
    rows, strange = (load(data, which, scratch)[0] for which in (name, other))
    rng = np.random.default_rng(seed)
    count = round(len(rows) / 100)
    rows = np.concatenate([rows, strange[rng.choice(len(strange), count, replace=False)]])
    is_planted = np.arange(len(rows)) >= len(rows) - count
    order = rng.permutation(len(rows))
    write(out / "fit", rows[order], is_planted[order])
    return rows[order], is_planted[order]


def dense(rows):
    return rows.toarray() if scipy.sparse.issparse(rows) else rows
