"""A fit of a file much larger than the memory it may take: speed beside the disk's and beside the same fit in memory, and peak memory.

    python out_of_core.py VMF FOLDER [--gigabytes 20] [--memory 512MB] [--output OUT_OF_CORE.md]

VMF is the built command. FOLDER must have room for the file, which is removed in the end. Pages that the system keeps of the file are
dropped before every measurement, and `vmf` reads such a file past the system's cache, so that every pass comes from the disk.
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
COMPONENTS = (10, 100, 200)
# Held in memory for the time of the computation alone.
HELD_GIGABYTES = 1
ROW = 4 * DIM


def forget(path):
    """Has the system drop what it keeps of a file."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_speed(path, flags=0):
    """Bytes a second of reading the file from the disk and doing nothing else, by reads of 8 MB."""
    forget(path)
    # Reads past the cache go to whole pages, and are fastest to large ones.
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


def sample(vmf, path, gigabytes):
    rows = int(gigabytes * 1e9 / ROW)
    subprocess.run([vmf, "sample", "--dim", str(DIM), "-k", "300", "-n", str(rows), "-o", path], check=True)
    return path.stat().st_size


def measure(vmf, small, large, components, memory):
    """Seconds of a pass over rows that are held and over those of the large file, and the peak memory of the latter.

    Other work slows passes down: of those over the file the fastest counts, and of two runs over rows that are held the faster, by its mean.
    """
    held = lambda: statistics.mean(fit(vmf, small, components, "--max-passes", "6")[0])
    before = held()
    passes, peak = fit(vmf, large, components, "--max-passes", "3", "--memory", memory)
    return components, min(before, held()), min(passes), peak


def report(vmf, folder, gigabytes, memory):
    small, large = folder / "held.npy", folder / "large.npy"
    try:
        held, size = sample(vmf, small, HELD_GIGABYTES), sample(vmf, large, gigabytes)
        plain, past_cache = read_speed(large), read_speed(large, os.O_DIRECT)
        measured = [measure(vmf, small, large, components, memory) for components in COMPONENTS]
    finally:
        small.unlink(missing_ok=True)
        large.unlink(missing_ok=True)
    speed = lambda value: f"{value / 1e9:.2f} GB/s"
    rows = [
        ["the file", f"{size / 1e9:.1f} GB, {size // ROW:,} x {DIM}, f32"],
        ["reads of the file through the system's cache, which is empty", speed(plain)],
        ["reads of the file past the cache", speed(past_cache)],
    ]
    for components, in_memory, from_file, peak in measured:
        computing, ours = held / in_memory, size / from_file
        share = 100 * ours / min(max(plain, past_cache), computing)
        rows += [
            [f"K = {components}: an EM pass in memory ({held / 1e9:.0f} GB held)", speed(computing)],
            [f"K = {components}: an EM pass over the file", f"{speed(ours)}, {share:.0f} % of the slower of disk and memory"],
            [f"K = {components}: peak memory with --memory {memory}", f"{peak / 1e6:.0f} MB, 1/{size / peak:.0f} of the file"],
        ]
    heading = [
        "# A fit of a file larger than memory",
        "",
        f"Written by `out_of_core.py`; {os.cpu_count()} threads, {cpu_name()}, shared with other work: read ratios, not times.",
        "",
    ]
    return "\n".join(heading + table(["what", "measured"], rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vmf", type=Path, help="the built command")
    parser.add_argument("folder", type=Path, help="where the file may be written")
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--memory", default="512MB")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    text = report(options.vmf.resolve(), options.folder, options.gigabytes, options.memory)
    print(text)
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
