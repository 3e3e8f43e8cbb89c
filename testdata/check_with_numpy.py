#!/usr/bin/env python3
"""Checks that what `vmf sample` writes is what numpy reads: python3 testdata/check_with_numpy.py path/to/vmf"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

vmf = str(Path(sys.argv[1]).resolve())


def run(*args):
    return subprocess.run([vmf, *map(str, args)], check=True, capture_output=True, text=True).stdout


with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    for dtype in ("f32", "f64"):
        path = folder / f"{dtype}.npy"
        run("sample", "--dim", 20, "--concentration", 60, "-n", 3000, "--seed", 5, "--dtype", dtype, "-o", path)
        rows = np.load(path)
        assert rows.shape == (3000, 20) and rows.dtype == np.dtype({"f32": "<f4", "f64": "<f8"}[dtype])
        assert rows.flags["C_CONTIGUOUS"]
        assert np.allclose(np.linalg.norm(rows.astype(np.float64), axis=1), 1, atol=1e-6)
        # numpy's own arithmetic must give the mean length whose inverse `vmf fit` reports.
        length = np.linalg.norm(rows.astype(np.float64).mean(axis=0))
        fitted = json.loads(run("fit", path, "--json"))
        again = json.loads(run("constants", "--dim", 20, "--mean-length", repr(float(length)), "--json"))
        assert abs(again["concentration"] / fitted["concentration"] - 1) < 1e-6, (again, fitted)
    # And the other way round: whatever numpy writes, `vmf fit` reads.
    for name, array in (
        ("half", rows.astype(np.float16)),
        ("big", rows.astype(">f4")),
        ("fortran", np.asfortranarray(rows)),
    ):
        np.save(folder / f"{name}.npy", array)
        other = json.loads(run("fit", folder / f"{name}.npy", "--json"))
        assert abs(other["concentration"] / fitted["concentration"] - 1) < 1e-3, name
print("numpy reads what vmf writes, and vmf what numpy writes")
