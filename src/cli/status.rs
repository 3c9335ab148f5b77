//! `status`: the chips of the host, and who holds them.
//!
//! Reads without the lock, changes nothing, needs no root. A lease whose holder is dead is never shown.

use anyhow::Result;
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::chip::{Chip, ChipSet, Health};
use crate::host::Host;
use crate::lease::{Lease, Ledger, Mode};
use crate::process::Processes;
use crate::settings::Settings;
use crate::store::Store;
use crate::words::{count, short_container};

/// Show the chips of this host and who holds them
#[derive(Debug, Args)]
#[command(after_help = "Example: neuron-ctk status --json | jq .remaining")]
pub(super) struct Status {
    /// One JSON document
    #[arg(long)]
    json: bool,
}

impl Status {
    /// Looks, and shows.
    pub(super) fn run(&self, host: &Host, settings: &Settings) -> Result<String> {
        let report = Report::new(host, settings)?;
        Ok(if self.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.table() })
    }
}

/// The document of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    version: u32,
    instance_type: Option<String>,
    driver_version: Option<String>,
    /// Chips of the host.
    registered: usize,
    /// Chips in state free.
    remaining: usize,
    chips: Vec<ChipReport>,
    leases: Vec<LeaseReport>,
}

#[derive(Debug, Serialize)]
struct ChipReport {
    id: u32,
    device: String,
    major: u32,
    minor: u32,
    architecture: Option<String>,
    cores: Option<u32>,
    connected: Option<ChipSet>,
    state: State,
    containers: Vec<String>,
    /// What is wrong with it, for people.
    #[serde(skip)]
    fault: Option<String>,
}

/// One state a chip, the first that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Missing,
    Unhealthy,
    Held,
    Adopted,
    Reserved,
    Free,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Unhealthy => "unhealthy",
            Self::Held => "held",
            Self::Adopted => "adopted",
            Self::Reserved => "reserved",
            Self::Free => "free",
        }
    }
}

/// A lease as in the ledger, but for the environment that it gave.
#[derive(Debug, Serialize)]
struct LeaseReport {
    id: String,
    container: String,
    root: String,
    chips: ChipSet,
    mode: Mode,
    state: crate::lease::State,
    holder: crate::lease::Holder,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    since: String,
    request: String,
}

impl Report {
    fn new(host: &Host, settings: &Settings) -> Result<Self> {
        let inventory = host.discover()?;
        let processes = Processes::new(&host.proc)?;
        let mut ledger: Ledger = Store::new(&host.state, processes.boot_id()?).load()?;
        let namespaces = processes.namespaces(ledger.leases());
        ledger.reap(|lease| processes.life(lease, namespaces.as_ref()));
        let chips: Vec<_> = inventory.chips.iter().map(|chip| ChipReport::new(chip, host, settings, ledger.leases())).collect();
        Ok(Self {
            version: 1,
            instance_type: inventory.instance_type,
            driver_version: inventory.driver_version,
            registered: chips.len(),
            remaining: chips.iter().filter(|chip| chip.state == State::Free).count(),
            chips,
            leases: ledger.leases().iter().cloned().map(LeaseReport::new).collect(),
        })
    }

    fn table(&self) -> String {
        let kind = self.instance_type.as_deref().unwrap_or("this host");
        let driver = self.driver_version.as_deref().map_or_else(String::new, |version| format!(", driver {version}"));
        let chips = u32::try_from(self.registered).unwrap_or(u32::MAX);
        if chips == 0 {
            return format!("{kind}{driver}: no Neuron chips. Is the driver (aws-neuronx-dkms) loaded?\n");
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(["CHIP", "CORES", "LINKS", "STATE", "CONTAINER"]);
        for chip in &self.chips {
            let cores = chip.cores.map_or_else(|| "?".to_owned(), |cores| cores.to_string());
            let links = chip.connected.map_or_else(|| "?".to_owned(), |links| links.to_string());
            // More than one holder is a conflict, and each is named.
            let holders = chip.containers.iter().map(|name| short_container(name)).collect::<Vec<_>>().join(" and ");
            let conflict = if chip.containers.len() > 1 { " (conflict)" } else { "" };
            let parts = [holders + conflict, chip.fault.clone().unwrap_or_default()];
            let holders = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
            table.add_row([chip.id.to_string(), cores, links, chip.state.word().to_owned(), holders]);
        }
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 2));
        });
        let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        format!("{kind}{driver}: {}, {} free\n\n{}\n", count(chips, "Neuron chip"), self.remaining, lines.join("\n"))
    }
}

impl ChipReport {
    fn new(chip: &Chip, host: &Host, settings: &Settings, leases: &[Lease]) -> Self {
        let holding = || leases.iter().filter(|lease| lease.chips.contains(chip.id));
        let (state, fault) = match &chip.health {
            Health::Missing(why) => (State::Missing, Some(why.clone())),
            Health::Unhealthy(why) => (State::Unhealthy, Some(why.clone())),
            // Who is not root cannot tell whether a chip is ready; the claim, which is, will.
            Health::Ready | Health::Unknown(_) if holding().any(|lease| lease.mode == Mode::Exclusive) => (State::Held, None),
            Health::Ready | Health::Unknown(_) if holding().next().is_some() => (State::Adopted, None),
            Health::Ready | Health::Unknown(_) if settings.reserved_chips.contains(chip.id) => (State::Reserved, None),
            Health::Ready | Health::Unknown(_) => (State::Free, None),
        };
        Self {
            id: chip.id.index(),
            device: host.dev.join(chip.id.node_name()).display().to_string(),
            major: chip.number.major,
            minor: chip.number.minor,
            architecture: chip.architecture.clone(),
            cores: chip.cores,
            connected: chip.linked,
            state,
            containers: holding().map(|lease| lease.container.clone()).collect(),
            fault,
        }
    }
}

impl LeaseReport {
    fn new(lease: Lease) -> Self {
        let Lease { id, container, root, chips, mode, state, holder, cgroup, since, request, env: _ } = lease;
        Self { id, container, root, chips, mode, state, holder, cgroup, since, request }
    }
}
