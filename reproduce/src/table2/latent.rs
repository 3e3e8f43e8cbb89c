//! Embeds images with the autoencoder, which is trained, or loaded if it was trained before.

use super::Options;
use crate::autoencoder::LATENT;
use crate::images::{Images, Split};
use crate::training::{History, Training, write_atomically};
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Embeddings of images, and their classes.
pub struct Part {
    pub rows: Vec<f32>,
    pub classes: Vec<i64>,
}

pub struct Latent {
    pub train: Part,
    pub test: Part,
}

/// Trains the requested number of epochs with a checkpoint after each, and embeds both parts.
pub fn make(options: &Options, split: &Split, folder: &Path) -> Result<(Latent, History)> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let file = folder.join("autoencoder.safetensors");
    let mut training = if file.exists() {
        Training::load(&file, options.dataset, &split.train, options.network_seed)?
    } else {
        Training::new(options.dataset, &split.train, options.network_seed)
    };
    let epochs = options.epochs as usize;
    ensure!(
        training.epochs() <= epochs,
        "{} was trained for {} epochs, more than the {epochs} requested\nhint: use another --folder, or --epochs {1}",
        file.display(),
        training.epochs()
    );
    train(&mut training, &split.train, epochs, &file)?;
    let part = |images: &Images, name: &str| -> Result<Part> {
        let part = Part { rows: training.embed(images)?, classes: images.classes() };
        let (count, numbers) = (images.len(), part.rows.iter().flat_map(|x| x.to_le_bytes()));
        write_npy(&folder.join(format!("{name}.npy")), "<f4", &format!("{count}, {LATENT}"), numbers)?;
        let labels = images.labels.iter().copied();
        write_npy(&folder.join(format!("{name}_labels.npy")), "|u1", &format!("{count},"), labels)?;
        Ok(part)
    };
    let latent = Latent { train: part(&split.train, "train")?, test: part(&split.test, "test")? };
    Ok((latent, training.history))
}

fn train(training: &mut Training, images: &Images, epochs: usize, file: &Path) -> Result<()> {
    let (before, start) = (training.epochs(), Instant::now());
    if before > 0 {
        eprintln!("{} has {before} of {epochs} epochs", file.display());
    } else {
        // A folder that cannot be written is an error before the first epoch.
        training.save(file)?;
    }
    while training.epochs() < epochs {
        let number = training.epochs() + 1;
        let bar = ProgressBar::new(0).with_style(style()).with_message(format!("epoch {number} of {epochs}"));
        training.epoch(images, |done, all| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        let loss = training.history.losses[number - 1];
        ensure!(
            loss.is_finite(),
            "the loss of epoch {number} must be finite, found: `{loss}`; {} was not changed",
            file.display()
        );
        training.save(file)?;
        let pace = start.elapsed() / (number - before) as u32;
        let left = pace * (epochs - number) as u32;
        eprintln!(
            "epoch {number} of {epochs}: loss {loss:.4}, {:.1} s per epoch, {} left",
            pace.as_secs_f64(),
            human_duration(left)
        );
    }
    Ok(())
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len} batches, {eta} left").expect("the template is valid")
}

/// A duration in the largest suitable unit.
fn human_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6000 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Writes a .npy file; `descr` is numpy's name of the element type.
fn write_npy(path: &Path, descr: &str, shape: &str, data: impl IntoIterator<Item = u8>) -> Result<()> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The data start at byte 128: ten bytes of magic, version and length, then the text with a line
    // break.
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{text:<117}\n").bytes().chain(data));
    write_atomically(path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::{Dataset, tests::sample};
    use burn::module::{Module, ModuleMapper, Param};
    use burn::tensor::Tensor;

    struct SetToNan;

    impl ModuleMapper for SetToNan {
        fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
            parameter.map(|before| (before * f32::NAN).detach().require_grad())
        }
    }

    #[test]
    fn a_loss_of_nan_does_not_overwrite_the_checkpoint() {
        let (images, folder) =
            (Dataset::FashionMnist.read(&sample(Dataset::FashionMnist)).unwrap().train, tempfile::tempdir().unwrap());
        let file = folder.path().join("a.safetensors");
        let mut training = Training::new(Dataset::FashionMnist, &images, 1);
        train(&mut training, &images, 1, &file).unwrap();
        let before = fs::read(&file).unwrap();
        training.model = training.model.map(&mut SetToNan);
        let error = train(&mut training, &images, 2, &file).unwrap_err().to_string();
        assert!(error.contains("loss of epoch 2 must be finite, found: `NaN`"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), before);
    }

    #[test]
    fn an_unwritable_checkpoint_is_an_error_before_the_first_epoch() {
        let (images, folder) =
            (Dataset::FashionMnist.read(&sample(Dataset::FashionMnist)).unwrap().train, tempfile::tempdir().unwrap());
        let taken = folder.path().join("a.safetensors");
        fs::create_dir_all(taken.join("full")).unwrap();
        let mut training = Training::new(Dataset::FashionMnist, &images, 1);
        let error = train(&mut training, &images, 1, &taken).unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("a.safetensors"), "{error}");
        assert_eq!(training.epochs(), 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
