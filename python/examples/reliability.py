"""Draws the reliability diagram of a fit, before and after calibration.

    vmf demo --questions questions.parquet
    vmf fit questions.parquet -k 77 --json > fit.json
    python python/examples/reliability.py fit.json reliability.svg

Needs matplotlib.
"""

import json
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

# The same picture gives the same bytes.
plt.rcParams["svg.hashsalt"] = "vmfkit"
plt.rcParams["svg.fonttype"] = "none"

calibration = json.load(open(sys.argv[1]))["calibration"]
figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--", label="reliable")
for name, label, colour in (("raw", "exact posterior", "tab:red"), ("calibrated", "calibrated", "tab:blue")):
    table = calibration[name]
    columns = [[bin[key] for bin in table["bins"]] for key in ("probability", "confirmed", "fraction")]
    axes.plot(columns[0], columns[1], color=colour, linewidth=1)
    sizes = [10 + 300 * fraction for fraction in columns[2]]
    error = table["expected_calibration_error"]
    axes.scatter(columns[0], columns[1], sizes, color=colour, alpha=0.7, label=f"{label}: error {error:.3f}", clip_on=False, zorder=3)
axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
axes.set_xlabel("probability of the row's component")
axes.set_ylabel("fraction of near neighbours in that component")
for handle in axes.legend(loc="upper left", frameon=False).legend_handles[1:]:
    handle.set_sizes([40])
path = sys.argv[2] if len(sys.argv) > 2 else "reliability.svg"
figure.savefig(path, metadata={"Date": None})
