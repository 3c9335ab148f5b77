//! What comes after the files are written: the engine is told, and people are told what to type.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use super::files::Step;
use super::{Configure, Engine};
use crate::configure::{RUNTIME, WRAPPER, docker};
use crate::dockerd::{self, Answer, Dockerd};

/// How long the daemon is given to forget a runtime.
const FORGETTING: Duration = Duration::from_secs(1);

/// Is there something about the running engine that stands against it?
pub(super) fn check(verb: &Configure, steps: &[Step<'_>]) -> Result<()> {
    if verb.engine != Engine::Docker || !verb.default {
        return Ok(());
    }
    // dockerd does not start with a setting that both its file and its command line have (daemon/config, findConfigurationConflicts).
    match daemon(verb, steps)?.0 {
        Some(dockerd) if dockerd.has_flag("--default-runtime") => bail!(
            "dockerd (pid {}) was started with --default-runtime, and it takes that from its file or from its command line, not from both: take the flag away first",
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
        Engine::Docker => docker(verb, steps, changed, out)?,
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
    let text = steps.iter().find(|step| step.what.starts_with("the runtime")).and_then(|step| step.file.text()).unwrap_or_default();
    let address = docker::address(text)?;
    let pidfile = match address.pidfile {
        Some(pidfile) => pidfile,
        None if verb.config.is_none() => docker::PIDFILE.to_owned(),
        // The pid file of the host's daemon says nothing of one that reads another file.
        None => return Ok((None, None)),
    };
    Ok((Dockerd::find(Path::new(&pidfile)), address.socket))
}

fn docker(verb: &Configure, steps: &[Step<'_>], changed: bool, out: &mut dyn Write) -> Result<()> {
    let (dockerd, socket) = daemon(verb, steps)?;
    let Some(dockerd) = dockerd else {
        if changed {
            writeln!(out, "no dockerd of this file was found running: it reads the file when it starts, or on SIGHUP")?;
        }
        return Ok(());
    };
    if verb.remove && !changed {
        return Ok(());
    }
    dockerd.reload()?;
    let pid = dockerd.pid;
    // A daemon whose file has no runtimes any more keeps those that it had, and its default (seen with 20.10): no use in waiting.
    let (wanted, patience) = if verb.remove { (Answer::Unknown, FORGETTING) } else { (Answer::Known, dockerd::PATIENCE) };
    match dockerd::ask(RUNTIME, socket.as_deref(), &wanted, patience) {
        Ok(Answer::Known) if verb.remove => {
            writeln!(
                out,
                "dockerd (pid {pid}) goes on with what it has read before, and needs the link {WRAPPER} until it is started again: systemctl restart docker"
            )?;
        }
        Ok(Answer::Unknown) if verb.remove => writeln!(out, "dockerd (pid {pid}) has read it and does not know {RUNTIME} any more")?,
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
