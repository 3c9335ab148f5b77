//! `exec`: another process in a container that holds chips, such as a `docker exec` or a health check.
//!
//! Docker describes it from its own, unedited spec, without the variables and the capability that the container got. The low-level
//! runtime gets an edited copy in memory; the engine's file stays as it is, and nothing is left behind.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use anyhow::{Context, Result};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde_json::Value;

use super::{Invocation, argv::ProcessFile};
use crate::claim;
use crate::host::Host;
use crate::lease::Mode;
use crate::process::Processes;
use crate::settings::Settings;
use crate::spec;

/// An edited copy of what `--process` names.
pub(super) struct Session<'a> {
    given: ProcessFile<'a>,
    copy: File,
}

/// The session, where it is of a container that chips were granted to.
pub(super) fn edited<'a>(invocation: &Invocation<'a>, settings: &Settings) -> Result<Option<Session<'a>>> {
    let (Some(given), Some(id)) = (invocation.process, invocation.id) else { return Ok(None) };
    if settings.dry_run {
        return Ok(None);
    }
    let host = Host::new(settings);
    let processes = Processes::new(&host.proc)?;
    let root = invocation.root.unwrap_or_default();
    let Some(lease) = claim::lease_of(&host, &processes, &id.to_string_lossy(), &root.to_string_lossy())? else { return Ok(None) };
    if lease.mode == Mode::Adopted {
        return Ok(None);
    }
    let process: Value = serde_json::from_slice(&std::fs::read(given.path)?)?;
    let variables: Vec<_> =
        lease.env.iter().filter_map(|entry| entry.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let ipc_lock = settings.ipc_lock && processes.oneself()?.ipc_lock;
    let process = spec::apply_to_session(process, &variables, ipc_lock)?;
    // Not closed on exec: the low-level runtime opens it by its number, and closes it to the container.
    let mut copy = File::from(memfd_create("neuron-exec-process", MFdFlags::empty()).context("memfd_create")?);
    copy.write_all(process.to_string().as_bytes())?;
    Ok(Some(Session { given, copy }))
}

impl Session<'_> {
    /// The arguments with the copy in the place of the file. The copy stays open from then on, for who is executed next.
    pub(super) fn arguments(self, args: &[OsString]) -> Vec<OsString> {
        let copy = format!("/proc/self/fd/{}", self.copy.as_raw_fd());
        let mut args = args.to_vec();
        if let Some(argument) = args.get_mut(self.given.position) {
            let flag = argument.len() - self.given.path.as_os_str().len();
            let bytes = [&argument.as_bytes()[..flag], copy.as_bytes()].concat();
            *argument = OsString::from_vec(bytes);
        }
        let _stays_open = self.copy.into_raw_fd();
        args
    }
}
