//! A client with one connection, as other programs have it: it asks, and waits for the answer. It
//! understands HTTP, and what it needs of Redis.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::{
        fd::{AsRawFd, RawFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
};

use anyhow::{Context, Result, ensure};

/// Where a server listens.
#[derive(Clone, Debug)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A port.
    Tcp(SocketAddr),
}

trait Stream: Read + Write {}

impl Stream for UnixStream {}
impl Stream for TcpStream {}

/// A client.
pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
    descriptor: RawFd,
    line: String,
    answer: Answer,
}

/// An answer.
#[derive(Debug, Default)]
pub struct Answer {
    /// The first line.
    pub status: String,
    /// The rest of it without headers.
    pub body: Vec<u8>,
}

impl Client {
    /// Connects.
    pub fn connect(address: &Address) -> Result<Self> {
        let context = || format!("connecting to {address:?}");
        let (descriptor, stream): (_, Box<dyn Stream>) = match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).with_context(context)?;
                (stream.as_raw_fd(), Box::new(stream))
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).with_context(context)?;
                stream.set_nodelay(true)?;
                (stream.as_raw_fd(), Box::new(stream))
            }
        };
        Ok(Self {
            stream: BufReader::new(stream),
            descriptor,
            line: String::new(),
            answer: Answer::default(),
        })
    }

    /// Sends a request, and returns the answer.
    pub fn ask(&mut self, request: &[u8]) -> Result<&Answer> {
        self.stream.get_mut().write_all(request)?;
        self.wait()?;
        let Self {
            stream,
            line,
            answer: Answer { status, body },
            ..
        } = self;
        status.clear();
        stream.read_line(status)?;
        let mut length = 0;
        if let Some(bytes) = status.strip_prefix('$') {
            length = bytes.trim().parse::<usize>()? + "\r\n".len();
        }
        while status.starts_with("HTTP/") {
            line.clear();
            stream.read_line(line)?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
        }
        body.resize(length, 0);
        stream.read_exact(body)?;
        Ok(&self.answer)
    }

    /// Waits for an answer, as programs with a time limit do. The kernel wakes who sleeps in `recv`
    /// also when the request was read (`unix_write_space`), for nothing.
    fn wait(&self) -> Result<()> {
        let mut readable = libc::pollfd {
            fd: self.descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: it is one structure, and outlives the call.
        let answer = unsafe { libc::poll(&raw mut readable, 1, -1) };
        ensure!(answer == 1, io::Error::last_os_error());
        Ok(())
    }
}
