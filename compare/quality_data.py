"""Writes the labelled data sets, as unit rows in f32, into folders that `compare quality` reads.

    python quality_data.py DATA OUT [SET...]

DATA is the folder of data sets (news20, banking77, fashion-mnist, cifar10); sets that are not there are skipped with a word.
"""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.sparse


def unit(rows):
    """Rows divided by their lengths, in double precision first."""
    rows = np.asarray(rows, dtype=np.float64)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def embeddings(folder, name):
    rows = np.load(folder / f"{name}_minilm_f16.npy")
    return unit(rows), np.load(folder / f"{name}_labels_u8.npy")


def tfidf(folder):
    rows = scipy.sparse.load_npz(folder / "news20_tfidf_csr_f32.npz").tocsr()
    rows.sum_duplicates()
    return rows, np.load(folder / "news20_tfidf_labels_u8.npy")


def idx(path):
    """An idx file of bytes: magic number, one size an axis, values."""
    content = gzip.decompress(path.read_bytes())
    axes = content[3]
    shape = [int.from_bytes(content[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes)]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def fashion(folder):
    images = [idx(folder / f"{part}-images-idx3-ubyte.gz") for part in ("train", "t10k")]
    labels = [idx(folder / f"{part}-labels-idx1-ubyte.gz") for part in ("train", "t10k")]
    images = np.concatenate(images)
    return unit(images.reshape(len(images), -1)), np.concatenate(labels)


def cifar(folder, scratch):
    subprocess.run([sys.executable, folder / "to_binary.py", "png", folder, scratch], check=True, stdout=subprocess.DEVNULL)
    records = np.fromfile(next(Path(scratch).rglob("test_batch.bin")), np.uint8).reshape(-1, 3073)
    return unit(records[:, 1:]), records[:, 0]


# Name, classes, folder of the data set, and what reads it.
SETS = {
    "news20": (20, "news20", lambda folder, _: embeddings(folder, "news20")),
    "news20-tfidf": (20, "news20", lambda folder, _: tfidf(folder)),
    "banking77": (77, "banking77", lambda folder, _: embeddings(folder, "banking77")),
    "fashion-mnist": (10, "fashion-mnist", lambda folder, _: fashion(folder)),
    "cifar10": (10, "cifar10", cifar),
}


def write(folder, rows, labels):
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "labels.npy", labels.astype(np.int64))
    if scipy.sparse.issparse(rows):
        np.save(folder / "dim.npy", np.array([rows.shape[1]]))
        np.save(folder / "starts.npy", rows.indptr.astype(np.int64))
        np.save(folder / "columns.npy", rows.indices.astype(np.int64))
        np.save(folder / "values.npy", rows.data.astype(np.float32))
    else:
        np.save(folder / "x.npy", rows)


def prepare(data, out, names):
    """Writes the sets that are there; gives their names."""
    written = []
    for name in names:
        _, source, read = SETS[name]
        if not (data / source).is_dir():
            print(f"{name}: skipped, there is no {data / source}", file=sys.stderr)
            continue
        scratch = out / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        write(out / name, *read(data / source, scratch))
        written.append(name)
    return written


if __name__ == "__main__":
    prepare(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or list(SETS))
