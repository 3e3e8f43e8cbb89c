#!/usr/bin/env python3
"""Writes testdata/formats/: the same rows in every format that vmfkit-io reads, by the libraries that people write them with.

python3 testdata/formats.py          writes the files
python3 testdata/formats.py --check  compares them with what is there

Needs numpy, scipy and safetensors.
"""

import argparse
import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse
from safetensors.numpy import save as save_safetensors

FOLDER = Path(__file__).parent / "formats"

# Five unit rows of dimension 4, exact to the last bit of f64 where they are written in full.
ROWS = np.array([[0.6, 0.8, 0, 0], [0, 0.6, 0, 0.8], [0, 0, 1, 0], [0.5, 0.5, -0.5, 0.5], [0, 0, -0.8, 0.6]])
WEIGHTS = [1.0, 2.0, 0.5, 1.5, 3.0]
IDS = ["a", "b", "c", "d", "e"]


def npz(compressed, **arrays):
    """An archive as numpy makes it, but with a fixed date."""
    out = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array))
            info = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            with archive.open(info, "w", force_zip64=True) as file:
                file.write(member.getvalue())
    return out.getvalue()


def of_scipy(matrix, compressed=True):
    """What scipy.sparse.save_npz puts into its archive, with a fixed date."""
    out = io.BytesIO()
    scipy.sparse.save_npz(out, matrix, compressed=compressed)
    out.seek(0)
    with np.load(out) as archive:
        return npz(compressed, **{name: archive[name] for name in archive.files})


def mtx(matrix, **options):
    out = io.BytesIO()
    scipy.io.mmwrite(out, matrix, **options)
    return out.getvalue()


def table(separator, names=True):
    header = separator.join(["id", "x", "y", "z", "t", "n"]) + "\n"
    lines = [separator.join([i, *map(repr, row), repr(w)]) for i, row, w in zip(IDS, ROWS.tolist(), WEIGHTS)]
    if not names:
        lines = [separator.join(map(repr, row)) for row in ROWS.tolist()]
    return ((header if names else "") + "\n".join(lines) + "\n").encode()


def lines(values):
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def bfloat16(rows):
    return (rows.astype("<f4").view("<u4") >> 16).astype("<u2")


def safetensors_of_bfloat16():
    data = bfloat16(ROWS).tobytes()
    header = json.dumps({"rows": {"dtype": "BF16", "shape": list(ROWS.shape), "data_offsets": [0, len(data)]}}).encode()
    return len(header).to_bytes(8, "little") + header + data


def files():
    single, sparse = ROWS.astype("<f4"), scipy.sparse.csr_matrix(ROWS)
    unsorted = scipy.sparse.csr_matrix((ROWS[0, [1, 0]], [1, 0], [0, 2]), shape=(1, 4))
    objects = [dict(name=i, vector=row, n=w) for i, row, w in zip(IDS, ROWS.tolist(), WEIGHTS)]
    numbers = [dict(zip("xyzt", row), other=[1, {"deep": None}]) for row in ROWS.tolist()]
    return {
        "one_stored.npz": npz(False, rows=ROWS),
        "one_deflated.npz": npz(True, rows=single),
        "several.npz": npz(True, rows=ROWS, others=ROWS[::-1].copy(), labels=np.arange(5)),
        "labelled.npz": npz(True, rows=ROWS, labels=np.arange(5)),
        "fortran_stored.npz": npz(False, rows=np.asfortranarray(ROWS)),
        "fortran_deflated.npz": npz(True, rows=np.asfortranarray(ROWS)),
        "csr.npz": of_scipy(sparse),
        "csr_single.npz": of_scipy(sparse.astype("<f4"), compressed=False),
        "csr_array.npz": of_scipy(scipy.sparse.csr_array(ROWS)),
        "csr_unsorted.npz": of_scipy(unsorted),
        "csc.npz": of_scipy(sparse.tocsc()),
        "coo.npz": of_scipy(sparse.tocoo()),
        "rows.csv": table(","),
        "rows.csv.gz": gzip.compress(table(","), mtime=0),
        "bare.csv": table(",", names=False),
        "rows.tsv": table("\t"),
        "arrays.jsonl": lines(ROWS.tolist()),
        "arrays.jsonl.gz": gzip.compress(lines(ROWS.tolist()), mtime=0),
        "objects.jsonl": lines(objects),
        "numbers.jsonl": lines(numbers),
        "f64.safetensors": save_safetensors({"rows": ROWS, "labels": np.arange(5)}),
        "f32.safetensors": save_safetensors({"rows": single}, metadata={"from": "numpy"}),
        "f16.safetensors": save_safetensors({"rows": ROWS.astype("<f2")}),
        "bf16.safetensors": safetensors_of_bfloat16(),
        "several.safetensors": save_safetensors({"others": ROWS[::-1].copy(), "rows": ROWS}),
        "coordinates.mtx": mtx(sparse.tocsc(), comment="by scipy"),
        "coordinates.mtx.gz": gzip.compress(mtx(sparse), mtime=0),
        "pattern.mtx": mtx(sparse, field="pattern"),
        "dense.mtx": mtx(ROWS),
    }


parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--check", action="store_true")
arguments = parser.parse_args()
for name, content in files().items():
    if arguments.check:
        assert (FOLDER / name).read_bytes() == content, name
    else:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / name).write_bytes(content)
print(f"{len(files())} files are " + ("as before" if arguments.check else "written"))
