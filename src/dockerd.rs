//! The running dockerd: makes it read its file again, and asks whether it knows a runtime.
//!
//! Reads its pid file and `/proc`, sends one signal, runs the `docker` client.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long the daemon may take to read its file.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one call of the client may take.
const ONE_CALL: Duration = Duration::from_secs(5);

/// A daemon that runs.
#[derive(Debug)]
pub struct Dockerd {
    /// Its process.
    pub pid: i32,
    arguments: Vec<String>,
}

impl Dockerd {
    /// The daemon that wrote this pid file; none where it does not run.
    #[must_use]
    pub fn find(pidfile: &Path) -> Option<Self> {
        let pid: i32 = fs::read_to_string(pidfile).ok()?.trim().parse().ok().filter(|pid| *pid > 0)?;
        // The pid of a daemon that is gone may be another program's by now.
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let arguments = arguments.split(|byte| *byte == 0).map(|argument| String::from_utf8_lossy(argument).into_owned()).collect();
        (name.trim_end() == "dockerd").then_some(Self { pid, arguments })
    }

    /// Was it started with this flag?
    #[must_use]
    pub fn has_flag(&self, flag: &str) -> bool {
        self.arguments.iter().any(|argument| argument == flag || argument.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
    }

    /// Makes it read its file again: what it reloads it takes over at once, and containers go on.
    ///
    /// # Errors
    /// It may not be signalled.
    pub fn reload(&self) -> Result<()> {
        kill(Pid::from_raw(self.pid), Signal::SIGHUP).with_context(|| format!("dockerd (pid {}) cannot be sent SIGHUP", self.pid))
    }
}

/// What the client was told.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The daemon knows the runtime.
    Known,
    /// It does not.
    Unknown,
}

/// Asks until the answer is this one, for ten seconds at most; gives the last answer.
///
/// # Errors
/// There is no client, or it gets no answer.
pub fn ask(runtime: &str, socket: Option<&str>, wanted: &Answer) -> Result<Answer> {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = ask_once(runtime, socket);
        // Without a client asking again is in vain.
        let in_vain = answer.as_ref().is_err_and(|error| error.is::<std::io::Error>());
        if in_vain || answer.as_ref().is_ok_and(|answer| answer == wanted) || Instant::now() >= end {
            return answer;
        }
        sleep(Duration::from_millis(100));
    }
}

fn ask_once(runtime: &str, socket: Option<&str>) -> Result<Answer> {
    let mut client = Command::new("docker");
    client.args(["info", "--format", "{{json .Runtimes}}"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(socket) = socket {
        client.env("DOCKER_HOST", socket);
    }
    let mut child = client.spawn().context("there is no docker client")?;
    let end = Instant::now() + ONE_CALL;
    // The answer is shorter than a pipe, so the client never waits for its reader.
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() < end => sleep(Duration::from_millis(20)),
            None => {
                child.kill()?;
                child.wait()?;
                bail!("docker info gave no answer in {} s", ONE_CALL.as_secs());
            }
        }
    };
    ensure!(status.success(), "docker info does not reach it");
    let mut answer = String::new();
    child.stdout.take().context("docker info has an output")?.read_to_string(&mut answer)?;
    let runtimes: serde_json::Value = serde_json::from_str(&answer).context("docker info has no answer")?;
    Ok(if runtimes.get(runtime).is_some() { Answer::Known } else { Answer::Unknown })
}
