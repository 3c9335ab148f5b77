//! The low-level runtime and the engines before it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Finding, Patient};
use crate::cli::configure::{Engine, Standing};
use crate::programs;

pub(super) fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let path = std::env::var_os("PATH");
    let mut findings = Vec::new();
    match programs::low_level_runtime(patient.settings, path.as_deref()) {
        Ok(runtime) => {
            let version = version_of(&runtime);
            findings.push(links(patient, &version));
            findings.insert(0, Finding::good("runtime", format!("{} ({version})", runtime.display())));
        }
        Err(error) => findings.push(Finding::fault(
            "runtime",
            format!("{error:#}"),
            "install runc or crun, or name in the settings (runtimes) where one is",
        )),
    }
    let found: Vec<_> = Engine::ALL.into_iter().filter_map(|engine| Some((engine, on_path(engine.program(), path.as_deref()?)?))).collect();
    if found.is_empty() {
        findings.push(Finding::note(
            "engines",
            "none is on PATH",
            "install Docker, containerd, CRI-O or Podman, then: neuron-ctk configure ENGINE",
        ));
    }
    findings.extend(found.into_iter().map(|(engine, program)| engine_finding(patient, engine, &program)));
    findings
}

fn engine_finding(patient: &Patient<'_>, engine: Engine, program: &Path) -> Finding {
    let version = version_of(program);
    let check = engine.name();
    let type_this = format!("neuron-ctk configure {engine}");
    match engine.standing(patient.args) {
        Err(error) => Finding::fault(check, format!("{version}: {error:#}"), format!("mend the file, then: {type_this}")),
        Ok(Standing::Absent) => Finding::note(check, format!("{version}: does not know the runtime neuron"), type_this),
        Ok(Standing::Foreign(what)) => {
            Finding::fault(check, format!("{version}: calls {what} neuron"), format!("{type_this} (--remove brings it back)"))
        }
        Ok(Standing::Old) => Finding::note(
            check,
            format!("{version}: configured, not as this version would"),
            format!("{type_this} --dry-run shows the difference"),
        ),
        Ok(Standing::Configured) if engine == Engine::Docker && major(&version).is_some_and(|major| major < 24) => Finding::note(
            check,
            format!("{version}: configured, but it has no annotations"),
            "ask by -e AWS_NEURON_VISIBLE_DEVICES=any:2, or upgrade to Docker 24",
        ),
        Ok(Standing::Configured) => Finding::good(check, format!("{version}: configured")),
    }
}

/// runc 1.1.3 to 1.1.6 under the systemd cgroup driver leaves out the rule of a device that has no link there (mended in 1.1.7).
fn links(patient: &Patient<'_>, version: &str) -> Finding {
    let afflicted =
        version.strip_prefix("runc version 1.1.").and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    let afflicted = matches!(afflicted, Some(3..=6));
    let chips = patient.inventory.as_ref().map(|inventory| &*inventory.chips).unwrap_or_default();
    let missing = chips.iter().find(|chip| !patient.host.dev.join(format!("char/{}:{}", chip.number.major, chip.number.minor)).exists());
    match missing {
        Some(chip) if afflicted && !patient.host.simulated() && Path::new("/run/systemd/system").exists() => Finding::note(
            "links",
            format!("/dev/char/{} is missing, and {version} under the systemd cgroup driver then forbids the chip", chip.number),
            "upgrade runc to 1.1.7, or make the links: udevadm trigger",
        ),
        _ => Finding::good("links", "/dev/char is as this runtime needs it"),
    }
}

fn major(version: &str) -> Option<u32> {
    version.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty())?.parse().ok()
}

/// The first line of `PROGRAM --version`.
fn version_of(program: &Path) -> String {
    let answer = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = answer.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().filter(|line| !line.is_empty()).unwrap_or("of an unknown version").to_owned()
}

fn on_path(program: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_of_a_version_is_its_major() {
        assert_eq!(major("Docker version 20.10.24+dfsg1, build 297e128"), Some(20));
        assert_eq!(major("of an unknown version"), None);
    }
}
