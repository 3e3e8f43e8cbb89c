//! Table 2: images, embedded by an autoencoder in the unit sphere, clustered in several ways; how well clusters and classes agree.

mod clusters;
mod latent;
mod sheet;

use crate::images::Dataset;
use crate::{Spread, Verdict};
use anyhow::Result;
use clap::Args;
use clusters::{Line, WAYS};
use kuva::plot::LinePlot;
use kuva::render::figure::Figure;
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;
use std::path::PathBuf;

#[derive(Args)]
pub struct Options {
    /// The folder with the published files of the data set.
    #[arg(long)]
    data: PathBuf,
    /// Which images.
    #[arg(long, value_enum, default_value_t = Dataset::Cifar10)]
    dataset: Dataset,
    /// Epochs of training; the paper has 100.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Where the autoencoder, the embeddings (.npy) and the pictures are kept; training goes on from what is there [default: table2-DATASET].
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Fits of each kind.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..))]
    seeds: u64,
    /// Of the first fit; the others take those that follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Of the autoencoder: its first weights, and the order of the images in each epoch.
    #[arg(long, default_value_t = 1)]
    network_seed: u64,
    /// Print JSON (with every fit's scores) instead of the table.
    #[arg(long)]
    json: bool,
}

impl Options {
    fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(|| format!("table2-{}", self.dataset.name()).into())
    }
}

/// Prints the table and its verdicts and draws the pictures; true if all verdicts hold.
pub fn run(options: &Options) -> Result<bool> {
    let split = options.dataset.read(&options.data)?;
    let folder = options.folder();
    let (latent, history) = latent::make(options, &split, &folder)?;
    crate::draw(&folder.join("loss.svg"), &loss_curve(&history.losses).render())?;
    let lines = clusters::study(&latent, options.seed, options.seeds)?;
    let mixture = clusters::default_mixture(&latent, options.seed)?;
    sheet::draw(&folder, options.dataset, &split.test, &latent.test, &mixture)?;
    let verdicts = verdicts(&lines, options.seeds);
    if options.json {
        let report = serde_json::json!({
            "dataset": options.dataset.name(), "epochs": history.losses.len(), "seeds": options.seeds, "first_seed": options.seed, "network_seed": options.network_seed,
            "losses": history.losses, "epoch_seconds": history.seconds, "ways": lines, "verdicts": verdicts,
        });
        crate::show(&serde_json::to_string_pretty(&report)?)?;
    } else {
        crate::show(&table(options, &history, &lines, &verdicts))?;
    }
    Ok(verdicts.iter().all(|verdict| verdict.holds))
}

/// What the paper found, and what our default and our speed must keep.
fn verdicts(lines: &[Line], seeds: u64) -> Vec<Verdict> {
    let compare = |way: usize, other: usize, claim: &str, holds: fn(f64) -> bool| {
        let pairs = || lines[way].scores.iter().flatten().zip(lines[other].scores.iter().flatten());
        let gap = |(ours, theirs): (&Spread, &Spread)| {
            format!("{:+.4} ± {:.4}", ours.mean - theirs.mean, ours.deviation.hypot(theirs.deviation) / (seeds as f64).sqrt())
        };
        let gaps: Vec<String> = pairs().map(gap).collect();
        Verdict {
            claim: claim.into(),
            found: format!("ARI {} and NMI {} on train, {} and {} on test", gaps[0], gaps[1], gaps[2], gaps[3]),
            holds: pairs().all(|(ours, theirs)| holds(ours.mean - theirs.mean)),
        }
    };
    let above = |way: usize, claim: &str| compare(way, clusters::KMEANS, claim, |gap| gap > 0.0);
    let busy = lines[clusters::DEFAULT].processor_seconds.most.max(lines[clusters::EM].processor_seconds.most);
    vec![
        above(clusters::EM, "EM, the paper's setting, is above k-means in both metrics"),
        above(clusters::SGD, "SGD is above k-means in both metrics"),
        compare(clusters::DEFAULT, clusters::EM, "our default is at or above the paper's setting of EM", |gap| gap >= 0.0),
        Verdict {
            claim: "EM converges in under a second of processor time".into(),
            found: format!("{busy:.2} s at most"),
            holds: busy < 1.0,
        },
    ]
}

fn table(options: &Options, history: &crate::training::History, lines: &[Line], verdicts: &[Verdict]) -> String {
    let cell = |spread: &Spread| format!("{:.4} ({:.4})", spread.mean, spread.deviation);
    let epochs = history.losses.len();
    let loss = history.losses.last().copied().unwrap_or(f64::NAN);
    let mut text = vec![
        format!(
            "Table 2: clusters of {} in the latent space of an autoencoder ({epochs} epochs, loss {loss:.3}), K = 10",
            options.dataset.name()
        ),
        format!(
            "mean (standard deviation) over {} seeds, differences ± standard error; seconds are means, of the clock and of the processors",
            options.seeds
        ),
        String::new(),
        format!(
            "{:<26}{:<17}{:<17}{:<17}{:<17}{:<9}{:<8}{:<8}{:<9}paper ARI / NMI",
            "way", "train ARI", "train NMI", "test ARI", "test NMI", "ln p", "passes", "clock", "busy"
        ),
    ];
    for (line, way) in lines.iter().zip(&WAYS) {
        let scores: String = line.scores.iter().flatten().map(|spread| format!("{:<17}", cell(spread))).collect();
        let ln_likelihood = line.ln_likelihood.as_ref().map_or("-".into(), |spread| format!("{:.3}", spread.mean));
        // The paper's numbers are those of CIFAR-10.
        let paper = way.paper.filter(|_| options.dataset == Dataset::Cifar10);
        let paper = paper.map_or("-".into(), |[ari, nmi]| format!("{ari:.4} / {nmi:.4}"));
        text.push(format!(
            "{:<26}{scores}{ln_likelihood:<9}{:<8.0}{:<8.2}{:<9.2}{paper}",
            way.name, line.passes.mean, line.seconds.mean, line.processor_seconds.mean
        ));
    }
    text.push(String::new());
    text.extend(verdicts.iter().map(Verdict::line));
    let sum = |pick: fn(&crate::clock::Seconds) -> f64| history.seconds.iter().map(pick).sum::<f64>() / epochs as f64;
    text.push(format!(
        "\nan epoch took {:.0} s of the clock and {:.0} s of the processors",
        sum(|seconds| seconds.wall),
        sum(|seconds| seconds.processors)
    ));
    text.join("\n")
}

fn loss_curve(losses: &[f64]) -> Figure {
    let points = losses.iter().enumerate().map(|(epoch, loss)| (epoch as f64 + 1.0, *loss));
    let plots = vec![Plot::Line(LinePlot::new().with_data(points).with_color("#4269d0").with_stroke_width(2.0))];
    let layout = Layout::auto_from_plots(&plots)
        .with_title("The autoencoder learns")
        .with_x_label("epoch")
        .with_y_label("squared error of an image")
        .with_y_axis_min(0.0);
    Figure::new(1, 1).with_plots(vec![plots]).with_layouts(vec![layout]).with_cell_size(620.0, 400.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::tests::sample;

    fn options(dataset: Dataset, folder: PathBuf, epochs: u64) -> Options {
        Options { data: sample(dataset), dataset, epochs, folder: Some(folder), seeds: 2, seed: 1, network_seed: 1, json: false }
    }

    /// The whole way from files of images to the table and the pictures, on a few images.
    #[test]
    fn the_whole_pipeline_runs_on_samples() {
        for dataset in [Dataset::Cifar10, Dataset::FashionMnist] {
            let folder = tempfile::tempdir().unwrap();
            let wished = options(dataset, folder.path().to_owned(), 2);
            run(&wished).unwrap();
            for name in ["autoencoder.safetensors", "loss.svg", "clusters.png", "clusters.html"] {
                assert!(folder.path().join(name).metadata().unwrap().len() > 1000, "{name}");
            }
            for (name, length) in
                [("train.npy", 300 * 400), ("test.npy", 100 * 400), ("train_labels.npy", 300), ("test_labels.npy", 100)]
            {
                let found = folder.path().join(name).metadata().unwrap().len();
                assert_eq!(found, 128 + length, "{name}");
            }
            // What was trained is not trained again, and never thrown away.
            let before = std::fs::read(folder.path().join("autoencoder.safetensors")).unwrap();
            run(&wished).unwrap();
            let error = run(&options(dataset, folder.path().to_owned(), 1)).unwrap_err().to_string();
            assert!(error.contains("trained for 2 epochs, more than the 1") && error.ends_with("or --epochs 2"), "{error}");
            assert_eq!(std::fs::read(folder.path().join("autoencoder.safetensors")).unwrap(), before);
        }
    }

    #[test]
    fn a_metric_below_fails_its_verdict() {
        let spread = |mean| Spread { mean, deviation: 0.0, least: mean, most: mean };
        let lines = |em: f64, sgd: f64, default: f64, seconds: f64| {
            let ari = [0.05, 0.05, em, sgd, default, 0.05, 0.05];
            ari.map(|ari| Line::of_scores([[spread(ari); 2], [spread(ari); 2]], spread(seconds)))
        };
        let holds = |lines: &[Line]| verdicts(lines, 4).iter().map(|verdict| verdict.holds).collect::<Vec<_>>();
        assert_eq!(holds(&lines(0.06, 0.06, 0.06, 0.5)), [true, true, true, true]);
        assert_eq!(holds(&lines(0.04, 0.06, 0.06, 0.5)), [false, true, true, true]);
        assert_eq!(holds(&lines(0.06, 0.04, 0.05, 1.5)), [true, false, false, false]);
        // What is level is not above, but at.
        assert_eq!(holds(&lines(0.05, 0.05, 0.05, 0.5)), [false, false, true, true]);
        let mut of_one_metric = lines(0.06, 0.06, 0.06, 0.5);
        of_one_metric[clusters::EM].scores[1][1] = spread(0.05);
        assert_eq!(holds(&of_one_metric), [false, true, true, true]);
    }
}
