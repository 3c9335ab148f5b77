//! The OCI runtime wrapper: edits `config.json` for who asks for chips, then becomes the low-level runtime.
//!
//! It understands as much of the argument list as it needs to find the subcommand, the bundle, the id and the log; all arguments go
//! on as they came. Who asks for nothing is passed through whatever is wrong with us (I7).

mod argv;

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use log::{info, warn};
use serde_json::Value;

use crate::bundle::Bundle;
use crate::chip::Inventory;
use crate::claim::{self, Ask, Case, Claimant};
use crate::host::Host;
use crate::journal;
use crate::peek::Peek;
use crate::programs;
use crate::request::{self, Invalid, Request};
use crate::settings::{Flags, Loaded};
use crate::spec;
use crate::words::{json_string, short_container};

pub use argv::{Action, Invocation, scan};

/// Runs as the wrapper; comes back only with what went wrong.
pub fn run(args: &[OsString]) -> anyhow::Error {
    match prepare(args) {
        Ok(mut command) => {
            let error = command.exec();
            anyhow::Error::new(error).context(format!("{} cannot be started", command.get_program().display()))
        }
        Err(error) => error,
    }
}

/// Everything before the exec.
fn prepare(args: &[OsString]) -> Result<Command> {
    let (called_as, rest) = args.split_first().map_or((OsStr::new(""), &[][..]), |(name, rest)| (name.as_os_str(), rest));
    let invocation = scan(rest);
    let loaded = Loaded::new(&Flags::default(), |name| std::env::var_os(name));
    let path = std::env::var_os("PATH");
    let runtime = programs::low_level_runtime(&loaded.settings, path.as_deref())?;
    if invocation.action != Action::Other {
        edit(&invocation, &loaded, called_as)?;
    }
    let mut command = Command::new(&runtime);
    command.args(rest);
    Ok(command)
}

/// Puts what a container asks for into its spec.
fn edit(invocation: &Invocation<'_>, loaded: &Loaded, called_as: &OsStr) -> Result<()> {
    let folder = invocation.bundle.unwrap_or(Path::new("."));
    // What cannot be read asks for nothing that we could know of, and the runtime has its own words for it.
    let Ok(bundle) = Bundle::read(folder, invocation.config) else { return Ok(()) };
    let normal;
    let peek = match Peek::parse(bundle.text()) {
        Ok(peek) => peek,
        Err(_) => {
            // A key twice is an error to serde, and none to the runtimes.
            let Ok(value) = bundle.value() else { return Ok(()) };
            normal = value.to_string().into_bytes();
            let Ok(peek) = Peek::parse(&normal) else { return Ok(()) };
            peek
        }
    };
    if asks_for_nothing(&peek) {
        return Ok(());
    }
    let started = Instant::now();
    let host = Host::new(&loaded.settings);
    journal::begin(&host.log, loaded.settings.log_level);
    let served = serve(&Call { invocation, loaded, called_as, host: &host, bundle: &bundle, started }, peek);
    if loaded.settings.dry_run { Ok(()) } else { served }
}

/// Is there nothing in this spec that needs a look at the host?
fn asks_for_nothing(peek: &Peek<'_>) -> bool {
    let devices = || peek.dynamic_devices().next().is_some() && !peek.privileged();
    peek.env(request::VISIBLE_DEVICES).is_none()
        && !peek.annotations().any(|(key, _)| key.starts_with("aws.amazon.com/neuron") || key.starts_with("neuron-container-runtime."))
        && !devices()
}

struct Call<'a> {
    invocation: &'a Invocation<'a>,
    loaded: &'a Loaded,
    called_as: &'a OsStr,
    host: &'a Host,
    bundle: &'a Bundle,
    started: Instant,
}

/// Serves a container that asks for chips, or whose spec was edited before.
fn serve(call: &Call<'_>, peek: Peek<'_>) -> Result<()> {
    let mut spec = call.bundle.value_to_edit()?;
    let edited = spec::is_edited(&spec);
    let bore = spec::revert(&mut spec)?;
    let reverted = edited.then(|| spec.to_string());
    let peek = match &reverted {
        Some(text) => Peek::parse(text.as_bytes())?,
        None => peek,
    };
    let served = call.answer(&peek, &mut spec, bore.as_deref());
    let starts = served.is_ok() || call.loaded.settings.dry_run;
    if let Some(reverted) = reverted.filter(|_| starts && !matches!(served, Ok(Spec::Edited))) {
        // What an earlier run put in must go: its lease is dead, and the hook would stop the container.
        if let Err(error) = call.bundle.replace(&serde_json::from_str(&reverted)?, "reverted") {
            warn!("{}: an earlier grant stays in its spec: {error:#}", call.name());
        }
    }
    served.map(drop)
}

/// What became of a spec.
enum Spec {
    Edited,
    Untouched,
}

impl Call<'_> {
    /// Notes a refusal, and hands it on.
    fn refused(&self, error: anyhow::Error) -> anyhow::Error {
        warn!("{}: {}: {error:#}", self.name(), self.would("refused"));
        error
    }

    /// What is done, or in a dry run only would be.
    fn would(&self, done: &str) -> String {
        if self.loaded.settings.dry_run { format!("dry run, would be {done}") } else { done.to_owned() }
    }

    /// Gives what is asked for, or says why not. Whoever asks for nothing is not stopped by a fault (I7).
    fn answer(&self, peek: &Peek<'_>, spec: &mut Value, bore: Option<&str>) -> Result<Spec> {
        let request = request::read(peek, self.loaded.settings.accept_env).map_err(|error| self.refused(error.into()))?;
        let asks = request.is_some();
        match self.ask(peek, request) {
            Ok(None) => {}
            Ok(Some((ask, inventory))) => match self.grant(&ask, &inventory, peek, spec, bore) {
                Err(error) if ask.is_adopted() => warn!("{}: its chips are not recorded as taken: {error:#}", self.name()),
                granted => return granted.map_err(|error| self.refused(error)),
            },
            Err(error) if asks => return Err(self.refused(error)),
            Err(error) => warn!("{}: whether it has Neuron devices is not known: {error:#}", self.name()),
        }
        Ok(Spec::Untouched)
    }

    /// What the container asks for, on this host.
    fn ask(&self, peek: &Peek<'_>, request: Option<Request>) -> Result<Option<(Ask, Inventory)>> {
        let inventory = self.host.discover()?;
        Ok(claim::ask(peek, request, &inventory, self.loaded.settings.manual_devices)?.map(|ask| (ask, inventory)))
    }

    fn name(&self) -> String {
        short_container(&self.invocation.id.unwrap_or_default().to_string_lossy())
    }

    /// Takes the lease, and puts it into the spec.
    fn grant(&self, ask: &Ask, inventory: &Inventory, peek: &Peek<'_>, spec: &mut Value, bore: Option<&str>) -> Result<Spec> {
        if let Some(fault) = &self.loaded.fault {
            return Err(anyhow::anyhow!("{fault:#}: mend it, containers without chips start all the same"));
        }
        if self.invocation.action == Action::Restore && !ask.is_adopted() {
            return Err(Invalid::Restore(ask.origin()).into());
        }
        let path = std::env::var_os("PATH");
        let claimant = Claimant {
            settings: &self.loaded.settings,
            host: self.host,
            container: self.invocation.id.context("the engine gave no container id")?.to_string_lossy().into_owned(),
            root: self.invocation.root.unwrap_or_default().to_string_lossy().into_owned(),
            bundle: &self.bundle.folder,
            hook: programs::hook(&self.loaded.settings, self.called_as, path.as_deref())?,
        };
        let subject = spec::Subject::of(spec);
        let case = Case { claimant: &claimant, ask, spec: peek, subject: &subject, inventory, bore };
        let dry = self.loaded.settings.dry_run;
        let claim = if dry { claim::plan(&case) } else { claim::claim(&case) }?;
        let lease = &claim.lease;
        let done = self.would(if ask.is_adopted() { "recorded" } else { "granted" });
        let remarks: String = claim.warnings.iter().map(|warning| format!("; {warning}")).collect();
        let took = self.started.elapsed().as_micros();
        info!("{}: {done}: {} for {}, {took} µs{remarks}", self.name(), lease.chips.named("chip"), lease.request);
        if dry {
            return Ok(Spec::Untouched);
        }
        spec::apply(spec, &claim.edit)?;
        self.bundle.replace(spec, &lease.id)?;
        Ok(Spec::Edited)
    }
}

/// Tells the engine what went wrong: one line in the file that it named, for that is what it shows.
pub fn tell_engine(args: &[OsString], line: &str) {
    let rest = args.get(1..).unwrap_or_default();
    let Invocation { log: Some(path), json, .. } = scan(rest) else { return };
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
    let message = json_string(line);
    let entry = if json {
        format!("{{\"level\":\"error\",\"msg\":{message},\"time\":\"{now}\"}}\n")
    } else {
        format!("time=\"{now}\" level=error msg={message}\n")
    };
    // Where the engine's own log cannot be written there is nobody to tell; stderr has the line too.
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let _ = file.and_then(|mut file| file.write_all(entry.as_bytes()));
}
