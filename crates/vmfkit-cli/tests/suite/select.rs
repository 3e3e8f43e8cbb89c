//! `vmf select`: the number of components that the rows were made of.

use crate::mixture::three_groups;
use crate::number;

#[test]
fn the_number_of_groups_is_found() {
    let workspace = three_groups();
    let json = workspace.run("select x.csv -k 1:5 --json").json();
    let lines = json["candidates"].as_array().unwrap();
    assert_eq!(lines.iter().map(|line| number(&line["components"])).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(json["recommended"], serde_json::json!([{ "components": 3, "policy": "shrunk:1", "background": false }]));
    for (key, best) in [("bic", 2), ("icl", 2)] {
        let marked: Vec<usize> = (0..5).filter(|&line| lines[line]["best"][key] == true).collect();
        assert_eq!(marked, [best], "{key}: {json}");
    }
    for line in lines {
        let get = |key: &str| number(&line[key]);
        assert!((get("aic") - (2.0 * get("free_parameters") - 2.0 * get("ln_likelihood"))).abs() < 1e-9);
        assert_eq!((get("total_weight"), number(&line["held_out"]["total_weight"])), (480.0, 120.0));
        assert!(number(&line["held_out"]["standard_error"]) > 0.0);
    }
    let text = workspace.run("select x.csv -k 1:5").success();
    assert!(text.starts_with("x.csv: 600 rows of dimension 3, 120 of them held out\n\nk    policy  background"), "{text}");
    assert!(text.ends_with("\nbic prefers 3 components: vmf fit x.csv -k 3 --policy shrunk:1\n"), "{text}");
    assert_eq!(text.matches('*').count(), 4, "{text}");
    let command = text.lines().last().unwrap().split_once(": vmf ").unwrap().1;
    workspace.run(command).success();
}

#[test]
fn policies_and_backgrounds_are_tried_in_turn() {
    let workspace = three_groups();
    let json = workspace.run("select x.csv -k 3,1:3:2 --policy free,shared,free --background both --holdout 0 --json").json();
    let lines: Vec<(String, bool, u64)> = json["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["policy"].as_str().unwrap().into(), line["background"] == true, line["components"].as_u64().unwrap()))
        .collect();
    let expected = [("free", false), ("shared", false), ("free", true), ("shared", true)];
    assert_eq!(lines, expected.map(|(policy, yes)| [1, 3].map(|k| (policy.to_owned(), yes, k))).concat());
    assert!(json["candidates"][0]["held_out"].is_null());
    assert_eq!(json["recommended"].as_array().unwrap().len(), 2);
    let text = workspace.run("select x.csv -k 3 --policy free,shared --holdout 0 --criterion icl").success();
    assert!(text.contains("icl prefers 3 components: vmf fit x.csv -k 3 --policy shared\n"), "{text}");
}

#[test]
fn the_command_reads_the_same_rows() {
    let workspace = three_groups();
    let rows = String::from_utf8(workspace.read("x.csv")).unwrap();
    let rows: String = rows.lines().skip(1).map(|line| format!("7,{line},2\n")).collect();
    workspace.write("it's mine.csv", format!("n,x,y,z,w\n{rows}"));
    workspace.write("weights of rows.csv", "1\n".repeat(600));
    let run = |options: &[&str]| {
        let output = workspace.command().args(["select", "it's mine.csv", "-k", "3"]).args(options).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().last().unwrap().split_once(": ").unwrap().1.to_owned()
    };
    let commands = [
        run(&["--columns", "x,y,z", "--weight-column", "w", "--rescale", "--seed", "4"]),
        run(&["--columns", "x,y,z", "--weights", "weights of rows.csv"]),
    ];
    if cfg!(unix) {
        let expected = [
            r"vmf fit 'it'\''s mine.csv' --columns x,y,z --weight-column w --rescale -k 3 --policy shrunk:1 --seed 4",
            r"vmf fit 'it'\''s mine.csv' --columns x,y,z --weights 'weights of rows.csv' -k 3 --policy shrunk:1",
        ];
        assert_eq!(commands, expected);
        for command in commands {
            let script = command.replacen("vmf", "\"$0\"", 1);
            let mut shell = std::process::Command::new("sh");
            let output =
                shell.args(["-c", &script, env!("CARGO_BIN_EXE_vmf")]).current_dir(workspace.path(".")).output().unwrap();
            assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn help_says_what_likelihoods_are_good_for() {
    let workspace = three_groups();
    let help = |command: &str| workspace.run(command).success().split_whitespace().collect::<Vec<_>>().join(" ");
    let select = help("select --help");
    for words in ["policies badly", "counts every concentration as a free parameter", "total weight for the number of rows"] {
        assert!(select.contains(words), "`{words}` is missing in: {select}");
    }
    for help in [select, help("fit --help")] {
        assert!(
            help.contains(
                "changes the mean objective of the rows by at most this share of what it is above that of the uniform density"
            ),
            "{help}"
        );
    }
}

#[test]
fn a_collapsed_component_is_marked_and_the_recommendation_says_so() {
    let workspace = three_groups();
    let rows = String::from_utf8(workspace.read("x.csv")).unwrap();
    workspace.write("often.csv", format!("{rows}{}", "0,0.6,-0.8\n".repeat(60)));
    let options = "select often.csv -k 3:4 --policy free --restarts 3";
    let json = workspace.run(&format!("{options} --json")).json();
    let lines = json["candidates"].as_array().unwrap();
    assert_eq!(json["recommended"][0]["components"], 4);
    assert!(lines[1]["notes"].to_string().contains("collapsed on"), "{json}");
    for line in lines {
        assert!(line["grown"].is_boolean() && line["status"].is_string() && line["notes"].is_array(), "{line}");
    }
    let text = workspace.run(options).success();
    assert!(text.lines().any(|line| line.starts_with("4! ")), "{text}");
    assert!(text.contains("\n! free, k = 4: component ") && text.contains(" collapsed on "), "{text}");
    assert!(text.contains("\nbic prefers 4 components: vmf fit often.csv -k 4 --policy free\n"), "{text}");
    assert!(text.ends_with("\n  but that mixture has a warning above; of those without, bic prefers 3\n"), "{text}");
}

#[test]
fn rows_that_cannot_be_held_out_are_no_silence() {
    let workspace = three_groups();
    let two =
        String::from_utf8(workspace.read("x.csv")).unwrap().lines().take(3).map(|line| format!("{line}\n")).collect::<String>();
    workspace.write("two.csv", two);
    let text = workspace.run("select two.csv -k 1").success();
    assert!(text.starts_with("two.csv: 2 rows of dimension 3, too few to hold any out\n"), "{text}");
    workspace.run("select two.csv -k 1 --criterion held-out").refused(&["`--holdout 0.2`, which is none of 2 rows"]);
    // Only the first row counts, and it is seen.
    workspace.write("first.csv", format!("1\n{}", "0\n".repeat(599)));
    let seen = (0..9).map(|seed| format!("select x.csv -k 1 --weights first.csv --criterion held-out --seed {seed}"));
    let text = seen.map(|command| workspace.run(&command)).find(|run| run.code == Some(0)).unwrap().success();
    assert!(!text.contains("NaN"), "{text}");
    assert!(text.contains("held out a weight of 0\n"), "{text}");
    assert!(text.ends_with("\nthe rows that were held out have no weight, so there is no held-out ln p\n"), "{text}");
}

#[test]
fn threads_change_nothing_and_seeds_do() {
    let workspace = three_groups();
    let table = |more: &str| workspace.run(&format!("select x.csv -k 2:4 --json {more}")).success();
    assert_eq!(table("--threads 1"), table("--threads 2"));
    assert_ne!(table(""), table("--seed 1"));
    assert_ne!(table(""), table("--max-passes 1"));
}

#[test]
fn bad_options_are_named() {
    let workspace = three_groups();
    let all = workspace.names();
    for (options, words) in [
        ("", "--components <LIST>"),
        ("-k 0:3", "a mixture has at least 1 component"),
        ("-k 5:3", "`5:3` is neither a number nor FROM:TO nor FROM:TO:STEP"),
        ("-k 1:9:0", "`1:9:0` is neither"),
        ("-k 1,two", "`two` is neither"),
        ("-k 1:9999999999999", "there must be at most 10000 of them"),
        ("-k 2 --policy loose", "unknown policy `loose`"),
        ("-k 2 --holdout 1", "the share held out must be at least 0 and below 1, found: `1`"),
        ("-k 2 --holdout 0 --criterion held-out", "needs rows that are held out"),
        ("-k 2 --holdout 1e-9 --criterion held-out", "found: `--holdout 0.000000001`, which is none of 600 rows"),
        ("-k 2 --criterion best", "possible values: aic, bic, icl, held-out"),
        ("-k 2 --restarts 0", "the number of restarts must be at least 1, found: `0`"),
    ] {
        workspace.run(&format!("select x.csv {options}")).refused(&[words]);
    }
    assert_eq!(workspace.names(), all);
}
