#!/usr/bin/env python3
"""Writes questions.txt and embeddings.i8 from the full data set.

python3 make.py FOLDER          writes the files
python3 make.py FOLDER --check  compares them with what is there

FOLDER has banking77_texts.txt (a question per line), banking77_minilm_f16.npy (their embeddings by
all-MiniLM-L6-v2), banking77_labels_u8.npy, banking77_label_names.txt and banking77_is_test_u8.npy.
Needs numpy.
"""

import argparse
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PER_INTENT = 20


def make(folder):
    """The contents of the two files."""
    read = lambda name: (folder / f"banking77_{name}").read_text(encoding="utf-8").splitlines()
    texts, names = read("texts.txt"), read("label_names.txt")
    load = lambda name: np.load(folder / f"banking77_{name}.npy")
    rows, intents, is_test = load("minilm_f16").astype(np.float64), load("labels_u8"), load("is_test_u8")
    lines, chosen = [], []
    for intent, name in enumerate(names):
        first = np.flatnonzero((intents == intent) & (is_test == 1))[:PER_INTENT]
        assert len(first) == PER_INTENT and not any(texts[row].startswith("# ") for row in first)
        lines += [f"# {name}", *(" ".join(texts[row].split()) for row in first)]
        chosen.extend(first)
    rows = rows[chosen]
    # The largest coordinate of each row becomes 127. Rows are unit vectors, so the factor need not be stored.
    numbers = np.rint(rows * (127 / np.abs(rows).max(axis=1, keepdims=True))).astype(np.int8)
    return {"questions.txt": ("\n".join(lines) + "\n").encode(), "embeddings.i8": numbers.tobytes()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    for name, content in make(arguments.folder).items():
        if not arguments.check:
            (HERE / name).write_bytes(content)
        elif (HERE / name).read_bytes() != content:
            raise SystemExit(f"{HERE / name} differs from what this script makes")
