"""Finds the topics of a file of text embeddings and draws them.

Run it, or run its cells (`# %%`) one by one in an editor:

    python topics.py --pictures pictures                      # the newsgroups in the folder VMFKIT_DATA
    python topics.py 'parts/*.parquet' --texts texts.txt      # your own embeddings, and one text per line

Needs `pip install './python[sklearn,plot]'`.
"""

# %% Arguments
import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vmfkit import VonMisesFisherMixture

parser = argparse.ArgumentParser(description="Topics of text embeddings.")
parser.add_argument("files", nargs="*", help="embeddings: .npy, Parquet, Arrow, CSV ... (default: the newsgroups in VMFKIT_DATA)")
parser.add_argument("--texts", type=Path, help="the texts, one per line, in the order of the embeddings")
parser.add_argument("--among", default="10,20,40,80,120,160", help="numbers of topics to choose from by BIC")
parser.add_argument("--topics", type=int, help="number of topics, instead of the choice by BIC")
parser.add_argument("--pictures", type=Path, help="folder for pictures")
# In a notebook, sys.argv has the arguments of the kernel.
options = parser.parse_args([] if "ipykernel" in sys.modules else None)

newsgroups = None
if not options.files:
    folder = os.environ.get("VMFKIT_DATA")
    if not folder:
        sys.exit("no embeddings: pass files, or set VMFKIT_DATA to the folder that contains news20/news20_minilm_f16.npy")
    newsgroups = Path(folder) / "news20"
    options.files = [str(newsgroups / "news20_minilm_f16.npy")]
    if not Path(options.files[0]).exists():
        sys.exit(f"no embeddings: `{options.files[0]}` is missing")
rows = options.files
began = time.monotonic()

# %% The number of topics
# The rows are read from files, so they may exceed memory. Ten passes are enough to compare numbers of topics.
models = []
for count in sorted({int(count) for count in options.among.split(",")}):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        models.append(VonMisesFisherMixture(count, max_iter=10, random_state=0).fit(rows))
    print(f"{count:5} topics: BIC {models[-1].bic(rows):16,.0f}")
best = min(models, key=lambda model: model.bic(rows))
print(f"BIC prefers {best.n_components} topics")

# %% The fit
count = options.topics or best.n_components
topics = VonMisesFisherMixture(count, random_state=0).fit(rows)
labels = topics.labels_
print(f"\n{len(labels)} rows of dimension {topics.n_features_in_}, {count} topics, {topics.n_iter_} passes")

# The default policy ties concentrations here, which makes better topics (docs/default-policy.md). One more pass with free
# concentrations gives the width of each topic.
model = VonMisesFisherMixture(count, policy="free", init=topics.mixture_, max_iter=1, tol=0).fit(rows)
labels = model.labels_


# %% Words and groups of a topic, if known
def words_of_texts(texts):
    """Returns the rows that have words, the weights of the words in each row, and the words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if len(texts) != len(labels):
        sys.exit(f"{options.texts} must have a text for each of {len(labels)} rows, found: `{len(texts)}`")
    vectorizer = TfidfVectorizer(stop_words="english", max_features=10_000)
    return np.arange(len(texts)), vectorizer.fit_transform(texts), vectorizer.get_feature_names_out()


def words_of_newsgroups(folder):
    """The same from the tf-idf of the posts. Some posts are missing there, so only groups without missing posts are used."""
    from scipy.sparse import load_npz

    def parts(labels):
        ends = np.flatnonzero(np.diff(labels)) + 1
        return np.split(np.arange(len(labels)), ends)

    ours, theirs = (np.load(folder / name) for name in ("news20_labels_u8.npy", "news20_tfidf_labels_u8.npy"))
    pairs = [pair for pair in zip(parts(ours), parts(theirs)) if len(pair[0]) == len(pair[1])]
    weights = load_npz(folder / "news20_tfidf_csr_f32.npz").tocsr()[np.concatenate([theirs for _, theirs in pairs])]
    vocabulary = np.array((folder / "news20_tfidf_vocab.txt").read_text().split())
    return np.concatenate([ours for ours, _ in pairs]), weights, vocabulary


words = None
if options.texts:
    words = words_of_texts(options.texts.read_text().splitlines())
elif newsgroups and (newsgroups / "news20_tfidf_csr_f32.npz").exists():
    words = words_of_newsgroups(newsgroups)

topic_words = [[] for _ in range(count)]
if words:
    known, weights, vocabulary = words
    everywhere = np.asarray(weights.mean(axis=0)).ravel()
    for topic in range(count):
        mine = labels[known] == topic
        if mine.any():
            here = np.asarray(weights[mine].mean(axis=0)).ravel()
            # Frequent here, and more frequent than elsewhere.
            telling = here * np.log(np.maximum(here, 1e-12) / np.maximum(everywhere, 1e-12))
            topic_words[topic] = vocabulary[np.argsort(-telling)[:6]].tolist()

groups = None
if newsgroups:
    # The fit does not use the names of the groups.
    names = (newsgroups / "news20_label_names.txt").read_text().split()
    groups = np.array(names)[np.load(newsgroups / "news20_labels_u8.npy")]

# %% The topics
scores = model.score_samples(rows)
print("\ntopic  weight  kappa  typical rows            words, and the group that most rows are from")
for topic in np.argsort(-model.weights_):
    mine = np.flatnonzero(labels == topic)
    typical = mine[np.argsort(-scores[mine])[:3]]
    about = " ".join(topic_words[topic])
    if groups is not None and len(mine):
        found, sizes = np.unique(groups[mine], return_counts=True)
        about += f"  [{found[sizes.argmax()]} {sizes.max() / len(mine):.0%}]"
    print(f"{topic:5}  {model.weights_[topic]:6.4f}  {model.concentrations_[topic]:5.0f}  {str(typical.tolist()):22}  {about}")

# %% Outliers
# Of texts of the same kind, about one in a thousand has a p-value of at most 0.001.
p_values = topics.p_values(rows)
strangest = np.argsort(p_values, kind="stable")[:5]
print(f"\n{topics.calibration_}")
print(f"p-value at most 0.001: {np.mean(p_values <= 0.001):.1%} of the rows; the strangest are {strangest.tolist()}")

# %% Pictures
if options.pictures:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    from vmfkit import plot

    options.pictures.mkdir(parents=True, exist_ok=True)
    two_words = ["\n".join(found[:2]) or str(topic) for topic, found in enumerate(topic_words)]
    more_words = [" ".join(found[:3]) or str(topic) for topic, found in enumerate(topic_words)]
    pictures = {
        "selection": lambda: plot.selection(models, rows, criteria=("bic", "aic")),
        "map": lambda: plot.map(model, rows, two_words),
        "components": lambda: plot.components(model, labels=more_words),
        "trace": lambda: plot.trace(topics),
    }
    for name, draw in pictures.items():
        figure = draw().figure
        path = options.pictures / f"{name}.png"
        figure.savefig(path, dpi=110)
        plt.close(figure)
        # A few colours make a small file.
        Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)
    print(f"{', '.join(pictures)}: in {options.pictures}")
print(f"{time.monotonic() - began:.0f} seconds")
