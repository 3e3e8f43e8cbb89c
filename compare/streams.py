"""Streams that drift: compares `partial_fit` of VonMisesFisherMixture with that of scikit-learn's
MiniBatchKMeans.

    python compare/streams.py [FOLDER]

Generated topics appear, or come and go. With the FOLDER of labelled embeddings (news20, banking77)
their labels drift as well. "before" is the adjusted Rand index of a batch before the model learns
it, from the fourth batch on; "last" that of the last ten batches afterwards; "all" that of all rows.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

import vmfkit
from vmfkit import VonMisesFisherMixture

SEEDS = 5


def made(active, seed, topics=20, dim=50, count=60, rows=300):
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(topics, dim)) + rng.normal(size=dim)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for batch in range(count):
        chosen = rng.choice(active(batch), rows)
        drawn = np.empty((rows, dim))
        for topic in np.unique(chosen):
            density = vmfkit.vonmises_fisher(directions[topic], 1.5 * dim)
            drawn[chosen == topic] = density.rvs(int((chosen == topic).sum()), random_state=rng).reshape(-1, dim)
        yield drawn, chosen


def labelled(folder, name, width, seed):
    """Batches of 500 rows in the order of their labels, blurred over this many labels; None shuffles them."""
    rows = np.load(folder / name / f"{name}_minilm_f16.npy").astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = np.load(folder / name / f"{name}_labels_u8.npy")
    rng = np.random.default_rng(seed)
    place = rng.permutation(labels.max() + 1)[labels]
    order = np.argsort(place + rng.uniform(0, width, len(labels))) if width else rng.permutation(len(labels))
    for batch in np.array_split(order, len(order) // 500):
        yield rows[batch], labels[batch]


def scores(model, stream):
    stream, before, moves = list(stream), [], 0
    for number, (rows, topics) in enumerate(stream):
        if number > 2:
            before.append(adjusted_rand_score(topics, model.predict(rows)))
        model.partial_fit(rows)
        moves += sum("was moved" in note for note in getattr(model, "notes_", []))

    def after(batches):
        rows, topics = (np.concatenate(part) for part in zip(*batches))
        return adjusted_rand_score(topics, model.predict(rows))

    return np.mean(before), after(stream[-10:]), after(stream), moves


def main():
    streams = {
        "20 topics, all from the beginning": (20, lambda seed: made(lambda batch: np.arange(20), seed)),
        "20 topics that appear": (20, lambda seed: made(lambda batch: np.arange(min(20, 4 + 20 * batch // 45)), seed)),
        "6 of 20 topics at a time": (8, lambda seed: made(lambda batch: np.arange(6) + 14 * batch // 59, seed)),
    }
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        for name, topics in (("news20", 20), ("banking77", 77)):
            for width, how in ((0, "in any order"), (3, "three labels at a time")):
                streams[f"{name}, {how}"] = (topics, lambda seed, name=name, width=width: labelled(folder, name, width, seed))
    print("| stream | model | before | last | all | moves |\n|---|---|---|---|---|---|")
    for name, (components, stream) in streams.items():
        models = {
            "MiniBatchKMeans": lambda seed: MiniBatchKMeans(components, n_init=3, random_state=seed),
            "free": lambda seed: VonMisesFisherMixture(components, policy="free", random_state=seed),
            "shared": lambda seed: VonMisesFisherMixture(components, policy="shared", random_state=seed),
        }
        for label, model in models.items():
            # Batches are small: threads of k-means would wait for each other.
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore")
                found = np.array([scores(model(seed), stream(seed)) for seed in range(SEEDS)])
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / SEEDS**0.5
            cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean[:3], error)]
            print(f"| {name} | {label} | {' | '.join(cells)} | {mean[3]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
