//! `vmf accumulate`, `merge` and `maximise`: distributed fits equal `vmf fit`, and files that do
//! not belong together are refused.

use crate::mixture::three_groups;
use crate::{Workspace, commands_of, number};

const PAGE: &str = include_str!("../../../../docs/clusters.md");

/// Splits `x.csv` into `part-0.csv` and so on, of `rows` rows each. Returns the number of files.
fn cut(workspace: &Workspace, rows: usize) -> usize {
    let text = String::from_utf8(workspace.read("x.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let parts = lines[1..].chunks(rows);
    for (part, lines_of_part) in parts.clone().enumerate() {
        workspace.write(&format!("part-{part}.csv"), format!("{}\n{}\n", lines[0], lines_of_part.join("\n")));
    }
    parts.len()
}

fn files(parts: usize) -> String {
    (0..parts).map(|part| format!("part-{part}.stats ")).collect()
}

/// The 600 rows of three groups, six times: four blocks of the minimum length.
fn four_blocks() -> Workspace {
    let workspace = three_groups();
    for (name, header) in [("x.csv", 1), ("truth.txt", 0)] {
        let text = String::from_utf8(workspace.read(name)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let (header, rows) = lines.split_at(header);
        let all = [header, &rows.repeat(6)].concat();
        workspace.write(name, format!("{}\n", all.join("\n")));
    }
    workspace
}

/// The minimum length of a block.
const CHUNK: usize = 1152;

/// Statistics of all parts, each of this many rows.
fn accumulate(workspace: &Workspace, parts: usize, rows: usize, options: &str) {
    for part in 0..parts {
        let first = part * rows;
        let command = format!("accumulate state.ckpt part-{part}.csv {options} --first-row {first} -o part-{part}.stats");
        let said = workspace.run(&command).success();
        assert!(said.starts_with("accumulated pass ") && said.lines().count() == 1, "{said}");
    }
}

/// The whole loop. Returns the number of passes and the last line.
fn fit_by_parts(workspace: &Workspace, parts: usize, rows: usize, options: &str, merge: bool) -> (usize, String) {
    for pass in 1.. {
        accumulate(workspace, parts, rows, options);
        let mut files = files(parts);
        if merge {
            workspace.run(&format!("merge {files} -o all.stats")).success();
            "all.stats".clone_into(&mut files);
        }
        let line = workspace.run(&format!("maximise state.ckpt {files} -o state.ckpt --model model.safetensors")).success();
        assert!(line.contains(&format!(" pass {pass} rows 3600 objective ")), "{line}");
        if !line.starts_with("running ") {
            return (pass, line);
        }
    }
    unreachable!("fits end")
}

fn begin(workspace: &Workspace, options: &str) {
    let _ = std::fs::remove_file(workspace.path("state.ckpt"));
    let line = workspace.run(&format!("fit x.csv -k 3 {options} --checkpoint state.ckpt --start-only")).success();
    assert_eq!(line, "running pass 0\n");
}

#[test]
fn a_distributed_fit_equals_vmf_fit_to_the_last_byte() {
    let workspace = four_blocks();
    // Files of one block each, merged; and files of several blocks, the last one shorter.
    for (rows, options_of_parts, merge) in [(CHUNK, "", true), (3 * CHUNK, "--per-block", false)] {
        let parts = cut(&workspace, rows);
        for options in [
            "--method em",
            "--method em --policy free",
            "--method em --policy shared --background --tolerance 1e-3",
            "--method em --policy fixed:40 --set smallest_weight=0.1 --set estimator=sra",
            "--method em --set annealing=5,0.5 --start random-rows --seed 3",
            "--method em --set fixed_weights=true --start labels:truth.txt",
            "--method hard --policy ratio:3",
            "--method hard --background=0.2 --start plusplus",
            "--method kmeans --start random-rows --seed 1",
            "--method stochastic --max-passes 4 --seed 9",
            "--method stochastic --max-passes 3 --policy free --background",
        ] {
            let options = format!("{options} --set block_rows={CHUNK}");
            begin(&workspace, &options);
            let (passes, line) = fit_by_parts(&workspace, parts, rows, options_of_parts, merge);
            workspace.run("calibrate model.safetensors x.csv -o model.safetensors").success();
            let whole = workspace.run(&format!("fit x.csv -k 3 {options} -o whole.safetensors --json")).json();
            assert_eq!(workspace.read("model.safetensors"), workspace.read("whole.safetensors"), "{options}");
            assert_eq!(passes as f64, number(&whole["passes"]), "{options}");
            assert_eq!(line.split(' ').next().unwrap(), whole["status"].as_str().unwrap().replace(' ', "-"), "{options}");
        }
    }
}

/// Sums of sums instead of the statistics of blocks: the fit differs only by rounding.
#[test]
fn sums_of_sums_and_weights_make_the_same_fit_but_for_rounding() {
    let workspace = four_blocks();
    let text = String::from_utf8(workspace.read("x.csv")).unwrap();
    let weighted =
        |(row, line): (usize, &str)| format!("{line},{}\n", if row == 0 { "w".to_owned() } else { (row % 3).to_string() });
    workspace.write("x.csv", text.lines().enumerate().map(weighted).collect::<String>());
    let parts = cut(&workspace, 1000);
    let columns = "--columns x,y,z --weights column:w";
    begin(&workspace, &format!("{columns} --policy free"));
    let (_, line) = fit_by_parts(&workspace, parts, 1000, columns, true);
    let whole = workspace.run(&format!("fit x.csv -k 3 {columns} --policy free --json")).json();
    let shown = workspace.run("maximise state.ckpt --model again.safetensors --json").json();
    assert_eq!(workspace.read("again.safetensors"), workspace.read("model.safetensors"));
    assert!(line.starts_with("converged pass "), "{line}");
    assert_eq!((&shown["status"], &shown["running"], &shown["pass"]), (&"converged".into(), &false.into(), &whole["passes"]));
    assert_eq!(number(&shown["total_weight"]), number(&whole["total_weight"]));
    let last = whole["trace"].as_array().unwrap().last().unwrap();
    assert!((number(&shown["objective"]) - number(&last["objective"])).abs() < 1e-12);
}

#[test]
fn a_fit_continues_distributed_and_back() {
    let workspace = four_blocks();
    let parts = cut(&workspace, CHUNK);
    let options = "-k 3 --set block_rows=1152 --method stochastic --max-passes 6 --checkpoint state.ckpt";
    begin(&workspace, "--set block_rows=1152 --method stochastic --max-passes 6");
    for _ in 0..2 {
        accumulate(&workspace, parts, CHUNK, "");
        let said = workspace.run(&format!("maximise state.ckpt {} -o state.ckpt --json", files(parts))).json();
        assert_eq!((&said["status"], &said["rows"]), (&"running".into(), &3600.into()));
    }
    workspace.run(&format!("fit x.csv {options} --resume -o model.safetensors")).success();
    workspace.run("fit x.csv -k 3 --set block_rows=1152 --method stochastic --max-passes 6 -o whole.safetensors").success();
    assert_eq!(workspace.read("model.safetensors"), workspace.read("whole.safetensors"));
    // The fit has ended: only its model can be taken.
    let ended = "state.ckpt: the fit has ended (status: `";
    workspace.run("accumulate state.ckpt part-0.csv -o new.stats").refused(&[ended]);
    workspace.run("maximise state.ckpt part-0.stats -o state.ckpt").refused(&[ended]);
    workspace.run("maximise state.ckpt --model again.safetensors").success();
    workspace.run("calibrate again.safetensors x.csv -o again.safetensors").success();
    assert_eq!(workspace.read("again.safetensors"), workspace.read("whole.safetensors"));
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let workspace = three_groups();
    let parts = cut(&workspace, 100);
    begin(&workspace, "--method stochastic");
    accumulate(&workspace, parts, 100, "");
    std::fs::copy(workspace.path("part-0.stats"), workspace.path("old.stats")).unwrap();
    std::fs::copy(workspace.path("state.ckpt"), workspace.path("old.ckpt")).unwrap();
    workspace.run(&format!("maximise state.ckpt {} -o state.ckpt", files(parts))).success();
    accumulate(&workspace, parts, 100, "");
    workspace.run("fit x.csv -k 3 --seed 5 --method stochastic --checkpoint other.ckpt --start-only").success();
    workspace.run("fit x.csv -k 3 --checkpoint soft.ckpt --start-only").success();
    workspace.run("fit x.csv -k 3 --method sgd --max-passes 1 --checkpoint sgd.ckpt").success();
    workspace.run("fit x.csv -k 3 --restarts 2 --checkpoint restarts.ckpt -o model.safetensors").success();
    workspace.write("cut.stats", &workspace.read("part-1.stats")[..300]);
    workspace.write("flat.csv", "x,y\n0.6,0.8\n");
    workspace.write("garbage.stats", "garbage, and more of it");
    let before = (workspace.names(), workspace.read("state.ckpt"));
    let all = files(parts);
    let but_one = files(parts - 1);
    for (command, words) in [
        // Another pass, another fit, another order, one missing, one twice.
        (
            format!("maximise state.ckpt old.stats {all} -o state.ckpt"),
            "part-0.stats: the statistics must belong to pass 1, found: `2`\nhint: ",
        ),
        ("maximise state.ckpt old.stats -o new.ckpt".into(), "old.stats: the statistics must belong to pass 2, found: `1`"),
        ("merge part-0.stats old.stats -o all.stats".into(), "old.stats: the statistics must belong to pass 2, found: `1`"),
        ("maximise other.ckpt old.stats -o new.ckpt".into(), "old.stats: the statistics must belong to state "),
        (
            "merge part-1.stats part-0.stats -o all.stats".into(),
            "part-0.stats: the random draws of these statistics must start at row 200 of the pass, found: `0`\nhint: ",
        ),
        (
            "merge part-0.stats part-2.stats -o all.stats".into(),
            "part-2.stats: the random draws of these statistics must start at row 100",
        ),
        ("merge part-0.stats ./part-0.stats -o all.stats".into(), "a part can be given only once, found twice: `./part-0.stats`"),
        (
            format!("maximise state.ckpt {but_one} -o state.ckpt"),
            "part-0.stats and 4 more: the total row weight of this pass must be 600, as in the previous pass, found: `500`\nhint: check whether a part is missing",
        ),
        // Files that are neither statistics nor a state.
        ("merge part-0.stats cut.stats -o all.stats".into(), "cut.stats: not a valid statistics file: a header of "),
        ("merge garbage.stats -o all.stats".into(), "garbage.stats: not a valid statistics file: a header of "),
        ("merge state.ckpt -o all.stats".into(), "must be vmfkit.statistics, found: `vmfkit.checkpoint`"),
        ("merge missing.stats -o all.stats".into(), "missing.stats: cannot be read: "),
        ("maximise part-0.stats part-0.stats -o new.ckpt".into(), "part-0.stats: not a valid checkpoint: "),
        ("maximise model.safetensors part-0.stats -o new.ckpt".into(), "must be vmfkit.checkpoint, found: `vmfkit.mixture`"),
        ("accumulate x.csv x.csv -o new.stats".into(), "x.csv: not a valid checkpoint: "),
        ("accumulate state.ckpt flat.csv -o new.stats".into(), "flat.csv: expected dimension 3, found: `2`"),
        ("accumulate model.safetensors flat.csv -o new.stats".into(), "flat.csv: expected dimension 3, found: `2`"),
        // Fits that cannot be distributed.
        (
            "accumulate sgd.ckpt x.csv -o new.stats".into(),
            "sgd.ckpt: a distributed fit has one start and takes one step per pass, found: `method sgd`\nhint: ",
        ),
        ("accumulate restarts.ckpt x.csv -o new.stats".into(), "found: `restarts 2`\nhint: fit with several seeds"),
        ("fit x.csv -k 3 --method online --checkpoint new.ckpt --start-only".into(), "found: `method online`"),
        ("fit x.csv -k 3 --restarts 3 --checkpoint new.ckpt --start-only".into(), "found: `restarts 3`"),
        ("fit x.csv -k 3 --checkpoint state.ckpt --start-only".into(), "state.ckpt: the checkpoint exists"),
        ("fit x.csv -k 3 --start-only".into(), "--checkpoint <FILE>"),
        ("fit x.csv -k 3 --checkpoint new.ckpt --start-only -o m.safetensors".into(), "cannot be used with"),
        // Outputs.
        (format!("maximise state.ckpt {all}"), "--output <FILE>"),
        ("maximise state.ckpt".into(), "--model <FILE>"),
        ("maximise state.ckpt -o new.ckpt --model m.safetensors".into(), "<STATISTICS>"),
        (format!("maximise state.ckpt {all} -o -"), "standard output holds the report, so `-o` needs a file, found: `-`"),
        (format!("maximise state.ckpt {all} -o new --model ./new"), "`-o` and `--model` need different files"),
        ("maximise state.ckpt --model state.ckpt".into(), "`--model` would overwrite an input: `state.ckpt`"),
    ] {
        workspace.run(&command).refused(&[words]);
        assert_eq!((workspace.names(), workspace.read("state.ckpt")), before, "{command}");
    }
    workspace.run(&format!("maximise state.ckpt {all} -o state.ckpt")).success();
}

/// The mean of ln p of all rows under a model, and bytes on standard output.
#[test]
fn statistics_under_a_model_hold_its_likelihood() {
    let workspace = three_groups();
    let parts = cut(&workspace, 150);
    let fit = workspace.run("fit x.csv -k 3 -o model.safetensors --json").json();
    for part in 0..parts {
        workspace.run(&format!("accumulate model.safetensors part-{part}.csv -o part-{part}.stats")).success();
    }
    let merged = workspace.run(&format!("merge {} -o all.stats --json", files(parts))).json();
    assert_eq!(
        (&merged["pass"], &merged["rows"], &merged["blocks"], &merged["statistics"]),
        (&0.into(), &600.into(), &4.into(), &1.into())
    );
    assert!((number(&merged["objective"]) - number(&fit["mean_ln_density"])).abs() < 1e-12);
    let piped = |arguments: &str| {
        let output = workspace.command().args(arguments.split_whitespace()).output().unwrap();
        assert!(output.status.success());
        output.stdout
    };
    assert_eq!(piped("accumulate model.safetensors part-0.csv -o -"), workspace.read("part-0.stats"));
    assert_eq!(piped(&format!("merge {} -o -", files(parts))), workspace.read("all.stats"));
}

/// The commands of the page on clusters.
#[test]
#[cfg(unix)]
fn the_commands_of_the_page_on_clusters_run() {
    let script = commands_of(PAGE);
    assert!(script.contains("vmf accumulate") && script.contains("cmp stochastic.safetensors"), "{script}");
    let workspace = Workspace::new();
    let stdout = workspace.shell(&script);
    assert!(stdout.contains("\nrunning pass 1 rows 4608 objective ") && stdout.contains("\nconverged pass "), "{stdout}");
}
