"""Writes the samples of images that tests use: the first images of each class in the published files, in the same formats.

    python3 image_samples.py CIFAR10_FOLDER FASHION_MNIST_FOLDER

The first folder has data_batch_1.bin to data_batch_5.bin and test_batch.bin of the binary version of CIFAR-10, the second the four idx
files of Fashion-MNIST.
"""

import gzip
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
TRAIN, TEST = 30, 10  # of each class
RECORD = 3073


def choose(labels, each):
    """The numbers of the first `each` images of each class, in the order of the file."""
    left = dict.fromkeys(range(10), each)
    for at, label in enumerate(labels):
        if left[label]:
            left[label] -= 1
            yield at


def cifar10(source, target):
    target.mkdir(exist_ok=True)
    batches = [f"data_batch_{i}.bin" for i in range(1, 6)]
    for name in batches + ["test_batch.bin"]:
        data = (source / name).read_bytes()
        each = TRAIN // len(batches) if name in batches else TEST
        images = (data[at * RECORD :][:RECORD] for at in choose(data[::RECORD], each))
        (target / name).write_bytes(b"".join(images))


def fashion_mnist(source, target):
    target.mkdir(exist_ok=True)
    for part, each in ("train", TRAIN), ("t10k", TEST):
        names = f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz"
        images, labels = (gzip.decompress((source / name).read_bytes()) for name in names)
        chosen = list(choose(labels[8:], each))
        count = len(chosen).to_bytes(4, "big")
        pixels = b"".join(images[16 + 784 * at :][:784] for at in chosen)
        write(target / names[0], images[:4] + count + images[8:16] + pixels)
        write(target / names[1], labels[:4] + count + bytes(labels[8 + at] for at in chosen))


def write(path, data):
    path.write_bytes(gzip.compress(data, mtime=0))


cifar10(pathlib.Path(sys.argv[1]), HERE / "cifar10")
fashion_mnist(pathlib.Path(sys.argv[2]), HERE / "fashion-mnist")
