#!/usr/bin/env python3
"""Checks that what `vmf` writes is what numpy and safetensors read: python3 testdata/check_with_numpy.py path/to/vmf"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors import safe_open

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
    # A mixture: its file opens without us, and its numbers assign the rows as `vmf fit` does.
    axes = np.eye(20)[:3]
    for k, axis in enumerate(axes):
        direction = ",".join(map(str, axis))
        run("sample", "--mean-direction", direction, "--concentration", 60, "-n", 500, "--seed", k, "-o", folder / f"{k}.npy")
    rows = np.concatenate([np.load(folder / f"{k}.npy") for k in range(3)])
    np.save(folder / "rows.npy", rows)
    fit = ("fit", folder / "rows.npy", "-k", 3, "--background", "-o", folder / "model.safetensors")
    report = json.loads(run(*fit, "--labels", folder / "labels.npy", "--json"))
    with safe_open(folder / "model.safetensors", "numpy") as file:
        metadata = file.metadata()
        model = {name: file.get_tensor(name) for name in file.keys()}
    known = {"format": "vmfkit.mixture", "version": "2", "background": "true", "method": "em", "policy": "auto"}
    assert known.items() <= metadata.items() and metadata["status"] == report["status"], metadata
    weights, directions, concentrations = (model[name] for name in ("weights", "mean_directions", "concentrations"))
    assert directions.shape == (4, 20) and model["trace"].shape == (report["passes"], 4)
    assert all(tensor.dtype == np.float64 for tensor in model.values())
    assert abs(weights.sum() - 1) < 1e-12 and np.allclose(np.linalg.norm(directions, axis=1), 1, atol=1e-14)
    constants = [json.loads(run("constants", "--dim", 20, "--concentration", repr(float(c)), "--json")) for c in concentrations]
    ln_normalizers = [answer["ln_normalizer"] for answer in constants]
    logits = rows.astype(np.float64) @ (concentrations[:, None] * directions).T + ln_normalizers + np.log(weights)
    labels = np.load(folder / "labels.npy")
    assert labels.dtype == np.uint32 and (labels == logits.argmax(axis=1)).all()
    assert abs(np.logaddexp.reduce(logits, axis=1).sum() - report["ln_likelihood"]) < 1e-8 * abs(report["ln_likelihood"])
    run("assign", folder / "model.safetensors", folder / "rows.npy", "--outliers", 0.01, "-o", folder / "table.npy")
    table = np.load(folder / "table.npy")
    assert table.dtype.names == ("row", "component", "probability", "ln_density", "p_value", "outlier"), table.dtype
    assert (table["row"] == np.arange(len(rows))).all() and (table["component"] == labels).all()
    assert np.allclose(table["ln_density"], np.logaddexp.reduce(logits, axis=1)) and ((table["p_value"] < 0.01) == table["outlier"]).all()
    # Rows whose number is not known before their end: the header is written last.
    np.savetxt(folder / "rows.csv", rows, delimiter=",", fmt="%.17g")
    for place in ("counted.npy", "counted.safetensors"):
        run("convert", folder / "rows.csv", folder / place)
    with safe_open(folder / "counted.safetensors", "numpy") as file:
        counted = [np.load(folder / "counted.npy"), file.get_tensor("embedding")]
    assert all(array.dtype == np.float64 and (array == rows).all() for array in counted)
    # Archives of arrays: rows of either precision, and sparse ones as scipy's load_npz wants them.
    for dtype in ("f32", "f64"):
        run("convert", folder / f"{dtype}.npy", folder / f"{dtype}.npz")
        with np.load(folder / f"{dtype}.npz") as archive:
            assert archive.files == ["embedding"]
            found, expected = archive["embedding"], np.load(folder / f"{dtype}.npy")
        assert found.dtype == expected.dtype and (found == expected).all()
    entries = np.where(np.abs(rows) > 0.3, rows.astype(np.float64), 0)
    entries[7] = 0
    places = [f"{i + 1} {j + 1} {float(entries[i, j])!r}\n" for i, j in zip(*np.nonzero(entries))]
    sizes = f"{entries.shape[0]} {entries.shape[1]} {len(places)}\n"
    (folder / "entries.mtx").write_text("%%MatrixMarket matrix coordinate real general\n" + sizes + "".join(places))
    run("convert", folder / "entries.mtx", folder / "entries.npz")
    with np.load(folder / "entries.npz") as archive:
        csr = {name: archive[name] for name in archive.files}
    assert csr["format"].item() == b"csr" and (csr["shape"] == entries.shape).all() and csr["indices"].dtype == np.int32
    found = np.zeros(entries.shape)
    found[np.repeat(np.arange(len(entries)), np.diff(csr["indptr"])), csr["indices"]] = csr["data"]
    assert (found == entries).all()
print("numpy reads what vmf writes, and vmf what numpy writes")
