//! Fashion-MNIST (H. Xiao, K. Rasul and R. Vollgraf, 2017, arXiv:1708.07747): idx files, with or
//! without gzip.

use super::{AREA, Images, Published, SIDE, Source, Split, note_others};
use anyhow::{Context, Result, ensure};
use flate2::read::MultiGzDecoder;
use std::fs;
use std::io::Read;
use std::path::Path;

pub const CLASSES: [&str; 10] =
    ["T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"];

const SOURCE: Source = Source {
    from: "https://github.com/zalandoresearch/fashion-mnist has the data set",
    files: &[
        Published { name: "train-images-idx3-ubyte.gz", md5: "8d4fb7e6c68d591d4c3dfef9ec88bf0d" },
        Published { name: "train-labels-idx1-ubyte.gz", md5: "25c81989df183df01b3e8a0aad5dffbe" },
        Published { name: "t10k-images-idx3-ubyte.gz", md5: "bef4ecab320f06d8554ea6380940ec79" },
        Published { name: "t10k-labels-idx1-ubyte.gz", md5: "bb300cfdad3c16e7a12a480ee83cd310" },
    ],
};

/// The side length of published images in pixels; a border makes it [`SIDE`].
const PUBLISHED_SIDE: usize = 28;
const BORDER: usize = (SIDE - PUBLISHED_SIDE) / 2;

pub fn read(folder: &Path) -> Result<Split> {
    let mut others = Vec::new();
    let mut part = |images: &Published, labels: &Published| -> Result<Images> {
        let mut read = |file: &Published, dims: &[usize]| -> Result<Vec<u8>> {
            let path = folder.join(file.name);
            let unpacked = path.with_extension("");
            if !path.exists() && unpacked.exists() {
                let bytes = fs::read(&unpacked).with_context(|| format!("cannot read {}", unpacked.display()))?;
                others.push(file.name.trim_end_matches(".gz"));
                return idx(bytes, dims, &unpacked);
            }
            let (bytes, is_published) = SOURCE.read(folder, file)?;
            if !is_published {
                others.push(file.name);
            }
            let mut plain = Vec::new();
            MultiGzDecoder::new(&bytes[..])
                .read_to_end(&mut plain)
                .with_context(|| format!("cannot unpack {}", path.display()))?;
            idx(plain, dims, &path)
        };
        let pixels = read(images, &[PUBLISHED_SIDE, PUBLISHED_SIDE])?;
        let found = read(labels, &[])?;
        let count = pixels.len() / (PUBLISHED_SIDE * PUBLISHED_SIDE);
        let path = folder.join(labels.name);
        ensure!(
            found.len() == count,
            "{} must have a label for each of {count} images, found: `{}`",
            path.display(),
            found.len()
        );
        if let Some(at) = found.iter().position(|&label| label > 9) {
            anyhow::bail!("label {at} of {} must be from 0 to 9, found: `{}`", path.display(), found[at]);
        }
        Ok(Images { channels: 1, pixels: with_border(&pixels), labels: found })
    };
    let [train_images, train_labels, test_images, test_labels] = SOURCE.files else { unreachable!("four files") };
    let split = Split { train: part(train_images, train_labels)?, test: part(test_images, test_labels)? };
    note_others(&others);
    Ok(split)
}

/// The data of an idx file of `u8` whose entries have these dimensions.
fn idx(mut bytes: Vec<u8>, dims: &[usize], path: &Path) -> Result<Vec<u8>> {
    let path = path.display();
    let header = 8 + 4 * dims.len();
    ensure!(bytes.len() >= header, "{path} must begin with a header of {header} bytes, found: `{}` bytes", bytes.len());
    let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let (expected, magic) = (0x800 + 1 + dims.len(), number(0));
    ensure!(magic == expected, "{path} must begin with the magic number {expected}, found: `{magic}`");
    for (i, &dim) in dims.iter().enumerate() {
        let found = number(8 + 4 * i);
        ensure!(found == dim, "images of {path} must have {dim} pixels a side, found: `{found}`");
    }
    let (count, rest) = (number(4), bytes.len() - header);
    ensure!(count > 0, "{path} has no entries");
    let size: usize = dims.iter().product();
    ensure!(count.checked_mul(size) == Some(rest), "{path} must hold {count} entries of {size} bytes, found: `{rest}` bytes");
    bytes.drain(..header);
    Ok(bytes)
}

fn with_border(pixels: &[u8]) -> Vec<u8> {
    let images = pixels.chunks_exact(PUBLISHED_SIDE * PUBLISHED_SIDE);
    let mut out = vec![0; images.len() * AREA];
    for (image, bordered) in images.zip(out.chunks_exact_mut(AREA)) {
        for (row, line) in image.chunks_exact(PUBLISHED_SIDE).enumerate() {
            bordered[(row + BORDER) * SIDE + BORDER..][..PUBLISHED_SIDE].copy_from_slice(line);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::{Dataset, tests::sample};

    fn bytes_of(magic: u32, dims: &[u32], content: &[u8]) -> Vec<u8> {
        let header = std::iter::once(&magic).chain(dims).flat_map(|number| number.to_be_bytes());
        header.chain(content.iter().copied()).collect()
    }

    #[test]
    fn headers_are_checked() {
        let path = Path::new("a.gz");
        let error = |bytes: Vec<u8>, dims: &[usize]| idx(bytes, dims, path).unwrap_err().to_string();
        assert_eq!(idx(bytes_of(0x801, &[2], &[4, 5]), &[], path).unwrap(), [4, 5]);
        assert!(error(vec![0; 7], &[]).contains("found: `7` bytes"));
        assert!(error(bytes_of(0x803, &[2], &[4, 5]), &[]).contains("number 2049"));
        assert!(error(bytes_of(0x801, &[3], &[4, 5]), &[]).contains("3 entries of 1 bytes, found: `2`"));
        assert!(error(bytes_of(0x801, &[0], &[]), &[]).contains("no entries"));
        assert!(error(bytes_of(0x803, &[u32::MAX, 28, 27], &[]), &[28, 28]).contains("28 pixels a side, found: `27`"));
        assert!(error(bytes_of(0x803, &[u32::MAX, 28, 28], &[1]), &[28, 28]).contains("found: `1` bytes"));
    }

    #[test]
    fn unpacked_files_are_read() {
        let (packed, folder) = (sample(Dataset::FashionMnist), tempfile::tempdir().unwrap());
        for file in SOURCE.files {
            let mut plain = Vec::new();
            MultiGzDecoder::new(fs::File::open(packed.join(file.name)).unwrap()).read_to_end(&mut plain).unwrap();
            fs::write(folder.path().join(file.name).with_extension(""), plain).unwrap();
        }
        let (found, expected) = (read(folder.path()).unwrap(), read(&packed).unwrap());
        assert_eq!((found.train, found.test), (expected.train, expected.test));
    }

    #[test]
    fn the_border_is_black() {
        let out = with_border(&[9; 2 * PUBLISHED_SIDE * PUBLISHED_SIDE]);
        assert_eq!(out.len(), 2 * AREA);
        assert_eq!(out.iter().filter(|&&pixel| pixel == 9).count(), 2 * PUBLISHED_SIDE * PUBLISHED_SIDE);
        assert_eq!((out[BORDER * SIDE + BORDER], out[BORDER * SIDE + BORDER - 1], out[(BORDER - 1) * SIDE + BORDER]), (9, 0, 0));
    }
}
