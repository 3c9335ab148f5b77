//! The stages `createRuntime` and `prestart` without a lease: an engine was told to run the hook by itself.
//!
//! A hook cannot change a container's spec any more. All that is left is to stop a container that asks for chips and would start
//! without any because nobody prepared its spec.

use std::path::Path;

use anyhow::{Result, bail};
use oci_spec::runtime::State;
use serde_json::{Value, json};

use crate::bundle::Bundle;
use crate::claim;
use crate::host::Host;
use crate::peek::Peek;
use crate::process::Processes;
use crate::request::{self, in_words};
use crate::settings::{Flags, Loaded};
use crate::spec;

/// Is this a container that asks for nothing, or one that holds a lease?
///
/// # Errors
/// It asks, and has none.
pub(super) fn check(flags: &Flags, state: &State) -> Result<()> {
    let loaded = Loaded::new(flags, |_| None);
    let spec = spec_of(state);
    let peek = Peek::of(&spec)?;
    let Some(request) = request::read(&peek, loaded.settings.accept_env)? else { return Ok(()) };
    if loaded.settings.dry_run {
        return Ok(());
    }
    let host = Host::new(&loaded.settings);
    if let Some(lease) = spec::lease_of(&spec)
        && let Some(lease) = claim::look(&host, &Processes::new(&host.proc)?)?.lease(lease)
        && (lease.container.is_empty() || lease.container == *state.id())
    {
        return Ok(());
    }
    bail!(
        "asked for {} ({}), but nobody prepared this container's spec, and a hook cannot: start it by the runtime neuron \
         (neuron-ctk configure docker, containerd or crio), or let Podman call this hook at precreate (neuron-ctk configure podman)",
        in_words(request.want, host.discover()?.ids().len()),
        request.origin
    )
}

/// The container's spec; where the runtime does not say where it is (crun in a user namespace), what the state has of it.
fn spec_of(state: &State) -> Value {
    let read = || Bundle::read(Path::new(state.bundle()), None).ok()?.document.value().ok();
    read().unwrap_or_else(|| json!({"annotations": state.annotations()}))
}
