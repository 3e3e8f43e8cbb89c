"""Times two builds of vmfkit alternately, in one run, and compares the second with the first.

    python builds.py BEFORE AFTER FOLDER [--rounds 7] [--gigabytes 2] [--output BUILDS.md]

BEFORE and AFTER are folders with the programs `compare` and `vmf`. FOLDER must be on a disk with
enough free space for a file of the given size. Each round runs every work with both builds, in
alternating order. A ratio above 1 means that the second build is faster.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from mixture import CASES, THREADS, WORK_NAMES, best_and_median, read_lines, run, write_problem
from out_of_core import fit, sample
from run import SAMPLES, cpu_name, table, time_classes

FORMATS = (".npy", ".parquet", ".arrow")
COMPONENTS = (10, 100)
# Passes of a fit of a file; the first one also starts the threads.
PASSES = 3
MEMORY = "512MB"
SLOWEST = 0.95


def special_functions(build):
    """{(dimension, function): nanoseconds a call}"""
    lines = subprocess.run([build / "compare", "time"], input=time_classes(), capture_output=True, text=True, check=True).stdout
    fields = (line.split(",") for line in lines.splitlines())
    return {f"{function}, d = {d}": [float(ns) * 1e-9] for d, function, ns in fields}


def samplers(build):
    found = {}
    for d, concentration, rows, _ in SAMPLES:
        for kind in ("f64", "f32"):
            options = f"--dim {d} --concentration {concentration} --rows {rows} --threads {THREADS} --float {kind}"
            rate = float(run([build / "compare", "sample", *options.split()]).split(",")[0])
            found[f"a draw, d = {d}, {kind}"] = [1 / rate]
    return found


def mixtures(build, root):
    found = {}
    for case in CASES:
        batch = ["--batch", 256] if "sgd" in case.works else []
        lines = read_lines(run([build / "compare", "mixture-times", root / case.folder, *batch]), case, case.works)
        found.update({f"{case.name}: {WORK_NAMES[work]}": line["seconds"] for work, line in lines.items()})
    return found


def files(build, path):
    """Seconds of each pass over a file that does not fit into the memory limit."""
    options = ["--max-passes", str(PASSES), "--memory", MEMORY, "--threads", str(THREADS)]
    return {f"{path.suffix}, K = {k}: a pass": fit(build / "vmf", path, k, *options)[0] for k in COMPONENTS}


def measure(builds, works, rounds):
    """{work: ([seconds of the first build], [of the second])}"""
    times = {}
    for number in range(rounds):
        for work in works:
            for place in (0, 1) if number % 2 == 0 else (1, 0):
                for name, seconds in work(builds[place]).items():
                    times.setdefault(name, ([], []))[place].extend(seconds)
        print(f"round {number + 1} of {rounds} done", file=sys.stderr)
    return times


def row(name, before, after):
    best, median = (pick(before) / pick(after) for pick in (min, statistics.median))
    met = "met" if max(best, median) >= SLOWEST else "missed"
    return [name, best_and_median(before), best_and_median(after), f"{best:.2f} ({median:.2f})", met]


def report(options):
    builds = [options.before.resolve(), options.after.resolve()]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        root = Path(folder)
        for case in CASES:
            write_problem(case, root / case.folder)
        times = measure(builds, [special_functions, samplers, lambda build: mixtures(build, root)], options.rounds)
        for suffix in FORMATS:
            path = root / f"rows{suffix}"
            size = sample(builds[1] / "vmf", path, options.gigabytes)
            print(f"{path.name}: {size / 1e9:.1f} GB", file=sys.stderr)
            times |= measure(builds, [lambda build: files(build, path)], max(2, options.rounds // 2))
            path.unlink()
    head = ["work", "before", "after", "ratio", f"at least {SLOWEST}?"]
    about = f"{THREADS} threads; {options.rounds} rounds; {cpu_name()}, shared with other work: read ratios, not times."
    rows = [row(name, *seconds) for name, seconds in times.items()]
    missed = sum(line[-1] == "missed" for line in rows)
    return "\n".join(
        [
            "# Two builds compared",
            "",
            f"Written by `builds.py`: {about} The best of all rounds, the median in brackets. A ratio above 1 means that the",
            f"second build is faster. {missed} of {len(rows)} rows are below {SLOWEST} in both.",
            "",
            *table(head, rows),
            "",
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    text = report(options)
    if options.output:
        options.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
