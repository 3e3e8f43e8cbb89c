"""Fits files larger than the memory limit, in each format and by each method. Compares the speed with
that of the disk and with that of the same fit in memory, and reports the peak memory.

    python out_of_core.py VMF FOLDER [--gigabytes 20] [--columns-gigabytes 8] [--text-gigabytes 2]
        [--methods-gigabytes 4] [--memory 512MB] [--output OUT_OF_CORE.md]
        [--methods-output OUT_OF_CORE_METHODS.md] [--methods-only] [--formats .parquet,.arrow]

VMF is the command `vmf`. FOLDER must be on a disk with enough free space for the largest file and
for the scratch file of text. Only one file exists at a time, and all are deleted at the end. The
page cache of a file is dropped before every measurement, and `vmf` reads without the page cache, so
every pass reads from the disk.
"""

import argparse
import json
import mmap
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from run import cpu_name, table

DIM = 768
# For each number of components: the number of fits, which alternate with reads of the disk and with fits in memory, and of passes per fit. The speed of a
# shared machine varies by a third from minute to minute.
FITS = {10: (3, 3), 100: (3, 3), 200: (3, 3)}
# Text is read in double precision. Each fit parses it again; its passes are short, and the system clears memory during the first.
TEXT, TEXT_FITS = (".csv", ".jsonl"), {10: (1, 10), 100: (1, 10)}
# Methods other than EM. With few passes over a small file, the first pass is a large part of the time.
METHODS, METHOD_FITS = ("hard", "stochastic", "kmeans", "online", "sgd"), {10: (1, 10), 100: (1, 3)}
HELD_PASSES = 6
# Held in memory for the time of the computation alone.
HELD_GIGABYTES = 1
ROW = 4 * DIM


def forget(path):
    """Drops a file from the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_speed(path, flags=0):
    """Bytes per second of reading the file from the disk without processing it, by reads of 8 MB."""
    forget(path)
    # Reads without the page cache need a buffer of whole pages, and are fastest with large pages.
    buffer = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    buffer.madvise(mmap.MADV_HUGEPAGE)
    file = os.open(path, os.O_RDONLY | flags)
    start, done = time.perf_counter(), 0
    while count := os.preadv(file, [buffer], done):
        done += count
        if count < len(buffer):
            break
    os.close(file)
    return done / (time.perf_counter() - start)


def peak_of(command):
    """The standard output of a command, and the most memory it has had."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed")
    return output, usage.ru_maxrss * 1024


def fit(vmf, path, components, *options):
    """Seconds of each pass, and peak memory. The start is drawn without a look at the rows, so the first pass is the first read."""
    forget(path)
    command = [vmf, "fit", path, "-k", str(components), "--start", "random", "--tolerance", "0", "--json", *options]
    output, peak = peak_of(command)
    seconds = [0.0] + [line["seconds"] for line in json.loads(output)["trace"]]
    return [after - before for before, after in zip(seconds, seconds[1:])], peak


def sample(vmf, path, gigabytes, *options):
    """Writes rows that take so much in single precision; says how many bytes that is."""
    rows = int(gigabytes * 1e9 / ROW)
    subprocess.run([vmf, "sample", "--dim", str(DIM), "--concentration", "300", "-n", str(rows), *options, "-o", path], check=True)
    return rows * ROW


def parse_speed(vmf, path, memory):
    """Bytes a second of one pass over text: the fit of a single density."""
    forget(path)
    start = time.perf_counter()
    peak_of([vmf, "fit", path, "--memory", memory, "--json"])
    return path.stat().st_size / (time.perf_counter() - start)


def measure(vmf, small, large, flags, components, rounds, passes_of_file, memory, method):
    """The disk's speed, seconds of a pass over rows that are held and over those of the large file, and the peak memory of the latter.

    The disk is read, and rows that are held are fitted, before and after every fit of the file; means count.
    """
    held = lambda: fit(vmf, small, components, "--max-passes", str(HELD_PASSES), "--method", method)[0]
    options = ["--max-passes", str(passes_of_file), "--method", method, "--memory", memory, "--scratch", large.parent]
    in_memory, disk, passes, peaks = held(), [read_speed(large, flags)], [], []
    for _ in range(rounds):
        seconds, peak = fit(vmf, large, components, *options)
        passes += seconds
        peaks.append(peak)
        in_memory += held()
        disk.append(read_speed(large, flags))
    return statistics.mean(disk), statistics.mean(in_memory), statistics.mean(passes), max(peaks)


def faster_flags(path):
    """Those of reads through the cache or past it, whichever are faster."""
    return max(0, os.O_DIRECT, key=lambda flags: read_speed(path, flags))


def measure_lines(vmf, small, held, large, rows, memory, fits, method="em"):
    """The cells of a line for each number of components: that number, speeds, fraction, and peak memory."""
    size, flags = large.stat().st_size, faster_flags(large)
    for components, (rounds, passes) in fits.items():
        disk, in_memory, from_file, peak = measure(vmf, small, large, flags, components, rounds, passes, memory, method)
        computing, ours = held / in_memory, rows / from_file
        # Passes over text read its rows in double precision.
        read = 2 * rows if large.suffix in TEXT else size
        share = 100 * ours / min(disk * rows / read, computing)
        speeds = [disk, computing, size / from_file, ours]
        cells = [f"{speed / 1e9:.2f}" for speed in speeds] + [f"{share:.0f} %", f"{peak / 1e6:.0f} MB, 1/{size / peak:.0f} of the file"]
        yield [str(components), *cells]


def measure_format(vmf, small, held, large, gigabytes, memory):
    """A line of the table for each number of components, and of text the speed of parsing it."""
    is_text = large.suffix in TEXT
    try:
        rows = sample(vmf, large, gigabytes)
        name = f"`{large.suffix}`, {large.stat().st_size / 1e9:.1f} GB"
        found = measure_lines(vmf, small, held, large, rows, memory, TEXT_FITS if is_text else FITS)
        return [[name, *cells] for cells in found], parse_speed(vmf, large, memory) if is_text else None
    finally:
        large.unlink(missing_ok=True)


def measure_methods(vmf, small, held, large, gigabytes, memory):
    """A line of the second table for each method and number of components."""
    try:
        rows = sample(vmf, large, gigabytes)
        lines = lambda method: measure_lines(vmf, small, held, large, rows, memory, METHOD_FITS, method)
        return [[f"`{method}`", *cells] for method in METHODS for cells in lines(method)]
    finally:
        large.unlink(missing_ok=True)


COLUMNS = ["K", "disk", "in memory", "the file", "its rows", "fraction", "peak memory"]


def report_formats(vmf, folder, memory, sizes):
    """The table of EM over files of each format."""
    small, small_double = folder / "held.npy", folder / "held-double.npy"
    try:
        held = sample(vmf, small, HELD_GIGABYTES)
        held_double = sample(vmf, small_double, HELD_GIGABYTES / 2, "--dtype", "f64")
        lines, parsing = [], []
        for suffix, gigabytes in sizes.items():
            like = (small_double, held_double) if suffix in TEXT else (small, held)
            found, parsed = measure_format(vmf, *like, folder / f"large{suffix}", gigabytes, memory)
            lines += found
            parsing += [f"`{suffix}` {parsed / 1e9:.2f}"] if parsed else []
    finally:
        small.unlink(missing_ok=True)
        small_double.unlink(missing_ok=True)
    heading = [
        "# Fits of files larger than memory",
        "",
        f"Written by `out_of_core.py` on {os.cpu_count()} threads, {cpu_name()}, shared with other work, so compare ratios",
        f"rather than times. Rows have {DIM} numbers in single precision; `--memory {memory}`. All speeds are in GB/s.",
        "",
        "- *disk*: reading the file without processing it, with or without the page cache, whichever is faster; the mean",
        "  of measurements before and after every fit.",
        "- *in memory*: an EM pass over rows in memory (in double precision if the file is text); the mean of measurements",
        "  before and after every fit.",
        f"- *the file*, *its rows*: an EM pass over the file, the mean of {FITS[10][0] * FITS[10][1]} passes in {FITS[10][0]} fits ({TEXT_FITS[10][1]} passes for text), in bytes",
        "  of the file and in bytes of its rows in single precision.",
        "- *fraction*: speed as a fraction of that of the disk or in memory, whichever is slower, in bytes of",
        "  rows. For text, the disk is measured on the scratch file.",
        "",
        "For other methods see [OUT_OF_CORE_METHODS.md](OUT_OF_CORE_METHODS.md).",
        "",
        f"Text is parsed once, before the first pass, at these speeds in GB/s: {', '.join(parsing)}. The passes read the",
        "parsed rows, in double precision, from a scratch file.",
        "",
    ]
    return "\n".join(heading + table(["file", *COLUMNS], lines))


def report_methods(vmf, folder, memory, gigabytes):
    """The same of the other methods over one file."""
    small = folder / "held.npy"
    try:
        held = sample(vmf, small, HELD_GIGABYTES)
        lines = measure_methods(vmf, small, held, folder / "large.npy", gigabytes, memory)
    finally:
        small.unlink(missing_ok=True)
    heading = [
        "# Methods other than EM on a file larger than memory",
        "",
        f"Written by `out_of_core.py` on {os.cpu_count()} threads, {cpu_name()}. [OUT_OF_CORE.md](OUT_OF_CORE.md) explains the columns.",
        f"Each line is the mean of {METHOD_FITS[100][1]} passes ({METHOD_FITS[10][1]} with K = 10) over a `.npy` file of {gigabytes:g} GB, next to passes of the same",
        "method in memory.",
        "",
    ]
    return "\n".join(heading + table(["method", *COLUMNS], lines))


def publish(text, output):
    print(text)
    if output:
        output.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vmf", type=Path, help="the built command")
    parser.add_argument("folder", type=Path, help="where the files may be written")
    parser.add_argument("--gigabytes", type=float, default=20, help="rows of the .npy file, in single precision")
    parser.add_argument("--columns-gigabytes", type=float, default=8, help="rows of the Parquet and the Arrow file")
    parser.add_argument("--text-gigabytes", type=float, default=2, help="rows of the CSV and the JSON Lines file")
    parser.add_argument("--methods-gigabytes", type=float, default=4, help="rows of the .npy file for methods other than EM")
    parser.add_argument("--memory", default="512MB")
    parser.add_argument("--output", type=Path, help="the table of formats")
    parser.add_argument("--methods-output", type=Path, help="the table of methods")
    parser.add_argument("--methods-only", action="store_true", help="measure the latter alone")
    parser.add_argument("--formats", help="measure the former alone, of these formats, such as `.parquet,.arrow`")
    options = parser.parse_args()
    columns, text = options.columns_gigabytes, options.text_gigabytes
    sizes = {".npy": options.gigabytes, ".parquet": columns, ".arrow": columns, ".csv": text, ".jsonl": text}
    if options.formats:
        sizes = {suffix: sizes[suffix] for suffix in options.formats.split(",")}
    vmf = options.vmf.resolve()
    if not options.methods_only:
        publish(report_formats(vmf, options.folder, options.memory, sizes), options.output)
    if not options.formats:
        publish(report_methods(vmf, options.folder, options.memory, options.methods_gigabytes), options.methods_output)


if __name__ == "__main__":
    sys.exit(main())
