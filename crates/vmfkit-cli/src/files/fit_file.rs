//! The bytes of models, states and statistics, which are safetensors. Headers are checked first, so
//! that a file of another kind is refused before it fills the memory.

use crate::files::input;
use crate::files::is_standard;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use vmfkit::store::model::LONGEST_HEADER;
use vmfkit_io::excerpt;

/// Files up to this size are read without checking the header first.
const SMALL: u64 = 1 << 20;
/// Bytes of the header's length, which comes first.
const LENGTH: u64 = 8;

/// The bytes of a file, or of standard input for `-`, and its name in messages.
pub fn read(path: &Path) -> Result<(Vec<u8>, String)> {
    let name = input::display(path);
    let read = || {
        if is_standard(path) {
            return read_all(io::stdin().lock(), None);
        }
        let file = File::open(path).context("cannot be read")?;
        let metadata = file.metadata().context("cannot be read")?;
        read_all(file, metadata.is_file().then_some(metadata.len()))
    };
    Ok((read().with_context(|| name.clone())?, name))
}

/// All bytes. A long file must have the length that its header announces.
fn read_all(mut reader: impl Read, length: Option<u64>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    take(&mut reader, SMALL, &mut bytes)?;
    if (bytes.len() as u64) < SMALL {
        return Ok(bytes);
    }
    let header = bytes.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    if header > LONGEST_HEADER as u64 {
        return Err(not_ours(&bytes));
    }
    take(&mut reader, (LENGTH + header).saturating_sub(SMALL), &mut bytes)?;
    let data = bytes.get(LENGTH as usize..(LENGTH + header) as usize).and_then(data_length);
    let Some(end) = data.and_then(|data| data.checked_add(LENGTH + header)) else { return Err(not_ours(&bytes)) };
    let expected = end - LENGTH - header;
    if let Some(length) = length.filter(|length| *length != end) {
        bail!("the header declares {expected} bytes of data, found: `{}`", length.saturating_sub(LENGTH + header));
    }
    // One more byte reveals a pipe that is too long.
    take(&mut reader, (end + 1).saturating_sub(bytes.len() as u64), &mut bytes)?;
    Ok(bytes)
}

fn take(reader: &mut impl Read, most: u64, bytes: &mut Vec<u8>) -> Result<()> {
    reader.take(most).read_to_end(bytes).context("cannot be read")?;
    Ok(())
}

/// The number of bytes of data that a header announces; None if `vmf` did not write the file.
fn data_length(header: &[u8]) -> Option<u64> {
    let header: Value = serde_json::from_slice(header).ok()?;
    header["__metadata__"]["format"].as_str().filter(|format| format.starts_with("vmfkit."))?;
    let end = |tensor: &Value| tensor["data_offsets"][1].as_u64();
    Some(header.as_object()?.values().filter_map(end).max().unwrap_or(0))
}

fn not_ours(bytes: &[u8]) -> anyhow::Error {
    let start = excerpt(&bytes[..bytes.len().min(32)]);
    anyhow::anyhow!("not a model, a state or statistics written by `vmf`, found a file that starts with: `{start}`")
}
