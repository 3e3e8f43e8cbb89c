"""Compares vmfkit with scipy and mpmath in one run that alternates between them; writes RESULTS.md.

    python run.py path/to/the/compare/binary [--rounds 5] [--output RESULTS.md]

Needs requirements.txt. Build the binary with one codegen unit, as the release profile does.
Otherwise the compiler does not inline rand_distr's normals, which halves the speed of the baseline.
"""

import argparse
import csv
import platform
import subprocess
import time
from collections.abc import Callable
from decimal import Decimal, localcontext
from pathlib import Path
from typing import NamedTuple

import mpmath
import numpy as np
import scipy
from scipy.stats import vonmises_fisher

from peers import (
    mpmath_ln_bessel,
    mpmath_ratio,
    scipy_entropy,
    scipy_inverse,
    scipy_inverse_complement,
    scipy_kl,
    scipy_kl_uniform,
    scipy_ln_bessel,
    scipy_ln_normalizer,
    scipy_ln_peak,
    scipy_phi,
    scipy_ratio,
    scipy_ratio_and_slope,
)

HERE = Path(__file__).resolve().parent
TABLES = HERE.parent / "testdata"
EPSILON = 2.0**-52

# -------------------------------------------------------------------------------------------- accuracy


def relative(value, reference, _):
    # Near and below the end of f64's normal range there are no relative digits to ask for.
    if abs(reference) < Decimal("1e-290") and abs(value - reference) < Decimal("1e-305"):
        return 0.0
    return float(abs((value - reference) / reference))


def mixed(value, reference, _):
    return float(abs(value - reference) / max(1, abs(reference)))


def ulps(value, reference, scale):
    return float(abs(value - reference) / Decimal(scale)) / EPSILON


def scale_of_ln_normalizer(row):
    nu, k = float(row["d"]) / 2 - 1, float(row["kappa"])
    return max(1.0, nu * np.log(nu) if nu > 0 else 0.0, k * float(row["a"]), abs(float(row["log_c_plus_kappa"])))


def scale_of_ln_bessel(row):
    return max(1.0, float(row["d"]) / 2 - 1, abs(float(row["log_iv"])))


class Quantity(NamedTuple):
    name: str
    # What the binary calls it.
    function: str
    # A file of testdata/, the columns of its arguments and that of the reference.
    table: str
    arguments: tuple
    reference: str
    metric: Callable
    goal: float
    scipy: Callable
    scale: Callable | None = None


MAIN, INVERSE, COMPLEMENT, PHI = (
    "reference_public",
    "inverse_public",
    "inverse_complement_public",
    "extra_phi_kl_public",
)
K = ("kappa",)
QUANTITIES = [
    Quantity("A", "mean_length", MAIN, K, "a", relative, 1e-15, scipy_ratio),
    Quantity(
        "1 - A", "complement", MAIN, K, "one_minus_a", relative, 1e-15, lambda d, k: scipy_ratio_and_slope(d, k)[1]
    ),
    Quantity("A'", "slope", MAIN, K, "a_prime", relative, 4e-15, lambda d, k: scipy_ratio_and_slope(d, k)[2]),
    Quantity("A^-1(R)", "inverse", INVERSE, ("r",), "kappa", relative, 1e-15, scipy_inverse),
    Quantity(
        "A^-1(1 - R)",
        "inverse_complement",
        COMPLEMENT,
        ("one_minus_r",),
        "kappa",
        relative,
        1e-15,
        scipy_inverse_complement,
    ),
    Quantity("Phi", "phi", PHI, K, "phi", relative, 1e-15, scipy_phi),
    Quantity("KL to uniform", "kl_uniform", PHI, K, "kl_uniform", relative, 2e-15, scipy_kl_uniform),
    Quantity("KL", "kl", "kl_public", ("kappa1", "kappa2"), "kl", relative, 4e-15, scipy_kl),
    Quantity("k + ln C", "ln_peak", MAIN, K, "log_c_plus_kappa", mixed, 3e-15, scipy_ln_peak),
    Quantity("entropy", "entropy", MAIN, K, "entropy", mixed, 3e-15, scipy_entropy),
    Quantity("ln C", "ln_normalizer", MAIN, K, "log_c", ulps, 3.0, scipy_ln_normalizer, scale_of_ln_normalizer),
    Quantity("ln I", "ln_bessel", MAIN, K, "log_iv", ulps, 3.0, scipy_ln_bessel, scale_of_ln_bessel),
]
METRIC_NAMES = {relative: "relative error", mixed: "error / max(1, abs f)", ulps: "ulps of the natural scale"}

# The slope has a second goal: this from d = 20 on.
SLOPE_GOAL_FROM_20 = 1e-15


def is_practical(row):
    """The part of the tables that embeddings live in."""
    concentrations = [float(value) for column, value in row.items() if column.startswith("kappa")]
    return int(row["d"]) <= 4096 and all(0.1 <= k <= 1e4 for k in concentrations)


def read_table(name):
    with open(TABLES / f"{name}.csv", newline="") as lines:
        return list(csv.DictReader(lines))


def errors_of(values, rows, quantity):
    """One error a row; infinite where the value is not finite but the reference is."""
    errors = []
    for value, row in zip(values, rows):
        reference = Decimal(row[quantity.reference])
        if not np.isfinite(value) or not reference.is_finite():
            errors.append(0.0 if Decimal(float(value)) == reference else np.inf)
        else:
            scale = quantity.scale(row) if quantity.scale else None
            errors.append(quantity.metric(Decimal(float(value)), reference, scale))
    return np.array(errors)


class Accuracy(NamedTuple):
    quantity: Quantity
    ours: np.ndarray
    # scipy's errors where it answers; for each point whether it does not, or wrongly, and whether the point is practical.
    scipy: np.ndarray
    lost: np.ndarray
    wrong: np.ndarray
    practical: np.ndarray


def measure_accuracy(binary):
    found, goals = [], []
    for quantity in QUANTITIES:
        rows = read_table(quantity.table)
        points = "".join(
            ",".join([quantity.function, row["d"], *(row[c] for c in quantity.arguments)]) + "\n" for row in rows
        )
        answers = subprocess.run([binary, "values"], input=points, capture_output=True, text=True, check=True).stdout
        ours = errors_of([float(x) for x in answers.split()], rows, quantity)

        # scipy refuses a concentration of 0.
        rows_of_scipy = [row for row in rows if all(float(row[c]) > 0 for c in quantity.arguments)]
        d, *arguments = (np.array([float(row[c]) for row in rows_of_scipy]) for c in ("d", *quantity.arguments))
        values = quantity.scipy(d, *arguments)
        errors = errors_of(values, rows_of_scipy, quantity)
        lost = ~np.isfinite(values)
        wrong = ~lost & (errors * (EPSILON if quantity.metric is ulps else 1) > 1e-6)
        practical = np.array([is_practical(row) for row in rows_of_scipy])
        found.append(Accuracy(quantity, ours, errors[~lost], lost, wrong, practical))

        unit = METRIC_NAMES[quantity.metric]
        goals.append((f"{quantity.name}: {unit} at most {quantity.goal:g}", ours.max(), quantity.goal))
        if quantity.function == "slope":
            high = ours[[int(row["d"]) >= 20 for row in rows]]
            goals.append(
                (f"{quantity.name}, d >= 20: {unit} at most {SLOPE_GOAL_FROM_20:g}", high.max(), SLOPE_GOAL_FROM_20)
            )
    return found, goals


# ------------------------------------------------------------------------------------------------ time

# Dimension and range of concentrations, drawn uniformly in the logarithm; both sides get the same ones.
CLASSES = [
    (2, 0.1, 100.0),
    (3, 0.1, 100.0),
    (10, 0.1, 100.0),
    (50, 1.0, 1e3),
    (100, 10.0, 1e3),
    (768, 10.0, 5e3),
    (2048, 204.8, 20480.0),
    (100_000, 1e3, 1e7),
]
FUNCTIONS = [
    ("mean_length", "A", scipy_ratio),
    ("mean_length_and_slope", "A, 1-A, A'", scipy_ratio_and_slope),
    ("ln_normalizer", "ln C", scipy_ln_normalizer),
    ("ln_peak", "k + ln C", scipy_ln_peak),
    ("ln_bessel", "ln I", scipy_ln_bessel),
    ("inverse", "A^-1", scipy_inverse),
    ("entropy", "entropy", scipy_entropy),
]
ARGUMENTS = 4096
# scipy has no vectorised inverse, and mpmath takes milliseconds a value: fewer arguments give the same ns a call.
INVERSE_ARGUMENTS = 16
MPMATH_ARGUMENTS = 4
ROUND_SECONDS = 0.02


def nanoseconds(function, d, arguments):
    """The fastest pass of one round, a call; a round is as long as the binary's."""
    best, round_start = np.inf, time.perf_counter()
    while time.perf_counter() < round_start + ROUND_SECONDS:
        start = time.perf_counter()
        function(d, arguments)
        best = min(best, time.perf_counter() - start)
    return best / len(arguments) * 1e9


def mpmath_nanoseconds(function, d, arguments):
    """NaN where mpmath does not converge."""

    def several(d, arguments):
        return [function(d, k) for k in arguments]

    try:
        with mpmath.workdps(30):
            return nanoseconds(several, d, arguments[:MPMATH_ARGUMENTS])
    except mpmath.libmp.NoConvergence:
        return np.nan


def draw_arguments():
    """{dimension: concentrations}"""
    rng = np.random.default_rng(1)
    return {d: low * (high / low) ** rng.random(ARGUMENTS) for d, low, high in CLASSES}


def time_classes():
    """What `compare time` reads."""
    drawn = draw_arguments()
    return "".join(",".join([str(d), *map(repr, map(float, drawn[d]))]) + "\n" for d in drawn)


def measure_times(binary, rounds):
    """{(d, function): [ours, scipy's, mpmath's or None]}, the best of the rounds."""
    best = {}

    def see(key, place, value):
        times = best.setdefault(key, [np.inf, np.inf, None])
        times[place] = value if times[place] is None else min(times[place], value)

    drawn = draw_arguments()
    classes = time_classes()
    for number in range(rounds):
        answer = subprocess.run([binary, "time"], input=classes, capture_output=True, text=True, check=True)
        lines = answer.stdout.splitlines()
        for line in lines:
            d, function, value = line.split(",")
            see((int(d), function), 0, float(value))
        for d, _, _ in CLASSES:
            for function, _, theirs in FUNCTIONS:
                arguments = drawn[d]
                if function == "inverse":
                    arguments = scipy_ratio(d, arguments[:INVERSE_ARGUMENTS])
                    if not np.isfinite(theirs(d, arguments)).all():
                        continue
                see((d, function), 1, nanoseconds(theirs, d, arguments))
            if number == 0:
                see((d, "ln_bessel"), 2, mpmath_nanoseconds(mpmath_ln_bessel, d, drawn[d]))
                see((d, "mean_length"), 2, mpmath_nanoseconds(mpmath_ratio, d, drawn[d]))
    return best


def time_goals(best):
    goals = []
    limits = [
        ("mean_length", 0, 50),
        ("mean_length_and_slope", 0, 80),
        ("ln_normalizer", 0, 75),
        ("mean_length", 128, 20),
        ("ln_normalizer", 128, 30),
        ("inverse", 128, 20),
    ]
    names = {function: name for function, name, _ in FUNCTIONS}
    for function, from_d, limit in limits:
        slowest = max(best[d, function][0] for d, _, _ in CLASSES if d >= from_d)
        where = f"d >= {from_d}" if from_d else "every d"
        goals.append((f"{names[function]}, {where}: at most {limit} ns", slowest, limit))
    slowest = max(best[d, "inverse"][0] for d, _, _ in CLASSES if d < 64)
    goals.append(("A^-1, d < 64: at most 125 ns", slowest, 125))
    return goals


# --------------------------------------------------------------------------------------------- sampler

# Dimension, concentration, rows, how many times faster than scipy two threads should be.
SAMPLES = [(3, 10.0, 1_000_000, 5), (100, 100.0, 30_000, 30), (768, 500.0, 4_000, 50)]
SHARE_OF_NORMALS = 0.6


def measure_sampler(binary, rounds):
    """{(d, float, threads): (rows/s, bare normals/s, share)} and {d: scipy's rows/s}: the best of the rounds, but the share of the
    bare normals is the median of the rounds' own, since each round times the two in turn."""
    ours, shares, scipys = {}, {}, {}
    for number in range(rounds):
        for d, k, rows, _ in SAMPLES:
            for kind in ("f64", "f32"):
                for threads in (1, 2):
                    options = f"--dim {d} --concentration {k} --rows {rows} --threads {threads} --float {kind}".split()
                    answer = subprocess.run(
                        [binary, "sample", *options], capture_output=True, text=True, check=True
                    ).stdout
                    found = [float(x) for x in answer.split(",")]
                    ours[d, kind, threads] = np.maximum(ours.get((d, kind, threads), 0), found)
                    shares.setdefault((d, kind, threads), []).append(found[0] * d / found[1])
            density = vonmises_fisher(np.full(d, d**-0.5), k)
            start = time.perf_counter()
            density.rvs(rows, random_state=np.random.default_rng(number))
            scipys[d] = max(scipys.get(d, 0), rows / (time.perf_counter() - start))
    return {key: (*best, np.median(shares[key])) for key, best in ours.items()}, scipys


# ---------------------------------------------------------------------------------------------- report


ABOUT_ACCURACY = """
## Accuracy

Largest error over the 25-digit tables in `testdata/` (d up to 1e7, concentrations 1e-300 to 1e300).
For scipy we use `log(ive)`, `ive/ive`, Riccati's A', the formulas of `scipy.stats.vonmises_fisher`
and the root finder of its `fit`. Points with concentration 0 are not counted, because scipy refuses
them. "Wrong" means finite with an error above 1e-6 in the same metric. "Practical" points have
d <= 4096 and concentrations 0.1 to 1e4. The KL pairs include close ones, where logarithms cancel.
"""
ABOUT_TIME = f"""## Time of a call

Nanoseconds per call of ours over {ARGUMENTS} random concentrations (throughput on one thread). In
brackets: time of vectorised scipy relative to ours. scipy's inverse is the root finder of `fit`; "-"
means that `fit` raises. From d = 768 on, `ive` underflows for some of the points; scipy's time
includes those calls although they give no result.
"""
ABOUT_MPMATH = """Time of mpmath's `besseli` at 30 digits, as in the paper: microseconds per value, and relative to ours.
"""
ABOUT_SAMPLER = """## Sampler

Rows per second, written to a buffer of the caller. "Bare normals" are the values per second that the
sampler's own generator (eight Xoshiro256++ and a ziggurat) writes to the same buffer on the same
threads. The ratio of our values to bare normals is the median over the rounds.
"""
ABOUT_GOALS = """## Goals

Times are for an idle core of 2.5 GHz. On a shared machine, twice the time is allowed.
"""


def cpu_name():
    with open("/proc/cpuinfo") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def share(flags):
    return f"{100 * flags.mean():.1f} %"


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines] + [""]


def verdict(found, limit):
    if found <= limit:
        return "met"
    return "met within 2x" if found <= 2 * limit else "missed"


def report(binary, rounds):
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    accuracy, accuracy_goals = measure_accuracy(binary)
    times = measure_times(binary, rounds)
    ours, scipys = measure_sampler(binary, rounds)

    versions = f"vmfkit {version}, scipy {scipy.__version__}, numpy {np.__version__}, mpmath {mpmath.__version__}"
    machine = f"Python {platform.python_version()}; {cpu_name()}, shared with other work, so compare ratios rather than nanoseconds."
    out = [
        "# vmfkit compared with other libraries",
        "",
        f"Written by `run.py` in one run that alternates between the libraries; times are the best of {rounds} rounds.",
        f"{versions}, {machine}",
        ABOUT_ACCURACY,
    ]
    out += table(
        [
            "quantity",
            "metric",
            "points",
            "ours",
            "scipy, where finite",
            "scipy not finite",
            "scipy wrong",
            "practical: points",
            "scipy not finite",
            "scipy wrong",
        ],
        [
            [
                it.quantity.name,
                METRIC_NAMES[it.quantity.metric],
                len(it.ours),
                f"{it.ours.max():.1f}" if it.quantity.metric is ulps else f"{it.ours.max():.1e}",
                f"{it.scipy.max():.0e}" if it.scipy.max() < 1 or it.quantity.metric is ulps else "no correct digit",
                share(it.lost),
                share(it.wrong),
                it.practical.sum(),
                share(it.lost[it.practical]),
                share(it.wrong[it.practical]),
            ]
            for it in accuracy
        ],
    )
    out.append(ABOUT_TIME)
    rows = []
    for d, low, high in CLASSES:
        cells = []
        for function, _, _ in FUNCTIONS:
            mine, theirs, _ = times[d, function]
            cells.append(f"{mine:.0f} ({theirs / mine:.0f}x)" if np.isfinite(theirs) else f"{mine:.0f} (-)")
        rows.append([f"d = {d}, k {low:g} to {high:g}", *cells])
    out += table(["class", *(name for _, name, _ in FUNCTIONS)], rows)
    out.append(ABOUT_MPMATH)
    rows = []
    for d, _, _ in CLASSES:
        cells = []
        for function in ("ln_bessel", "mean_length"):
            mine, _, theirs = times[d, function]
            cells.append(f"{theirs / 1e3:.0f} ({theirs / mine:.0f}x)" if np.isfinite(theirs) else "no convergence")
        rows.append([f"d = {d}", *cells])
    out += table(["class", "ln I", "A"], rows)

    out.append(ABOUT_SAMPLER)
    rows, sampler_goals = [], []
    for d, k, count, factor in SAMPLES:
        for threads in (1, 2):
            for kind in ("f64", "f32"):
                mine, normals, of_normals = ours[d, kind, threads]
                rows.append(
                    [
                        d,
                        f"{k:g}",
                        count,
                        kind,
                        threads,
                        f"{mine:.3g}",
                        f"{scipys[d]:.3g}",
                        f"{mine / scipys[d]:.1f}x",
                        f"{normals:.3g}",
                        f"{of_normals:.2f}",
                    ]
                )
        sampler_goals.append(
            (f"d = {d}: {factor} times scipy on 2 threads (f64)", ours[d, "f64", 2][0] / scipys[d], factor)
        )
        worst = min(ours[d, kind, threads][2] for kind in ("f64", "f32") for threads in (1, 2))
        sampler_goals.append(
            (f"d = {d}: at least {SHARE_OF_NORMALS} of the bare normals (worst of four)", worst, SHARE_OF_NORMALS)
        )
    out += table(
        [
            "d",
            "kappa",
            "rows",
            "type",
            "threads",
            "ours, rows/s",
            "scipy, rows/s (f64)",
            "ratio",
            "bare normals/s",
            "our values / bare normals",
        ],
        rows,
    )

    out.append(ABOUT_GOALS)
    rows = [[goal, f"{found:.2g}", "met" if found <= limit else "missed"] for goal, found, limit in accuracy_goals]
    rows += [[goal, f"{found:.0f}", verdict(found, limit)] for goal, found, limit in time_goals(times)]
    rows += [[goal, f"{found:.2f}", "met" if found >= limit else "missed"] for goal, found, limit in sampler_goals]
    return "\n".join(out + table(["goal", "found", ""], rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="the built `compare` program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=HERE / "RESULTS.md")
    options = parser.parse_args()
    # scipy's underflows are what is measured here, not something to warn of.
    with localcontext() as context, np.errstate(all="ignore"):
        context.prec = 60
        text = report(options.binary, options.rounds)
    options.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
