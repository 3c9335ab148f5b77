//! Our own files: settings, state, log, links.

use std::fs;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};

use super::{Finding, Patient};
use crate::claim::look;
use crate::configure::WRAPPER;
use crate::process::{Processes, trusted};
use crate::programs;
use crate::settings::{DEFAULT_FILE, Loaded};
use crate::spec::HOOK_NAME;

pub(super) fn findings(patient: &Patient<'_>, loaded: &Loaded) -> Vec<Finding> {
    vec![settings(loaded), state(patient), log(&patient.host.log), link(patient, WRAPPER), hook(patient)]
}

fn settings(loaded: &Loaded) -> Finding {
    match (&loaded.fault, &loaded.file) {
        (Some(fault), _) => {
            Finding::fault("settings", format!("{fault:#}"), "mend it: until then containers that ask for chips are refused")
        }
        (None, Some(file)) if loaded.settings.dry_run => Finding::note(
            "settings",
            format!("{}: dry-run, no container gets chips", file.display()),
            "set dry-run = false when you have seen enough",
        ),
        (None, Some(file)) => Finding::good("settings", file.display().to_string()),
        (None, None) => Finding::good("settings", format!("all at their defaults ({DEFAULT_FILE} is not there)")),
    }
}

fn state(patient: &Patient<'_>) -> Finding {
    let folder = &patient.host.state;
    let read = || look(patient.host, &Processes::new(&patient.host.proc)?);
    match read() {
        Ok(ledger) => Finding::good(
            "ledger",
            format!("{}, {}", folder.display(), crate::words::count(u32::try_from(ledger.leases().len()).unwrap_or(0), "lease")),
        ),
        Err(_) if !folder.exists() => Finding::good("ledger", format!("{} will be made by the first claim", folder.display())),
        Err(error) => Finding::fault(
            "ledger",
            format!("{error:#}"),
            "nothing is granted until it can be read; containers with chips are those whose config.json has the annotation neuron-container-runtime.lease",
        ),
    }
}

fn log(path: &Path) -> Finding {
    let folder = path.parent().unwrap_or(Path::new("/"));
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            Finding::note("log", format!("{} is no regular file, so nothing is logged", path.display()), "remove it, or set log-file")
        }
        Ok(metadata) => match trusted(&metadata) {
            Ok(()) => Finding::good("log", path.display().to_string()),
            Err(error) => Finding::note("log", format!("{} {error}", path.display()), "nothing is logged until then"),
        },
        Err(_) if folder.is_dir() => Finding::good("log", format!("{} will be made by the first line", path.display())),
        Err(_) => {
            Finding::note("log", format!("{} is not there, so nothing is logged", folder.display()), "make the folder, or set log-file")
        }
    }
}

fn link(patient: &Patient<'_>, name: &'static str) -> Finding {
    let called_as = patient.args.first().map(|name| name.as_os_str()).unwrap_or_default();
    match programs::installed(name, called_as, std::env::var_os("PATH").as_deref()) {
        Ok(path) => Finding::good("wrapper", path.display().to_string()),
        Err(error) => Finding::fault("wrapper", format!("{error:#}"), "install.sh makes the links"),
    }
}

fn hook(patient: &Patient<'_>) -> Finding {
    let called_as = patient.args.first().map(|name| name.as_os_str()).unwrap_or_default();
    let path = match programs::hook(patient.settings, called_as, std::env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(error) => {
            return Finding::fault(
                "hook",
                format!("{error:#}"),
                match &patient.settings.hook_path {
                    Some(_) => "mend hook-path in the settings, or leave it out".to_owned(),
                    None => format!("install.sh makes the link {HOOK_NAME}"),
                },
            );
        }
    };
    match statvfs(&path) {
        Ok(mounted) if mounted.flags().contains(FsFlags::ST_NOEXEC) => Finding::fault(
            "hook",
            format!("{} lies on a file system that is mounted noexec", path.display()),
            "install it elsewhere, or set hook-path; containers with chips cannot start",
        ),
        _ => Finding::good("hook", path.display().to_string()),
    }
}
