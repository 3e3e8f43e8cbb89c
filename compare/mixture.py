"""Compares one pass of a mixture fit with other programs in one run that alternates between them;
writes MIXTURE.md.

    python mixture.py [path/to/the/compare/binary] [--rounds 5] [--output MIXTURE.md]

Needs requirements.txt. Without a binary it measures only the other programs and writes nothing.

For each problem, a round runs `mixture_peers.py FOLDER PEER...` and `compare mixture-times FOLDER
[--batch 256]`. Both print one line of JSON for each work:

    {"work": "em", "rows": 50000, "dim": 100, "components": 10, "element": "f32", "seconds": [0.004]}

Ours are "em", one pass of EM from the start in the folder, and with --batch also "sgd", one epoch of
SGD with Adam. An "em" line may have "ln_likelihood", that of the start. It is compared with that of
the paper's loop, if the loop is measured.
"""

import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mixture_data import concentration_of, make_data, save
from run import cpu_name, table, verdict

HERE = Path(__file__).resolve().parent
THREADS = 2
SGD_BATCH = 256
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": str(THREADS),
    "OMP_NUM_THREADS": str(THREADS),
    "OMP_WAIT_POLICY": "PASSIVE",
    "RAYON_NUM_THREADS": str(THREADS),
}
HAS_TORCH = importlib.util.find_spec("torch") is not None
# The paper's loop adds up f32.
LIKELIHOOD_TOLERANCE = 1e-3


class Failure(Exception):
    """Something that the user can mend; printed without a trace."""


class Goal(NamedTuple):
    # "em" or "sgd", and the peer it is compared with.
    work: str
    peer: str
    # How many times as long as ours the peer must take, if anything is asked.
    ratio: float | None = None


class Case(NamedTuple):
    rows: int
    dim: int
    components: int
    element: str
    # The mean length of a component of the data.
    length: float
    goals: tuple = ()
    # For an EM pass without a peer: the limit in ns per row and component.
    nanoseconds: float | None = None

    @property
    def name(self):
        return f"{self.rows} x {self.dim}, K = {self.components}, {self.element}"

    @property
    def folder(self):
        return f"{self.rows}x{self.dim}x{self.components}"

    @property
    def peers(self):
        return [goal.peer for goal in self.goals if HAS_TORCH or not goal.peer.startswith("torch")]

    @property
    def works(self):
        return sorted({"em", *(goal.work for goal in self.goals)})


CASES = [
    Case(
        50_000,
        100,
        10,
        "f32",
        0.5,
        (
            Goal("em", "torch-em", 150),
            Goal("em", "paper-em", 150),
            Goal("em", "sklearn", 1),
            Goal("em", "faiss", 1),
            Goal("sgd", "torch-sgd", 500),
            Goal("sgd", "paper-sgd"),
        ),
    ),
    Case(100_000, 384, 100, "f32", 0.6, (Goal("em", "products", 1),)),
    Case(20_000, 768, 1000, "f32", 0.6, (Goal("em", "products", 1 / 0.75),)),
    Case(1_000_000, 3, 20, "f64", 0.96, nanoseconds=6),
]
WORK_NAMES = {"em": "EM pass", "sgd": f"SGD epoch, batches of {SGD_BATCH}"}
PEER_NAMES = {
    "torch-em": "the paper's loop, PyTorch and mpmath",
    "torch-sgd": "the paper's SGD, PyTorch and mpmath",
    "paper-em": "the same in numpy and mpmath",
    "paper-sgd": "the same in numpy and mpmath",
    "sklearn": "scikit-learn KMeans, an iteration",
    "faiss": "faiss spherical k-means, an iteration",
    "products": "numpy's two bare products",
}


# ----------------------------------------------------------------------------------------- measuring


def write_problem(case, folder):
    """The rows and the start of a case, as .npy files."""
    dtype = {"f32": np.float32, "f64": np.float64}[case.element]
    concentration = concentration_of(case.dim, case.length)
    # Seed 2: KMeans takes more than 22 iterations to converge from this start at 50,000 x 100.
    save(make_data(case.rows, case.dim, case.components, concentration, 2, dtype), folder)


def run(command):
    """Standard output of a program on THREADS threads."""
    command = [str(part) for part in command]
    answer = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT})
    if answer.returncode != 0:
        raise Failure(f"`{' '.join(command)}` failed:\n{answer.stderr.strip()}")
    return answer.stdout


def read_lines(text, case, works):
    """{work: line} of a program's output; a Failure unless it is exactly what was asked."""
    found = {}
    for line in text.splitlines():
        try:
            fields = json.loads(line)
            asked = {"rows": case.rows, "dim": case.dim, "components": case.components, "element": case.element}
            if {name: fields[name] for name in asked} != asked:
                raise ValueError(f"expected {asked}")
            if not (fields["seconds"] and all(seconds > 0 for seconds in fields["seconds"])):
                raise ValueError("expected times above 0")
            found[fields["work"]] = fields
        except (ValueError, TypeError, KeyError) as error:
            raise Failure(f"{type(error).__name__} {error} in the line: `{line}`") from error
    if sorted(found) != sorted(works):
        raise Failure(f"{case.name}: expected lines for {sorted(works)}, found: `{sorted(found)}`")
    return found


def run_peers(case, folder):
    if not case.peers:
        return {}
    return read_lines(run([sys.executable, HERE / "mixture_peers.py", folder, *case.peers]), case, case.peers)


def run_ours(binary, case, folder):
    batch = ["--batch", SGD_BATCH] if "sgd" in case.works else []
    return read_lines(run([binary, "mixture-times", folder, *batch]), case, case.works)


def check_likelihood(ours, peers):
    """Both sides must have done the same work, as far as they say."""
    mine = ours.get("em", {}).get("ln_likelihood")
    for peer in ("paper-em", "torch-em"):
        theirs = peers.get(peer, {}).get("ln_likelihood")
        if mine is not None and theirs is not None and not math.isclose(mine, theirs, rel_tol=LIKELIHOOD_TOLERANCE):
            raise Failure(f"log-likelihood of the start, {PEER_NAMES[peer]} has {theirs}, ours: `{mine}`")


def measure(binary, cases, rounds, root):
    """{(case, work or peer): seconds of all rounds}. Every round measures each case, first the peers, then ours."""
    times = {}
    for case in cases:
        write_problem(case, root / case.folder)
    for number in range(rounds):
        for case in cases:
            folder = root / case.folder
            peers = run_peers(case, folder)
            ours = run_ours(binary, case, folder) if binary else {}
            check_likelihood(ours, peers)
            for work, fields in {**peers, **ours}.items():
                times.setdefault((case, work), []).extend(fields["seconds"])
        print(f"round {number + 1} of {rounds} done", file=sys.stderr)
    return times


# ------------------------------------------------------------------------------------------- report

ABOUT = f"""Time of one pass over the rows on {THREADS} threads: the best of all rounds, the median in brackets. The
ratio is the peer's best time over our best; in brackets, the ratio of the medians. The best time
decides, because spinning BLAS and OpenMP threads inflate a peer's median on shared cores. Both read
the same rows and the same start. The rows are not exactly von Mises-Fisher: each is a direction plus
normal noise, normalised. The mean length within a component is 0.5 (d = 100), 0.6 (384, 768) and
0.96 (3).

- *The paper's loop* is that of arXiv:2102.05340: one module per component, an N x K x d product for
  the resultants, and ln I by mpmath. paper_torch.py has it in PyTorch; mixture_peers.py has it in
  numpy, without autograd. The time of an SGD epoch is extrapolated from 10 batches. PyTorch is
  measured if `make compare TORCH=1` has installed it.
- *scikit-learn* is the difference between a long and a short fit. *faiss* is timed by its own clock,
  on all rows. Neither computes probabilities.
- *numpy's two bare products* are X M^T and Q^T X into given arrays, on one or two threads, whichever
  is faster. An EM pass computes the same products and the exponentials between them.
"""


def duration(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def best_and_median(seconds):
    return f"{duration(min(seconds))} ({duration(statistics.median(seconds))})" if seconds else "-"


def row_of_goal(case, goal, times):
    ours, theirs = times.get((case, goal.work)), times.get((case, goal.peer))
    found, met = "-", "-"
    if ours and theirs:
        ratio = min(theirs) / min(ours)
        found = f"{ratio:.3g} ({statistics.median(theirs) / statistics.median(ours):.3g})"
        if goal.ratio:
            met = "met" if ratio >= goal.ratio else "missed"
    work = f"{case.name}: {WORK_NAMES[goal.work]}"
    limit = f"at least {goal.ratio:.3g}" if goal.ratio else "-"
    return [work, best_and_median(ours), PEER_NAMES[goal.peer], best_and_median(theirs), found, limit, met]


def row_without_peer(case, times):
    ours = times.get((case, "em"))
    found, met = "-", "-"
    if ours:
        nanoseconds = min(ours) * 1e9 / (case.rows * case.components)
        found = f"{nanoseconds:.3g} ns per row and component"
        met = verdict(nanoseconds, case.nanoseconds)
    work = f"{case.name}: {WORK_NAMES['em']}"
    return [work, best_and_median(ours), "none", "-", found, f"at most {case.nanoseconds:g} ns", met]


def goals_table(cases, times):
    rows = []
    for case in cases:
        rows += [row_of_goal(case, goal, times) for goal in case.goals]
        if case.nanoseconds is not None:
            rows.append(row_without_peer(case, times))
    return table(["work", "ours", "peer", "peer's time", "ratio", "goal", "met?"], rows)


def report(binary, cases, rounds):
    with tempfile.TemporaryDirectory() as root:
        times = measure(binary, cases, rounds, Path(root))
    names = ("numpy", "mpmath", "scikit-learn", "faiss-cpu", *(["torch"] if HAS_TORCH else []))
    peers = ", ".join(f"{name} {version(name)}" for name in names)
    ours = f"vmfkit {run([binary, '--version']).split()[1]}, " if binary else ""
    head = [
        "# Mixture fits compared with other programs",
        "",
        f"Written by `mixture.py`: {ours}{peers}; {rounds} rounds; {cpu_name()}, shared with other work, so compare ratios rather than times.",
        "",
        ABOUT,
    ]
    return "\n".join(head + goals_table(cases, times))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", nargs="?", type=Path, help="the built `compare` program; without it the peers alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=HERE / "MIXTURE.md")
    options = parser.parse_args()
    try:
        if options.binary and not options.binary.is_file():
            raise Failure(f"build it with `cargo build --release -p compare`, no program at: `{options.binary}`")
        text = report(options.binary and options.binary.resolve(), CASES, options.rounds)
    except Failure as failure:
        sys.exit(f"error: {failure}")
    if options.binary:
        options.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
