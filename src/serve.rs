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
use crate::document::{Document, Tree};
use crate::host::Host;
use crate::journal;
use crate::peek::{self, Peek};
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
    pub replace: &'a dyn Fn(&Tree<'_>, &str) -> Result<()>,
}

/// Gives the container what it asks for.
///
/// # Errors
/// It must not start: what it asks for cannot be had, or nobody can tell.
pub fn serve(call: &Call<'_>) -> Result<()> {
    if !peek::concerns(call.document.text()) {
        return Ok(());
    }
    let read = || {
        let tree = call.document.tree()?;
        let peek = Peek::of(&tree.spec)?;
        Ok::<_, anyhow::Error>((tree, peek))
    };
    let (tree, peek) = match read() {
        Ok(read) => read,
        Err(error) => return not_understood(call, error),
    };
    if asks_for_nothing(&peek) {
        return Ok(());
    }
    let started = Instant::now();
    let host = Host::new(&call.loaded.settings);
    journal::begin(&host.log, call.loaded.settings.log_level);
    let served = Serving { call, host: &host, started }.serve(tree, peek);
    if call.loaded.settings.dry_run { Ok(()) } else { served }
}

/// What cannot be understood gets no chips; where it seems to ask for some, it does not start without them.
fn not_understood(call: &Call<'_>, error: anyhow::Error) -> Result<()> {
    let settings = &call.loaded.settings;
    journal::begin(&Host::new(settings).log, settings.log_level);
    let name = short_container(&call.container);
    let error = error.context("its config.json is not understood");
    if peek::seems_to_ask(call.document.text()) && !settings.dry_run {
        warn!("{name}: refused: {error:#}");
        return Err(error);
    }
    warn!("{name}: gets no chips, and what chips it has are not recorded as taken: {error:#}");
    Ok(())
}

/// Is there nothing in this spec that needs a look at the host?
fn asks_for_nothing(peek: &Peek) -> bool {
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
    fn serve(&self, mut tree: Tree<'_>, mut peek: Peek) -> Result<()> {
        let edited = spec::is_edited(&tree.spec);
        if edited && self.taken_over(&tree.spec) {
            return Ok(());
        }
        let bore = spec::revert(&mut tree.spec)?;
        let reverted = edited.then(|| tree.spec.clone());
        if edited {
            peek = Peek::of(&tree.spec)?;
        }
        let served = self.answer(&peek, &mut tree, bore.as_deref());
        let starts = served.is_ok() || self.call.loaded.settings.dry_run;
        if let Some(reverted) = reverted.filter(|_| starts && !matches!(served, Ok(Spec::Edited))) {
            // What an earlier run put in must go: its lease is dead, and the hook would stop the container.
            tree.spec = reverted;
            if let Err(error) = (self.call.replace)(&tree, "reverted") {
                warn!("{}: an earlier grant stays in its spec: {error:#}", self.name());
            }
        }
        // In a moment the process is another program, or none: to take it apart would be a twentieth of a claim.
        std::mem::forget(tree);
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
    fn answer(&self, peek: &Peek, tree: &mut Tree<'_>, bore: Option<&str>) -> Result<Spec> {
        let request = request::read(peek, self.call.loaded.settings.accept_env).map_err(|error| self.refused(error.into()))?;
        let asks = request.is_some();
        match self.ask(peek, request) {
            Ok(None) => {
                for note in request::ignored(peek, self.call.loaded.settings.accept_env) {
                    info!("{}: gets no chips: {note}", self.name());
                }
            }
            Ok(Some((ask, inventory))) => match self.grant(&ask, &inventory, peek, tree, bore) {
                Err(error) if ask.is_adopted() => warn!("{}: its chips are not recorded as taken: {error:#}", self.name()),
                granted => return granted.map_err(|error| self.refused(error)),
            },
            Err(error) if asks => return Err(self.refused(error)),
            Err(error) => warn!("{}: whether it has Neuron devices is not known: {error:#}", self.name()),
        }
        Ok(Spec::Untouched)
    }

    /// What the container asks for, on this host.
    fn ask(&self, peek: &Peek, request: Option<Request>) -> Result<Option<(Ask, Inventory)>> {
        let inventory = self.host.discover()?;
        Ok(claim::ask(peek, request, &inventory, self.call.loaded.settings.manual_devices)?.map(|ask| (ask, inventory)))
    }

    fn name(&self) -> String {
        short_container(&self.call.container)
    }

    /// Takes the lease, and puts it into the spec.
    fn grant(&self, ask: &Ask, inventory: &Inventory, peek: &Peek, tree: &mut Tree<'_>, bore: Option<&str>) -> Result<Spec> {
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
        let subject = spec::Subject::of(&tree.spec);
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
        spec::apply(&mut tree.spec, &claim.edit)?;
        (self.call.replace)(tree, &lease.id)?;
        Ok(Spec::Edited)
    }
}
