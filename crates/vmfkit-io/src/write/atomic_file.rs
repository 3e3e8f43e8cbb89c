//! [`AtomicFile`]: a file that appears under its name only when it is complete; [`FileLock`]:
//! exclusive use of a file by one process.
//!
//! A partial file has a name of its own in the same folder, `.NAME.N.partial`, and is locked by its
//! writer. The system releases the lock when the process ends, however it ends. A partial file that
//! can be locked was therefore abandoned, and the next writer of the same NAME removes it. Process
//! ids would not do: they repeat in containers and mean nothing on other machines that share a
//! disk. On file systems without locks, partial files are left alone.
//!
//! What must change together: a file is created, locked and added to [`UNFINISHED`] while that list
//! is locked, so that an interrupt finds either no file or one on the list. After locking a file,
//! check that it still has its name: another process may have removed it.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use twox_hash::XxHash3_64;

/// Number of names to try for a partial file.
const MOST_ATTEMPTS: u32 = 1000;
/// Bytes of a name that its partial files keep. File systems allow 255 bytes, some 143.
const LONGEST_STEM: usize = 100;

/// Files to remove if the process ends early.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this value lives, the process has no partial files, and none can be created or completed.
pub struct NoMoreFiles(#[expect(dead_code, reason = "held, not read")] MutexGuard<'static, Vec<PathBuf>>);

/// Removes all partial files of this process. For signal handlers that end the process.
pub fn remove_unfinished_files() -> NoMoreFiles {
    let mut unfinished = unfinished();
    for path in unfinished.drain(..) {
        let _ = fs::remove_file(path);
    }
    NoMoreFiles(unfinished)
}

/// A file that is being written. [`commit`](Self::commit) gives it its name and replaces an older
/// file. If it is dropped before that, it is removed and the older file stays.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl AtomicFile {
    /// Begins a file that will be at `path`. If that is a link, the file it points to is replaced,
    /// and the link stays.
    pub fn create(path: &Path) -> io::Result<Self> {
        let target = behind_links(path);
        let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let beside = |attempt| target.with_file_name(format!(".{}.{attempt}.partial", stem(name)));
        let mut attempt = 0;
        while attempt < MOST_ATTEMPTS {
            let path = beside(attempt);
            let mut unfinished = unfinished();
            let file = match new_file(&path, target.exists()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    attempt += u32::from(!remove_abandoned(&path));
                    continue;
                }
                file => file?,
            };
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                // Another writer takes it for abandoned and removes it.
                attempt += 1;
                continue;
            }
            if has_name(&file, &path) {
                unfinished.push(path.clone());
                drop(unfinished);
                // Several processes may have been killed at once.
                (attempt + 1..MOST_ATTEMPTS).map(beside).take_while(|path| remove_abandoned(path)).for_each(drop);
                return Ok(AtomicFile { file, path, target });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The file to write.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name. The data are synchronized to disk before and the name after, so
    /// that a power failure leaves either the old file or the new one.
    pub fn commit(self) -> io::Result<()> {
        self.file.sync_all()?;
        keep_mode(&self.target, &self.file)?;
        {
            let mut unfinished = unfinished();
            fs::rename(&self.path, &self.target)?;
            unfinished.retain(|path| *path != self.path);
        }
        sync_folder(folder_of(&self.target))
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        forget_and_remove(&self.path);
    }
}

/// Writes a whole file atomically. Devices and pipes are written directly.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return File::options().write(true).open(path)?.write_all(bytes);
    }
    let file = AtomicFile::create(path)?;
    file.file().write_all(bytes)?;
    file.commit()
}

/// Keeps other processes from using a file until it is dropped or the process ends.
#[derive(Debug)]
pub struct FileLock {
    /// Must be closed last.
    _file: File,
    path: PathBuf,
}

/// Why a file could not be locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process has locked it.
    #[error("another process is using it, process: `{holder}`")]
    Held {
        /// Process id and host name, as far as they are known.
        holder: String,
    },
    /// The lock file cannot be created.
    #[error("cannot be locked")]
    Io(#[from] io::Error),
}

impl FileLock {
    /// Locks the file at `path`, which need not exist. The lock is on a file next to it,
    /// `.NAME.lock`, which contains the process id. It has no effect on file systems without locks.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let target = behind_links(path);
        let name = target.file_name().ok_or(io::Error::from(io::ErrorKind::InvalidFilename))?;
        let path = target.with_file_name(format!(".{}.lock", stem(name)));
        loop {
            let mut unfinished = unfinished();
            let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                let mut holder = String::new();
                let _ = file.take(256).read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() { "unknown" } else { holder.trim() }.to_owned();
                return Err(LockError::Held { holder });
            }
            // Its last owner may have removed it in the meantime.
            if has_name(&file, &path) {
                file.set_len(0)?;
                file.rewind()?;
                let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                let machine = if machine.is_empty() { String::new() } else { format!(" on {}", machine.trim()) };
                write!(file, "{}{machine}", std::process::id())?;
                unfinished.push(path.clone());
                return Ok(FileLock { _file: file, path });
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        forget_and_remove(&self.path);
    }
}

fn forget_and_remove(path: &Path) {
    let mut unfinished = unfinished();
    // A completed file has another name by now, and its old name may belong to another file.
    if let Some(at) = unfinished.iter().position(|other| other == path) {
        unfinished.swap_remove(at);
        let _ = fs::remove_file(path);
    }
}

/// Removes a partial file that was abandoned. Returns whether it is gone.
fn remove_abandoned(path: &Path) -> bool {
    // A link may point to any file.
    if !fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let Ok(file) = File::options().write(true).open(path) else { return false };
    file.try_lock().is_ok() && has_name(&file, path) && fs::remove_file(path).is_ok()
}

/// Whether an open file still has this name.
#[cfg(unix)]
fn has_name(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().ok().map(identity).zip(fs::symlink_metadata(path).ok().map(identity)).is_some_and(|(one, other)| one == other)
}

#[cfg(not(unix))]
fn has_name(_file: &File, path: &Path) -> bool {
    path.exists()
}

/// A name shortened so that a prefix and a suffix can be added.
fn stem(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    if text.len() <= LONGEST_STEM {
        return text.into_owned();
    }
    let cut = (0..=LONGEST_STEM - 17).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}-{:016x}", &text[..cut], XxHash3_64::oneshot(name.as_encoded_bytes()))
}

/// Where the links at a path lead, which need not exist.
pub fn behind_links(path: &Path) -> PathBuf {
    let mut target = path.to_owned();
    // As many as operating systems follow.
    for _ in 0..40 {
        let Ok(next) = fs::read_link(&target) else { break };
        target = target.parent().unwrap_or(Path::new("")).join(next);
    }
    target
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a new file. Only the owner can read it until it has the mode of the file that it
/// replaces.
fn new_file(path: &Path, replaces: bool) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if replaces {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = replaces;
    options.open(path)
}

/// A replaced file keeps its permissions.
fn keep_mode(from: &Path, to: &File) -> io::Result<()> {
    match fs::metadata(from) {
        Ok(metadata) if cfg!(unix) => to.set_permissions(metadata.permissions()),
        _ => Ok(()),
    }
}

/// A new name is on the disk once its folder is synchronized. Some file systems cannot do that, and
/// some folders can be written but not read.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if !matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let first = AtomicFile::create(&path).unwrap();
        let second = AtomicFile::create(&path).unwrap();
        assert_eq!(names(folder.path()), [".x.0.partial", ".x.1.partial"], "two that are being written");
        first.file().write_all(b"first").unwrap();
        first.commit().unwrap();
        assert_eq!(
            (names(folder.path()), fs::read(&path).unwrap()),
            (vec![".x.1.partial".into(), "x".into()], b"first".to_vec())
        );
        drop(second);
        write_file(&path, b"third").unwrap();
        assert_eq!((names(folder.path()), fs::read(&path).unwrap()), (vec!["x".into()], b"third".to_vec()));
    }

    #[test]
    fn abandoned_files_are_removed_by_the_next_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in [".x.0.partial", ".x.1.partial", ".x.2.partial", ".y.0.partial", ".x.9.partial"] {
            fs::write(path(name), "left").unwrap();
        }
        let written = File::options().write(true).open(path(".x.1.partial")).unwrap();
        written.lock().unwrap();
        let file = AtomicFile::create(&path("x")).unwrap();
        assert_eq!(names(folder.path()), [".x.0.partial", ".x.1.partial", ".x.2.partial", ".x.9.partial", ".y.0.partial"]);
        drop((file, written));
        write_file(&path("x"), b"").unwrap();
        assert_eq!(names(folder.path()), [".x.9.partial", ".y.0.partial", "x"], "up to the first gap");
    }

    /// The target of a link belongs to someone else, whatever the link is called.
    #[cfg(unix)]
    #[test]
    fn a_link_in_the_place_of_a_partial_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("precious"), "kept").unwrap();
        std::os::unix::fs::symlink("precious", path(".x.0.partial")).unwrap();
        write_file(&path("x"), b"new").unwrap();
        assert_eq!(fs::read(path("precious")).unwrap(), b"kept");
        assert_eq!(names(folder.path()), [".x.0.partial", "precious", "x"]);
    }

    #[test]
    fn names_of_any_length_are_written() {
        let folder = tempfile::tempdir().unwrap();
        for length in [1, LONGEST_STEM, LONGEST_STEM + 1, 233, 234, 255] {
            let name = "n".repeat(length);
            write_file(&folder.path().join(&name), b"x").unwrap();
            drop(FileLock::acquire(&folder.path().join(&name)).unwrap());
            assert_eq!(fs::read(folder.path().join(name)).unwrap(), b"x");
        }
        let (one, other) = ("\u{e9}".repeat(100), "\u{e9}".repeat(101));
        let (one, other) = (stem(one.as_ref()), stem(other.as_ref()));
        assert!(one != other && one.len() <= LONGEST_STEM && one.starts_with('\u{e9}'));
        assert!(write_file(&folder.path().join("n".repeat(256)), b"x").is_err());
    }

    #[test]
    fn a_lock_is_for_one_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let lock = FileLock::acquire(&path).unwrap();
        let held = FileLock::acquire(&path).unwrap_err().to_string();
        let this = format!("another process is using it, process: `{}", std::process::id());
        assert!(held.starts_with(&this), "{held}");
        drop(lock);
        assert_eq!(names(folder.path()), Vec::<String>::new());
        // A lock file of a process that was killed.
        fs::write(folder.path().join(".state.lock"), "1234567890 on a machine of the past").unwrap();
        let again = FileLock::acquire(&path).unwrap();
        assert!(fs::read_to_string(folder.path().join(".state.lock")).unwrap().starts_with(&std::process::id().to_string()));
        drop(again);
    }

    #[cfg(unix)]
    #[test]
    fn links_to_one_file_share_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("state", folder.path().join("link")).unwrap();
        let _lock = FileLock::acquire(&folder.path().join("state")).unwrap();
        assert!(matches!(FileLock::acquire(&folder.path().join("link")), Err(LockError::Held { .. })));
    }
}
