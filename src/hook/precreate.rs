//! Podman's stage `precreate`: a spec in on stdin, the edited one out on stdout.
//!
//! It has no process that lives as long as the lease should, so its caller holds the lease, and only for a while; bind ends that.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use nix::libc::STDERR_FILENO;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::claim::HeldBy;
use crate::document::Document;
use crate::programs;
use crate::serve::{Call, serve};
use crate::settings::{Flags, Loaded};

/// Serves the container of the spec on stdin.
///
/// # Errors
/// It must not start.
pub(super) fn run(flags: &Flags, called_as: &OsStr) -> Result<()> {
    let mut loaded = Loaded::new(flags, |_| None);
    // Podman calls it for every container, so any image could ask; whoever names the runtime can ask by the environment.
    loaded.settings.accept_env = false;
    let document = Document::new(super::input().context("the container's spec cannot be read from stdin")?);
    let edited = RefCell::new(None);
    serve(&Call {
        loaded: &loaded,
        document: &document,
        bundle: Path::new("."),
        container: container(&document).unwrap_or_default(),
        root: String::new(),
        restored: false,
        held_by: HeldBy::Caller,
        hook: &|| programs::hook(&loaded.settings, called_as, None),
        replace: &|spec, _| {
            *edited.borrow_mut() = Some(document.with(spec)?);
            Ok(())
        },
    })?;
    let edited = edited.take();
    std::io::stdout().write_all(edited.as_deref().unwrap_or(document.text())).context("the container's spec cannot be written to stdout")
}

/// The container's id, which only its cgroup tells: `/machine.slice/libpod-ID`, `machine.slice:libpod:ID`.
fn container(document: &Document) -> Option<String> {
    let spec = document.value().ok()?;
    let cgroup = spec["linux"]["cgroupsPath"].as_str()?;
    let (_, id) = cgroup.rsplit_once(['-', ':', '/'])?;
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

/// Says it on the caller's stderr: Podman throws a hook's away, and who typed `podman run` would only see an exit code.
pub fn tell_caller(line: &str) {
    let Ok(mut theirs) = stderr_of_caller() else { return };
    if !is_own_stderr(&theirs) {
        // Where it cannot be written, the log still has it.
        let _ = writeln!(theirs, "neuron-container-hook: {line}");
    }
}

/// The very file description, not its file opened once more: in a file both write on from where the other ended.
fn stderr_of_caller() -> io::Result<File> {
    let caller = Pid::from_raw(nix::unistd::getppid().as_raw()).ok_or(io::ErrorKind::NotFound)?;
    let caller = pidfd_open(caller, PidfdFlags::empty())?;
    Ok(pidfd_getfd(caller, STDERR_FILENO, PidfdGetfdFlags::empty())?.into())
}

/// Would the line come twice?
fn is_own_stderr(file: &File) -> bool {
    let same = || {
        let (own, theirs) = (nix::sys::stat::fstat(std::io::stderr().as_fd()).ok()?, file.metadata().ok()?);
        Some((own.st_dev, own.st_ino) == (theirs.dev(), theirs.ino()))
    };
    same().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_the_end_of_the_cgroup_where_it_is_one() {
        let id = "3f2a9c1b7e44d06b3f8c745f1e9094807bc5794942913f54ff3128ccdd72b001";
        for (cgroup, found) in [
            (format!("/libpod_parent/libpod-{id}"), true),
            (format!("machine.slice:libpod:{id}"), true),
            (format!("/pods/{id}"), true),
            (id.to_owned(), false),
            (format!("/libpod-{}", &id[1..]), false),
            ("/libpod-web-1".to_owned(), false),
            (String::new(), false),
        ] {
            let document = Document::new(format!("{{\"linux\":{{\"cgroupsPath\":\"{cgroup}\"}}}}").into());
            assert_eq!(container(&document).as_deref(), found.then_some(id), "{cgroup}");
        }
        assert_eq!(container(&Document::new(br#"{"linux":{"cgroupsPath":null}}"#.to_vec())), None);
        assert_eq!(container(&Document::new(b"{".to_vec())), None);
    }
}
