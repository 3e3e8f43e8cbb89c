"""The peers' side of the comparison of mixture fits: seconds of one pass over the rows of a folder.

    python mixture_peers.py FOLDER PEER...

FOLDER holds what mixture_data.py writes. Prints one JSON line a peer; `seconds` has one entry a measurement. `mixture.py` calls
this with OPENBLAS_NUM_THREADS, OMP_NUM_THREADS and OMP_WAIT_POLICY set, since the libraries read them when they are loaded.

Threads of BLAS and of OpenMP that wait spin by default, and on shared cores they then take time from each other: faiss and numpy's
products can get several times slower than on one thread. Waiting threads of OpenMP are told to sleep; those of numpy's BLAS cannot be,
so its products are measured on one thread as well and the faster counts. Some of the noise remains, so the best of several measurements
says more about a peer than the median does.
"""

import argparse
import json
import time

import faiss
import mpmath
import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from mixture_data import load

# Keeps a logarithm or a division finite; the paper's code has the same.
TINY = 1e-10
LN_2PI = np.log(2 * np.pi)


def seconds_of(work):
    """How long one call of `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# ------------------------------------------------------------------------------- the paper's loops

# arXiv:2102.05340 and its code, github.com/minyoungkim21/vmf-lib, written with numpy in place of torch: each component's cosines
# from an N x d product summed over d, ln I by mpmath one component at a time and at its default precision, resultants from an
# N x K x d product, Banerjee's formula for the concentrations.

# The paper's code calls mpmath through np.vectorize, which calls it once more to learn the type of the answer: twice a component.
besseli = np.vectorize(mpmath.besseli)
log = np.vectorize(mpmath.log)


def ln_bessel(order, concentrations, dtype):
    """ln I of each concentration by mpmath."""
    return np.array([float(log(besseli(order, mpmath.mpf(float(k))))) for k in concentrations], dtype)


def ln_normalizers(dim, concentrations, ln_i):
    return -0.5 * dim * LN_2PI + (0.5 * dim - 1) * np.log(concentrations) - ln_i


def log_sum_exp(values):
    """Over the last axis, which is kept."""
    largest = values.max(axis=-1, keepdims=True)
    return largest + np.log(np.exp(values - largest).sum(axis=-1, keepdims=True))


def cosines(x, directions):
    return np.stack([(direction * x).sum(1) for direction in directions], axis=1)


def paper_em_pass(x, weights, directions, concentrations):
    """One EM pass: the log-likelihood of the old mixture and the new weights, directions and concentrations."""
    dim = x.shape[1]
    concentrations = concentrations.astype(x.dtype)
    ln_i = ln_bessel(0.5 * dim - 1, concentrations, x.dtype)
    ln_densities = concentrations * cosines(x, directions) + ln_normalizers(dim, concentrations, ln_i)
    joint = np.log(weights + TINY).astype(x.dtype) + ln_densities
    ln_likelihood = float(log_sum_exp(joint).sum(dtype=np.float64))
    # The paper's code takes this sum twice as well: once for the likelihood, once inside log_softmax.
    assignment = np.exp(joint - log_sum_exp(joint))

    resultants = (assignment[:, :, None] * x[:, None, :]).sum(0)
    masses = assignment.sum(0)
    lengths = np.linalg.norm(resultants, axis=1, keepdims=True)
    r = lengths[:, 0] / (masses + TINY)
    return ln_likelihood, masses / len(x), resultants / lengths, (dim * r - r**3) / (1 - r**2)


class PaperSgd:
    """The paper's second estimator: Adam on the logits of the weights, directions of any length and ln k. Torch's backward pass is
    written by hand, with one matrix product for all the resultants where torch makes one N x d product a component."""

    RATE, BETAS, EPSILON = 0.1, (0.9, 0.99), 1e-8
    FLOOR = 1e-6

    def __init__(self, weights, directions, concentrations):
        dtype = directions.dtype
        self.parameters = [
            np.log(weights + TINY).astype(dtype),
            directions.copy(),
            np.log(concentrations).astype(dtype),
        ]
        self.moments = [(np.zeros_like(p), np.zeros_like(p)) for p in self.parameters]
        self.steps = 0

    def loss_and_gradients(self, x):
        """The mean of -ln p over the batch, and its gradient in each of the parameters."""
        logits, unnormalised, ln_concentrations = self.parameters
        dim = x.shape[1]
        lengths = np.linalg.norm(unnormalised, axis=1, keepdims=True)
        directions = unnormalised / lengths
        concentrations = np.exp(ln_concentrations) + self.FLOOR
        ln_weights = logits - log_sum_exp(logits)

        ln_i = ln_bessel(0.5 * dim - 1, concentrations, x.dtype)
        along = cosines(x, directions)
        joint = ln_weights + concentrations * along + ln_normalizers(dim, concentrations, ln_i)
        ln_likelihoods = log_sum_exp(joint)

        share = np.exp(joint - ln_likelihoods) / len(x)
        masses = share.sum(0)
        mean_lengths = np.exp(ln_bessel(0.5 * dim, concentrations, x.dtype) - ln_i)
        by_logits = np.exp(ln_weights) - masses
        by_directions = -concentrations[:, None] * (share.T @ x)
        by_directions -= (by_directions * directions).sum(1, keepdims=True) * directions
        by_concentrations = masses * mean_lengths - (share * along).sum(0)
        gradients = [by_logits, by_directions / lengths, by_concentrations * np.exp(ln_concentrations)]
        return -float(ln_likelihoods.mean()), gradients

    def step(self, x):
        """One batch."""
        loss, gradients = self.loss_and_gradients(x)
        self.steps += 1
        first, second = self.BETAS
        for parameter, (mean, square), gradient in zip(self.parameters, self.moments, gradients):
            mean += (1 - first) * (gradient - mean)
            square += (1 - second) * (gradient**2 - square)
            size = np.sqrt(square / (1 - second**self.steps)) + self.EPSILON
            parameter -= self.RATE / (1 - first**self.steps) * mean / size
        return loss


# ------------------------------------------------------------------------------------ measurements

# Each takes a Problem and gives the fields of its JSON line that are its own: always `seconds`, one entry a measurement.


EM_PASSES = 2


def time_paper_em(problem):
    """One EM pass of the paper's loop, and the log-likelihood it finds."""
    x, directions, weights, concentrations = problem
    seconds = []
    for _ in range(EM_PASSES):
        start = time.perf_counter()
        ln_likelihood, *_ = paper_em_pass(x, weights, directions, concentrations)
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "ln_likelihood": ln_likelihood}


SGD_BATCH = 256
SGD_TIMED_BATCHES = 10


def time_paper_sgd(problem):
    """One epoch of the paper's SGD: the time of SGD_TIMED_BATCHES batches, scaled to all full batches (the paper's code drops the
    last, shorter one)."""
    x, directions, weights, concentrations = problem
    batches = len(x) // SGD_BATCH
    timed = min(SGD_TIMED_BATCHES, batches)
    order = np.random.default_rng(1).permutation(len(x))
    sgd = PaperSgd(weights, directions, concentrations)

    def run():
        for batch in range(timed):
            sgd.step(x[order[batch * SGD_BATCH : (batch + 1) * SGD_BATCH]])

    return {"seconds": [seconds_of(run) / timed * batches]}


def time_torch_em(problem):
    """The same pass in PyTorch."""
    import paper_torch

    mixture, x = paper_torch.mixture_of(problem)
    seconds = []
    for _ in range(EM_PASSES):
        start = time.perf_counter()
        ln_likelihood, *_ = paper_torch.em_pass(mixture, x)
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "ln_likelihood": ln_likelihood}


def time_torch_sgd(problem):
    """The same epoch in PyTorch, scaled in the same way."""
    import paper_torch

    mixture, x = paper_torch.mixture_of(problem)
    batches = x[np.random.default_rng(1).permutation(len(x))].split(SGD_BATCH)[: len(x) // SGD_BATCH]
    timed = min(SGD_TIMED_BATCHES, len(batches))
    seconds = seconds_of(lambda: paper_torch.sgd_steps(mixture, batches[:timed]))
    return {"seconds": [seconds / timed * len(batches)]}


SKLEARN_ITERATIONS = (2, 22)
SKLEARN_FITS = 3


def time_sklearn(problem):
    """One iteration of scikit-learn's KMeans (Lloyd): the best fit of many iterations less the best of few, so that checks, copies
    and the last assignment do not count."""
    best, done = [np.inf, np.inf], [0, 0]
    for _ in range(SKLEARN_FITS):
        for place, limit in enumerate(SKLEARN_ITERATIONS):
            start = problem.directions
            model = KMeans(len(start), init=start, n_init=1, max_iter=limit, tol=0, algorithm="lloyd")
            best[place] = min(best[place], seconds_of(lambda: model.fit(problem.x)))
            # It stops when no label changes, whatever the tolerance.
            done[place] = model.n_iter_
    if done[1] <= done[0]:
        raise ValueError(f"KMeans converges too early to be timed, after iterations: `{done[0]}`")
    return {"seconds": [(best[1] - best[0]) / (done[1] - done[0])]}


FAISS_ITERATIONS = 20


def time_faiss(problem):
    """Iterations of faiss's spherical k-means on all rows, by its own clock; the first one is left out."""
    components, dim = problem.directions.shape
    model = faiss.Kmeans(
        dim, components, niter=FAISS_ITERATIONS, spherical=True, max_points_per_centroid=len(problem.x)
    )
    model.train(problem.x, init_centroids=problem.directions)
    return {"seconds": np.diff([iteration["time"] for iteration in model.iteration_stats]).tolist()}


def time_products(problem):
    """The two matrix products that an EM pass cannot do without, X M^T and Q^T X, by numpy into given arrays: no exponential, no
    sum, no M step. On as many threads as BLAS has and on one: the times of whichever is faster."""
    x, directions = problem.x, problem.directions
    assignment = np.random.default_rng(1).random((len(x), len(directions)), x.dtype)
    dots, resultants = np.empty_like(assignment), np.empty_like(directions)

    def both():
        np.matmul(x, directions.T, out=dots)
        np.matmul(assignment.T, x, out=resultants)

    both()
    several = [seconds_of(both) for _ in range(3)]
    with threadpool_limits(1, "blas"):
        both()
        one = [seconds_of(both) for _ in range(3)]
    return {"seconds": min(several, one, key=min)}


PEERS = {
    "paper-em": time_paper_em,
    "paper-sgd": time_paper_sgd,
    "torch-em": time_torch_em,
    "torch-sgd": time_torch_sgd,
    "sklearn": time_sklearn,
    "faiss": time_faiss,
    "products": time_products,
}


def line_of(peer, problem):
    """What is printed of one peer: the fields that our program prints."""
    rows, dim = problem.x.shape
    return {
        "work": peer,
        "rows": rows,
        "dim": dim,
        "components": len(problem.directions),
        "element": {"float32": "f32", "float64": "f64"}[problem.x.dtype.name],
        **PEERS[peer](problem),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("peers", nargs="+", choices=PEERS)
    options = parser.parse_args()
    problem = load(options.folder)
    for peer in options.peers:
        print(json.dumps(line_of(peer, problem)), flush=True)


if __name__ == "__main__":
    main()
