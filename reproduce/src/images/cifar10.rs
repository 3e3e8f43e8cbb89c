//! CIFAR-10, the binary version (A. Krizhevsky, "Learning Multiple Layers of Features from Tiny
//! Images", 2009).

use super::{AREA, Images, Published, Source, Split, note_others};
use anyhow::{Result, ensure};
use std::path::Path;

pub const CLASSES: [&str; 10] = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

const SOURCE: Source = Source {
    from: "the binary version of https://www.cs.toronto.edu/~kriz/cifar.html (cifar-10-binary.tar.gz, MD5 c32a1d4ab5d03f1284b67883e8d87530) \
           unpacks to the folder cifar-10-batches-bin",
    files: &[
        Published { name: "data_batch_1.bin", md5: "5dd7e06a14cb22eb9f671a540d1b7c25" },
        Published { name: "data_batch_2.bin", md5: "5ea93a67294ea407fff1d09f752e9692" },
        Published { name: "data_batch_3.bin", md5: "942cd6a4bcdd0dd3c604fbe906cb4421" },
        Published { name: "data_batch_4.bin", md5: "ae636b3ba5c66a11e91e8cb52e771fcb" },
        Published { name: "data_batch_5.bin", md5: "53f37980c15c3d472c316c40844f3f0d" },
        Published { name: "test_batch.bin", md5: "803d5f7f4d78ea53de84dbe85f74fb6d" },
    ],
};

/// A label, then the red, green and blue pixels.
const RECORD: usize = 1 + 3 * AREA;

/// Reads the files in `folder`, or in the folder of the unpacked archive in it.
pub fn read(folder: &Path) -> Result<Split> {
    let unpacked = folder.join("cifar-10-batches-bin");
    let folder = if unpacked.is_dir() { &unpacked } else { folder };
    let empty = || Images { channels: 3, ..Images::default() };
    let (mut train, mut test, mut others) = (empty(), empty(), Vec::new());
    for file in SOURCE.files {
        let (bytes, is_published) = SOURCE.read(folder, file)?;
        let images = if file.name == "test_batch.bin" { &mut test } else { &mut train };
        append(images, &bytes, &folder.join(file.name))?;
        if !is_published {
            others.push(file.name);
        }
    }
    note_others(&others);
    Ok(Split { train, test })
}

fn append(images: &mut Images, bytes: &[u8], path: &Path) -> Result<()> {
    let path = path.display();
    ensure!(!bytes.is_empty(), "{path} is empty");
    ensure!(bytes.len().is_multiple_of(RECORD), "{path} must hold images of {RECORD} bytes each, found: `{}` bytes", bytes.len());
    for (at, record) in bytes.chunks_exact(RECORD).enumerate() {
        let label = record[0];
        ensure!(label < 10, "the label of image {at} of {path} must be from 0 to 9, found: `{label}`");
        images.labels.push(label);
        images.pixels.extend_from_slice(&record[1..]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_split_into_labels_and_pixels() {
        let mut bytes = vec![7_u8; 2 * RECORD];
        bytes[RECORD] = 3;
        bytes[RECORD + 1] = 200;
        let mut images = Images { channels: 3, ..Images::default() };
        append(&mut images, &bytes, Path::new("a")).unwrap();
        assert_eq!(images.labels, [7, 3]);
        assert_eq!((images.image(0)[0], images.image(1)[0], images.image(1)[1]), (7, 200, 7));
    }

    #[test]
    fn damaged_files_are_errors_with_their_name() {
        let error = |bytes: &[u8]| append(&mut Images::default(), bytes, Path::new("a.bin")).unwrap_err().to_string();
        assert_eq!(error(&[]), "a.bin is empty");
        assert_eq!(error(&[0; RECORD - 1]), "a.bin must hold images of 3073 bytes each, found: `3072` bytes");
        let mut bytes = vec![1; 2 * RECORD];
        bytes[RECORD] = 10;
        assert_eq!(error(&bytes), "the label of image 1 of a.bin must be from 0 to 9, found: `10`");
    }
}
