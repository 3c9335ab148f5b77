//! `status`: the chips of the host, and who holds them.
//!
//! Reads without the lock, changes nothing, needs no root. A lease whose holder is dead is never shown.

mod prometheus;
pub(super) mod table;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use terminal_size::{Height, terminal_size};

use crate::chip::{Chip, ChipSet, Health, Inventory};
use crate::claim::look;
use crate::cores::CoreRun;
use crate::host::Host;
use crate::lease::{Lease, Mode, Waiter};
use crate::picture::Paint;
use crate::process::Processes;
use crate::settings::Settings;
use crate::users::{User, users};
use crate::words::called;

/// Show the chips of this host and who holds them
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neuron-ctk status --topology\n  neuron-ctk status --json | jq .remaining")]
pub(super) struct Status {
    /// One JSON document
    #[arg(long, conflicts_with_all = ["topology", "watch"])]
    json: bool,
    /// Metrics in Prometheus' text format, as node_exporter's textfile collector reads them
    #[arg(long, conflicts_with_all = ["json", "topology", "watch"])]
    prometheus: bool,
    /// Draw the chips as NeuronLink connects them
    #[arg(long)]
    topology: bool,
    /// Look again every two seconds, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

impl Status {
    /// Looks, and shows.
    pub(super) fn run(&self, host: &Host, settings: &Settings, out: &mut dyn Write) -> Result<()> {
        if self.json {
            let (report, _) = Report::new(host, settings)?;
            writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
            return Ok(());
        }
        if self.prometheus {
            out.write_all(prometheus::page(&Report::new(host, settings)?.0).as_bytes())?;
            return Ok(());
        }
        let terminal = io::stdout().is_terminal();
        let layout = table::Layout { topology: self.topology, paint: paint(), cut: terminal };
        loop {
            let (report, inventory) = Report::new(host, settings)?;
            let page = table::page(&report, &inventory, layout);
            if !self.watch {
                out.write_all(page.as_bytes())?;
                return Ok(());
            }
            if terminal {
                // Home, each line cleared to its end, then the rest of the screen: no flicker.
                let page = fitted(&page, terminal_size().map_or(24, |(_, Height(lines))| lines.into())).replace('\n', "\u{1b}[K\n");
                write!(out, "\u{1b}[H{page}\u{1b}[J")?;
            } else {
                writeln!(out, "{page}")?;
            }
            out.flush()?;
            std::thread::sleep(Duration::from_secs(2));
        }
    }
}

/// A page cut to the height of a terminal, which would scroll its top away.
fn fitted(page: &str, height: usize) -> String {
    let lines: Vec<&str> = page.lines().collect();
    // The cursor stands on a line of its own, below.
    let room = height.saturating_sub(1).max(1);
    if lines.len() <= room {
        return page.to_owned();
    }
    let more = lines.len() - (room - 1);
    lines[..room - 1].iter().flat_map(|line| [line, "\n"]).collect::<String>() + &format!("… {more} more lines\n")
}

/// Colours on a terminal, unless NO_COLOR is set (no-color.org) or the terminal can do none.
pub(super) fn paint() -> Paint {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if io::stdout().is_terminal() && !set("NO_COLOR") && !dumb { Paint::Colour } else { Paint::Plain }
}

/// The document of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: u32,
    instance_type: Option<String>,
    driver_version: Option<String>,
    /// Chips of the host.
    registered: usize,
    /// Chips in state free.
    remaining: usize,
    chips: Vec<ChipReport>,
    leases: Vec<LeaseReport>,
    /// Who waits for chips, the first to be served first.
    queue: Vec<Waiter>,
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
    /// Processes that have it open, whether a lease covers them or not.
    users: Vec<UserReport>,
    /// What is wrong with it, for people.
    #[serde(skip)]
    fault: Option<String>,
}

/// A process that has a chip open.
#[derive(Debug, Serialize)]
struct UserReport {
    pid: i32,
    command: String,
    /// Does it only watch (`observers`)?
    observer: bool,
}

impl UserReport {
    fn new(user: &User) -> Self {
        Self { pid: user.pid, command: user.command.clone(), observer: user.observes }
    }
}

/// One state a chip, the first that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Missing,
    Unhealthy,
    Held,
    Shared,
    Adopted,
    Unclaimed,
    Reserved,
    Free,
}

impl State {
    /// All of them, the best first.
    const ALL: [Self; 8] =
        [Self::Free, Self::Held, Self::Shared, Self::Adopted, Self::Unclaimed, Self::Reserved, Self::Unhealthy, Self::Missing];

    fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Unhealthy => "unhealthy",
            Self::Held => "held",
            Self::Shared => "shared",
            Self::Adopted => "adopted",
            Self::Unclaimed => "unclaimed",
            Self::Reserved => "reserved",
            Self::Free => "free",
        }
    }
}

/// A lease as in the ledger, but for the environment that it gave.
#[derive(Debug, Serialize)]
pub(super) struct LeaseReport {
    id: String,
    container: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    root: String,
    chips: ChipSet,
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<CoreRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lnc: Option<u32>,
    mode: Mode,
    state: crate::lease::State,
    holder: crate::lease::Holder,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    since: String,
    request: String,
}

impl Report {
    /// Looks at the host; the inventory is what pictures are drawn of.
    pub(super) fn new(host: &Host, settings: &Settings) -> Result<(Self, Inventory)> {
        let mut inventory = host.discover()?;
        let processes = Processes::new(&host.proc)?;
        let ledger = look(host, &processes)?;
        let users = users(host, &inventory, &settings.observers)?;
        users.mark(&mut inventory, ledger.leased());
        let chips: Vec<_> = inventory.chips.iter().map(|chip| ChipReport::new(chip, host, settings, ledger.leases(), &users.all)).collect();
        let report = Self {
            version: 1,
            instance_type: inventory.instance_type.clone(),
            driver_version: inventory.driver_version.clone(),
            registered: chips.len(),
            remaining: chips.iter().filter(|chip| chip.state == State::Free).count(),
            chips,
            leases: ledger.leases().iter().cloned().map(LeaseReport::new).collect(),
            queue: ledger.queue().to_vec(),
        };
        Ok((report, inventory))
    }
}

impl Report {
    /// Chips in state free.
    pub(super) fn free(&self) -> usize {
        self.remaining
    }

    /// The lowest free chip.
    pub(super) fn first_free(&self) -> Option<u32> {
        self.chips.iter().find(|chip| chip.state == State::Free).map(|chip| chip.id)
    }

    /// The live leases.
    pub(super) fn leases(&self) -> &[LeaseReport] {
        &self.leases
    }
}

impl ChipReport {
    fn new(chip: &Chip, host: &Host, settings: &Settings, leases: &[Lease], users: &[User]) -> Self {
        let holding = || leases.iter().filter(|lease| lease.chips.contains(chip.id));
        let (state, fault) = match &chip.health {
            Health::Missing(why) => (State::Missing, Some(why.clone())),
            Health::Unhealthy(why) => (State::Unhealthy, Some(why.clone())),
            // Who is not root cannot tell whether a chip is ready; the claim, which is, will.
            _ if holding().any(|lease| lease.mode == Mode::Exclusive) => (State::Held, None),
            _ if holding().any(|lease| lease.mode == Mode::Shared) => (State::Shared, None),
            _ if holding().next().is_some() => (State::Adopted, None),
            Health::Used(why) => (State::Unclaimed, Some(why.clone())),
            _ if settings.reserved_chips.contains(chip.id) => (State::Reserved, None),
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
            users: users.iter().filter(|user| user.chips.contains(chip.id)).map(UserReport::new).collect(),
            fault,
        }
    }
}

impl LeaseReport {
    /// The container, for people.
    pub(super) fn called(&self) -> String {
        called(self.name.as_deref(), &self.container)
    }

    pub(super) fn chips(&self) -> ChipSet {
        self.chips
    }

    pub(super) fn is_adopted(&self) -> bool {
        self.mode == Mode::Adopted
    }

    /// The state that it puts its chips into.
    fn state_of_chips(&self) -> State {
        match self.mode {
            Mode::Exclusive => State::Held,
            Mode::Shared => State::Shared,
            Mode::Adopted => State::Adopted,
        }
    }

    fn is_shared(&self) -> bool {
        self.mode == Mode::Shared
    }

    fn new(lease: Lease) -> Self {
        let Lease { id, container, name, root, chips, cores, lnc, mode, state, holder, cgroup, expires, since, request, env: _ } = lease;
        Self { id, container, name, root, chips, cores, lnc, mode, state, holder, cgroup, expires, since, request }
    }
}

#[cfg(test)]
mod tests {
    use super::fitted;

    #[test]
    fn a_page_longer_than_the_terminal_says_so() {
        assert_eq!(fitted("a\nb\nc\n", 4), "a\nb\nc\n");
        assert_eq!(fitted("a\nb\nc\nd\n", 4), "a\nb\n… 2 more lines\n");
        assert_eq!(fitted("a\nb\n", 0), "… 2 more lines\n");
    }
}
