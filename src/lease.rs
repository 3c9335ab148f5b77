//! The ledger: who holds which chips, and the transitions claim, bind and reap.
//!
//! Pure: no file, no clock, no process. What is known of processes is passed in, so that the transitions can be checked by a
//! model. It guarantees I1 (no chip in two live exclusive leases) for what goes through [`Ledger::claim`], and that a lease is
//! bound once. It does not know whether its text reached the disk: that is `store`'s.

mod holder;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::chip::ChipSet;
use crate::cores::{CoreRun, Share};
use crate::select::Held;
use crate::words::{called, short_container};
pub use holder::{Holder, Life, Seen};

/// The version of the ledger's format that this program writes.
const VERSION: u32 = 1;

/// What is stored in `ledger.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// The format's version.
    version: u32,
    /// The boot in which it was written (`/proc/sys/kernel/random/boot_id`): no lease outlives it.
    boot_id: String,
    /// Who waits for chips, the first to be served first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    queue: Vec<Waiter>,
    /// The leases, oldest first.
    leases: Vec<Lease>,
}

/// A container that waits for chips.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiter {
    /// Random, fresh for each; 16 hex digits.
    pub id: String,
    /// The container's id, as the engine gave it.
    pub container: String,
    /// What people call the container, where the spec tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The process that waits.
    pub holder: Holder,
    /// Seconds of `CLOCK_BOOTTIME` after which it waits no longer, whatever its holder does.
    pub until: u64,
    /// Since when, RFC 3339, for people.
    pub since: String,
    /// The request, for people.
    pub request: String,
}

/// A grant and its holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// Random, fresh for each claim; 16 hex digits.
    pub id: String,
    /// The container's id, as the engine gave it.
    pub container: String,
    /// What people call the container, where the spec tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The runtime's `--root`, empty where the engine gave none.
    pub root: String,
    /// The chips of the grant.
    pub chips: ChipSet,
    /// The physical cores of a part of a chip, numbered through the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<CoreRun>,
    /// How many physical cores make a logical one on the chips of a shared lease (LNC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lnc: Option<u32>,
    /// Whether this tool gave the chips, or only saw that somebody did.
    pub mode: Mode,
    /// Whether the container's own process holds it yet.
    pub state: State,
    /// The process whose life is the lease's.
    pub holder: Holder,
    /// The container's cgroup, as `/proc/PID/cgroup` has it (`CONTROLLERS:PATH`), where it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Seconds of `CLOCK_BOOTTIME` after which it is dead whatever its holder does: that may be a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// When it was claimed, RFC 3339, for people.
    pub since: String,
    /// The request, for people.
    pub request: String,
    /// What the grant put into the container's environment, `NAME=VALUE`.
    pub env: Vec<String>,
}

/// How chips came to a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Granted to this container alone.
    Exclusive,
    /// Some cores of the chips are granted to this container alone; others may have the rest.
    Shared,
    /// Given by somebody else (`--device`); recorded so that nobody is granted them.
    Adopted,
}

/// How far a lease has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Held by the process that is creating the container.
    Claimed,
    /// Held by the container's init.
    Bound,
}

impl Waiter {
    /// The container, for people.
    #[must_use]
    pub fn called(&self) -> String {
        called(self.name.as_deref(), &self.container)
    }
}

impl Lease {
    /// The container, for people.
    #[must_use]
    pub fn called(&self) -> String {
        called(self.name.as_deref(), &self.container)
    }

    /// What it holds of chips that it shares.
    #[must_use]
    pub fn share(&self) -> Option<Share> {
        let cores = self.cores.filter(|_| self.mode == Mode::Shared)?;
        Some(Share { cores, lnc: self.lnc.unwrap_or(1) })
    }

    /// Can both not be live at once (I1)? Only what somebody else gave (an adopted lease) does it.
    #[must_use]
    pub fn clashes(&self, other: &Self) -> bool {
        if self.chips.intersection(other.chips).is_empty() {
            return false;
        }
        match (self.share(), other.share()) {
            // A chip has one LNC at a time.
            (Some(ours), Some(theirs)) => ours.cores.overlaps(theirs.cores) || ours.lnc != theirs.lnc,
            _ => true,
        }
    }
}

/// Why a ledger's text is refused.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// Not JSON, or not of this format.
    #[error("is damaged ({0})")]
    Damaged(#[from] serde_json::Error),
    /// Written by a newer program.
    #[error("has version {0}, this program knows versions up to {VERSION}")]
    Newer(u32),
}

/// Why a lease cannot be bound.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotBound {
    /// The lease is not in the ledger, or its holder has died.
    #[error("lease {0} is not in the ledger: the process that claimed it has ended; start the container again, by neuron-container-runtime")]
    Unknown(String),
    /// It has been bound before.
    #[error("lease {id} is bound already, to pid {pid}: a lease is bound once; start the container again, by neuron-container-runtime")]
    Twice {
        /// The lease.
        id: String,
        /// Its holder.
        pid: i32,
    },
    /// It is another container's.
    #[error("lease {id} is container {theirs}'s, not {ours}'s: start the container again, by neuron-container-runtime")]
    OtherContainer {
        /// The lease.
        id: String,
        /// The container that it was claimed for.
        theirs: String,
        /// The container that asks.
        ours: String,
    },
}

/// Chips that are in another live lease already.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("chips {0} are in another live lease")]
pub struct Overlap(pub ChipSet);

impl Ledger {
    /// A ledger without leases, of this boot.
    #[must_use]
    pub fn empty(boot_id: &str) -> Self {
        Self { version: VERSION, boot_id: boot_id.to_owned(), queue: Vec::new(), leases: Vec::new() }
    }

    /// Reads a ledger's text; one of another boot is an empty ledger.
    ///
    /// # Errors
    /// [`Unreadable`]: what cannot be read is not free.
    pub fn parse(text: &[u8], boot_id: &str) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let Head { version } = serde_json::from_slice(text)?;
        if version > VERSION {
            return Err(Unreadable::Newer(version));
        }
        let ledger: Self = serde_json::from_slice(text)?;
        Ok(if ledger.boot_id == boot_id { ledger } else { Self::empty(boot_id) })
    }

    /// The ledger's text.
    ///
    /// # Errors
    /// Never in practice: the types are plain.
    pub fn to_text(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// The leases, oldest first.
    #[must_use]
    pub fn leases(&self) -> &[Lease] {
        &self.leases
    }

    /// The chips of all leases.
    #[must_use]
    pub fn leased(&self) -> ChipSet {
        self.leases.iter().fold(ChipSet::EMPTY, |chips, lease| chips.union(lease.chips))
    }

    /// The lease of this id.
    #[must_use]
    pub fn lease(&self, id: &str) -> Option<&Lease> {
        self.leases.iter().find(|lease| lease.id == id)
    }

    /// Drops each dead lease.
    pub fn reap(&mut self, life: impl Fn(&Lease) -> Life) {
        self.leases.retain(|lease| life(lease) != Life::Dead);
    }

    /// Drops each waiter that is dead.
    pub fn reap_queue(&mut self, life: impl Fn(&Waiter) -> Life) {
        self.queue.retain(|waiter| life(waiter) != Life::Dead);
    }

    /// Who waits, the first to be served first.
    #[must_use]
    pub fn queue(&self) -> &[Waiter] {
        &self.queue
    }

    /// Who is to be served before this waiter, or before somebody who does not wait yet.
    #[must_use]
    pub fn before(&self, waiter: Option<&str>) -> &[Waiter] {
        self.queue.split(|other| Some(&*other.id) == waiter).next().unwrap_or_default()
    }

    /// Goes to the end of the queue.
    pub fn join(&mut self, waiter: Waiter) {
        self.queue.push(waiter);
    }

    /// Leaves the queue; false where it was not in it.
    pub fn leave(&mut self, waiter: &str) -> bool {
        let before = self.queue.len();
        self.queue.retain(|other| other.id != waiter);
        self.queue.len() < before
    }

    /// Who holds what, for `select`. `today` (a date) shortens the times of today's leases to hours and minutes.
    #[must_use]
    pub fn held(&self, today: &str) -> Vec<Held> {
        let held = |lease: &Lease| {
            let since = lease.since.get(..16).unwrap_or(&lease.since).replace('T', " ");
            Held {
                chips: lease.chips,
                container: lease.called(),
                pid: lease.holder.pid,
                share: lease.share(),
                since: since.strip_prefix(today).unwrap_or(&since).trim_start().to_owned() + " UTC",
            }
        };
        self.leases.iter().map(held).collect()
    }

    /// Adds a lease.
    ///
    /// # Errors
    /// [`Overlap`], where it would break I1. Adopted leases only record what somebody else gave, so they overlap freely.
    pub fn claim(&mut self, lease: Lease) -> Result<(), Overlap> {
        if lease.mode != Mode::Adopted {
            let clashing = self.leases.iter().filter(|other| lease.clashes(other));
            let overlap = clashing.fold(ChipSet::EMPTY, |taken, other| taken.union(other.chips.intersection(lease.chips)));
            if !overlap.is_empty() {
                return Err(Overlap(overlap));
            }
        }
        self.leases.push(lease);
        Ok(())
    }

    /// Ties a claimed lease to the container's own process. The caller has reaped before.
    ///
    /// # Errors
    /// [`NotBound`]; the ledger is unchanged then.
    pub fn bind(&mut self, id: &str, container: &str, holder: Holder, cgroup: Option<String>) -> Result<&Lease, NotBound> {
        let lease = self.leases.iter_mut().find(|lease| lease.id == id).ok_or_else(|| NotBound::Unknown(id.to_owned()))?;
        if !lease.container.is_empty() && lease.container != container {
            let (theirs, ours) = (lease.called(), short_container(container));
            return Err(NotBound::OtherContainer { id: id.to_owned(), theirs, ours });
        }
        if lease.state == State::Bound {
            return Err(NotBound::Twice { id: id.to_owned(), pid: lease.holder.pid });
        }
        lease.state = State::Bound;
        container.clone_into(&mut lease.container);
        lease.holder = holder;
        lease.cgroup = cgroup;
        lease.expires = None;
        Ok(lease)
    }

    /// Hands a lease that a caller holds for a container on to the process that creates it. `None`: there is no such lease, and the
    /// ledger is unchanged. The caller of this has reaped before.
    pub fn take_over(&mut self, id: &str, container: &str, holder: Holder) -> Option<&Lease> {
        let lease = self.leases.iter_mut().find(|lease| lease.id == id)?;
        let waits = lease.state == State::Claimed && lease.expires.is_some();
        if !waits || !(lease.container.is_empty() || lease.container == container) {
            return None;
        }
        container.clone_into(&mut lease.container);
        lease.holder = holder;
        lease.expires = None;
        Some(lease)
    }
}

#[cfg(test)]
mod tests;
