//! Having the driver reset chips, while a lease keeps everybody else off them.
//!
//! Writes the sysfs file `reset` of a chip, and the ledger. The driver begins only where no process has the chip open
//! (neuron_cdev.c, `driver_reset_store`), and does not say so.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::chip::{ChipId, ChipSet, Health, Inventory};
use crate::claim::{entitled, lock_and_reap, look, random_id, without_used};
use crate::host::{Host, parse_reset};
use crate::kernel;
use crate::lease::{Lease, Ledger, Mode, State};
use crate::process::Processes;
use crate::request::Want;
use crate::select::{Policy, Shortage, select};
use crate::settings::Settings;

/// Takes a lease on these chips for as long as this process lives. They may be ill or reserved.
///
/// # Errors
/// [`Shortage`] where somebody holds or uses one of them, or it is not there; else what is wrong with the host or the ledger.
pub fn hold(host: &Host, settings: &Settings, chips: ChipSet, name: &str) -> Result<()> {
    let processes = Processes::new(&host.proc)?;
    let oneself = entitled(host, &processes)?;
    let inventory = inventory(host, settings, &processes)?;
    let mut locked = lock_and_reap(host, settings.lock_timeout, &processes)?;
    free(&locked.ledger, &inventory, chips)?;
    locked.ledger.claim(Lease {
        id: random_id(),
        container: name.to_owned(),
        name: None,
        root: String::new(),
        chips,
        cores: None,
        lnc: None,
        mode: Mode::Exclusive,
        state: State::Claimed,
        holder: oneself.holder,
        cgroup: None,
        expires: None,
        since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        request: Want::Ids(chips).to_string(),
        env: Vec::new(),
    })?;
    locked.commit()?;
    Ok(())
}

/// Would [`hold`] get them? Read without the lock; nothing is written.
///
/// # Errors
/// As [`hold`].
pub fn holdable(host: &Host, settings: &Settings, chips: ChipSet) -> Result<()> {
    let processes = Processes::new(&host.proc)?;
    let inventory = inventory(host, settings, &processes)?;
    Ok(free(&look(host, &processes)?, &inventory, chips)?)
}

/// The chips of this host, as if those that are ill were well, but for those that somebody uses outside this tool.
fn inventory(host: &Host, settings: &Settings, processes: &Processes) -> Result<Inventory> {
    let mut inventory = host.discover()?;
    inventory.chips.iter_mut().for_each(|chip| chip.health = Health::Ready);
    Ok(without_used(host, settings, processes, Cow::Owned(inventory))?.into_owned())
}

fn free(ledger: &Ledger, inventory: &Inventory, chips: ChipSet) -> Result<(), Shortage> {
    let held = ledger.held("");
    // One by one: to be reset they need no neighbours.
    chips.iter().try_for_each(|chip| {
        let alone = Want::Ids([chip].into_iter().collect());
        select(inventory, &held, alone, &Policy { require_links: false, ..Policy::default() }).map(drop)
    })
}

fn file(host: &Host, chip: ChipId) -> PathBuf {
    host.sys.join("class/neuron_device").join(chip.node_name()).join("reset")
}

/// Tells the driver to reset a chip, and does not wait for it.
///
/// # Errors
/// The driver cannot be told.
pub fn begin(host: &Host, chip: ChipId) -> Result<()> {
    let file = file(host, chip);
    let written = OpenOptions::new().write(true).truncate(true).open(&file).and_then(|mut reset| reset.write_all(b"1"));
    written.with_context(|| {
        format!("chip {chip} cannot be reset: {} cannot be written; run as root, with a driver that has this file", file.display())
    })
}

/// How a chip is now.
///
/// # Errors
/// That cannot be read.
pub fn health(host: &Host, chip: ChipId) -> Result<Health> {
    let file = file(host, chip);
    Ok(parse_reset(&kernel::text(&file).with_context(|| format!("{} cannot be read", file.display()))?))
}
