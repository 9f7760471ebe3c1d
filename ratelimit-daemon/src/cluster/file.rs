//! Reads secrets, certificates and keys without blocking on a file system that hangs.

use std::{io, path::Path, time::Duration};

use tokio::{sync::Semaphore, time::timeout};

/// The timeout for reading a file.
const READING: Duration = Duration::from_secs(1);
/// Maximum number of hanging reads, each of which occupies a thread until its file system answers.
static READS: Semaphore = Semaphore::const_new(4);

/// Returns the content of a file.
pub async fn read(path: &Path) -> io::Result<Vec<u8>> {
    let path = path.to_owned();
    let read = async {
        let permit = READS.acquire().await.map_err(io::Error::other)?;
        // Whoever waits for it may go; the permit goes with the thread.
        let read = tokio::spawn(async move {
            let read = tokio::fs::read(path).await;
            drop(permit);
            read
        });
        read.await.map_err(io::Error::other)?
    };
    timeout(READING, read).await.unwrap_or_else(|_| {
        let late = "its file system does not respond within 1s";
        Err(io::Error::new(io::ErrorKind::TimedOut, late))
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;
    use crate::clock;

    #[tokio::test]
    async fn a_file_that_hangs_is_an_error_and_few_threads_wait_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let began = clock::monotonic();
        for _ in 0..5 {
            let error = read(&pipe).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(error.to_string().contains("does not respond"), "{error}");
        }
        assert!(
            clock::elapsed(began) < 12 * READING,
            "{:?}",
            clock::elapsed(began)
        );
        assert_eq!(READS.available_permits(), 0);
        // A waiting reader continues when there is a writer.
        fs::write(&pipe, "").unwrap();
        while READS.available_permits() < 4 {
            tokio::task::yield_now().await;
        }
        let file = directory.path().join("file");
        fs::write(&file, "secret").unwrap();
        assert_eq!(read(&file).await.unwrap(), b"secret");
    }
}
