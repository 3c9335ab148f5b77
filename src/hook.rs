//! The OCI hook: `createRuntime` and `prestart` tie a lease to the container's own process, or stop the container; Podman's
//! `precreate` edits its spec.
//!
//! Everything it needs is in its arguments; of the state on stdin it believes the container's id and pid. It inherits nothing from
//! the environment. For an adopted lease it says what it finds in the log and never stops the container.

mod precreate;
mod unprepared;

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use log::{debug, warn};
use oci_spec::runtime::State;

use crate::bind::{Container, Granted, bind};
use crate::grant::parse_argument;
use crate::host::Host;
use crate::journal;
use crate::settings::{Flags, Settings};
use crate::words::short_container;

pub use precreate::tell_caller;

/// The most that is read from stdin, bytes: hundreds of times the largest spec that an engine writes.
const LONGEST_INPUT: u64 = 16 << 20;

/// What the hook is called for.
#[derive(Debug)]
enum Task {
    /// Edit a spec.
    Precreate(Flags),
    /// Bind a lease: the grant, and the settings that it was claimed with.
    Bind(Box<(Granted, Settings)>),
    /// Look whether somebody prepared the spec, for an engine that was told to run the hook by itself.
    Check(Flags),
}

/// Runs as the hook.
///
/// # Errors
/// What does not fit: the runtime must not start the container then.
pub fn run(args: &[OsString]) -> Result<()> {
    match parse(args)? {
        Task::Precreate(flags) => precreate::run(&flags, args.first().map(OsString::as_os_str).unwrap_or_default()),
        Task::Bind(task) => run_bind(&task.0, &task.1),
        Task::Check(flags) => unprepared::check(&flags, &state()?),
    }
}

fn run_bind(granted: &Granted, settings: &Settings) -> Result<()> {
    let started = Instant::now();
    let host = Host::new(settings);
    journal::begin(&host.log, settings.log_level);
    let done = state().and_then(|state| {
        let pid = state.pid().filter(|pid| *pid > 0).context("the container's state names no process")?;
        let container = Container { id: state.id().clone(), pid };
        let chips = bind(&host, settings.lock_timeout, granted, &container)?;
        let took = started.elapsed().as_micros();
        debug!("{}: bound: {} to pid {pid}, {took} µs", short_container(&container.id), chips.named("chip"));
        Ok(())
    });
    match done {
        Err(error) if granted.adopted => {
            warn!("lease {}: its chips are not recorded as taken: {error:#}", granted.lease);
            Ok(())
        }
        Err(error) => {
            warn!("lease {}: not bound: {error:#}", granted.lease);
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// What is on stdin, in full.
fn input() -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let length = std::io::stdin().take(LONGEST_INPUT + 1).read_to_end(&mut text)?;
    ensure!(u64::try_from(length)? <= LONGEST_INPUT, "there is more than {LONGEST_INPUT} bytes of it");
    Ok(text)
}

fn state() -> Result<State> {
    let text = input().context("the container's state cannot be read from stdin")?;
    serde_json::from_slice(&text).context("the container's state on stdin is not as the runtime specification has it")
}

fn parse(args: &[OsString]) -> Result<Task> {
    let args: Vec<&str> = args.iter().map(|arg| arg.to_str().context("arguments are UTF-8")).collect::<Result<_>>()?;
    match args.get(1..).unwrap_or_default() {
        ["precreate", rest @ ..] => Ok(Task::Precreate(flags(rest)?)),
        ["createRuntime" | "prestart", rest @ ..] if rest.contains(&"--lease") => Ok(Task::Bind(Box::new(grant(rest)?))),
        ["createRuntime" | "prestart", rest @ ..] => Ok(Task::Check(flags(rest)?)),
        other => bail!(
            "the stages of this hook are precreate, createRuntime and prestart, not {}: it is called by engines and runtimes, neuron-ctk is for people",
            other.first().unwrap_or(&"none")
        ),
    }
}

/// What an administrator may put behind a stage.
fn flags(args: &[&str]) -> Result<Flags> {
    let mut flags = Flags::default();
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut value = || args.next().with_context(|| format!("{name} needs a value"));
        match *name {
            "--settings" => flags.settings = Some(value()?.into()),
            "--host-root" => flags.host_root = Some(value()?.into()),
            other => bail!("the argument {other} is not known"),
        }
    }
    Ok(flags)
}

/// What the wrapper put into the hook's arguments: the grant, and the settings that it was claimed with.
fn grant(args: &[&str]) -> Result<(Granted, Settings)> {
    let mut args = args.iter();
    let mut granted = Granted::default();
    let mut settings = Settings::default();
    while let Some(name) = args.next() {
        let mut value = || args.next().with_context(|| format!("{name} needs a value"));
        match *name {
            "--lease" => (*value()?).clone_into(&mut granted.lease),
            "--rootfs" => granted.rootfs = value()?.into(),
            "--adopted" => granted.adopted = true,
            "--note-cgroup" => granted.note_cgroup = true,
            "--host-root" => settings.host_root = Some(value()?.into()),
            "--state-dir" => settings.state_dir = Some(value()?.into()),
            "--log-file" => settings.log_file = Some(value()?.into()),
            "--log-level" => settings.log_level = value()?.parse().context("--log-level")?,
            "--lock-timeout" => settings.lock_timeout = humantime::parse_duration(value()?).context("--lock-timeout")?,
            "--node" => {
                let value = value()?;
                let (device, path, number) =
                    parse_argument(value).with_context(|| format!("--node {value} is not DEVICE=PATH=MAJOR:MINOR"))?;
                granted.nodes.push((device, path.to_owned(), number));
            }
            other => bail!("the argument {other} is not known"),
        }
    }
    for (name, there) in [
        ("--lease", !granted.lease.is_empty()),
        ("--rootfs", granted.rootfs != PathBuf::new()),
        ("--state-dir", settings.state_dir.is_some()),
    ] {
        if !there {
            bail!("{name} is needed");
        }
    }
    Ok((granted, settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_arguments_are_those_that_the_wrapper_writes() {
        let line = "neuron-container-hook createRuntime --lease 1f --node 4=/dev/neuron0=240:4 --node 5=/dev/neuron1=240:5 \
             --rootfs /b/rootfs --state-dir /s --log-file /l --host-root /h --log-level debug --lock-timeout 1m --note-cgroup --adopted";
        let Task::Bind(task) = parse(&words(line)).unwrap() else { panic!("a bind") };
        let (granted, settings) = *task;
        assert_eq!((&*granted.lease, granted.adopted, granted.note_cgroup), ("1f", true, true));
        assert_eq!((granted.rootfs, granted.nodes.len()), (PathBuf::from("/b/rootfs"), 2));
        assert_eq!((settings.host_root, settings.state_dir, settings.log_file), (Some("/h".into()), Some("/s".into()), Some("/l".into())));
        assert_eq!((settings.log_level, settings.lock_timeout), (log::LevelFilter::Debug, std::time::Duration::from_secs(60)));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for line in [
            "neuron-container-hook",
            "neuron-container-hook poststop",
            "neuron-container-hook createRuntime --lease 1f",
            "neuron-container-hook createRuntime --rootfs /b",
            "neuron-container-hook prestart --lease",
            "neuron-container-hook precreate --lease 1f",
            "neuron-container-hook createRuntime --rootfs /b --lease",
            "neuron-container-hook createRuntime --rootfs /b --lease 1f",
            "neuron-container-hook createRuntime --rootfs /b --lease 1f --state-dir /s --node 4",
            "neuron-container-hook createRuntime --rootfs /b --lease 1f --state-dir /s --force",
            "neuron-container-hook createRuntime --rootfs /b --lease 1f --state-dir /s --lock-timeout soon",
        ] {
            assert!(parse(&words(line)).is_err(), "{line}");
        }
    }
}
