//! One request to the daemon that `rlctl` would not send, byte for byte, and its answer.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
};

use crate::PATIENCE;

/// Sends a request with `body` over `socket`, and returns head and body of the response.
///
/// # Errors
///
/// If the daemon cannot be reached, or does not answer.
pub fn exchange(socket: &Path, method: &str, path: &str, body: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    // The daemon may answer, and hang up, before it has read everything.
    let _ = stream.write_all(body.as_bytes());
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer)
        && answer.is_empty()
    {
        return Err(error);
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
