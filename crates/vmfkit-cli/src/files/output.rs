//! Outputs: standard output, or files that appear only when complete.

use crate::interrupt;
use crate::report::format::escaped_lines;
use crate::report::notes;
use anyhow::Result;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vmfkit_io::{AtomicFile, Destination, behind_links};

/// The result cannot be written: exit code 1, unless the reader of a pipe has closed it.
#[derive(Debug, thiserror::Error)]
#[error("{name}: cannot be written")]
pub struct WriteError {
    name: String,
    source: io::Error,
}

impl WriteError {
    pub fn new(name: String, source: io::Error) -> Self {
        WriteError { name, source }
    }

    /// Whether the reader of a pipe has closed it.
    pub fn is_broken_pipe(&self) -> bool {
        self.source.kind() == io::ErrorKind::BrokenPipe
    }
}

/// An output.
///
/// A regular file is an [`AtomicFile`], completed by [`Output::finish`]. If it is dropped before
/// that, the previous file remains. Devices and pipes are written directly.
pub struct Output {
    writer: BufWriter<Box<dyn Write + Send>>,
    name: String,
    /// A second handle of a regular file.
    file: Option<File>,
    atomic: Option<AtomicFile>,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Self {
        Self::around(Box::new(io::stdout()), "standard output".to_owned(), None, None)
    }

    /// The file at `path`, or standard output for `-`.
    pub fn create(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::stdout());
        }
        let name = path.display().to_string();
        let open = || -> io::Result<(File, Option<AtomicFile>)> {
            if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
                return Ok((File::options().write(true).open(path)?, None));
            }
            // An interrupt removes incomplete files.
            interrupt::install_handler();
            let atomic = AtomicFile::create(path)?;
            Ok((atomic.file().try_clone()?, Some(atomic)))
        };
        let (file, atomic) = open().map_err(|source| WriteError { name: name.clone(), source })?;
        let same = atomic.as_ref().and_then(|atomic| atomic.file().try_clone().ok());
        Ok(Self::around(Box::new(file), name, same, atomic))
    }

    fn around(writer: Box<dyn Write + Send>, name: String, file: Option<File>, atomic: Option<AtomicFile>) -> Self {
        Output { writer: BufWriter::with_capacity(1 << 16, writer), name, file, atomic }
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.writer.write_all(bytes.as_ref()).map_err(|source| self.failure(source))
    }

    /// The error of a failed write.
    pub fn failure(&self, source: io::Error) -> anyhow::Error {
        WriteError { name: self.name.clone(), source }.into()
    }

    /// Completes the output.
    pub fn finish(self) -> Result<()> {
        let Output { mut writer, name, atomic, .. } = self;
        let finish = || {
            writer.flush()?;
            atomic.map_or(Ok(()), AtomicFile::commit)
        };
        finish().map_err(|source| WriteError { name, source }.into())
    }
}

/// An output shared with the writer of a format.
#[derive(Clone)]
pub struct SharedOutput(Arc<Mutex<Output>>);

impl SharedOutput {
    pub fn new(output: Output) -> Self {
        SharedOutput(Arc::new(Mutex::new(output)))
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error with the name of the output; failed writes become a [`WriteError`].
    pub fn explain(&self, error: vmfkit_io::Error) -> anyhow::Error {
        let output = self.lock();
        match error {
            vmfkit_io::Error::Write(source) => output.failure(source),
            other => anyhow::Error::from(other).context(output.name().to_owned()),
        }
    }

    /// Completes the output after the writer of the format was dropped.
    pub fn finish(self) -> Result<()> {
        let output = Arc::into_inner(self.0).expect("the writer of the format was dropped");
        output.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
    }
}

impl Destination for SharedOutput {
    fn can_restart(&self) -> bool {
        self.lock().file.is_some()
    }

    fn restart(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut output = self.lock();
        output.writer.flush()?;
        output.file.as_mut().ok_or(io::ErrorKind::Unsupported)?.restart(bytes)
    }
}

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().writer.flush()
    }
}

/// Whether two outputs would overwrite each other. Devices and pipes accept both.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    // A file that does not exist yet is identified by its folder.
    let name = |path: &Path| match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => None,
        Ok(_) => fs::canonicalize(path).ok(),
        Err(_) => {
            let path = behind_links(path);
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Some(fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()).join(path.file_name()?))
        }
    };
    name(one).is_some_and(|name_of_one| name(other) == Some(name_of_one))
}

/// Writes a whole file.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let mut output = Output::create(path)?;
    output.write(bytes)?;
    output.finish()
}

/// Writes a short text to standard output.
pub fn print(text: impl AsRef<str>) -> Result<()> {
    let mut output = Output::stdout();
    output.write(escaped_lines(text.as_ref()))?;
    output.finish()
}

/// Prints a report to standard output, or to standard error if standard output holds the result.
pub fn report(text: &str, output_is_taken: bool) -> Result<()> {
    if output_is_taken {
        notes::note(text.trim_end());
        return Ok(());
    }
    print(text)
}
