"""Measures calibrated probabilities and p-values of rows, and writes docs/calibration.md and its picture.

    python calibration.py COMPARE DATA --output docs/calibration.md --image docs/images/reliability.svg

COMPARE is the Rust program, DATA the folder of labelled sets. Sets that are not there are skipped with a word.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from calibration_data import SPLITS, dense, load, planted, write_halves
from calibration_scores import best_temperature, bins, calibration_error, gaussian, hdbscan, majority_right, softmax
from quality_data import SETS, write

LEVELS = (0.1, 0.01, 0.001)
# Columns of the rows that the Rust program writes.
COMPONENT, EXACT, CALIBRATED, SCORE, OVERALL, WITHIN, LAW = range(7)
WHERE = {"banking77": 77, "news20": 20, "news20-tfidf": 20, "fashion-mnist": 10}


class Tool:
    """The Rust program, and folders for rows."""

    def __init__(self, binary, data, scratch):
        self.binary, self.data, self.scratch = binary, data, scratch

    def run(self, *arguments):
        command = [self.binary, "calibration", *map(str, arguments)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        print(" ".join(map(str, arguments)), file=sys.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def clusters(self, folder, components, *options):
        return self.run("clusters", folder, "--components", components, *options)[0]


def rows_of(path):
    return np.fromfile(path).reshape(-1, 7)


def verdict(met):
    return "met" if met else "NOT met"


def with_labels(tool, image):
    yield "## Components from labels"
    yield ""
    yield "Components are made from the labels of one half, and judged on the labels of the other half: the"
    yield "published split of banking77, random halves (or 30 %) of the other sets. *By labels* is what"
    yield "`vmf fit --known-labels` does; *by neighbours* sees no label. The best temperature is fitted to"
    yield "the labels that judge it. Goals: at most 0.03 on embeddings, 0.10 on the last two sets."
    yield ""
    yield "| set | accuracy | error, exact | by neighbours | by labels | best | temperatures (neighbours / labels / best) | goal, by labels | by neighbours |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for title in SPLITS:
        folder = tool.scratch / title.replace(" ", "")
        halves = write_halves(tool.data, folder, title, tool.scratch)
        if halves is None:
            continue
        found = tool.run("labels", folder)[0]
        logits = np.fromfile(folder / "logits.f64").reshape(-1, found["components"])
        right = logits.argmax(1) == halves[1]
        best = best_temperature(logits, halves[1])
        error = lambda temperature: calibration_error(softmax(logits / temperature).max(1), right)
        goal = 0.03 if title.startswith(("banking77", "news20")) and title != "news20-tfidf" else 0.10
        temperatures = (1.0, found["neighbours"], found["labels"], best)
        errors = [error(temperature) for temperature in temperatures]
        text = " / ".join(f"{temperature:.1f}" for temperature in temperatures[1:])
        if title == "banking77" and image:
            draw(image, [softmax(logits / temperature).max(1) for temperature in temperatures[:2]], right)
        yield f"| {title} | {right.mean():.3f} | " + " | ".join(f"{e:.3f}" for e in errors) + f" | {text} | {goal}: {verdict(errors[2] <= goal)} | {verdict(errors[1] <= goal)} |"
    yield ""
    yield "Neighbours cannot replace labels on the last two sets. Rows of tf-idf have so much noise that a"
    yield "neighbour is often in another class although the row is not. Images of different classes are near"
    yield "each other by pixels, and nothing in the rows shows that a component mixes classes."
    yield ""


def families(lines):
    yield "## Families with known components"
    yield ""
    yield "Draws from the model (d = 3 to 1536, mean length 0.15 to 0.9), noise in 8 to 200 of 64 to 384"
    yield "dimensions (the same for all components or each its own), sizes 1:100, concentrations 1:4, heavy"
    yield "tails, copies and near-copies, few rows for each component, and other methods. Probabilities of"
    yield "components that share a class are added. `compare/src/families.rs` has all of them and their seeds."
    yield ""
    yield "| sets | number | recovered (ARI >= 0.9) | error, exact: mean, largest | calibrated: mean, largest | temperature 1 |"
    yield "|---|---|---|---|---|---|"
    is_model = lambda line: line["name"].startswith("model")
    for title, chosen in (("draws from the model", True), ("noise in few dimensions", False)):
        group = [line for line in lines if is_model(line) == chosen]
        recovered = [line for line in group if line["ari"] >= 0.9]
        text = [f"{np.mean([line[key] for line in recovered]):.4f}, {max(line[key] for line in recovered):.4f}" for key in ("raw", "calibrated")]
        exact = sum(line["temperature"] == 1 for line in group)
        yield f"| {title} | {len(group)} | {len(recovered)} | {text[0]} | {text[1]} | {exact} |"
    yield ""
    recovered = [line for line in lines if line["ari"] >= 0.9]
    missed = [line for line in recovered if line["calibrated"] > 0.03]
    worse = [line for line in lines if line["calibrated"] > line["raw"] + 0.01]
    model = [line for line in lines if is_model(line)]
    fraction = np.mean([line["temperature"] == 1 for line in model])
    yield f"- Error at most 0.03 where components are recovered: {len(recovered) - len(missed)} of {len(recovered)} sets: {verdict(not missed)}."
    yield f"- Temperature exactly 1 on at least 95 % of the draws from the model: {100 * fraction:.0f} %: {verdict(fraction >= 0.95)}."
    yield f"- Never worse than the exact posterior by more than 0.01: {len(lines) - len(worse)} of {len(lines)} sets: {verdict(not worse)}."
    for line in {id(line): line for line in missed + worse}.values():
        yield f"  - {line['name']}, d = {line['dim']}, K = {line['components']}, {line['rows']} rows: {line['raw']:.3f} exact, {line['calibrated']:.3f} calibrated (temperature {line['temperature']:.1f}, ARI {line['ari']:.2f})."
    if missed or worse:
        yield ""
        yield "Those sets have 10 to 65 rows for each component: there, neighbours are in another component more"
        yield "often than the row itself is misplaced, so probabilities come out too low."
    yield ""


def within_errors(rate, level, table, fresh):
    """Whether a rate is not above its level by more than 3 standard errors, and not below 0.7 of it by as much."""
    error = math.sqrt(level * (1 - level) * (1 / table + 1 / fresh))
    return rate <= level + 3 * error, rate + 3 * error >= 0.7 * level


def conformal_of_families(lines):
    yield "## P-values of new rows"
    yield ""
    yield "A fit of one part of the rows, and the fraction of new rows with a p-value of at most each level."
    yield "A rate is too high if it is above its level by more than 3 standard errors (of table and new rows;"
    yield "copies count once), too low if it is below 0.7 of the level by as much."
    yield ""
    yield f"Families above, {len(lines)} sets:"
    yield ""
    yield "| p-values | level | mean rate | smallest, largest | sets too high | sets too low |"
    yield "|---|---|---|---|---|---|"
    high = low = tests = 0
    for key, title in (("overall", "conformal"), ("component", "within the component"), ("law", "law of the model")):
        for number, level in enumerate(LEVELS):
            chosen = [line for line in lines if line[key] is not None]
            rates = [line[key][number] for line in chosen]
            copies = [2 if "copies" in line["name"] else 1 for line in chosen]
            checks = [within_errors(rate, level, line["table"] / c, line["fresh"] / c) for rate, line, c in zip(rates, chosen, copies)]
            too_high, too_low = (sum(not check[side] for check in checks) for side in (0, 1))
            if key == "overall":
                high, low, tests = high + too_high, low + too_low, tests + len(rates)
            yield f"| {title} ({len(rates)}) | {level} | {np.mean(rates):.4f} | {min(rates):.4f}, {max(rates):.4f} | {too_high} | {too_low} |"
    yield ""
    yield f"Conformal: {high} of {tests} rates too high ({0.00135 * tests:.1f} expected if every rate is right), {low} too low: {verdict(high == 0 and low == 0)} on every set."
    yield "Within a component of n rows the smallest p-value is 1/(n + 1), so components with fewer than 1,000"
    yield "rows flag nothing at 0.001: rates are below the level there, never above."
    yield ""


def conformal(tool):
    yield "Labelled sets, fitted to one half, judged on the other:"
    yield ""
    yield "| set, K, method | rows in the table, new rows | " + " | ".join(f"conformal {level}" for level in LEVELS) + " | within components 0.1, 0.01 | law 0.1, 0.01, 0.001 | verdict |"
    yield "|---|---|---|---|---|---|---|---|"
    cases = [("banking77", 77, "em"), ("banking77", 200, "em"), ("news20", 20, "em"), ("news20", 100, "em")]
    cases += [("news20", 20, method) for method in ("hard", "kmeans", "background")]
    cases += [("news20-tfidf", 20, "em"), ("fashion-mnist", 10, "em")]
    for name, components, method in cases:
        folder = tool.scratch / name
        if not (folder / "fresh").exists():
            continue
        law = [] if name == "news20-tfidf" else ["--law"]
        found = tool.clusters(folder, components, "--method", method, *law)
        rows = rows_of(folder / "fresh.f64")
        rates = {column: [float((rows[:, column] <= level).mean()) for level in LEVELS] for column in (OVERALL, WITHIN, LAW)}
        checks = [within_errors(rate, level, found["table_rows"], len(rows)) for rate, level in zip(rates[OVERALL], LEVELS)]
        checks += [(within_errors(rate, level, found["table_rows"], len(rows))[0], True) for rate, level in zip(rates[WITHIN], LEVELS)]
        by_law = ", ".join(f"{rate:.3f}" for rate in rates[LAW]) if law else "-"
        conformal = " | ".join(f"{rate:.4f}" for rate in rates[OVERALL])
        yield f"| {name}, {components}, {method} | {found['table_rows']}, {len(rows)} | {conformal} | {rates[WITHIN][0]:.4f}, {rates[WITHIN][1]:.4f} | {by_law} | {verdict(all(map(all, checks)))} |"
    yield ""


def outliers(tool):
    yield "## Planted outliers"
    yield ""
    yield "1 % of the rows are of another set, and the fit sees them. The score of a row is its ln density. Area"
    yield "under the ROC curve of the planted rows, and its goal: at least that of scikit-learn's methods on the"
    yield "same rows (default settings, seed 0)."
    yield ""
    yield "| rows | planted | p-values | scores | IsolationForest | LocalOutlierFactor | verdict |"
    yield "|---|---|---|---|---|---|---|"
    for name, other in (("banking77", "news20"), ("news20", "banking77")):
        if not (tool.data / name).is_dir() or not (tool.data / other).is_dir():
            continue
        folder = tool.scratch / f"{other}-in-{name}"
        rows, is_planted = planted(tool.data, folder, name, other, tool.scratch)
        tool.clusters(folder, WHERE[name])
        found = rows_of(folder / "fit.f64")
        area = lambda score: roc_auc_score(is_planted, -score)
        ours = area(found[:, OVERALL]), area(found[:, SCORE])
        peers = area(IsolationForest(random_state=0).fit(rows).score_samples(rows)), area(LocalOutlierFactor().fit(rows).negative_outlier_factor_)
        met = min(ours) >= max(peers)
        yield f"| {len(rows)} of {name} | {is_planted.sum()} of {other} | " + " | ".join(f"{a:.4f}" for a in (*ours, *peers)) + f" | {verdict(met)} |"
    yield ""


def probabilities(tool):
    yield "## Probabilities of clusters"
    yield ""
    yield "Fits of all rows without labels. A row is right if its label is the most frequent one of its"
    yield "component; its probability should say how often. Rows that HDBSCAN calls noise count as they are"
    yield "assigned by its soft membership. Goals: an area of at least 0.74 on banking77, 0.72 on news20."
    yield ""
    yield "| set | method | components | right | calibration error | ROC area of *right* | seconds |"
    yield "|---|---|---|---|---|---|---|"
    goals, verdicts = {"banking77": 0.74, "news20": 0.72}, []
    for name, goal in goals.items():
        found = load(tool.data, name, tool.scratch)
        if found is None:
            continue
        rows, labels = dense(found[0]), found[1].astype(np.int64)
        folder, components = tool.scratch / f"all-{name}", WHERE[name]
        write(folder / "fit", rows, labels)

        def line(method, component, probability, seconds):
            right = majority_right(component, labels)
            area = roc_auc_score(right, probability)
            used = len(np.unique(component))
            return area, f"| {name} | {method} | {used} | {right.mean():.3f} | {calibration_error(probability, right):.3f} | {area:.3f} | {seconds:.1f} |"

        areas = []
        for seed in range(3):
            fit = tool.clusters(folder, components, "--seed", seed)
            ours = rows_of(folder / "fit.f64")
            component = ours[:, COMPONENT].astype(np.int64)
            for column, method in ((EXACT, "exact posterior"), (CALIBRATED, "calibrated")):
                area, text = line(f"vmfkit, {method}, seed {seed}", component, ours[:, column], fit["seconds"])
                yield text
            areas.append(area)
        for kind in ("diag", "spherical"):
            yield line(f"GaussianMixture, {kind}", *gaussian(rows, components, kind))[1]
        yield line("HDBSCAN, soft membership, 50 principal components", *hdbscan(rows))[1]
        print(f"{name}: peers done", file=sys.stderr)
        verdicts.append(f"- {name}: mean area {np.mean(areas):.3f}, goal {goal}: {verdict(np.mean(areas) >= goal)}.")
    yield ""
    yield from verdicts
    yield ""
    yield "A calibrated probability says how sure a row is of its cluster, but clusters mix labels: this is the"
    yield "calibration error that is left. Components from labels (above) have no such error."
    yield ""


def second_opinion(tool):
    yield "## Neighbours or independent fits"
    yield ""
    yield "A cross-fit (`CrossFit`) chooses the temperature with fits of two halves instead: a probability is that"
    yield "of an independent fit putting the row into the same cluster. Its error is judged on another pair of"
    yield "fits. *Right* is as above, under one fit of all rows. Shared clusters: what two fits have in common, as"
    yield "a number of equally large clusters."
    yield ""
    yield "| set | temperature by | temperature | its own error, before and after | calibration error of *right* | ROC area of *right* | shared clusters | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    areas = {"neighbours": [], "cross-fit": []}
    for name, components in WHERE.items():
        found = None if name == "news20-tfidf" else load(tool.data, name, tool.scratch)
        if found is None:
            continue
        rows, labels = dense(found[0]), found[1].astype(np.int64)
        folder = tool.scratch / f"all-{name}"
        write(folder / "fit", rows, labels)
        fit = tool.clusters(folder, components, "--cross-fit")
        cross, ours = fit["cross_fit"], rows_of(folder / "fit.f64")
        right = majority_right(ours[:, COMPONENT].astype(np.int64), labels)
        own = [sum(f * abs(p - c) for f, p, c in fit[kind]) for kind in ("raw", "calibrated")]
        probability = np.fromfile(folder / "cross_fit.f64")
        for by, at, errors, chosen, shared, seconds in (
            ("neighbours", fit["temperature"], own, ours[:, CALIBRATED], "", fit["seconds"]),
            ("cross-fit", cross["temperature"], [cross["raw"], cross["calibrated"]], probability, f"{cross['shared_clusters']:.1f}", cross["seconds"]),
        ):
            area = roc_auc_score(right, chosen)
            areas[by].append(area)
            yield f"| {name} | {by} | {at:.1f} | {errors[0]:.3f}, {errors[1]:.3f} | {calibration_error(chosen, right):.3f} | {area:.3f} | {shared} | {seconds:.1f} |"
    yield ""
    means = {by: np.mean(area) for by, area in areas.items() if area}
    yield "Mean ROC area: " + ", ".join(f"{mean:.3f} by {by}" for by, mean in means.items()) + ". The seconds of neighbours are those of the whole fit."
    yield "Neighbours are the default: they need no further fit, and components from labels show that they hold."
    yield ""


def draw(path, probabilities, right):
    """The reliability diagram of banking77, by neighbours, readable on light and dark pages."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "reliability"
    import matplotlib.pyplot as plt

    grey = "#808080"
    figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), sharey=True)
    for axis, probability, title, colour in zip(axes, probabilities, ("exact posterior", "calibrated"), ("#d9730d", "#2f86d6")):
        fraction, expected, found = bins(probability, right)
        shown = fraction > 0
        axis.plot([0, 1], [0, 1], color=grey, linewidth=1, linestyle="--")
        axis.scatter(expected[shown], found[shown], s=8 + 400 * fraction[shown], color=colour, alpha=0.85)
        error = calibration_error(probability, right)
        axis.set_title(f"{title}: error {error:.3f}", color=grey)
        axis.set_xlabel("probability of the component", color=grey)
        axis.tick_params(colors=grey)
        axis.set_xlim(-0.03, 1.06)
        axis.set_ylim(-0.03, 1.06)
        for spine in axis.spines.values():
            spine.set_color(grey)
    axes[0].set_ylabel("rows with the right label", color=grey)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, transparent=True, metadata={"Date": None})


def time_taken(tool):
    found = tool.run("time")[0]
    share = found["calibration"] / (found["fit"] + found["calibration"])
    yield "## Time"
    yield ""
    yield f"A default fit of 100,000 x 384 rows with 100 components takes {found['fit']:.1f} s ({found['passes']} passes), its"
    yield f"calibration {found['calibration']:.2f} s ({found['sample']} rows, basis: {found['basis']}), measured in one run: {100 * share:.1f} % of both together."
    yield f"Goal: at most 10 %: {verdict(share <= 0.1)}. Memory for neighbours is one block of cosines (96 x 768) per thread."
    yield ""


def page(tool, image):
    yield "# How well probabilities and p-values hold"
    yield ""
    yield "`compare/calibration.py` (`make calibration`) wrote this page. Errors are expected calibration errors in"
    yield "15 bins; smaller is better. All settings are defaults. Seeds are 0 unless stated. Methods:"
    yield "[probabilities.md](probabilities.md), [outliers.md](outliers.md)."
    yield ""
    lines = tool.run("families")
    yield from with_labels(tool, image)
    yield from families(lines)
    yield from probabilities(tool)
    yield from second_opinion(tool)
    yield from conformal_of_families(lines)
    yield from conformal(tool)
    yield from outliers(tool)
    yield from time_taken(tool)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("data", type=Path)
    arguments.add_argument("--output", type=Path)
    arguments.add_argument("--image", type=Path)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        text = "\n".join(page(Tool(options.binary, options.data, Path(scratch)), options.image))
    if options.output:
        options.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
