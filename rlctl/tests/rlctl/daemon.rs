//! A fake daemon with scripted answers, over HTTP/1 on a Unix socket, that records its requests.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
};

use ratelimit_core::api::{Problem, Refused};
use serde::Serialize;
use tempfile::TempDir;

/// The kind of server behind the socket.
pub enum Daemon {
    /// A daemon with one answer to everything: status and body.
    Answers(u16, String),
    /// A daemon with an answer for each path, without its query.
    ByPath(Vec<(&'static str, String)>),
    /// A daemon that takes the request and hangs up.
    HangsUp,
    /// Nothing.
    Absent,
}

/// A daemon that does what it is asked.
pub fn answers(answer: &impl Serialize) -> Daemon {
    Daemon::Answers(200, serde_json::to_string(answer).unwrap())
}

/// A daemon that refuses.
pub fn refuses(status: u16, error: &str, hint: Option<&str>) -> Daemon {
    let refused = Refused {
        error: error.to_owned(),
        hint: hint.map(str::to_owned),
        code: None,
        quoting: None,
    };
    let problem = Problem::new(status, refused);
    Daemon::Answers(status, serde_json::to_string(&problem).unwrap())
}

/// A socket in a directory of its own, and whoever listens there.
pub struct ScriptedDaemon {
    directory: TempDir,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ScriptedDaemon {
    pub fn start(daemon: Daemon) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let list = "# a list\n192.0.2.1\n\n192.0.2.0/24 # a comment\n";
        fs::write(directory.path().join("list.txt"), list).unwrap();
        let scripted = Self {
            directory,
            requests: Arc::default(),
        };
        if !matches!(daemon, Daemon::Absent) {
            let listener = UnixListener::bind(scripted.socket()).unwrap();
            let requests = scripted.requests.clone();
            // It ends with the process of the test.
            thread::spawn(move || serve(&listener, &daemon, &requests));
        }
        scripted
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.directory().join("control.sock")
    }

    /// Method, path and body of every request so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(listener: &UnixListener, daemon: &Daemon, requests: &Mutex<Vec<String>>) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let request = read(&stream);
        let path = request
            .split(' ')
            .nth(1)
            .and_then(|path| path.split('?').next());
        let answer = match daemon {
            Daemon::Answers(status, body) => Some((status, body)),
            Daemon::ByPath(answers) => {
                let mut answers = answers.iter();
                answers
                    .find(|(own, _)| Some(*own) == path)
                    .map(|(_, body)| (&200, body))
            }
            Daemon::HangsUp | Daemon::Absent => None,
        };
        requests.lock().unwrap().push(request);
        if let Some((status, body)) = answer {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all((head + body).as_bytes()).unwrap();
        }
    }
}

fn read(stream: &UnixStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let request = line.strip_suffix(" HTTP/1.1\r\n").unwrap().to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    format!("{request} {}", String::from_utf8(body).unwrap())
        .trim_end()
        .to_owned()
}
