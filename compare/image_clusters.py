"""Compares the autoencoder of Table 2 and the fit of its latent space with PyTorch and mpmath; writes
IMAGES.md.

    python image_clusters.py REPRODUCE CIFAR10_FOLDER [--output IMAGES.md]

REPRODUCE is the program `reproduce`; the folder has the binary version of CIFAR-10. Needs torch and
mpmath, which `make compare-images` installs. Times are processor seconds with one thread each,
measured alternately.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import paper_torch
from mixture_data import Problem
from run import cpu_name, table, verdict

HERE = Path(__file__).resolve().parent
BATCH = 128


class Autoencoder(nn.Module):
    """The network of reproduce/src/autoencoder.rs."""

    def __init__(self):
        super().__init__()
        conv = lambda a, b: nn.Conv2d(a, b, 4, 2, 1)
        back = lambda a, b: nn.ConvTranspose2d(a, b, 4, 2, 1)
        leaky, relu = nn.LeakyReLU(), nn.ReLU()
        self.encoder = nn.Sequential(
            conv(3, 32), leaky, conv(32, 32), leaky, conv(32, 64), leaky, nn.Flatten(), nn.Linear(1024, 512), leaky, nn.Linear(512, 100)
        )
        self.decoder = nn.Sequential(
            nn.Linear(100, 512), relu, nn.Linear(512, 1024), relu, nn.Unflatten(1, (64, 4, 4)), back(64, 32), relu, back(32, 32), relu, back(32, 3)
        )

    def forward(self, x):
        return ((self.decoder(nn.functional.normalize(self.encoder(x))) - x) ** 2).sum() / len(x)


def cifar10(folder):
    records = [np.fromfile(folder / f"data_batch_{i}.bin", np.uint8).reshape(-1, 3073) for i in range(1, 6)]
    return np.concatenate(records)[:, 1:].reshape(-1, 3, 32, 32)


def torch_epoch(images, seed):
    """Processor seconds of the first epoch, and its mean loss."""
    torch.manual_seed(seed)
    network = Autoencoder()
    adam = torch.optim.Adam(network.parameters(), lr=1e-4)
    order = np.random.default_rng(seed).permutation(len(images))
    batches = len(images) // BATCH
    start, total = time.process_time(), 0.0
    for which in np.split(order[: batches * BATCH], batches):
        x = torch.from_numpy(images[which].astype(np.float32) / 255)
        loss = network(x)
        adam.zero_grad()
        loss.backward()
        adam.step()
        total += loss.item()
    return time.process_time() - start, total / batches


def our_epoch(program, data, folder):
    """The report of a first epoch and of the fits of its latent space."""
    command = [program, "table2", "--data", data, "--epochs", "1", "--folder", folder, "--json"]
    # Its verdicts are about a network that has learnt; one epoch says nothing on them.
    done = subprocess.run(command, env={**os.environ, "RAYON_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def torch_em(rows):
    """Processor seconds and passes of the paper's EM in the latent space, from random directions, to its tolerance."""
    generator = np.random.default_rng(1)
    directions = generator.normal(size=(10, rows.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    start = Problem(x=rows, directions=directions, weights=np.full(10, 0.1), concentrations=np.ones(10))
    clock, before = time.process_time(), -np.inf
    mixture, x = paper_torch.mixture_of(start)
    for passes in range(1, 101):
        likelihood, *parameters = paper_torch.em_pass(mixture, x)
        if abs(likelihood - before) < 1e-5 * abs(before):
            break
        before = likelihood
        mixture = paper_torch.Mixture(*parameters)
    return time.process_time() - clock, passes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=HERE / "IMAGES.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    images = cifar10(options.data)
    ours, theirs, losses = [], [], []
    for round in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            report = our_epoch(options.program, options.data, folder)
            rows = np.load(Path(folder) / "train.npy")
        seconds, loss = torch_epoch(images, round + 1)
        ours.append(report["epoch_seconds"][0]["processors"])
        theirs.append(seconds)
        losses.append((report["losses"][0], loss))
    em = {way["name"]: way for way in report["ways"]}["EM, the paper's setting"]
    mine = em["processor_seconds"]["mean"]
    torch_seconds, torch_passes = torch_em(rows)
    ratio = min(ours) / min(theirs)
    lines = [
        ["an epoch of 50,000 images, processor seconds", f"{min(ours):.0f} s", f"PyTorch: {min(theirs):.0f} s", f"{ratio:.2f} times PyTorch's", "at most 2", verdict(ratio, 2)],
        ["loss of the first epoch, from other random weights", f"{losses[-1][0]:.1f}", f"PyTorch: {losses[-1][1]:.1f}", "", "-", "-"],
        [
            "EM in the latent space after one epoch, 50,000 x 100, K = 10, to 1e-5, processor seconds",
            f"{mine:.2f} s, {em['passes']['mean']:.0f} passes (mean of 10 starts)",
            f"the paper's loop, PyTorch and mpmath: {torch_seconds:.1f} s, {torch_passes} passes",
            f"{torch_seconds / torch_passes / (mine / em['passes']['mean']):.0f} times as long per pass",
            "under 1 s",
            verdict(mine, 1),
        ],
    ]
    head = ["work", "ours", "theirs", "ratio", "goal", "met?"]
    text = [
        "# Image clusters compared with PyTorch",
        "",
        f"Written by `image_clusters.py`: torch {torch.__version__}; best of {options.rounds} alternating rounds, one thread each; {cpu_name()}, shared with other work, so compare ratios rather than times.",
        "",
        *table(head, lines),
        "",
    ]
    options.output.write_text("\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    main()
