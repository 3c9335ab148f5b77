//! The executables that this program hands over to: the low-level runtime, and its own hook.
//!
//! Looks files up and judges whose they are; starts nothing.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::process::trusted;
use crate::settings::Settings;
use crate::spec::HOOK_NAME;

/// Where programs are looked up when the environment has no PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The first low-level runtime of the settings that is there and can be trusted.
///
/// # Errors
/// None is: what was looked for, and what was wrong with each.
pub fn low_level_runtime(settings: &Settings, path: Option<&OsStr>) -> Result<PathBuf> {
    let mut wrong = Vec::new();
    for name in &settings.runtimes {
        match look_up(Path::new(name), path) {
            None => wrong.push(format!("{name} is not there")),
            Some(found) => match executable(&found).and_then(|metadata| not_oneself(&found, &metadata)) {
                Ok(()) => return Ok(found),
                Err(error) => wrong.push(format!("{error:#}")),
            },
        }
    }
    if wrong.is_empty() {
        bail!("no low-level runtime can be used: the settings name none (runtimes); name runc or crun");
    }
    bail!("no low-level runtime can be used: {}; install runc, or name one in the settings (runtimes)", wrong.join("; "))
}

/// The hook that goes into a spec: the setting, or the link beside the wrapper's own.
///
/// Not `/proc/self/exe`, which is "(deleted)" during an upgrade.
///
/// # Errors
/// It is not there, or cannot be trusted.
pub fn hook(settings: &Settings, called_as: &OsStr, path: Option<&OsStr>) -> Result<PathBuf> {
    let hook = match &settings.hook_path {
        Some(path) => path.clone(),
        None => beside(called_as, path, HOOK_NAME).context("where this program is cannot be told: set hook-path")?,
    };
    executable(&hook).context("the hook cannot be used: link it to neuron-ctk, or set hook-path")?;
    Ok(hook)
}

/// A link that the installer has made beside the program that is running; absolute.
///
/// # Errors
/// It is not there, or cannot be trusted.
pub fn installed(name: &str, called_as: &OsStr, path: Option<&OsStr>) -> Result<PathBuf> {
    let link = beside(called_as, path, name).context("where this program is cannot be told: call it by its path")?;
    executable(&link).with_context(|| format!("{name} cannot be used: link it to neuron-ctk (ln -s neuron-ctk {})", link.display()))?;
    Ok(link)
}

/// The path of a link beside the program that is running, be it there or not.
pub fn beside(called_as: &OsStr, path: Option<&OsStr>, name: &str) -> Option<PathBuf> {
    Some(std::path::absolute(look_up(Path::new(called_as), path)?).ok()?.with_file_name(name))
}

/// A path as it is, a name looked up on PATH.
fn look_up(program: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Some(program.to_owned());
    }
    let path = path.map_or_else(|| OsString::from(DEFAULT_PATH), OsStr::to_owned);
    std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// May this file be run as root?
fn executable(path: &Path) -> Result<fs::Metadata> {
    let said = || path.display().to_string();
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("{} is not there", path.display()),
        found => found.with_context(said)?,
    };
    ensure!(metadata.is_file(), "{} is no regular file", path.display());
    ensure!(metadata.permissions().mode() & 0o111 != 0, "{} is not executable: chmod +x", path.display());
    trusted(&metadata).with_context(said)?;
    Ok(metadata)
}

/// A wrapper that became itself would never end.
fn not_oneself(path: &Path, metadata: &fs::Metadata) -> Result<()> {
    let own = fs::metadata("/proc/self/exe").context("/proc/self/exe")?;
    ensure!((own.dev(), own.ino()) != (metadata.dev(), metadata.ino()), "{} is this program itself", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    fn wanting(runtimes: &[&str]) -> Settings {
        Settings { runtimes: runtimes.iter().map(|name| (*name).to_owned()).collect(), ..Settings::default() }
    }

    #[test]
    fn the_first_runtime_that_is_there_and_trusted_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = Some(folder.path().as_os_str());
        let good = program(folder.path(), "good", 0o755);
        program(folder.path(), "loose", 0o777);
        program(folder.path(), "plain", 0o644);
        assert_eq!(low_level_runtime(&wanting(&["none", "loose", "plain", "good"]), path).unwrap(), good);
        assert_eq!(low_level_runtime(&wanting(&[good.to_str().unwrap()]), None).unwrap(), good);
        let refused = low_level_runtime(&wanting(&["none", "loose", "plain"]), path).unwrap_err().to_string();
        for part in ["none is not there", "must not be writable by others (mode is 0777)", "plain is not executable", "install runc"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }

    #[test]
    fn this_program_is_no_runtime_of_its_own() {
        let own = std::env::current_exe().unwrap();
        let refused = low_level_runtime(&wanting(&[own.to_str().unwrap()]), None).unwrap_err().to_string();
        // A build folder may be writable by its group; then that is said instead.
        assert!(refused.contains("is this program itself") || refused.contains("writable by others"), "{refused}");
    }

    #[test]
    fn the_hook_is_beside_the_wrappers_own_link() {
        let folder = tempfile::tempdir().unwrap();
        let wrapper = program(folder.path(), "neuron-container-runtime", 0o755);
        assert!(hook(&Settings::default(), wrapper.as_os_str(), None).unwrap_err().to_string().contains("hook-path"));
        let link = program(folder.path(), "neuron-container-hook", 0o755);
        assert_eq!(hook(&Settings::default(), wrapper.as_os_str(), None).unwrap(), link);
        let name = OsStr::new("neuron-container-runtime");
        assert_eq!(hook(&Settings::default(), name, Some(folder.path().as_os_str())).unwrap(), link);
    }
}
