//! Checksums of models, checkpoints and statistics: damage is noticed, files without a checksum are read.

use crate::samples::{draw, paper_mixture, sealed};
use vmfkit::model_file::{self, Description};
use vmfkit::parts::Accumulator;
use vmfkit::source::MemorySource;
use vmfkit::stats_file::PartStats;
use vmfkit::train::{Checkpoint, Stop};
use vmfkit::{Block, Fitter, Result};

/// Reads a file, and writes what it has read.
type Rewrite = fn(&[u8]) -> Result<Vec<u8>>;

const REWRITES: [Rewrite; 3] = [
    |bytes| model_file::from_bytes(bytes).map(|(mixture, description)| model_file::to_bytes(&mixture, &description)),
    |bytes| Checkpoint::from_bytes(bytes).map(|checkpoint| checkpoint.to_bytes()),
    |bytes| PartStats::from_bytes(bytes).map(|part| part.to_bytes()),
];

/// A small model, checkpoint and statistics file.
fn small_files() -> [Vec<u8>; 3] {
    let rows: Vec<f64> = draw(&paper_mixture(), 40, 1);
    let block = Block::new(5, &rows).unwrap();
    let stop = Stop { tolerance: None, passes: 2, ..Stop::default() };
    let fit = Fitter::new(2).stop(stop).fit(&block).unwrap();
    let begun = Fitter::new(2).begin(&mut MemorySource::new(block.clone()).batches(30)).unwrap().unwrap();
    let accumulator = Accumulator::of(&begun).unwrap();
    let mut part = accumulator.part(0);
    accumulator.see(&block, &mut part).unwrap();
    [model_file::to_bytes(&fit.mixture, &Description::of(&fit)), begun.to_bytes(), part.to_bytes()]
}

#[test]
fn every_flipped_bit_is_refused() {
    for (good, rewrite) in small_files().iter().zip(REWRITES) {
        assert_eq!(&rewrite(good).unwrap(), good);
        let mut bytes = good.clone();
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(rewrite(&bytes).is_err(), "bit {} of byte {}", bit % 8, bit / 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// The checksum counts from the version on that brought it, whatever else the file says.
#[test]
fn a_checksum_that_was_removed_or_made_up_is_refused() {
    for (good, rewrite) in small_files().iter().zip(REWRITES) {
        let text = String::from_utf8_lossy(good).into_owned();
        let at = text.find("\"checksum\":\"").unwrap();
        let edited = |from: &str, to: &str| {
            let start = good.windows(from.len()).position(|bytes| bytes == from.as_bytes()).expect("it is there");
            [&good[..start], to.as_bytes(), &good[start + from.len()..]].concat()
        };
        let refusal = |bytes: &[u8]| rewrite(bytes).unwrap_err().to_string();
        let nothing = "metadata `checksum` must be sixteen digits, found: ``";
        assert!(refusal(&edited("\"checksum\"", "\"checkers\"")).contains(nothing));
        let found = &text[at + 12..at + 28];
        let upper = edited(found, "ABCDEFABCDEFABCD");
        assert!(refusal(&upper).contains("the file is damaged: its checksum must be ABCDEFABCDEFABCD, found: `"));
        assert!(refusal(&edited(found, "0000000000000000")).contains(&format!("found: `{found}`")));
        let last = good.len() - 1;
        let damaged = [&good[..last], &[good[last] ^ 1]].concat();
        assert!(refusal(&damaged).contains(&format!("the file is damaged: its checksum must be {found}, found: `")));
        assert_eq!(sealed(good.clone()), *good, "what docs/file-format.md says");
    }
}

/// Those of version 0.1.0.
#[test]
fn files_without_a_checksum_are_read() {
    for (name, rewrite) in ["model", "checkpoint", "statistics"].into_iter().zip(REWRITES) {
        let path = format!("{}/../../testdata/without_checksum/{name}.safetensors", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).unwrap();
        let now = rewrite(&bytes).unwrap();
        let header = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize + 8;
        assert_eq!(now[header(&now)..], bytes[header(&bytes)..], "{name}: the same tensors");
        // A version's digit that was damaged does not turn a checked file into one of these.
        let (version, before) = if name == "checkpoint" { ("3", "2") } else { ("2", "1") };
        let entry = format!("\"version\":\"{version}\"");
        let at = now.windows(entry.len()).position(|bytes| bytes == entry.as_bytes()).expect("it is there") + 11;
        let mut changed = now.clone();
        changed[at] = before.as_bytes()[0];
        assert!(rewrite(&changed).unwrap_err().to_string().contains("the file is damaged: its checksum must be "), "{name}");
    }
}
