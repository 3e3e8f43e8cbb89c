//! Reads labelled images from the published files of the data sets.

mod cifar10;
mod fashion_mnist;

use anyhow::{Context, Result};
use md5::{Digest, Md5};
use std::fmt::Write;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// The side length of images in pixels; smaller images get a black border.
pub const SIDE: usize = 32;

/// Pixels of one channel.
pub const AREA: usize = SIDE * SIDE;

/// A published set of labelled images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Dataset {
    /// 60,000 colour photographs of ten classes, 32 x 32 pixels.
    Cifar10,
    /// 70,000 grey images of ten classes of clothes, 28 x 28 pixels.
    FashionMnist,
}

/// Images in the order image, channel, row, column, with their labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Images {
    pub channels: usize,
    pub pixels: Vec<u8>,
    pub labels: Vec<u8>,
}

/// The two parts of a data set.
#[derive(Debug)]
pub struct Split {
    pub train: Images,
    pub test: Images,
}

impl Dataset {
    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Dataset::Cifar10 => "cifar10",
            Dataset::FashionMnist => "fashion-mnist",
        }
    }

    pub fn channels(self) -> usize {
        match self {
            Dataset::Cifar10 => 3,
            Dataset::FashionMnist => 1,
        }
    }

    /// The name of each label.
    pub fn classes(self) -> [&'static str; 10] {
        match self {
            Dataset::Cifar10 => cifar10::CLASSES,
            Dataset::FashionMnist => fashion_mnist::CLASSES,
        }
    }

    /// Reads the published files in a folder.
    pub fn read(self, folder: &Path) -> Result<Split> {
        match self {
            Dataset::Cifar10 => cifar10::read(folder),
            Dataset::FashionMnist => fashion_mnist::read(folder),
        }
    }
}

impl Images {
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// The bytes of one image.
    pub fn image(&self, at: usize) -> &[u8] {
        let size = self.channels * AREA;
        &self.pixels[at * size..][..size]
    }

    /// The labels as integers.
    pub fn classes(&self) -> Vec<i64> {
        self.labels.iter().map(|&label| label.into()).collect()
    }
}

/// The name and the MD5 sum of a published file.
struct Published {
    name: &'static str,
    md5: &'static str,
}

/// The files of a data set, and where to get them.
struct Source {
    /// Where to get them.
    from: &'static str,
    files: &'static [Published],
}

impl Source {
    /// The bytes of a file in the folder, and whether they are the published ones.
    fn read(&self, folder: &Path, file: &Published) -> Result<(Vec<u8>, bool)> {
        let path = folder.join(file.name);
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(mut file) => file.read_to_end(&mut bytes).with_context(|| format!("cannot read {}", path.display()))?,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                anyhow::bail!("{}\n{}", missing(&path, folder), self.hint())
            }
            Err(error) => return Err(error).with_context(|| format!("cannot open {}", path.display())),
        };
        let sum = Md5::digest(&bytes).iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Ok((bytes, sum == file.md5))
    }

    fn hint(&self) -> String {
        let width = self.files.iter().map(|file| file.name.len()).max().unwrap_or(0);
        let lines = self.files.iter().map(|file| format!("\n  {:<width$}  {}", file.name, file.md5));
        format!("hint: {}, with these files and MD5 sums:{}", self.from, lines.collect::<String>())
    }
}

fn missing(path: &Path, folder: &Path) -> String {
    if folder.is_dir() {
        format!("there is no file {}", path.display())
    } else {
        format!("there is no folder {}", folder.display())
    }
}

/// Prints a note about files that differ from the published ones, whose results cannot be compared.
fn note_others(others: &[&str]) {
    if !others.is_empty() {
        eprintln!("note: these files differ from the published ones by their MD5 sums: {}", others.join(", "));
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::path::PathBuf;

    /// The sample of a data set in the repository.
    pub fn sample(dataset: Dataset) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(dataset.name())
    }

    #[test]
    fn a_missing_folder_is_an_error_that_lists_the_files() {
        for (dataset, sum) in
            [(Dataset::Cifar10, "803d5f7f4d78ea53de84dbe85f74fb6d"), (Dataset::FashionMnist, "bb300cfdad3c16e7a12a480ee83cd310")]
        {
            let message = dataset.read(Path::new("nowhere")).unwrap_err().to_string();
            assert!(message.starts_with("there is no folder nowhere") && message.contains(sum), "{message}");
        }
    }

    #[test]
    fn the_samples_contain_all_classes() {
        for dataset in [Dataset::Cifar10, Dataset::FashionMnist] {
            let Split { train, test } = dataset.read(&sample(dataset)).unwrap();
            for images in [train, test] {
                assert_eq!(images.channels, dataset.channels());
                assert_eq!(images.pixels.len(), images.len() * images.channels * AREA);
                assert!((0..10).all(|label| images.labels.contains(&label)));
                assert_eq!(images.image(images.len() - 1).len(), images.channels * AREA);
            }
        }
    }
}
