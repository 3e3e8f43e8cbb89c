//! Checksums of models, checkpoints and statistics: damage is detected, models without a checksum
//! are read.

use crate::samples::{draw, paper_mixture, sealed};
use vmfkit::fit::parts::Accumulator;
use vmfkit::source::MemorySource;
use vmfkit::store::model::{self, Description};
use vmfkit::store::statistics::PartStats;
use vmfkit::train::{Checkpoint, Stop};
use vmfkit::{Fitter, Result, RowBatch};

/// Reads a file, and writes what it has read.
type Rewrite = fn(&[u8]) -> Result<Vec<u8>>;

const REWRITES: [Rewrite; 3] = [
    |bytes| model::from_bytes(bytes).map(|(mixture, description)| model::to_bytes(&mixture, &description)),
    |bytes| Checkpoint::from_bytes(bytes).map(|checkpoint| checkpoint.to_bytes()),
    |bytes| PartStats::from_bytes(bytes).map(|part| part.to_bytes()),
];

/// A small model, checkpoint and statistics file.
fn small_files() -> [Vec<u8>; 3] {
    let rows: Vec<f64> = draw(&paper_mixture(), 40, 1);
    let block = RowBatch::new(5, &rows).unwrap();
    let stop = Stop { tolerance: None, passes: 2, ..Stop::default() };
    let fit = Fitter::new(2).stop(stop).fit(&block).unwrap();
    let begun = Fitter::new(2).begin(&mut MemorySource::new(block.clone()).batches(30)).unwrap().unwrap();
    let accumulator = Accumulator::of(&begun).unwrap();
    let mut part = accumulator.part(0).unwrap();
    part.add(&block).unwrap();
    [model::to_bytes(&fit.mixture, &Description::of(&fit)), begun.to_bytes(), part.finish().to_bytes()]
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

/// A file of a version with checksums must have a valid one.
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

/// Models of vmfkit 0.1.0. Its checkpoints and statistics are from fits with other last bits and
/// are refused.
#[test]
fn models_without_a_checksum_are_read() {
    let old = |name: &str| {
        let path = format!("{}/../../testdata/without_checksum/{name}.safetensors", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).unwrap()
    };
    let [rewrite_model, rewrite_checkpoint, rewrite_statistics] = REWRITES;
    let bytes = old("model");
    let now = rewrite_model(&bytes).unwrap();
    let header = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize + 8;
    assert_eq!(now[header(&now)..], bytes[header(&bytes)..], "the same tensors");
    // A version's digit that was damaged does not turn a checked file into one of these.
    let entry = "\"version\":\"2\"";
    let at = now.windows(entry.len()).position(|bytes| bytes == entry.as_bytes()).expect("it is there") + 11;
    let mut changed = now.clone();
    changed[at] = b'1';
    assert!(rewrite_model(&changed).unwrap_err().to_string().contains("the file is damaged: its checksum must be "));
    let refused = |error: vmfkit::Error, words: &str| assert!(error.to_string().contains(words), "{error}");
    refused(rewrite_checkpoint(&old("checkpoint")).unwrap_err(), "the version must be 5, found: `2`");
    refused(rewrite_statistics(&old("statistics")).unwrap_err(), "the version must be 3, found: `1`");
}
