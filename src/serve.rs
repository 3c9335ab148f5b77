//! Serves one container: from its spec as it is to the spec that it starts with, or to a refusal.
//!
//! The wrapper's and Podman's `precreate`'s common way. What cannot be a fault of the container's, a container without a request
//! does not suffer from (I7); whoever asks for chips and cannot have them gets an error.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use log::{debug, info, warn};
use serde_json::Value;

use crate::chip::Inventory;
use crate::claim::{self, Ask, Case, Claimant, HeldBy};
use crate::document::Document;
use crate::host::Host;
use crate::journal;
use crate::peek::Peek;
use crate::request::{self, Invalid, Request};
use crate::settings::Loaded;
use crate::spec;
use crate::words::short_container;

/// A container, and how its spec is handed on.
pub struct Call<'a> {
    /// The settings.
    pub loaded: &'a Loaded,
    /// Its spec.
    pub document: &'a Document,
    /// The folder that relative paths in it count from.
    pub bundle: &'a Path,
    /// Its id; empty where that is not known yet.
    pub container: String,
    /// The runtime's `--root`.
    pub root: String,
    /// Is it to be restored from a checkpoint?
    pub restored: bool,
    /// Whose life is the lease's until the container has a process.
    pub held_by: HeldBy,
    /// Finds the hook's executable.
    pub hook: &'a dyn Fn() -> Result<PathBuf>,
    /// Puts another spec in the place of this one; the text is unique.
    pub replace: &'a dyn Fn(&Value, &str) -> Result<()>,
}

/// Gives the container what it asks for.
///
/// # Errors
/// It must not start: what it asks for cannot be had, or nobody can tell.
pub fn serve(call: &Call<'_>) -> Result<()> {
    let normal;
    let peek = match Peek::parse(call.document.text()) {
        Ok(peek) => Ok(peek),
        // A key twice is an error to serde, and none to the runtimes.
        Err(_) => match call.document.value() {
            Ok(value) => {
                normal = value.to_string().into_bytes();
                Peek::parse(&normal)
            }
            Err(error) => Err(error),
        },
    };
    let peek = match peek {
        Ok(peek) => peek,
        Err(error) => {
            // What cannot be read asks for nothing that we could know of, but the administrator should.
            journal::begin(&Host::new(&call.loaded.settings).log, call.loaded.settings.log_level);
            warn!("{}: its config.json is not understood ({error}), so it gets no chips", short_container(&call.container));
            return Ok(());
        }
    };
    if asks_for_nothing(&peek) {
        return Ok(());
    }
    let started = Instant::now();
    let host = Host::new(&call.loaded.settings);
    journal::begin(&host.log, call.loaded.settings.log_level);
    let served = Serving { call, host: &host, started }.serve(peek);
    if call.loaded.settings.dry_run { Ok(()) } else { served }
}

/// Is there nothing in this spec that needs a look at the host?
fn asks_for_nothing(peek: &Peek<'_>) -> bool {
    let devices = || peek.dynamic_devices().next().is_some() && !peek.privileged();
    [request::VISIBLE_DEVICES, request::CORES].iter().all(|name| peek.env(name).is_none())
        && !peek.annotations().any(|(key, _)| key.starts_with("aws.amazon.com/neuron") || key.starts_with("neuron-container-runtime."))
        && !devices()
}

struct Serving<'a> {
    call: &'a Call<'a>,
    host: &'a Host,
    started: Instant,
}

/// What became of a spec.
enum Spec {
    Edited,
    Untouched,
}

impl Serving<'_> {
    /// Serves a container that asks for chips, or whose spec was edited before.
    fn serve(&self, peek: Peek<'_>) -> Result<()> {
        let document = self.call.document;
        let mut spec = match peek.seccomp().map_or_else(|| document.value(), |profile| document.value_without(profile)) {
            Ok(spec) => spec,
            Err(error) => {
                let error = anyhow::Error::new(error).context("its config.json cannot be edited");
                // A request that is not understood is one all the same.
                if request::read(&peek, self.call.loaded.settings.accept_env).map_or(true, |request| request.is_some()) {
                    return Err(self.refused(error));
                }
                warn!("{}: its chips are not recorded as taken: {error:#}", self.name());
                return Ok(());
            }
        };
        let edited = spec::is_edited(&spec);
        if edited && self.taken_over(&spec) {
            return Ok(());
        }
        let bore = spec::revert(&mut spec)?;
        let reverted = edited.then(|| spec.to_string());
        let peek = match &reverted {
            Some(text) => Peek::parse(text.as_bytes())?,
            None => peek,
        };
        let served = self.answer(&peek, &mut spec, bore.as_deref());
        // In a moment the process is another program, or none: to take it apart would be a twentieth of a claim.
        std::mem::forget(spec);
        let starts = served.is_ok() || self.call.loaded.settings.dry_run;
        if let Some(reverted) = reverted.filter(|_| starts && !matches!(served, Ok(Spec::Edited))) {
            // What an earlier run put in must go: its lease is dead, and the hook would stop the container.
            if let Err(error) = (self.call.replace)(&serde_json::from_str(&reverted)?, "reverted") {
                warn!("{}: an earlier grant stays in its spec: {error:#}", self.name());
            }
        }
        served.map(drop)
    }

    /// Was this spec prepared for this very container a moment ago, by `precreate`? Then the lease goes on with this process.
    fn taken_over(&self, spec: &Value) -> bool {
        let Some(lease) = spec::lease_of(spec).filter(|_| self.call.held_by == HeldBy::Oneself) else { return false };
        // Where the ledger is at fault, the claim will meet the same.
        let chips = claim::take_over(self.host, &self.call.loaded.settings, lease, &self.call.container).unwrap_or_default();
        if let Some(chips) = chips {
            debug!("{}: {} granted by precreate go on with this process", self.name(), chips.named("chip"));
        }
        chips.is_some()
    }

    /// Notes a refusal, and hands it on.
    fn refused(&self, error: anyhow::Error) -> anyhow::Error {
        warn!("{}: {}: {error:#}", self.name(), self.would("refused"));
        error
    }

    /// What is done, or in a dry run only would be.
    fn would(&self, done: &str) -> String {
        if self.call.loaded.settings.dry_run { format!("dry run, would be {done}") } else { done.to_owned() }
    }

    /// Gives what is asked for, or says why not. Whoever asks for nothing is not stopped by a fault (I7).
    fn answer(&self, peek: &Peek<'_>, spec: &mut Value, bore: Option<&str>) -> Result<Spec> {
        let request = request::read(peek, self.call.loaded.settings.accept_env).map_err(|error| self.refused(error.into()))?;
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
        Ok(claim::ask(peek, request, &inventory, self.call.loaded.settings.manual_devices)?.map(|ask| (ask, inventory)))
    }

    fn name(&self) -> String {
        short_container(&self.call.container)
    }

    /// Takes the lease, and puts it into the spec.
    fn grant(&self, ask: &Ask, inventory: &Inventory, peek: &Peek<'_>, spec: &mut Value, bore: Option<&str>) -> Result<Spec> {
        if let Some(fault) = &self.call.loaded.fault {
            return Err(anyhow::anyhow!("{fault:#}: mend it, containers without chips start all the same"));
        }
        if self.call.restored && !ask.is_adopted() {
            return Err(Invalid::Restore(ask.origin()).into());
        }
        ensure!(self.call.held_by == HeldBy::Caller || !self.call.container.is_empty(), "the engine gave no container id");
        let claimant = Claimant {
            settings: &self.call.loaded.settings,
            host: self.host,
            container: self.call.container.clone(),
            root: self.call.root.clone(),
            bundle: self.call.bundle,
            held_by: self.call.held_by,
            hook: (self.call.hook)()?,
        };
        let subject = spec::Subject::of(spec);
        let case = Case { claimant: &claimant, ask, spec: peek, subject: &subject, inventory, bore };
        let dry = self.call.loaded.settings.dry_run;
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
        (self.call.replace)(spec, &lease.id)?;
        Ok(Spec::Edited)
    }
}
