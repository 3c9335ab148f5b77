//! The OCI hook `createRuntime`: ties a lease to the container's own process, or stops the container.
//!
//! Everything it needs is in its arguments; of the state on stdin it believes the container's id and pid. It inherits nothing from
//! the environment. For an adopted lease it says what it finds in the log and never stops the container.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use log::{info, warn};
use oci_spec::runtime::State;

use crate::bind::{Container, Granted, bind};
use crate::grant::parse_argument;
use crate::host::Host;
use crate::journal;
use crate::settings::{Flags, Loaded};
use crate::spec::HOOK_STAGE;
use crate::words::short_container;

/// The most that is read of the state, bytes; runtimes write less than a page, but annotations are in it.
const LONGEST_STATE: u64 = 4 << 20;

/// What the wrapper put into the hook's arguments.
#[derive(Debug)]
struct Arguments {
    granted: Granted,
    flags: Flags,
}

/// Runs as the hook.
///
/// # Errors
/// What does not fit: the runtime must not start the container then.
pub fn run(args: &[OsString]) -> Result<()> {
    let started = Instant::now();
    let args = parse(args)?;
    let loaded = Loaded::new(&args.flags, |_| None);
    let host = Host::new(&loaded.settings);
    journal::open(&host.log, loaded.settings.log_level);
    let done = state().and_then(|container| {
        // Settings that are at fault could hide where the ledger is.
        let (settings, _) = loaded.sound()?;
        let chips = bind(&host, &settings, &args.granted, &container)?;
        let took = started.elapsed().as_micros();
        info!("{}: bound: chips {chips} to pid {}, {took} µs", short_container(&container.id), container.pid);
        Ok(())
    });
    match done {
        Err(error) if args.granted.adopted => {
            warn!("lease {}: its chips are not recorded as taken: {error:#}", args.granted.lease);
            Ok(())
        }
        Err(error) => {
            warn!("lease {}: not bound: {error:#}", args.granted.lease);
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

fn parse(args: &[OsString]) -> Result<Arguments> {
    let args: Vec<&str> = args.iter().map(|arg| arg.to_str().context("arguments are UTF-8")).collect::<Result<_>>()?;
    let mut args = args.into_iter().skip(1);
    match args.next() {
        Some(HOOK_STAGE) => {}
        other => bail!(
            "{HOOK_STAGE} is the only stage of this hook, not {}: it is put into a container's config.json by neuron-container-runtime, not called by hand",
            other.unwrap_or("none")
        ),
    }
    let mut parsed = Arguments {
        granted: Granted { lease: String::new(), nodes: Vec::new(), rootfs: PathBuf::new(), adopted: false },
        flags: Flags::default(),
    };
    while let Some(name) = args.next() {
        let mut value = || args.next().with_context(|| format!("{name} needs a value"));
        match name {
            "--lease" => value()?.clone_into(&mut parsed.granted.lease),
            "--rootfs" => parsed.granted.rootfs = value()?.into(),
            "--host-root" => parsed.flags.host_root = Some(value()?.into()),
            "--settings" => parsed.flags.settings = Some(value()?.into()),
            "--adopted" => parsed.granted.adopted = true,
            "--node" => {
                let value = value()?;
                let (chip, path, number) = parse_argument(value).with_context(|| format!("--node {value} is not CHIP=PATH=MAJOR:MINOR"))?;
                parsed.granted.nodes.push((chip, path.to_owned(), number));
            }
            other => bail!("the argument {other} is not known"),
        }
    }
    if parsed.granted.lease.is_empty() || parsed.granted.rootfs.as_os_str().is_empty() {
        bail!("--lease and --rootfs are needed");
    }
    Ok(parsed)
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
             --rootfs /b/rootfs --host-root /h --settings /s --adopted";
        let parsed = parse(&words(line)).unwrap();
        assert_eq!((&*parsed.granted.lease, parsed.granted.adopted), ("1f", true));
        assert_eq!(parsed.granted.rootfs, PathBuf::from("/b/rootfs"));
        assert_eq!(parsed.granted.nodes.len(), 2);
        assert_eq!((parsed.flags.host_root, parsed.flags.settings), (Some("/h".into()), Some("/s".into())));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for line in [
            "neuron-container-hook",
            "neuron-container-hook poststop",
            "neuron-container-hook createRuntime",
            "neuron-container-hook createRuntime --lease 1f",
            "neuron-container-hook createRuntime --rootfs /b --lease",
            "neuron-container-hook createRuntime --rootfs /b --lease 1f --node 4",
            "neuron-container-hook createRuntime --rootfs /b --lease 1f --force",
        ] {
            assert!(parse(&words(line)).is_err(), "{line}");
        }
    }
}
