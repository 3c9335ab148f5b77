//! One call of the wrapper: what came of it, and what the stand-in runtime saw.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use serde_json::Value;

use crate::host::wait_until;

/// A call that has not ended.
pub(crate) struct Running {
    child: Option<Child>,
    record: PathBuf,
}

/// A call that has ended.
pub(crate) struct Call {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    record: PathBuf,
}

/// A container's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Init {
    pub(crate) pid: i32,
    start: u64,
}

impl Running {
    pub(crate) fn start(mut command: Command, record: PathBuf) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child: Some(child), record }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn holding(&self) -> bool {
        self.record.join("holding").exists()
    }

    /// Waits until the stand-in holds, as it was told.
    pub(crate) fn wait_for_hold(self) -> Self {
        wait_until("the stand-in's word that it holds", || self.holding());
        self
    }

    /// Lets the stand-in go on.
    pub(crate) fn release(self) -> Call {
        fs::remove_file(self.record.join("holding")).unwrap();
        self.finish()
    }

    pub(crate) fn has_init(&self) -> bool {
        Init::read(&self.record).is_some()
    }

    pub(crate) fn init(&self) -> Init {
        Init::read(&self.record).unwrap()
    }

    /// Kills the process that called, and leaves it a zombie until the end of the test.
    pub(crate) fn kill(&mut self) {
        self.child.as_mut().unwrap().kill().unwrap();
        let pid = i32::try_from(self.pid()).unwrap();
        wait_until("the death of the wrapper", || state_of(pid).is_none_or(|(state, _)| state == 'Z'));
    }

    /// Waits until the process that called has ended, however it did.
    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        self.child.as_mut().unwrap().wait().unwrap()
    }

    pub(crate) fn finish(mut self) -> Call {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        Call::new(output, self.record.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself; either way nothing is left.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Call {
    fn new(output: Output, record: PathBuf) -> Self {
        assert_eq!(output.status.signal(), None, "the wrapper was killed");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr), record }
    }

    /// The call, which must have gone well.
    pub(crate) fn ok(self) -> Self {
        assert_eq!((self.code, &*self.stderr), (Some(0), ""));
        self
    }

    /// Did the stand-in run?
    pub(crate) fn ran(&self) -> bool {
        self.record.join("argv").exists()
    }

    /// The stand-in's arguments, its name the first.
    pub(crate) fn argv(&self) -> Vec<Vec<u8>> {
        split_at_nul(&fs::read(self.record.join("argv")).unwrap())
    }

    /// The stand-in's environment, in its order.
    pub(crate) fn environ(&self) -> Vec<Vec<u8>> {
        split_at_nul(&fs::read(self.record.join("environ")).unwrap())
    }

    /// `config.json` as the stand-in found it.
    pub(crate) fn config_text(&self) -> String {
        fs::read_to_string(self.record.join("config.json")).unwrap()
    }

    /// What `exec --process` named, as the stand-in found it.
    pub(crate) fn process(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.record.join("process.json")).unwrap()).unwrap()
    }

    pub(crate) fn config(&self) -> Value {
        serde_json::from_str(&self.config_text()).unwrap()
    }

    /// The lease that the spec bears.
    pub(crate) fn lease(&self) -> String {
        self.config()["annotations"]["neuron-container-runtime.lease"].as_str().unwrap().to_owned()
    }

    pub(crate) fn init(&self) -> Init {
        Init::read(&self.record).unwrap()
    }

    /// Ends the container, where there is one.
    pub(crate) fn ended(&self) {
        if let Some(init) = Init::read(&self.record) {
            init.kill();
        }
    }

    /// What a hook left behind: `code`, `stderr` or `environ`.
    pub(crate) fn hook(&self, number: u32, what: &str) -> Option<String> {
        fs::read_to_string(self.record.join(format!("hook-{number}.{what}"))).ok()
    }

    /// The text of the file that `--log` named.
    pub(crate) fn engine_log(&self) -> String {
        fs::read_to_string(self.record.join("log.json")).unwrap_or_default()
    }

    /// The message of a refusal: exit code 1, one line for people, the same in one JSON line for the engine.
    pub(crate) fn refusal(&self) -> String {
        let message = one_error_line(self.code, &self.stdout, &self.stderr);
        let log = self.engine_log();
        assert!(log.ends_with('\n') && log.lines().count() == 1, "{log:?}");
        let entry: Value = serde_json::from_str(&log).unwrap();
        let entry = entry.as_object().unwrap();
        assert_eq!(entry.keys().map(String::as_str).collect::<Vec<_>>(), ["level", "msg", "time"]);
        assert_eq!((&entry["level"], &entry["msg"]), (&"error".into(), &message.clone().into()));
        assert!(is_rfc3339(entry["time"].as_str().unwrap()), "{log}");
        message
    }
}

impl Init {
    /// The process that the stand-in started, where it came so far.
    pub(crate) fn read(record: &Path) -> Option<Self> {
        let text = fs::read_to_string(record.join("init")).ok()?;
        let (pid, start) = text.split_once(' ')?;
        Some(Self { pid: pid.parse().ok()?, start: start.parse().ok()? })
    }

    pub(crate) fn alive(self) -> bool {
        state_of(self.pid).is_some_and(|(state, start)| start == self.start && !matches!(state, 'Z' | 'X'))
    }

    /// Kills it, and waits until the kernel has it dead.
    pub(crate) fn kill(self) {
        self.send_kill();
        wait_until("the death of a container", || !self.alive());
    }

    /// Kills it, for who has nobody to tell whether that went well.
    pub(crate) fn send_kill(self) {
        if self.alive() {
            let _ = Command::new("/bin/sh").args(["-c", "kill -9 \"$1\"", "sh", &self.pid.to_string()]).status();
        }
    }
}

/// The one line that a face of the program prints when it refuses, without `error: `.
///
/// It must hold nothing that steers a terminal, and none of the phrases by which Docker picks another exit code (design, Errors).
pub(crate) fn one_error_line(code: Option<i32>, stdout: &str, stderr: &str) -> String {
    assert_eq!((code, stdout), (Some(1), ""), "{stderr}");
    let line = stderr.strip_suffix('\n').unwrap_or_else(|| panic!("no line: {stderr:?}"));
    let message = line.strip_prefix("error: ").unwrap_or_else(|| panic!("no error: {stderr:?}"));
    assert!(!message.chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)), "{message:?}");
    let lower = message.to_lowercase();
    for phrase in ["no such file or directory", "executable file not found", "permission denied", "is a directory", "not a directory"] {
        assert!(!lower.contains(phrase), "{message}");
    }
    message.to_owned()
}

/// `2026-08-04T12:00:00Z`
pub(crate) fn is_rfc3339(time: &str) -> bool {
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00Z"
}

/// The state letter of a process and its start in clock ticks since boot (proc(5)).
pub(crate) fn state_of(pid: i32) -> Option<(char, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    Some((fields[0].chars().next()?, fields[19].parse().ok()?))
}

fn split_at_nul(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut parts: Vec<_> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    assert_eq!(parts.pop(), Some(Vec::new()));
    parts
}
