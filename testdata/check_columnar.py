#!/usr/bin/env python3
"""Reads what crates/vmfkit-io/examples/write_columnar.rs wrote, with pyarrow and numpy, and compares it with the formulas there.

    cargo run --release -p vmfkit-io --example write_columnar -- target/written
    python3 testdata/check_columnar.py target/written        (needs pyarrow and numpy)
"""

import csv
import json
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

FOLDER = sys.argv[1]
ROWS, DIM = 1000, 12
I = np.arange(ROWS)
VALUES = (I[:, None] + 0.25) / (np.arange(DIM)[None, :] + 3.0)


def path(name):
    return os.path.join(FOLDER, name)


def same(name, found, expected):
    found = np.asarray(found)
    assert found.shape == expected.shape, (name, found.shape, expected.shape)
    assert (found == expected).all(), (name, found, expected)


def lines(name):
    with open(path(name), newline="") as file:
        if name.endswith("jsonl"):
            return [json.loads(line) for line in file]
        return list(csv.DictReader(file, delimiter="\t" if name.endswith("tsv") else ","))


def check_table(name):
    if name.endswith(("parquet", "arrow")):
        table = pq.read_table(path(name)) if name.endswith("parquet") else feather.read_table(path(name))
        types = [pa.string(), pa.int64(), pa.uint32(), pa.float32(), pa.float64(), pa.bool_()]
        assert table.schema.types == types and not any(field.nullable for field in table.schema), (name, table.schema)
        columns = table.to_pydict()
    else:
        rows = lines(name)
        parse = {"number": int, "label": int, "probability": float, "ln_density": float, "noise": lambda x: x in (True, "true")}
        columns = {key: [parse.get(key, str)(row[key]) for row in rows] for key in rows[0]}
    same(name, columns["id"], np.array([f'row "{i}", a\ttab' for i in I]))
    same(name, columns["number"], -(1 << 40) * I)
    same(name, columns["label"], I % 7)
    same(name, np.float32(columns["probability"]), np.float32(1) / (I.astype("f4") + np.float32(1)))
    same(name, columns["ln_density"], I / 3)
    same(name, columns["noise"], I % 3 == 0)


def check_rows(name, dtype):
    values, integers = VALUES.astype(dtype), False
    if name.endswith(("parquet", "arrow")):
        table = pq.read_table(path(name)) if name.endswith("parquet") else feather.read_table(path(name))
        type = table.schema.field("embedding").type
        assert type.list_size == DIM and type.value_type == pa.from_numpy_dtype(dtype), (name, table.schema)
        found = table["embedding"].combine_chunks().flatten().to_numpy().reshape(-1, DIM)
        ids, weights = table["id"].to_pylist(), table["weight"].to_numpy()
    elif name.endswith("safetensors"):
        with open(path(name), "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            data = file.read()
        kinds = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}
        tensor = lambda t: np.frombuffer(data[slice(*t["data_offsets"])], kinds[t["dtype"]]).reshape(t["shape"])
        found, ids, weights = (tensor(header[key]) for key in ["embedding", "id", "weight"])
        assert len(data) == header["weight"]["data_offsets"][1]
        integers = True
    else:
        rows = lines(name)
        if name.endswith("csv"):
            assert list(rows[0]) == ["id"] + [f"x{j}" for j in range(DIM)] + ["weight"]
            found = [[row[f"x{j}"] for j in range(DIM)] for row in rows]
        else:
            found = [row["embedding"] for row in rows]
        found = np.array(found, dtype)
        ids, weights = [row["id"] for row in rows], np.array([row["weight"] for row in rows], "f8")
    assert np.asarray(found).dtype == dtype, name
    same(name, found, values)
    same(name, ids, 10 * I if integers else np.array([f"row-{i}" for i in I]))
    same(name, weights, I / 7)


for extension in ["parquet", "arrow", "csv", "tsv", "jsonl"]:
    check_table(f"table.{extension}")
for dtype, kind in [(np.dtype("f4"), "f32"), (np.dtype("f8"), "f64")]:
    for extension in ["parquet", "arrow", "csv", "jsonl", "safetensors"]:
        check_rows(f"rows_{kind}.{extension}", dtype)
    found = np.load(path(f"rows_{kind}.npy"))
    assert found.dtype == dtype
    same(kind, found, VALUES.astype(dtype))
labels, columns = np.load(path("labels.npy")), np.load(path("columns.npy"))
assert labels.dtype == np.dtype("u4") and columns.dtype == np.dtype([("label", "u4"), ("ln_density", "f8")])
same("labels.npy", labels, I % 7)
same("columns.npy", columns["label"], I % 7)
same("columns.npy", columns["ln_density"], I / 3)
print("pyarrow and numpy read what we wrote")
