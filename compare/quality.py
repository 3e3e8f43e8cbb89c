"""Clusters labelled data with every method and with scikit-learn's k-means; writes one table per data
set.

    python quality.py BINARY DATA [--output ../docs/quality.md] [--seeds 10] [--keep FOLDER] [SET...]

Needs requirements.txt. BINARY is the program `compare`, DATA the folder of data sets. With --keep,
measurements are stored in FOLDER, and a second run measures only what is missing there.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from quality_data import SETS, prepare

# What the README of the data sets quotes: ARI / NMI of k-means (n_init = 5) and of spherical k-means (best of 5).
QUOTED = {
    "news20": (".368 / .532", ".390 / .535"),
    "news20-tfidf": (".104 / .345", ".270 / .419"),
    "banking77": (".494 / .772", ".494 / .772"),
    "fashion-mnist": (".429 / .620", "-"),
    "cifar10": (".050 / .099", "-"),
}
START, DEFAULT, ONLINE = "start", "EM, default", "online EM in a fifth of EM's passes"
WITHOUT_SEARCH = "EM, without its search"
FROM_START = "spherical k-means"
K_MEANS = ("scikit-learn k-means, n_init = 1", "plain spherical k-means, one start")
BEST_OF_FIVE = ("scikit-learn k-means, n_init = 5", "plain spherical k-means, best of five")
# Those that do not begin with our start.
OTHERS = (START, "EM as in the paper", *K_MEANS, *BEST_OF_FIVE)


def rows_of(folder):
    if (folder / "x.npy").exists():
        return np.load(folder / "x.npy")
    parts = [np.load(folder / f"{name}.npy") for name in ("values", "columns", "starts")]
    return scipy.sparse.csr_matrix(tuple(parts), shape=(len(parts[2]) - 1, int(np.load(folder / "dim.npy")[0])))


def k_means(folder, components, seeds):
    """scikit-learn's, with one start and with the best of five."""
    rows, labels = rows_of(folder), np.load(folder / "labels.npy")
    for starts in (1, 5):
        for seed in range(seeds):
            clock = time.perf_counter()
            found = KMeans(components, n_init=starts, random_state=seed).fit(rows)
            yield {
                "way": f"scikit-learn k-means, n_init = {starts}",
                "seed": seed,
                "ari": adjusted_rand_score(labels, found.labels_),
                "nmi": normalized_mutual_info_score(labels, found.labels_),
                "passes": int(found.n_iter_),
                "seconds": time.perf_counter() - clock,
            }


def ours(binary, folder, components, seeds):
    command = [binary, "quality", folder, "--components", str(components), "--seeds", str(seeds)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    yield from map(json.loads, run.stdout.splitlines())


def kept(path, measure):
    """What `path` holds, one JSON object a line; measured and written first if there is no such file."""
    if not path.exists():
        text = "".join(json.dumps(line) + "\n" for line in measure())
        path.write_text(text)
    return [json.loads(line) for line in path.read_text().splitlines()]


def by_way(lines):
    ways = {}
    for line in lines:
        ways.setdefault(line["way"], {})[line["seed"]] = line
    return ways


def mean(runs, key):
    return statistics.mean(run[key] for run in runs.values())


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def difference(runs, start, key):
    """The mean difference to the start of the same seed, and its standard error."""
    paired = [runs[seed][key] - start[seed][key] for seed in runs]
    return f"{statistics.mean(paired):+.4f} ± {spread(paired) / len(paired) ** 0.5:.4f}"


def table(name, lines):
    ways = by_way(lines)
    start = ways[START]
    yield f"## {name}, K = {SETS[name][0]}"
    yield ""
    quoted = QUOTED[name]
    yield f"Published with the data, ARI / NMI over 5 seeds: k-means {quoted[0]}, spherical k-means {quoted[1]}."
    dispersions = [run["dispersion"] for run in ways[DEFAULT].values()]
    yield f"The dispersion is {min(dispersions):.1f} to {max(dispersions):.1f}, so the default {'ties concentrations' if min(dispersions) > 1.5 else 'may leave concentrations free'}."
    yield ""
    yield "| method (seeds) | ARI | NMI | ARI minus start | NMI minus start | mean ln p | passes | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    for way, runs in ways.items():
        ari = f"{mean(runs, 'ari'):.4f} ± {spread([run['ari'] for run in runs.values()]):.4f}"
        nmi = f"{mean(runs, 'nmi'):.4f} ± {spread([run['nmi'] for run in runs.values()]):.4f}"
        paired = [difference(runs, start, key) if way not in OTHERS else "" for key in ("ari", "nmi")]
        ln_p = f"{mean(runs, 'mean_ln_density'):.3f}" if "mean_ln_density" in next(iter(runs.values())) else ""
        yield f"| {way} ({len(runs)}) | {ari} | {nmi} | {' | '.join(paired)} | {ln_p} | {mean(runs, 'passes'):.0f} | {mean(runs, 'seconds'):.2f} |"
    yield ""
    yield from verdicts(ways)
    yield ""


def verdicts(ways):
    """What is asked of the default, and of online EM."""
    default = ways[DEFAULT]
    for key in ("ari", "nmi"):
        better = [max(names, key=lambda way: mean(ways[way], key)) for names in (K_MEANS, BEST_OF_FIVE)]
        for name in (START, FROM_START, *better):
            other = ways[name]
            gain = mean(default, key) - mean(other, key)
            values = [[run[key] for run in runs.values()] for runs in (default, other)]
            if name not in K_MEANS + BEST_OF_FIVE:
                error = spread([default[seed][key] - other[seed][key] for seed in default]) / len(default) ** 0.5
            else:
                error = sum(spread(v) ** 2 / len(v) for v in values) ** 0.5
            word = "at or above" if gain >= 0 else "below, within 2 standard errors" if gain > -2 * error else "BELOW"
            yield f"- {key.upper()} of the default minus that of *{name}*: {gain:+.4f} ± {error:.4f}: {word}."
    em = ways[WITHOUT_SEARCH]
    gap = lambda way, key: statistics.mean(ways[way][seed][key] / em[seed][key] - 1 for seed in em)
    online, start = (gap(way, "mean_ln_density") for way in (ONLINE, START))
    yield f"- Mean ln p of online EM in a fifth of the passes, relative to converged EM from the same start without search: {100 * online:+.4f} %: {'within' if online > -1e-3 else 'NOT within'} 0.1 %."
    above = [f"{100 * gap(way, 'above_uniform'):+.3f} %" for way in (ONLINE, START)]
    yield f"  The start has {100 * start:+.4f} %. Relative to the uniform density, online EM has {above[0]}, the start {above[1]}."


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("data", type=Path)
    arguments.add_argument("sets", nargs="*", default=list(SETS))
    arguments.add_argument("--output", type=Path)
    arguments.add_argument("--seeds", type=int, default=10)
    arguments.add_argument("--keep", type=Path)
    options = arguments.parse_args()
    if options.output:
        # Before the work, not after it.
        options.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        keep = options.keep or Path(scratch) / "kept"
        keep.mkdir(parents=True, exist_ok=True)
        text = [
            "# How well clusters match labels",
            "",
            f"`compare/quality.py` (`make quality`) wrote this page. Scores are mean ± standard deviation over {options.seeds}",
            "seeds; differences are paired by seed, mean ± standard error. Seconds are measured on 2 shared cores",
            "and include the start and the search. Passes are passes over all rows. Labels are used only for",
            "scoring.",
            "",
            "- *Plain spherical k-means* runs on all rows, starting from greedy k-means++.",
            "- *Start* is k-means on a sample of 8,192 rows, improved by split-and-merge moves. Every fit except",
            "  *plain spherical k-means* and *EM as in the paper* continues from it.",
            "- *Spherical k-means* runs on all rows.",
            "- *EM, default* runs a split-and-merge search before its passes; the other EM fits do not.",
            "- *SGD* uses batches of 256 and 100 epochs.",
            "- *EM as in the paper* starts from random rows, estimates free concentrations by Banerjee's formula,",
            "  and stops when ln p changes by less than 1e-5 of itself.",
            "",
            "The default policy has two constants, 1.5 and 10 nats (default-policy.md). We chose the sample size",
            "of the search while looking at news20.",
            "",
        ]
        for name in options.sets:
            written = prepare(options.data, Path(scratch), [name])
            if not written:
                continue
            folder, components = Path(scratch) / name, SETS[name][0]
            lines = kept(keep / f"{name}-scikit-learn.jsonl", lambda: k_means(folder, components, options.seeds))
            lines += kept(keep / f"{name}.jsonl", lambda: ours(options.binary, folder, components, options.seeds))
            print(f"{name}: done", file=sys.stderr)
            text.extend(table(name, lines))
        text = "\n".join(text)
        if options.output:
            options.output.write_text(text)
        print(text)


if __name__ == "__main__":
    main()
