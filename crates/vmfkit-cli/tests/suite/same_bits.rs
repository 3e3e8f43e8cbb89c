//! The bytes of a model file depend on the rows, their order and the settings, and on nothing else.

use crate::Workspace;

/// Files begin at rows that are not multiples of a tile, a chunk or a block.
const CUTS: [usize; 5] = [0, 7, 10_000, 23_456, 30_000];

/// The same rows of f64 in five formats, each in one file and in four.
fn rows_in_every_format() -> Workspace {
    let workspace = Workspace::new();
    workspace.run("sample --dim 16 --concentration 30 -n 30000 --dtype f64 -o x.npy").success();
    workspace.run("convert x.npy x.csv").success();
    let text = String::from_utf8(workspace.read("x.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let (header, rows) = lines.split_first().unwrap();
    for (part, cut) in CUTS.windows(2).enumerate() {
        workspace.write(&format!("part-{part}.csv"), format!("{header}\n{}\n", rows[cut[0]..cut[1]].join("\n")));
    }
    for format in ["npy", "parquet", "arrow", "npz"] {
        if format != "npy" {
            workspace.run(&format!("convert x.npy x.{format}")).success();
        }
        for part in 0..CUTS.len() - 1 {
            workspace.run(&format!("convert part-{part}.csv part-{part}.{format}")).success();
        }
    }
    workspace
}

#[test]
fn formats_files_memory_batches_and_threads_change_no_bit_of_a_model() {
    let workspace = rows_in_every_format();
    let fit = |data: &str, method: &str| {
        let common = "-k 6 --max-passes 3 --set sample=2000";
        workspace.run(&format!("fit {data} {common} --method {method} -o m.safetensors")).success();
        workspace.read("m.safetensors")
    };
    for method in ["em", "kmeans", "online --set shuffle_rows=3000", "sgd --set shuffle_rows=3000 --set batch=1000"] {
        let expected = fit("x.npy", method);
        for format in ["npy", "parquet", "arrow", "npz", "csv"] {
            // Memory limits decide how many rows a batch has.
            for data in [
                format!("x.{format}"),
                format!("x.{format} --memory 42MB --threads 1 --scratch none"),
                format!("part-*.{format} --memory 46MB --threads 3"),
            ] {
                assert!(fit(&data, method) == expected, "{method}: {data}");
            }
        }
    }
}

/// On a processor without AVX-512 both runs use AVX2.
#[cfg(target_arch = "x86_64")]
#[test]
fn avx512_and_avx2_give_the_same_model_files() {
    if !std::arch::is_x86_feature_detected!("avx512f") {
        println!("no AVX-512: both runs use AVX2");
    }
    let workspace = Workspace::new();
    workspace.run("sample --dim 70 --concentration 60 -n 9000 -o x.npy").success();
    workspace.run("convert x.npy wide.npy --dtype f64").success();
    for (data, options) in [
        ("x.npy", "-k 5"),
        ("x.npy", "-k 40 --max-passes 4"),
        ("wide.npy", "-k 5 --method hard"),
        ("wide.npy", "-k 30 --method kmeans"),
        ("x.npy", "-k 8 --method online"),
        ("x.npy", "-k 8 --method sgd --max-passes 3"),
    ] {
        let fit = |variables: &[(&str, &str)], output: &str| {
            let mut command = workspace.command();
            command.args(["fit", data, "-o", output]).args(options.split(' ')).envs(variables.iter().copied());
            assert!(command.output().unwrap().status.success(), "{data} {options}");
            workspace.read(output)
        };
        assert!(fit(&[], "a.safetensors") == fit(&[("VMFKIT_AVX512", "off")], "b.safetensors"), "{data} {options}");
    }
}
