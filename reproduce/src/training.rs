//! Training of the autoencoder by epochs, with checkpoints between them.

use crate::autoencoder::{Autoencoder, batch};
use crate::clock::{Clock, Seconds};
use crate::images::{Dataset, Images};
use anyhow::{Context, Result, ensure};
use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::store::ModuleRecord;
use burn::tensor::{Bytes, Device};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// The settings of the paper.
const BATCH: usize = 128;
const LEARNING_RATE: f64 = 1e-4;

/// The kind of file that [`Training::save`] writes.
const KIND: &str = "vmfkit autoencoder 1";

/// What was trained, and for how many epochs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    kind: String,
    dataset: String,
    images: usize,
    seed: u64,
    /// The mean loss of the batches of each epoch.
    pub losses: Vec<f64>,
    /// The duration of each epoch.
    pub seconds: Vec<Seconds>,
}

/// An autoencoder between two epochs.
pub struct Training {
    pub history: History,
    pub model: Autoencoder,
    optimizer: ModuleOptimizer,
    device: Device,
}

impl Training {
    pub fn new(dataset: Dataset, images: &Images, seed: u64) -> Self {
        let device = Device::flex().autodiff();
        let history = History {
            kind: KIND.into(),
            dataset: dataset.name().into(),
            images: images.len(),
            seed,
            losses: Vec::new(),
            seconds: Vec::new(),
        };
        let model = Autoencoder::new(dataset.channels(), seed, &device);
        Training { history, model, optimizer: optimizer(), device }
    }

    pub fn epochs(&self) -> usize {
        self.history.losses.len()
    }

    /// Trains one epoch. Batches are made of the shuffled images without a partial last batch, as
    /// in the paper. `progress` is called after each batch with its number and the number of
    /// batches.
    pub fn epoch(&mut self, images: &Images, mut progress: impl FnMut(usize, usize)) {
        let clock = Clock::start();
        let mut order: Vec<usize> = (0..images.len()).collect();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.history.seed);
        for _ in 0..=self.epochs() {
            random.jump();
        }
        order.shuffle(&mut random);
        let size = BATCH.min(images.len());
        let batches = images.len() / size;
        let mut sum = 0.0;
        for (at, which) in order.chunks_exact(size).enumerate() {
            let loss = self.model.loss(batch(images, which, &self.device));
            sum += f64::from(loss.clone().into_scalar::<f32>());
            let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
            self.model = self.optimizer.step(LEARNING_RATE, self.model.clone(), gradients);
            progress(at + 1, batches);
        }
        self.history.losses.push(sum / batches as f64);
        self.history.seconds.push(clock.seconds());
    }

    pub fn embed(&self, images: &Images) -> Result<Vec<f32>> {
        self.model.embed(images, &self.device.clone().inner())
    }

    /// Writes a checkpoint atomically.
    pub fn save(&self, path: &Path) -> Result<()> {
        let model = self.model.clone().into_record().into_bytes()?;
        let optimizer = self.optimizer.into_bytes()?;
        let view = |bytes| TensorView::new(Dtype::U8, vec![<[u8]>::len(bytes)], bytes);
        let tensors = [("model", view(&model)?), ("optimizer", view(&optimizer)?)];
        let history = HashMap::from([("history".to_string(), serde_json::to_string(&self.history)?)]);
        write_atomically(path, &safetensors::serialize(tensors, Some(history))?)
    }

    /// Resumes from a checkpoint, which must have been made with the same images and seed.
    pub fn load(path: &Path, dataset: Dataset, images: &Images, seed: u64) -> Result<Self> {
        let mut training = Training::new(dataset, images, seed);
        training.restore(path).with_context(|| format!("cannot resume from {}", path.display()))?;
        Ok(training)
    }

    fn restore(&mut self, path: &Path) -> Result<()> {
        let bytes = fs::read(path)?;
        let (_, metadata) = SafeTensors::read_metadata(&bytes)?;
        let history = metadata.metadata().as_ref().and_then(|texts| texts.get("history"));
        let history: History = serde_json::from_str(history.context("it is not a checkpoint of a training run")?)?;
        let expected = History { losses: history.losses.clone(), seconds: history.seconds.clone(), ..self.history.clone() };
        let describe = |history: &History| {
            format!("{}, {}, {} images, seed {}", history.kind, history.dataset, history.images, history.seed)
        };
        let hint = "use another --folder, or the options with which this one was made";
        ensure!(history == expected, "expected {}, found: `{}`\nhint: {hint}", describe(&expected), describe(&history));
        let tensors = SafeTensors::deserialize(&bytes)?;
        let part = |name: &str| -> Result<Bytes> { Ok(Bytes::from_bytes_vec(tensors.tensor(name)?.data().to_vec())) };
        self.model = self.model.clone().try_load_record(ModuleRecord::from_bytes(part("model")?)?)?;
        self.optimizer = optimizer().from_bytes(part("optimizer")?)?;
        self.history = history;
        Ok(())
    }
}

/// Adam with the epsilon of PyTorch, which the paper uses; the default of burn is 1e-5.
fn optimizer() -> ModuleOptimizer {
    AdamConfig::new().with_epsilon(1e-8).init()
}

/// Writes a file atomically: to a temporary file in the same folder, which is then renamed.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = path.with_added_extension("part");
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&part))).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::tests::sample;

    fn images() -> Images {
        Dataset::FashionMnist.read(&sample(Dataset::FashionMnist)).unwrap().train
    }

    fn weights(training: &Training) -> Vec<u8> {
        training.model.clone().into_record().into_bytes().unwrap().to_vec()
    }

    #[test]
    fn training_reduces_the_loss_and_resumes_exactly() {
        let (images, folder) = (images(), tempfile::tempdir().unwrap());
        let path = folder.path().join("a.safetensors");
        let mut whole = Training::new(Dataset::FashionMnist, &images, 5);
        let some: Vec<usize> = (0..64).collect();
        let loss = |training: &Training| training.model.loss(batch(&images, &some, &training.device)).into_scalar::<f32>();
        let before = loss(&whole);
        whole.epoch(&images, |_, _| ());
        whole.save(&path).unwrap();
        let mut resumed = Training::load(&path, Dataset::FashionMnist, &images, 5).unwrap();
        assert_eq!(weights(&resumed), weights(&whole));
        for training in [&mut whole, &mut resumed] {
            for _ in 0..6 {
                training.epoch(&images, |done, all| assert!(done <= all && all == 2));
            }
        }
        assert_eq!(resumed.history.losses, whole.history.losses);
        assert_eq!(weights(&resumed), weights(&whole));
        assert_eq!(whole.epochs(), 7);
        assert!(loss(&whole) < 0.98 * before, "{} {before}", loss(&whole));
    }

    #[test]
    fn invalid_checkpoints_are_errors() {
        let (images, folder) = (images(), tempfile::tempdir().unwrap());
        let path = folder.path().join("a.safetensors");
        let error = |dataset, images: &Images, seed| format!("{:#}", Training::load(&path, dataset, images, seed).err().unwrap());
        assert!(error(Dataset::FashionMnist, &images, 5).contains("a.safetensors"));
        Training::new(Dataset::FashionMnist, &images, 5).save(&path).unwrap();
        let message = error(Dataset::FashionMnist, &images, 6);
        assert!(
            message.contains("300 images, seed 6, found: `vmfkit autoencoder 1, fashion-mnist, 300 images, seed 5`"),
            "{message}"
        );
        assert!(error(Dataset::Cifar10, &images, 5).contains("cifar10"));
        let bytes = fs::read(&path).unwrap();
        for length in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&path, &bytes[..length]).unwrap();
            error(Dataset::FashionMnist, &images, 5);
        }
    }
}
