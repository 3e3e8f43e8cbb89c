//! Names with `*`, `?` and `[...]` as in a shell. `**` matches folders at any depth.

use crate::{Error, Result};
use glob::{MatchOptions, Pattern};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Whether a name is a pattern.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The files whose names match, in order. Names need not be UTF-8: an invalid sequence counts as
/// one character.
pub(crate) fn files(pattern: &str) -> Result<Vec<PathBuf>> {
    let understood = |text: &str| {
        Pattern::new(text).map_err(|error| Error::format(format!("the pattern is not valid: {}, found: `{pattern}`", error.msg)))
    };
    understood(pattern)?;
    let mut found = vec![PathBuf::new()];
    for component in Path::new(pattern).components() {
        found = match component {
            Component::Normal(name) if name == "**" => {
                found.iter().map(|folder| folders_in(folder)).collect::<Result<Vec<_>>>()?.concat()
            }
            Component::Normal(name) if name.to_str().is_some_and(is_pattern) => {
                let pattern = understood(&name.to_string_lossy())?;
                found.iter().map(|folder| matches_in(folder, &pattern)).collect::<Result<Vec<_>>>()?.concat()
            }
            other => found.into_iter().map(|folder| folder.join(other)).collect(),
        };
    }
    found.retain(|path| path.is_file());
    found.sort();
    found.dedup();
    Ok(found)
}

/// Entries of a folder that match; none if it is not a folder.
fn matches_in(folder: &Path, pattern: &Pattern) -> Result<Vec<PathBuf>> {
    let as_a_shell_does =
        MatchOptions { require_literal_separator: true, require_literal_leading_dot: true, ..MatchOptions::new() };
    let names = names_in(folder)?.into_iter();
    Ok(names
        .filter(|name| pattern.matches_with(&name.to_string_lossy(), as_a_shell_does))
        .map(|name| folder.join(name))
        .collect())
}

/// A folder and all folders below it. Hidden folders are skipped; so are links, which may form
/// cycles.
fn folders_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = vec![folder.to_owned()];
    for name in names_in(folder)? {
        let path = folder.join(&name);
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
        if is_folder && !name.as_encoded_bytes().starts_with(b".") {
            all.extend(folders_in(&path)?);
        }
    }
    Ok(all)
}

fn names_in(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    Ok(fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?)
}
