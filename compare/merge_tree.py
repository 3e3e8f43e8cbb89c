"""Merges the components of one fit to the number of classes of labelled data, and compares the labels with those of a direct fit.

    python merge_tree.py VMF DATA [--output ../docs/merge-tree.md] [--seeds 3] [--keep FOLDER] [SET...]

Needs requirements.txt. VMF is the command, DATA the folder of data sets. With --keep, models are stored in FOLDER and fitted
only once. The table replaces the one between the markers of the output, or is printed.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from quality_data import prepare

# Components of the fine fit and clusters; the number of classes is the number of clusters.
SIZES = {"banking77": (231, 77), "fashion-mnist": (100, 10), "news20": (60, 20)}
WAYS = ("direct fit", "merge tree", "merge tree, refined", "mean directions linked by cosine")
BEGIN, END = "<!-- table of compare/merge_tree.py -->\n", "<!-- end of the table -->\n"


def run(*arguments):
    command = [str(argument) for argument in arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measured(vmf, folder, keep, name, seed):
    """ARI and NMI of each way."""
    fine, clusters = SIZES[name]
    rows, labels = folder / name / "x.npy", folder / name / "labels.npy"

    def kept(file, *arguments):
        path = keep / f"{name}-{seed}-{file}"
        if not path.exists():
            run(vmf, *arguments, "-q", "-o", path)
        return path

    def fit(components):
        return kept(f"{components}.safetensors", "fit", rows, "-k", components, "--seed", seed, "--no-calibration")

    def assigned(model, file, *options):
        return kept(f"{file}.npy", "assign", model, rows, "--p-values", "none", *options)

    model = fit(fine)
    found = {"direct fit": assigned(fit(clusters), "direct")}
    found["merge tree"] = assigned(model, "tree", "--clusters", clusters)
    refined = kept("refined.safetensors", "tree", model, "--clusters", clusters, "--refine", rows)
    found["merge tree, refined"] = assigned(refined, "refined")
    components = json.loads(run(vmf, "inspect", model, "--json"))["components"]
    components.sort(key=lambda component: component["component"])
    links = linkage([component["mean_direction"] for component in components], "average", "cosine")
    of_components = fcluster(links, clusters, "maxclust") - 1
    by_cosine = keep / f"{name}-{seed}-cosine.npy"
    np.save(by_cosine, of_components[np.load(assigned(model, "fine"))])
    found["mean directions linked by cosine"] = by_cosine
    for way in WAYS:
        report = json.loads(run(vmf, "compare", labels, found[way], "--json"))
        yield way, report["adjusted_rand_index"], report["normalized_mutual_information"]


def table(vmf, folder, keep, names, seeds):
    lines = ["| set | components to clusters | clusters by | ARI | NMI |", "|---|---|---|---|---|"]
    for name in names:
        found = {way: [] for way in WAYS}
        for seed in range(seeds):
            for way, ari, nmi in measured(vmf, folder, keep, name, seed):
                found[way].append((ari, nmi))
                print(f"{name} {seed} {way}: {ari:.3f} {nmi:.3f}", file=sys.stderr)
        fine, clusters = SIZES[name]
        for way in WAYS:
            cells = []
            for values in zip(*found[way]):
                spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
                cells.append(f"{statistics.mean(values):.3f}{spread}")
            lines.append(f"| {name} | {fine} to {clusters} | {way} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("vmf", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("sets", nargs="*", metavar="SET")
    given = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as scratch:
        names = prepare(given.data, Path(scratch), given.sets or list(SIZES))
        keep = given.keep or Path(scratch) / "models"
        keep.mkdir(parents=True, exist_ok=True)
        text = table(given.vmf.resolve(), Path(scratch), keep, names, given.seeds)
    if given.output is None:
        print(text, end="")
        return
    page = given.output.read_text()
    before, rest = page.split(BEGIN)
    given.output.write_text(before + BEGIN + text + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
