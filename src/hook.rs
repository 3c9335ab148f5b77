//! The OCI hook `createRuntime`: ties a lease to the container's own process, or stops the container.
//!
//! Everything it needs is in its arguments; of the state on stdin it believes the container's id and pid. It inherits nothing from
//! the environment. For an adopted lease it says what it finds in the log and never stops the container.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use log::{debug, warn};
use oci_spec::runtime::State;

use crate::bind::{Container, Granted, bind};
use crate::grant::parse_argument;
use crate::host::Host;
use crate::journal;
use crate::settings::Settings;
use crate::spec::HOOK_STAGE;
use crate::words::short_container;

/// The most that is read of the state, bytes; runtimes write less than a page, but annotations are in it.
const LONGEST_STATE: u64 = 4 << 20;

/// Runs as the hook.
///
/// # Errors
/// What does not fit: the runtime must not start the container then.
pub fn run(args: &[OsString]) -> Result<()> {
    let started = Instant::now();
    let (granted, settings) = parse(args)?;
    let host = Host::new(&settings);
    journal::begin(&host.log, settings.log_level);
    let done = state().and_then(|container| {
        let chips = bind(&host, settings.lock_timeout, &granted, &container)?;
        let took = started.elapsed().as_micros();
        debug!("{}: bound: {} to pid {}, {took} µs", short_container(&container.id), chips.named("chip"), container.pid);
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

fn state() -> Result<Container> {
    let mut text = Vec::new();
    std::io::stdin().take(LONGEST_STATE).read_to_end(&mut text).context("the container's state cannot be read from stdin")?;
    let state: State =
        serde_json::from_slice(&text).context("the container's state on stdin is not as the runtime specification has it")?;
    let pid = state.pid().filter(|pid| *pid > 0).context("the container's state names no process")?;
    Ok(Container { id: state.id().clone(), pid })
}

/// What the wrapper put into the hook's arguments: the grant, and the settings that it was claimed with.
fn parse(args: &[OsString]) -> Result<(Granted, Settings)> {
    let args: Vec<&str> = args.iter().map(|arg| arg.to_str().context("arguments are UTF-8")).collect::<Result<_>>()?;
    let mut args = args.into_iter().skip(1);
    match args.next() {
        Some(HOOK_STAGE) => {}
        other => bail!(
            "{HOOK_STAGE} is the only stage of this hook, not {}: it is put into a container's config.json by neuron-container-runtime, not called by hand",
            other.unwrap_or("none")
        ),
    }
    let mut granted = Granted::default();
    let mut settings = Settings::default();
    while let Some(name) = args.next() {
        let mut value = || args.next().with_context(|| format!("{name} needs a value"));
        match name {
            "--lease" => value()?.clone_into(&mut granted.lease),
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
                let (chip, path, number) = parse_argument(value).with_context(|| format!("--node {value} is not CHIP=PATH=MAJOR:MINOR"))?;
                granted.nodes.push((chip, path.to_owned(), number));
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
        let (granted, settings) = parse(&words(line)).unwrap();
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
            "neuron-container-hook createRuntime",
            "neuron-container-hook createRuntime --lease 1f",
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
