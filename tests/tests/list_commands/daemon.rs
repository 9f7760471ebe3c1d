//! A daemon over tables in memory, behind its own API on its own socket.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
};

use ratelimit_core::config;
use ratelimit_daemon::{
    control::{
        Controller, Handle, Store,
        commands::{DueLists, TakeList},
    },
    datapath::Memory,
    http::{self, ControlApi},
    protected::Protected,
    recording::Recorder,
    traffic_log::TrafficLog,
};
use ratelimit_tests::service::binary;
use tempfile::TempDir;
use tokio::{net::UnixListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

/// A daemon with paths of its own.
pub struct Daemon {
    directory: TempDir,
    memory: Arc<Memory>,
    controller: Handle,
    runtime: Runtime,
}

/// The output of `rlctl`.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Daemon {
    /// A daemon that runs, with what `toml` says besides interface and default policy. `$DIR` in it
    /// is its directory, in which there are `files`.
    pub fn start(toml: &str, files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let toml = toml.replace("$DIR", directory.path().to_str().unwrap());
        let state = directory.path().display();
        let whole = format!(
            "[[interface]]\n\
             name = \"eth0\"\n\
             [policy.default]\n\
             limits = []\n\
             {toml}\n\
             [paths]\n\
             state = \"{state}\"\n"
        );
        fs::write(directory.path().join("config.toml"), whole).unwrap();
        let config = config::load(&directory.path().join("config.toml")).unwrap();
        let store = Store::open(directory.path()).unwrap();
        let memory = Memory::new(&config.source, None).unwrap();
        let datapath = memory.open().unwrap();
        let mut controller =
            Controller::new(config, store, datapath, Protected::default()).unwrap();
        controller.take_lists();
        let (controller, _thread) = controller.spawn().unwrap();
        let runtime = Runtime::new().unwrap();
        let listener =
            runtime.block_on(async { UnixListener::bind(directory.path().join("control.sock")) });
        let (recorder, _requests) = Recorder::new();
        let (history, _ended) = TrafficLog::begin(directory.path().to_owned()).unwrap();
        let api = ControlApi::new(controller.clone(), recorder, history);
        runtime.spawn(http::serve_control(
            listener.unwrap(),
            api,
            CancellationToken::new(),
        ));
        Self {
            directory,
            memory,
            controller,
            runtime,
        }
    }

    /// A file in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file in its directory.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Runs `rlctl`. `$DIR` in arguments and in the output means the directory.
    pub fn rlctl(&self, words: &[&str], stdin: &str) -> Said {
        let directory = self.directory.path().to_str().unwrap();
        let mut child = Command::new(binary("rlctl"))
            .args(words.iter().map(|word| word.replace("$DIR", directory)))
            .env("RATELIMIT_SOCKET", self.path("control.sock"))
            .env("NO_COLOR", "1")
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that does not read stdin may end before all is written.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap().replace(directory, "$DIR");
        Said {
            code: output.status.code().unwrap(),
            stdout: text(output.stdout).trim_end().to_owned(),
            stderr: text(output.stderr).trim_end().to_owned(),
        }
    }

    /// Returns the completions of bash after this line, which ends with the word being typed.
    pub fn completed(&self, line: &str) -> Vec<String> {
        let script = "source <(COMPLETE=bash \"$RLCTL\")
            mapfile -t -d ' ' COMP_WORDS < <(printf %s \"$LINE\")
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _clap_complete_rlctl rlctl \"${COMP_WORDS[-1]}\"
            printf '%s\\n' \"${COMPREPLY[@]}\"";
        let output = Command::new("bash")
            .args(["-c", script])
            .env("RLCTL", binary("rlctl"))
            .env("RATELIMIT_SOCKET", self.path("control.sock"))
            .env("LINE", line)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        said.split_whitespace().map(str::to_owned).collect()
    }

    /// Reads the files of lists that are due, as the daemon does each second.
    pub fn read_due(&self) {
        let due = self.runtime.block_on(self.controller.call(DueLists));
        for file in due.unwrap() {
            let reading = file.read();
            let take = TakeList { file, reading };
            self.runtime.block_on(self.controller.call(take)).unwrap();
        }
    }

    /// The entries in the tables, a word each.
    pub fn entries(&self) -> String {
        let entries = self.memory.open().unwrap().lists.all().unwrap();
        let entries: BTreeMap<_, _> = entries.into_iter().collect();
        let prefixes: Vec<String> = entries.keys().map(ToString::to_string).collect();
        prefixes.join(" ")
    }
}
