"""Prints the tables of docs/number-of-components.md: the recommended number of components on families
with known components, and the criteria on real rows.

    python selection.py BINARY [--data DATA] [--seeds 3] [--keep FILE]

BINARY is the program `compare`. With --data, the folder of data sets, real rows are measured, too;
that needs numpy and scipy. Measurements are appended to --keep, and a second run with it measures
nothing that is there.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

# Numbers of components to compare on each real set.
NUMBERS = {
    "fashion-mnist": (2, 3, 4, 6, 8, 10, 12, 15, 20, 40),
    "news20": (2, 3, 5, 8, 10, 15, 20, 25, 40, 80),
    "banking77": (2, 5, 10, 20, 40, 77, 110, 150, 250),
}
CRITERIA = ("auto", "stability", "neighbours", "bic")


def measured(binary, options):
    done = subprocess.run([binary, "selection", *map(str, options)], check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def real(binary, data):
    import numpy as np
    from quality_data import prepare

    with tempfile.TemporaryDirectory() as out:
        for name in prepare(data, Path(out), list(NUMBERS)):
            folder = Path(out) / name
            if name == "fashion-mnist":
                # The 10,000 test images.
                np.save(folder / "x.npy", np.load(folder / "x.npy")[-10_000:])
            yield from measured(binary, [folder, "--components", ",".join(map(str, NUMBERS[name]))])


def is_close(found, true):
    return abs(found - true) <= 0.1 * true


def families(lines):
    groups = {}
    for line in lines:
        if "true" in line:
            groups.setdefault((line["dim"], line["noisy"], line["true"], line["spread"], line["largest"]), []).append(line)
    total, right = 0, dict.fromkeys(CRITERIA, 0)
    print("| d | D | components | noise | largest : smallest | `auto` (confidence) | stability | neighbours | BIC |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (dim, noisy, true, spread, largest), sets in groups.items():
        cells = []
        for criterion in CRITERIA:
            found = [line["recommended"][criterion] for line in sets]
            right[criterion] += sum(is_close(one["k"], true) for one in found)
            with_confidence = criterion == "auto"
            cells.append(", ".join(f"{one['k']} ({one['confidence']})" if with_confidence else str(one["k"]) for one in found))
        total += len(sets)
        print(f"| {dim} | {noisy} | {true} | {spread} | {largest:g} : 1 | {' | '.join(cells)} |")
    share = " | ".join(f"**{right[criterion]} of {total}**" for criterion in CRITERIA)
    print(f"| within a tenth of the truth | | | | | {share} |")


def real_table(line):
    found = line["recommended"]["auto"]
    print(f"\n{line['set']}, {line['rows']} rows: best by {found['by']} {found['k']}, confidence: {found['confidence']}\n")
    print("| K | stability | shared clusters | neighbours | BIC / 10^6 |")
    print("|---|---|---|---|---|")
    for one in line["lines"]:
        stability = "-" if one["stability"] is None else f"{one['stability']:.3f} ± {one['error']:.3f}"
        shared = "-" if one["shared"] is None else f"{2.718281828459045 ** one['shared']:.1f}"
        print(
            f"| {one['k']} | {stability} | {shared} | {one['neighbours']:.3f} ± {one['neighbours_error']:.3f} | {one['bic'] / 1e6:.2f} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    lines = []
    if options.keep and options.keep.exists():
        lines = [json.loads(line) for line in options.keep.read_text().splitlines()]
    added = []
    if not any("true" in line for line in lines):
        added += measured(options.binary, ["--seeds", options.seeds])
    if options.data and not any("set" in line for line in lines):
        added += real(options.binary, options.data)
    if options.keep:
        with options.keep.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in added)
    lines += added
    families(lines)
    for line in lines:
        if "set" in line:
            real_table(line)


if __name__ == "__main__":
    main()
