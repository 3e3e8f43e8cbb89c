#!/bin/sh
# Creates the initial corpus of the fuzzer: `fuzz/seeds.sh target/release/vmf`. Without it the fuzzer would have to guess a complete header
# before anything is read.
set -eu
vmf=$(realpath "$1")
cd "$(dirname "$0")"
for target in npy stream parquet_file arrow_file npz_file safetensors_file model checkpoint statistics part_statistics; do
  mkdir -p corpus/$target
done
cp ../testdata/npy/*.npy corpus/npy
# Copies short files to the corpus of a target; long files are mutated less.
seed() {
  target=$1
  shift
  for file in "$@"; do
    if [ -f "$file" ] && [ "$(wc -c < "$file")" -lt 8192 ]; then cp "$file" "corpus/$target"; fi
  done
}
seed stream ../testdata/hostile/* ../testdata/formats/* ../testdata/npy/*.npy ../testdata/columnar/*.arrow*
seed parquet_file ../testdata/columnar/*.parquet
seed arrow_file ../testdata/hostile/*.arrow* ../testdata/columnar/*.arrow* ../testdata/columnar/*.feather
seed npz_file ../testdata/formats/*.npz
seed safetensors_file ../testdata/formats/*.safetensors
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
"$vmf" sample --dim 3 --concentration 5 -n 60 -o "$work/x.npy" 2> "$work/said"
# Several blocks of 1152 rows.
"$vmf" sample --dim 3 --concentration 5 -n 2400 -o "$work/long.npy" 2> "$work/said"
for format in parquet arrow npz safetensors; do
  "$vmf" convert "$work/x.npy" "corpus/${format}_file/sampled.$format" > "$work/said" 2>&1
done
for method in em hard stochastic online sgd kmeans; do
  "$vmf" fit "$work/x.npy" -k 2 --quiet --method $method --max-passes 2 --checkpoint "corpus/checkpoint/$method.new" \
    -o "corpus/model/$method" > "$work/said" 2>&1
  mv "corpus/checkpoint/$method.new" "corpus/checkpoint/$method"
done
"$vmf" fit "$work/x.npy" -k 2 --quiet --background -o corpus/model/background > "$work/said" 2>&1
for method in em stochastic; do
  "$vmf" fit "$work/x.npy" -k 2 --quiet --method $method --checkpoint "$work/$method" --start-only > "$work/said" 2>&1
  "$vmf" accumulate "$work/$method" "$work/x.npy" -o corpus/part_statistics/$method > "$work/said" 2>&1
  "$vmf" fit "$work/long.npy" -k 2 --quiet --method $method --set block_rows=1152 --checkpoint "$work/$method-blocks" --start-only > "$work/said" 2>&1
  "$vmf" accumulate "$work/$method-blocks" "$work/long.npy" --per-block -o corpus/part_statistics/$method-blocks > "$work/said" 2>&1
done
# One component of dimension 2: format, sizes, objective, weight, mass, shortfall, resultant.
python3 -c 'import struct, sys; sys.stdout.buffer.write(b"vmfstat1" + struct.pack("<QQ6d", 1, 2, -1.0, 2.0, 2.0, 0.5, 1.5, 0.0))' \
  > corpus/statistics/one
