#!/usr/bin/env python3
"""Writes testdata/columnar/: small Parquet and Arrow files of every kind that is read, and of some that are refused.

    python3 testdata/columnar.py        (needs pyarrow and numpy; made with pyarrow 26)

Coordinate j of row i is ((7 i + 3 j) mod 64 - 32) / 64, which half precision holds; weights are i / 2 + 1; ids are `row-i` or
10 i. The tests know these formulas.
"""

import os

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "columnar")
ROWS, DIM = 40, 5
FLOATS = {"f16": pa.float16(), "f32": pa.float32(), "f64": pa.float64()}


def path(name):
    return os.path.join(HERE, name)


def rows(count=ROWS, dim=DIM):
    i, j = np.arange(count)[:, None], np.arange(dim)[None, :]
    return ((7 * i + 3 * j) % 64 - 32) / 64


def lists(kind, element, dim=DIM, nullable=True, count=ROWS):
    item = pa.field("item", FLOATS[element], nullable)
    type = {"fixed": pa.list_(item, dim), "list": pa.list_(item), "large": pa.large_list(item)}[kind]
    values = [list(row) for row in rows(count, dim).astype({"f16": "f2", "f32": "f4", "f64": "f8"}[element])]
    return pa.array(values, type)


def table(kind, element, nullable=True, **more):
    fields = [pa.field("embedding", lists(kind, element, nullable=nullable, **more).type, nullable)]
    return pa.table([lists(kind, element, nullable=nullable, **more)], pa.schema(fields))


def beside(embedding):
    """With ids and weights around the rows."""
    count = len(embedding)
    return pa.table({
        "name": pa.array([f"row-{i}" for i in range(count)]),
        "kind": pa.array([f"kind-{i % 3}" for i in range(count)]).dictionary_encode(),
        "number": pa.array([10 * i for i in range(count)], pa.int32()),
        "embedding": embedding,
        "weight": pa.array([i / 2 + 1 for i in range(count)], pa.float32()),
        "date": pa.array([None] * count, pa.date32()),
    })


def parquet(name, data, **options):
    pq.write_table(data, path(name + ".parquet"), **options)


def ipc(name, data, stream=False, compression=None, batch=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(path(name + (".arrows" if stream else ".arrow")), data.schema, options=options) as out:
        out.write_table(data, max_chunksize=batch)


os.makedirs(HERE, exist_ok=True)
for kind in ["fixed", "list", "large"]:
    for element in FLOATS:
        parquet(f"{kind}_{element}", table(kind, element), row_group_size=17)
        ipc(f"{kind}_{element}", table(kind, element), batch=17)

# How values and levels are written; small pages, so that there are many.
plain = {"use_dictionary": False, "data_page_size": 64, "write_batch_size": 3}
for codec in ["none", "snappy", "zstd", "lz4"]:
    parquet(f"plain_{codec}", table("fixed", "f32"), compression=codec, **plain)
parquet("dictionary", table("list", "f32"), data_page_size=64, write_batch_size=3)
parquet("dictionary_overflow", table("list", "f64"), dictionary_pagesize_limit=64, data_page_size=64, write_batch_size=3)
parquet("required", table("list", "f32", nullable=False), **plain)
parquet("split_f16", table("fixed", "f16"), use_byte_stream_split=True, compression="zstd", **plain)
parquet("split_f32", table("fixed", "f32"), use_byte_stream_split=True, compression="zstd", **plain)
parquet("split_f64", table("list", "f64"), use_byte_stream_split=True, **plain)
parquet("v2", table("list", "f32"), data_page_version="2.0", **plain)
parquet("v2_dictionary", table("fixed", "f64"), data_page_version="2.0", compression="zstd", data_page_size=64)
parquet("checksums", table("fixed", "f32"), write_page_checksum=True, **plain)
parquet("page_index", table("fixed", "f32"), write_page_index=True, **plain)
parquet("no_arrow_schema", table("fixed", "f32"), store_schema=False)
parquet("not_compliant", table("list", "f32"), use_compliant_nested_type=False)
parquet("long_rows", table("list", "f32", dim=300, count=7), compression="zstd", **plain)
parquet("gzip", table("fixed", "f32"), compression="gzip")
parquet("brotli", table("fixed", "f32"), compression="brotli")

# Ids, weights, and coordinates in columns of their own.
parquet("beside", beside(lists("fixed", "f32")), row_group_size=7)
ipc("beside", beside(lists("fixed", "f32")), batch=7)
flat = {"id": pa.array([f"row-{i}" for i in range(ROWS)])}
flat |= {f"x{j}": pa.array(rows()[:, j], pa.float32()) for j in range(DIM)}
flat |= {"weight": pa.array([i / 2 + 1 for i in range(ROWS)])}
parquet("flat", pa.table(flat), row_group_size=16)
ipc("flat", pa.table(flat), batch=16)
parquet("integers", pa.table({"a": pa.array(range(ROWS), pa.uint8()), "b": pa.array(range(ROWS), pa.int64())}))

# Arrow's own formats.
for codec in ["lz4", "zstd"]:
    ipc(f"body_{codec}", beside(lists("list", "f32", dim=50)), compression=codec, batch=16)
    ipc(f"body_{codec}", beside(lists("list", "f32", dim=50)), stream=True, compression=codec, batch=16)
ipc("stream", beside(lists("fixed", "f32")), stream=True, batch=7)
feather.write_feather(table("fixed", "f32"), path("v2.feather"))
ipc("body_f64", table("list", "f64"), compression="lz4", batch=16)
parquet("no_rows", table("list", "f32").slice(0, 0))
ipc("no_rows", table("list", "f32").slice(0, 0))

# What is refused.
def broken(row, value, kind="list", element="f32"):
    values = lists(kind, element).to_pylist()
    values[row] = value
    return pa.table({"embedding": pa.array(values, lists(kind, element).type)})


for name, data in {
    "null_row": broken(23, None),
    "null_row_fixed": broken(23, None, kind="fixed"),
    "null_first": broken(0, None),
    "null_within": broken(23, [0.5, 0.5, None, 0.5, 0.5]),
    "null_within_fixed": broken(23, [0.5, 0.5, None, 0.5, 0.5], kind="fixed"),
    "short": broken(23, [0.5, 0.5, 0.5]),
    "short_f64": broken(23, [0.5, 0.5, 0.5], element="f64"),
    "long": broken(23, [0.5] * 9),
    "long_last": broken(ROWS - 1, [0.5] * 9),
    "short_last": broken(ROWS - 1, [0.5] * 2),
    "empty": broken(23, []),
    "empty_first": broken(0, []),
    "null_flat": pa.table({"a": pa.array([None if i == 23 else 0.5 for i in range(ROWS)]), "b": pa.array([1.0] * ROWS)}),
    "null_weight": pa.table({"embedding": lists("list", "f32"), "weight": pa.array([None if i == 23 else 0.5 for i in range(ROWS)])}),
    "two": pa.table({"a": lists("list", "f32"), "b": lists("list", "f64")}),
    "integer_lists": pa.table({"n": pa.array(range(ROWS)), "x": pa.array([[1, 2]] * ROWS)}),
}.items():
    parquet(name, data, row_group_size=16)
    ipc(name, data, batch=16)
