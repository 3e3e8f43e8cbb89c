//! Objects of S3, Google Cloud Storage and Azure, and files of web servers, read by byte ranges.
//!
//! Keys, regions and endpoints come from the environment variables that the clouds' own tools use
//! (`AWS_REGION`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME` and so on). The crate
//! `object_store` retries failed requests.

use crate::error::{Error, Result};
use crate::guard::damaged;
use ::object_store::aws::AmazonS3Builder;
use ::object_store::azure::MicrosoftAzureBuilder;
use ::object_store::gcp::GoogleCloudStorageBuilder;
use ::object_store::http::HttpBuilder;
use ::object_store::path::Path as ObjectPath;
use ::object_store::{ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt, RetryConfig};
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use url::Url;

/// Bytes per request: enough to hide its latency.
const PIECE: u64 = 8 << 20;

/// Pieces kept in memory. A column read sequentially needs two: the current one and the next.
const KEPT: usize = 8;

/// An object of known length, which must not change while it is read.
#[derive(Clone)]
pub(crate) struct RemoteFile(Arc<Remote>);

/// An object that is being read, with the pieces in memory. They are dropped with its last reader.
#[derive(Clone)]
pub(crate) struct OpenRemote {
    remote: Arc<Remote>,
    pieces: Arc<Mutex<VecDeque<(u64, Piece)>>>,
}

struct Remote {
    store: Arc<dyn ObjectStore>,
    path: ObjectPath,
    name: String,
    length: u64,
    e_tag: Option<String>,
}

/// A range of the object, or the pending request for it.
enum Piece {
    Ready(Bytes),
    Asked(JoinHandle<Result<Bytes>>),
}

/// Requests the length of an object: `s3://bucket/rows.parquet`, `gs://`, `az://`, `https://`.
pub(crate) fn open_remote(location: &str) -> Result<RemoteFile> {
    open_with(location, RetryConfig::default())
}

fn open_with(location: &str, retry: RetryConfig) -> Result<RemoteFile> {
    let (store, path, _) = connect(location, retry)?;
    let meta = wait(store.head(&path))?.map_err(from_store)?;
    Ok(RemoteFile(Arc::new(Remote { store, path, name: location.to_owned(), length: meta.size, e_tag: meta.e_tag })))
}

/// Lists the objects of a folder, `s3://bucket/rows/`, or those whose last name component matches a
/// pattern, `s3://bucket/rows/part-*.parquet`, in the order of their names. Web servers have no
/// such list.
pub(crate) fn list_remote(location: &str) -> Result<Vec<String>> {
    list_with(location, RetryConfig::default())
}

fn list_with(location: &str, retry: RetryConfig) -> Result<Vec<String>> {
    let (folder, pattern) = location.rsplit_once('/').unwrap_or((location, ""));
    let (store, path, mut url) = connect(folder, retry)?;
    if url.scheme().starts_with("http") {
        let what = format!("files of a web server must be named one by one, found: `{location}`");
        return Err(Error::Format { what });
    }
    if folder.contains(['*', '?']) {
        let what = format!("* and ? are allowed only after the last /, found: `{location}`");
        return Err(Error::Format { what });
    }
    let location = |path: ObjectPath| {
        url.set_path(path.as_ref());
        url.to_string()
    };
    Ok(matching(&*store, &path, pattern)?.into_iter().map(location).collect())
}

/// The objects directly in a folder whose names match.
fn matching(store: &dyn ObjectStore, folder: &ObjectPath, pattern: &str) -> Result<Vec<ObjectPath>> {
    let found = wait(store.list_with_delimiter(Some(folder)))?.map_err(from_store)?;
    let mut paths: Vec<ObjectPath> = found.objects.into_iter().map(|object| object.location).collect();
    paths.retain(|path| path.filename().is_some_and(|name| pattern.is_empty() || fits(pattern.as_bytes(), name.as_bytes())));
    paths.sort();
    Ok(paths)
}

/// `*` matches any bytes, `?` any one byte.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|skipped| fits(rest, &name[skipped..])),
        ([b'?', pattern @ ..], [_, name @ ..]) => fits(pattern, name),
        ([first, pattern @ ..], [byte, name @ ..]) if first == byte => fits(pattern, name),
        _ => false,
    }
}

fn connect(location: &str, retry: RetryConfig) -> Result<(Arc<dyn ObjectStore>, ObjectPath, Url)> {
    let unknown = || {
        let what = format!("a location must begin with s3://, gs://, az://, http:// or https://, found: `{location}`");
        Error::Format { what }
    };
    // The pattern has been removed by now. Remaining pattern characters are part of a name.
    let url = Url::parse(location).map_err(|_| unknown())?;
    if url.query().is_some() {
        return Err(Error::Format { what: format!("the part after a ? is not sent to a server, found: `{location}`") });
    }
    let path = ObjectPath::from_url_path(url.path()).map_err(|error| from_store(error.into()))?;
    let store: Arc<dyn ObjectStore> = match url.scheme() {
        "s3" | "s3a" => Arc::new(AmazonS3Builder::from_env().with_url(location).with_retry(retry).build().map_err(from_store)?),
        "gs" => Arc::new(GoogleCloudStorageBuilder::from_env().with_url(location).with_retry(retry).build().map_err(from_store)?),
        "az" | "abfs" | "abfss" => {
            Arc::new(MicrosoftAzureBuilder::from_env().with_url(location).with_retry(retry).build().map_err(from_store)?)
        }
        "http" | "https" => {
            let builder = HttpBuilder::new().with_url(&url[..url::Position::BeforePath]);
            let builder = builder.with_client_options(ClientOptions::new().with_allow_http(true)).with_retry(retry);
            Arc::new(builder.build().map_err(from_store)?)
        }
        _ => return Err(unknown()),
    };
    Ok((store, path, url))
}

impl RemoteFile {
    /// Its location.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// The current length and version.
    pub(crate) fn ask(&self) -> Result<(u64, Option<String>)> {
        let meta = wait(self.0.store.head(&self.0.path))?.map_err(from_store)?;
        Ok((meta.size, meta.e_tag))
    }

    /// Begins to read it, without pieces of earlier reads.
    pub(crate) fn open(&self) -> OpenRemote {
        OpenRemote { remote: self.0.clone(), pieces: Arc::default() }
    }
}

impl OpenRemote {
    pub(crate) fn len(&self) -> u64 {
        self.remote.length
    }

    /// Reads bytes from `start`: at most `most`, all from one piece, and none only at the end.
    pub(crate) fn read_at(&self, start: u64, most: usize) -> io::Result<Bytes> {
        if start >= self.len() || most == 0 {
            return Ok(Bytes::new());
        }
        let mut bytes = self.piece(start / PIECE).map_err(into_io)?.slice((start % PIECE) as usize..);
        bytes.truncate(most);
        Ok(bytes)
    }

    /// Piece `number`. After two consecutive pieces the third is requested in advance.
    fn piece(&self, number: u64) -> Result<Bytes> {
        // A thread that panicked has not left an incomplete piece.
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let index = pieces.iter().position(|(kept, _)| *kept == number);
        let piece = index.and_then(|index| pieces.remove(index)).map(|(_, piece)| piece);
        let bytes = match piece {
            Some(Piece::Ready(bytes)) => bytes,
            Some(Piece::Asked(request)) => wait(request)?.map_err(|error| Error::Io(io::Error::other(error)))??,
            None => wait(self.remote.clone().fetch(number))??,
        };
        pieces.push_back((number, Piece::Ready(bytes.clone())));
        let has = |number| pieces.iter().any(|(kept, _)| *kept == number);
        let in_order = number == 0 || has(number - 1);
        if in_order && !has(number + 1) && (number + 1) * PIECE < self.len() {
            let request = runtime()?.spawn(self.remote.clone().fetch(number + 1));
            pieces.push_back((number + 1, Piece::Asked(request)));
        }
        while pieces.len() > KEPT {
            pieces.pop_front();
        }
        Ok(bytes)
    }
}

impl Remote {
    async fn fetch(self: Arc<Self>, number: u64) -> Result<Bytes> {
        let remote = &*self;
        let range = number * PIECE..remote.length.min((number + 1) * PIECE);
        let expected = range.end - range.start;
        // A weak tag never matches.
        let if_match = remote.e_tag.clone().filter(|tag| !tag.starts_with("W/"));
        let options = GetOptions { range: Some(GetRange::Bounded(range)), if_match, ..Default::default() };
        let answer = remote.store.get_opts(&remote.path, options).await.map_err(from_store)?;
        // Not every server respects the condition.
        if answer.meta.e_tag != remote.e_tag || answer.meta.size != remote.length {
            return Err(changed());
        }
        let bytes = answer.bytes().await.map_err(from_store)?;
        if bytes.len() as u64 != expected {
            return Err(damaged(format!("{} bytes where {expected} were requested", bytes.len())));
        }
        Ok(bytes)
    }
}

/// Two threads suffice: they wait for the network and check what arrives.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("vmfkit-remote").enable_all().build()?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

fn wait<T>(future: impl Future<Output = T>) -> Result<T> {
    Ok(runtime()?.block_on(future))
}

fn changed() -> Error {
    Error::Format { what: "the object must not change while it is read, found: `another version`".into() }
}

fn from_store(error: ::object_store::Error) -> Error {
    use ::object_store::Error as Store;
    let kind = match &error {
        Store::Precondition { .. } => return changed(),
        Store::NotFound { .. } => io::ErrorKind::NotFound,
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    Error::Io(io::Error::new(kind, error))
}

fn into_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
#[path = "object_store_tests.rs"]
mod tests;
