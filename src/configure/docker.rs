//! Docker's `daemon.json`: `runtimes.neuron`, and `default-runtime`.
//!
//! Never `runtimeArgs`: with them dockerd puts a shell script in front, which splits arguments at blanks.

use anyhow::Result;
use serde_json::{Value, json};

use super::{Edit, RUNTIME, Role, State, is_wrapper, json};
use crate::words::quoted;

/// Where the daemon looks unless `--config-file` says otherwise.
pub const FILE: &str = "/etc/docker/daemon.json";
/// Where the daemon writes its pid unless it is told otherwise.
pub const PIDFILE: &str = "/var/run/docker.pid";

/// The runtime that Docker brings, and its default.
const STOCK: &str = "runc";

const ENTRY: [&str; 2] = ["runtimes", RUNTIME];
const DEFAULT: [&str; 1] = ["default-runtime"];

/// The daemon's file.
#[derive(Debug)]
pub struct Daemon<'a> {
    /// The wrapper, absolute.
    pub runtime: &'a str,
}

impl Daemon<'_> {
    fn entry(&self) -> Value {
        json!({"path": self.runtime})
    }
}

impl Edit for Daemon<'_> {
    fn state(&self, text: &str) -> Result<State> {
        Ok(match value(text, &ENTRY)? {
            None => State::Absent,
            Some(entry) => match entry["path"].as_str() {
                Some(path) if is_wrapper(path) => State::Ours,
                Some(path) => State::Foreign(quoted(path)),
                None => State::Foreign(quoted(&entry.to_string())),
            },
        })
    }

    fn put_in(&self, text: &str, role: Role) -> Result<String> {
        let mut text = text.to_owned();
        if value(&text, &ENTRY)? != Some(self.entry()) {
            text = json::set(&text, &ENTRY, &self.entry())?;
        }
        if role == Role::Default && value(&text, &DEFAULT)? != Some(RUNTIME.into()) {
            text = json::set(&text, &DEFAULT, &RUNTIME.into())?;
        }
        Ok(text)
    }

    fn take_out(&self, text: &str, before: Option<&str>) -> Result<String> {
        let mut text = back(text, &ENTRY, before)?;
        if value(&text, &ENTRY[..1])? == Some(json!({})) {
            text = back(&text, &ENTRY[..1], before)?;
        }
        if value(&text, &DEFAULT)? == Some(RUNTIME.into()) {
            text = back(&text, &DEFAULT, before)?;
        }
        Ok(text)
    }
}

fn back(text: &str, path: &[&str], before: Option<&str>) -> Result<String> {
    match before.map(|before| value(before, path)).transpose()?.flatten() {
        Some(value) => json::set(text, path, &value),
        None => json::remove(text, path),
    }
}

fn value(text: &str, path: &[&str]) -> Result<Option<Value>> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    Ok(json::get(text, path)?.map(serde_json::from_str).transpose()?)
}

/// Who says what a daemon's default runtime is; both at once it does not bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultOf {
    /// Its file, or nobody.
    File,
    /// Its command line.
    CommandLine,
}

/// The text that makes a running daemon forget what a file no longer says: it keeps what a file does not mention (20.10,
/// daemon/reload.go), so its runtimes are mentioned, and its default where that is the file's to say.
///
/// # Errors
/// It does not parse.
pub fn forgetting(text: &str, default: DefaultOf) -> Result<String> {
    let mut text = text.to_owned();
    if value(&text, &ENTRY[..1])?.is_none_or(|runtimes| runtimes.is_null()) {
        text = json::set(&text, &ENTRY[..1], &json!({}))?;
    }
    if default == DefaultOf::File && value(&text, &DEFAULT)?.is_none() {
        text = json::set(&text, &DEFAULT, &STOCK.into())?;
    }
    Ok(text)
}

/// What the daemon's file says of the daemon itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Address {
    /// Where it writes its pid.
    pub pidfile: Option<String>,
    /// The first Unix socket that it listens on, as `DOCKER_HOST` wants it.
    pub socket: Option<String>,
}

/// Where a daemon with this file is found.
///
/// # Errors
/// It does not parse.
pub fn address(text: &str) -> Result<Address> {
    let pidfile = value(text, &["pidfile"])?.and_then(|file| Some(file.as_str()?.to_owned()));
    let hosts = value(text, &["hosts"])?.unwrap_or_default();
    let hosts = hosts.as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(Address { pidfile, socket: hosts.filter(|host| host.starts_with("unix://")).map(str::to_owned).next() })
}
