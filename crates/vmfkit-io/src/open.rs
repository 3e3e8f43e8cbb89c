//! [`open`]: opens the rows at a location.

use crate::bytes::{Location, is_remote};
use crate::dataset::{Dataset, Input, Skipped};
use crate::pattern;
use crate::{Batch, Batches, DataSource, Error, Format, Ids, Options, Result};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use vmfkit::capacity;

/// Opens the rows of a file, of `-` (standard input), of a folder (all files in it whose names end
/// as those of a known format do), or of a pattern such as `embeddings/part-*.npy`. Several files
/// are read in the order of their names, as if they were one. With the feature `object-store` a
/// location may be `s3://bucket/part-*.parquet`, `gs://`, `az://` or `https://`.
///
/// A pipe is read once, without being held in memory; [`rewind`](vmfkit::source::Source::rewind)
/// after the first batch is refused. Tables without chosen columns are joined by position: the
/// names in their first lines are not compared.
pub fn open(location: &str, options: &Options) -> Result<DataSource> {
    open_all(&[location], options)
}

/// Opens several locations, which are read one after another.
pub fn open_all<S: AsRef<str>>(locations: &[S], options: &Options) -> Result<DataSource> {
    source(dataset(locations, options)?, &names(locations), options)
}

/// Opens a stream that can be read once: an array in C order, Arrow, CSV, TSV, JSON Lines or Matrix
/// Market. Error messages call it `name`.
pub fn open_stream(stream: impl Read + Send + 'static, name: &str, options: &Options) -> Result<DataSource> {
    source(Dataset::open(vec![Input::stream(stream, name)], options)?, name, options)
}

/// Opens the same locations as [`open_all`], for rows that need not have unit length.
pub fn open_batches<S: AsRef<str>>(locations: &[S], options: &Options) -> Result<Batches> {
    Ok(Batches::new(dataset(locations, options)?, options))
}

/// Reads one column of texts or integers, such as labels. The other columns may hold anything.
pub fn read_ids<S: AsRef<str>>(locations: &[S], column: &str, options: &Options) -> Result<Vec<Ids>> {
    let options = Options { ids_alone: true, angles: None, columns: Vec::new(), weight_column: None, ..options.clone() };
    let mut batches = open_batches(locations, &options.id_column(column))?;
    let (mut ids, mut batch) = (Vec::new(), Batch::default());
    while batches.read(&mut batch)? {
        ids.extend(batch.ids.take());
    }
    Ok(ids)
}

fn dataset<S: AsRef<str>>(locations: &[S], options: &Options) -> Result<Dataset> {
    let (mut inputs, mut skipped) = (Vec::new(), Skipped::default());
    for location in locations.iter().map(AsRef::as_ref) {
        match location {
            "-" => inputs.push(Input::stream(io::stdin(), &names(&[location]))),
            _ => inputs.extend(files(location, &mut skipped).map_err(|error| error.at(location))?),
        }
    }
    if inputs.is_empty() {
        return Err(Error::format("there must be a file to read, found: `0`"));
    }
    Ok(Dataset::open(inputs, options)?.with_skipped(skipped))
}

/// The name that messages use for these locations.
///
/// ```
/// assert_eq!(vmfkit_io::names(&["a.npy", "-"]), "a.npy, standard input");
/// ```
pub fn names<S: AsRef<str>>(locations: &[S]) -> String {
    let name = |location| if location == "-" { "standard input" } else { location };
    locations.iter().map(|location| name(location.as_ref())).collect::<Vec<_>>().join(", ")
}

/// The rows of a dataset. Rejects a dataset whose rows cannot have unit length.
fn source(dataset: Dataset, name: &str, options: &Options) -> Result<DataSource> {
    let schema = dataset.schema();
    if schema.rows == Some(0) {
        return Err(Error::from(vmfkit::Error::NoRows { weight: 0.0 }).at(name));
    }
    if schema.dim < 2 {
        let error = vmfkit::Error::Dimension { dim: schema.dim };
        let error = match schema.dim {
            1 => Error::format(format!("{error}\nhint: `--angles angle` reads one angle per row")),
            _ => error.into(),
        };
        return Err(error.at(dataset.first_name()));
    }
    // Every use needs at least a direction and its sums.
    capacity::check("sums of rows of this dimension", &[4, schema.dim])
        .map_err(|error| Error::from(error).at(dataset.first_name()))?;
    Ok(DataSource::new(dataset, options))
}

/// The files at a location, in the order of their names.
fn files(location: &str, skipped: &mut Skipped) -> Result<Vec<Input>> {
    if is_remote(location) {
        return remote_files(location, skipped);
    }
    let path = Path::new(location);
    let Ok(metadata) = fs::metadata(path) else {
        return match pattern::is_pattern(location) {
            true => matches(location),
            // The error is that of the operating system.
            false => File::open(path).map(|_| Vec::new()).map_err(Error::from),
        };
    };
    if metadata.is_file() {
        return Ok(vec![Input::File(Location::Local(path.to_owned()))]);
    }
    if !metadata.is_dir() {
        return Ok(vec![Input::stream(File::open(path)?, location)]);
    }
    let (paths, others) = files_in(path, skipped)?;
    if paths.is_empty() {
        return Err(nothing_known(others));
    }
    Ok(paths.into_iter().map(|path| Input::File(Location::Local(path))).collect())
}

/// The local files at a location, in the order in which [`open`] reads them. A location that is
/// neither a folder nor a pattern is returned as it is; errors are reported when it is opened.
pub fn local_files(location: &str) -> Vec<PathBuf> {
    let path = Path::new(location);
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            files_in(path, &mut Skipped::default()).map_or_else(|_| Vec::new(), |(paths, _)| paths)
        }
        Err(_) if pattern::is_pattern(location) => pattern::files(location).unwrap_or_default(),
        _ => vec![path.to_owned()],
    }
}

/// The files below a folder whose names have the extension of a known format, in order, and what
/// was skipped.
fn files_in(folder: &Path, skipped: &mut Skipped) -> Result<(Vec<PathBuf>, usize)> {
    let mut paths = Vec::new();
    let mut others = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let hidden = name.as_encoded_bytes().starts_with(b".");
        // Programs use such names for internal files, such as unfinished output.
        let own = name.as_encoded_bytes().starts_with(b"_");
        // Links are not followed: they may form cycles.
        if !hidden && !own && entry.file_type()?.is_dir() {
            match files_in(&path, skipped) {
                Ok((found, others_in)) => {
                    paths.extend(found);
                    others += others_in;
                }
                // For example `lost+found`.
                Err(_) => {
                    others += 1;
                    skipped.add(&path);
                }
            }
            continue;
        }
        if !hidden && path.is_file() && Format::of_name(&path).is_some() {
            paths.push(path);
            continue;
        }
        others += 1;
        if !hidden {
            skipped.add(&path);
        }
    }
    paths.sort();
    Ok((paths, others))
}

fn nothing_known(others: usize) -> Error {
    Error::format(format!("the folder must contain a file of a known format, other files: `{others}`"))
}

fn nothing_matches(pattern: &str) -> Error {
    // The same kind of error as for a single missing file.
    io::Error::new(io::ErrorKind::NotFound, format!("no file matches the pattern: `{pattern}`")).into()
}

#[cfg(not(feature = "object-store"))]
fn remote_files(location: &str, _: &mut Skipped) -> Result<Vec<Input>> {
    Err(Error::format(format!(
        "this build reads only local files, found: `{location}`\n\
         hint: install it with the feature `object-store`: `cargo install --path crates/vmfkit-cli --features object-store`"
    )))
}

/// The objects at a location, in the order of their names.
#[cfg(feature = "object-store")]
fn remote_files(location: &str, skipped: &mut Skipped) -> Result<Vec<Input>> {
    use crate::bytes::object_store::{list_remote, open_remote};
    let last = location.rsplit('/').next().unwrap_or_default();
    let listed = !location.starts_with("http") && (last.is_empty() || last.contains(['*', '?']));
    if !listed {
        return Ok(vec![Input::File(Location::Remote(open_remote(location)?))]);
    }
    let mut names = list_remote(location)?;
    let all = names.len();
    if last.is_empty() {
        names.retain(|name| {
            let known = Format::of_name(Path::new(name)).is_some();
            if !known {
                skipped.add(Path::new(name));
            }
            known
        });
    }
    if names.is_empty() {
        return Err(if last.is_empty() { nothing_known(all) } else { nothing_matches(location) });
    }
    let open = |name: String| Ok(Input::File(Location::Remote(open_remote(&name).map_err(|error| error.at(name))?)));
    names.into_iter().map(open).collect()
}

/// The files whose names match a pattern.
fn matches(pattern: &str) -> Result<Vec<Input>> {
    let paths = pattern::files(pattern)?;
    if paths.is_empty() {
        return Err(nothing_matches(pattern));
    }
    Ok(paths.into_iter().map(|path| Input::File(Location::Local(path))).collect())
}
