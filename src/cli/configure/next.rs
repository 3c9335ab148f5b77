//! What comes after the files are written: the engine is told, and people are told what to type.

use std::io::Write;
use std::path::Path;

use anyhow::{Result, bail};

use super::files::{Part, Step};
use super::{Configure, Engine};
use crate::configure::docker::{self, DefaultOf};
use crate::configure::{Change, Copy, RUNTIME, WRAPPER};
use crate::dockerd::{self, Answer, Dockerd};

const DEFAULT_FLAG: &str = "--default-runtime";

/// Is there something about the running engine that stands against it?
pub(super) fn check(verb: &Configure, steps: &[Step<'_>]) -> Result<()> {
    if verb.engine != Engine::Docker || !verb.default {
        return Ok(());
    }
    // dockerd does not start with a setting that both its file and its command line have (daemon/config, findConfigurationConflicts).
    match daemon(verb, steps)?.0 {
        Some(dockerd) if dockerd.has_flag(DEFAULT_FLAG) => bail!(
            "dockerd (pid {}) was started with {DEFAULT_FLAG}, and it takes that from its file or from its command line, not from both: take the flag away first",
            dockerd.pid
        ),
        _ => Ok(()),
    }
}

/// Tells the engine, and says what is next.
pub(super) fn say(verb: &Configure, steps: &[Step<'_>], changed: bool, out: &mut dyn Write) -> Result<()> {
    if verb.default && changed {
        writeln!(
            out,
            "why accept-env = false: every image comes this way now, and any image could ask by its ENV; annotations ask as before"
        )?;
    }
    match verb.engine {
        Engine::Docker if !verb.remove => docker(verb, steps, changed, out)?,
        Engine::Containerd | Engine::Crio if changed => {
            let engine = verb.engine;
            writeln!(out, "{engine} reads it when it is started again, and containers go on meanwhile: systemctl restart {engine}")?;
        }
        Engine::Podman if changed => {
            writeln!(out, "podman reads it at its next start; a podman service that runs: systemctl restart podman")?
        }
        _ => {}
    }
    if !verb.remove {
        writeln!(out, "then: {}", try_it(verb.engine))?;
    }
    Ok(())
}

fn try_it(engine: Engine) -> &'static str {
    match engine {
        Engine::Docker => "docker run --rm --runtime neuron -e AWS_NEURON_VISIBLE_DEVICES=any:1 IMAGE",
        Engine::Podman => "podman run --rm --runtime neuron --annotation aws.amazon.com/neuron=1 IMAGE",
        Engine::Containerd | Engine::Crio => {
            "a RuntimeClass with `handler: neuron`, and pods with that class and the annotation aws.amazon.com/neuron: \"1\""
        }
    }
}

/// The daemon that reads this file, and where it listens.
fn daemon(verb: &Configure, steps: &[Step<'_>]) -> Result<(Option<Dockerd>, Option<String>)> {
    let text = steps.iter().find(|step| step.part == Part::Engine).and_then(|step| step.file.text()).unwrap_or_default();
    let address = docker::address(text)?;
    let pidfile = match address.pidfile {
        Some(pidfile) => pidfile,
        None if verb.config.is_none() => docker::PIDFILE.to_owned(),
        // The pid file of the host's daemon says nothing of one that reads another file.
        None => return Ok((None, None)),
    };
    Ok((Dockerd::find(Path::new(&pidfile)), address.socket))
}

/// Makes a running dockerd forget the runtime, by a file that is there for that moment only; says whether it has.
pub(super) fn forget(verb: &Configure, steps: &[Step<'_>], changes: &[Change]) -> Result<Option<Forgotten>> {
    let (Some(dockerd), socket) = daemon(verb, steps)? else { return Ok(None) };
    let changed = steps.iter().zip(changes).find(|(step, change)| step.part == Part::Engine && change.after.as_deref() != step.file.text());
    let Some((step, change)) = changed else { return Ok(None) };
    let default = if dockerd.has_flag(DEFAULT_FLAG) { DefaultOf::CommandLine } else { DefaultOf::File };
    let passing = docker::forgetting(change.after.as_deref().unwrap_or_default(), default)?;
    step.file.write(&Change { after: Some(passing), copy: Copy::Stay, replaces: None })?;
    dockerd.reload()?;
    let forgotten = matches!(dockerd::ask(RUNTIME, socket.as_deref(), &Answer::Unknown), Ok(Answer::Unknown));
    Ok(Some(Forgotten { pid: dockerd.pid, forgotten }))
}

/// What became of a daemon whose file lost the runtime.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forgotten {
    pid: i32,
    forgotten: bool,
}

impl Forgotten {
    pub(super) fn say(self, out: &mut dyn Write) -> Result<()> {
        let pid = self.pid;
        if self.forgotten {
            writeln!(out, "dockerd (pid {pid}) has read it and does not know the runtime {RUNTIME} any more")?;
        } else {
            writeln!(
                out,
                "dockerd (pid {pid}) may know the runtime {RUNTIME} still, and then needs the link {WRAPPER}: systemctl restart docker"
            )?;
        }
        Ok(())
    }
}

fn docker(verb: &Configure, steps: &[Step<'_>], changed: bool, out: &mut dyn Write) -> Result<()> {
    let (dockerd, socket) = daemon(verb, steps)?;
    let Some(dockerd) = dockerd else {
        if changed {
            writeln!(out, "no dockerd of this file was found running: it reads the file when it starts, or on SIGHUP")?;
        }
        return Ok(());
    };
    dockerd.reload()?;
    let pid = dockerd.pid;
    match dockerd::ask(RUNTIME, socket.as_deref(), &Answer::Known) {
        Ok(Answer::Known) => writeln!(out, "dockerd (pid {pid}) has read it: docker info knows the runtime {RUNTIME}")?,
        Ok(Answer::Unknown) => {
            bail!(
                "dockerd (pid {pid}) was told to read its file and does not know the runtime {RUNTIME}: its log says why (journalctl -u docker)"
            )
        }
        Err(error) => writeln!(out, "dockerd (pid {pid}) was told to read it; whether it has cannot be seen: {error:#}")?,
    }
    Ok(())
}
