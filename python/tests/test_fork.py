"""Forked children, which have none of their parent's threads. Every call in a child must end and give the same result as in the parent.

Each test runs in a process of its own with a hard time limit, so that a child that hangs fails the test and not the run.
"""

import os
import subprocess
import sys

import pytest

CALLS = """
import os, signal, sys, tempfile, time, warnings
import numpy as np
import vmfkit
from vmfkit import SphericalKMeans, VonMisesFisherClassifier, VonMisesFisherMixture, special, vonmises_fisher

warnings.simplefilter("ignore")
DIM = 64
ROWS = np.random.default_rng(1).normal(size=(20_000, DIM))
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)
FITTED = VonMisesFisherMixture(3, random_state=0, max_iter=2, tol=0).fit(ROWS[:200])
NEAREST = SphericalKMeans(3, random_state=0, max_iter=2).fit(ROWS[:200])
DENSITY = vonmises_fisher(ROWS[0], 30.0)
FOLDER = tempfile.mkdtemp()


def file_of(rows, name, save):
    path = f"{FOLDER}/{len(rows)}.{name}"
    if not os.path.exists(path):
        save(path, rows)
    return path


def csv(path, rows):
    np.savetxt(path, rows, delimiter=",")


CALLS = {
    "predict": lambda x: FITTED.predict(x),
    "predict_proba": lambda x: FITTED.predict_proba(x),
    "score_samples": lambda x: FITTED.score_samples(x),
    "score": lambda x: FITTED.score(x),
    "bic": lambda x: FITTED.bic(x),
    "p_values": lambda x: FITTED.p_values(x),
    "tree": lambda x: FITTED.tree().predict_proba(x, 2),
    "p_values by the law": lambda x: FITTED.p_values(x, kind="law"),
    "responsibilities": lambda x: FITTED.responsibilities(x),
    "calibrate": lambda x: VonMisesFisherMixture.from_mixture(FITTED.mixture_).calibrate(x).mixture_.to_bytes(),
    "calibrate_outliers": lambda x: VonMisesFisherMixture.from_mixture(FITTED.mixture_).calibrate_outliers(x).mixture_.to_bytes(),
    "representatives": lambda x: np.concatenate(FITTED.representatives(x)),
    "sample": lambda x: FITTED.sample(len(x))[0],
    "predict of float32": lambda x: FITTED.predict(x.astype(np.float32)),
    "predict of other lengths": lambda x: FITTED.predict(2 * x),
    "predict of a file": lambda x: FITTED.predict(file_of(x, "npy", np.save)),
    "predict of text": lambda x: FITTED.predict(file_of(x[:4000], "csv", csv)),
    "fit": lambda x: VonMisesFisherMixture(1 + (len(x) > 2), random_state=0, max_iter=3, tol=0).fit(x).mixture_.to_bytes(),
    "fit of sgd": lambda x: VonMisesFisherMixture(1, method="sgd", random_state=0, max_iter=1).fit(x).mixture_.to_bytes(),
    "partial_fit": lambda x: VonMisesFisherMixture(1, random_state=0).partial_fit(x).partial_fit(np.concatenate([x, ROWS[:8]])).predict_proba(x),
    "k-means": lambda x: SphericalKMeans(1 + (len(x) > 2), random_state=0, max_iter=3).fit(x).cluster_centers_,
    "k-means predict": lambda x: NEAREST.predict(x),
    "k-means transform": lambda x: NEAREST.transform(x),
    "k-means score": lambda x: NEAREST.score(x),
    "k-means partial_fit": lambda x: SphericalKMeans(1, random_state=0).partial_fit(x).partial_fit(x).cluster_centers_,
    "logpdf": lambda x: DENSITY.logpdf(x),
    "logpdf of a file": lambda x: DENSITY.logpdf(file_of(x, "npy", np.save)),
    "rvs": lambda x: DENSITY.rvs(len(x), random_state=1),
    "cdf_projection": lambda x: DENSITY.cdf_projection(x[:, 0]),
    "fit of one density": lambda x: vonmises_fisher.fit(np.concatenate([x, ROWS[:2]]))[1],
    "log_normalizer": lambda x: special.log_normalizer(DIM, np.abs(np.tile(x[:, 0], 2))),
    "log_iv": lambda x: special.log_iv(31.0, np.abs(np.tile(x[:, 0], 2))),
    "inverse_iv_ratio": lambda x: special.inverse_iv_ratio(DIM, np.abs(np.tile(x[:, 0], 2))),
    "kl_divergence": lambda x: DENSITY.kl_divergence(vonmises_fisher(ROWS[1], np.abs(x[:, 0]))),
    "classifier": lambda x: VonMisesFisherClassifier().fit(ROWS[:40], np.arange(40) % 2).predict_proba(x),
    "draws with slopes": lambda x: vmfkit._vmfkit.axis_draws(5, np.array([3.0]), len(x))[0],
}
"""


def run(program, timeout=300, **variables):
    # numpy starts and ends its own threads.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "2", **variables}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


FORK = """
def forked(name, x, expected):
    "Whether a child finds the same; kills one that takes longer than 30 seconds."
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if np.array_equal(CALLS[name](x), expected) else 3)
        finally:
            os._exit(4)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return {0: "same", 3: "different", 4: "raised"}[os.waitstatus_to_exitcode(status)]
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"

found = {name: forked(name, x, expected) for name, expected in here.items()}
print(*(f"{name}: {what}" for name, what in found.items() if what != "same"), sep="\\n")
"""


@pytest.mark.parametrize("rows", [1, 30, 2000, 20_000])
def test_a_forked_child_can_call_everything(rows):
    assert run(f"{CALLS}\nx = ROWS[:{rows}]\nhere = {{name: call(x) for name, call in CALLS.items()}}\n{FORK}").strip() == ""


def test_a_child_can_call_everything_after_its_parent_predicted_one_row():
    """The expected result is computed by another process, because the parent must not call anything else."""
    before = f"""
import pickle, subprocess
{CALLS}
x = ROWS[:2000]
if len(sys.argv) > 1:
    pickle.dump({{name: call(x) for name, call in CALLS.items()}}, open(sys.argv[1], "wb"))
    sys.exit()
"""
    program = f"""
source = {before!r}
import subprocess, sys, tempfile, os, pickle
path = tempfile.mkdtemp() + "/expected"
subprocess.run([sys.executable, "-W", "ignore", "-c", source, path], check=True)
exec(source)
FITTED.predict(x[:1])
here = pickle.load(open(path, "rb"))
{FORK}
"""
    assert run(program).strip() == ""


def test_a_forked_grid_search_ends():
    """joblib's backend "multiprocessing" forks."""
    program = """
import numpy as np, vmfkit
from joblib import parallel_backend
from sklearn.model_selection import GridSearchCV
rows = np.random.default_rng(1).normal(size=(600, 64))
model = vmfkit.VonMisesFisherMixture(random_state=0, max_iter=3, tol=0)
model.fit(rows).predict(rows[:1])
with parallel_backend("multiprocessing", n_jobs=2):
    search = GridSearchCV(model, {"n_components": [1, 2]}, cv=2, n_jobs=2, error_score="raise").fit(rows)
print(search.best_params_["n_components"])
"""
    assert run(program, timeout=120).strip() in ("1", "2")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells the names of threads")
@pytest.mark.parametrize("threads", [1, 3])
def test_no_other_threads_are_started(threads):
    """The threads of rayon's global pool, one per core, would not have our name."""
    program = f"""{CALLS}
def name_of(task):
    try:
        return open(f"/proc/self/task/{{task}}/comm").read().strip()
    except OSError:  # it has just ended
        return None
def names():
    return [name for name in map(name_of, os.listdir("/proc/self/task")) if name is not None]
others = [name for name in names() if not name.startswith("vmfkit")]
for rows in (1, 30, 2000, 20_000):
    for name, call in CALLS.items():
        call(ROWS[:rows])
        for _ in range(1000):  # a thread that was waited for may still be listed
            found = sorted(names())
            ours = [name for name in found if name.startswith("vmfkit")]
            if ours == [f"vmfkit-{{i}}" for i in range({threads})] and len(found) == len(ours) + len(others):
                break
            time.sleep(0.01)
        else:
            print(name, rows, found)
"""
    assert run(program, VMFKIT_NUM_THREADS=str(threads)).strip() == ""


def test_more_threads_than_solo_pools_can_call():
    """Small work runs on the calling thread for the first 64 threads, in the shared pool for others."""
    program = f"""{CALLS}
from threading import Thread
expected = FITTED.predict(ROWS[:10])
wrong = []
def call():
    if not np.array_equal(FITTED.predict(ROWS[:10]), expected):
        wrong.append(1)
for _ in range(150):
    thread = Thread(target=call)
    thread.start()
    thread.join()
print(len(wrong))
"""
    assert run(program).strip() == "0"
