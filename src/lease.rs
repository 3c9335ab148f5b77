//! The ledger: who holds which chips, and the transitions claim, bind and reap.
//!
//! Pure: no file, no clock, no process. What is known of processes is passed in, so that the transitions can be checked by a
//! model. It guarantees I1 (no chip in two live exclusive leases) for what goes through [`Ledger::claim`], and that a lease is
//! bound once. It does not know whether its text reached the disk: that is `store`'s.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::chip::ChipSet;
use crate::cores::{CoreRun, Share};
use crate::select::Held;
use crate::words::short_container;

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

/// A process, never confused with a later one of the same pid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// Its pid, as seen in the pid namespace `pidns`.
    pub pid: i32,
    /// Its start, clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start: u64,
    /// The pid namespace in which `pid` counts, by inode.
    pub pidns: u64,
}

/// What is known of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// No process has this pid.
    Gone,
    /// A process has it.
    There {
        /// Its start, clock ticks since boot.
        start: u64,
        /// Its state letter: `X` is dead, `Z` a zombie.
        state: char,
        /// Its threads.
        threads: u64,
    },
    /// It could not be looked at.
    Unreadable,
}

/// Whether a lease is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Its holder, or a process of its cgroup, is.
    Live,
    /// Nothing is left of it.
    Dead,
    /// That cannot be judged, so its chips are not free.
    Unknown,
}

impl Waiter {
    /// The container, for people.
    #[must_use]
    pub fn called(&self) -> String {
        short_container(self.name.as_deref().unwrap_or(&self.container))
    }
}

impl Lease {
    /// The container, for people.
    #[must_use]
    pub fn called(&self) -> String {
        short_container(self.name.as_deref().unwrap_or(&self.container))
    }

    /// What it holds of chips that it shares.
    #[must_use]
    pub fn share(&self) -> Option<Share> {
        let cores = self.cores.filter(|_| self.mode == Mode::Shared)?;
        Some(Share { cores, lnc: self.lnc.unwrap_or(1) })
    }

    /// Can both not be live at once (I1)?
    fn clashes(&self, other: &Self) -> bool {
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

impl Holder {
    /// Is this process the holder, and alive?
    ///
    /// A leader that called `pthread_exit` is a zombie while its threads still hold the chip.
    #[must_use]
    pub fn life(&self, seen: Seen) -> Life {
        match seen {
            Seen::Gone => Life::Dead,
            Seen::Unreadable => Life::Unknown,
            Seen::There { start, .. } if start != self.start => Life::Dead,
            Seen::There { state: 'X' | 'x', .. } => Life::Dead,
            Seen::There { state: 'Z', threads, .. } if threads <= 1 => Life::Dead,
            Seen::There { .. } => Life::Live,
        }
    }
}

impl Life {
    /// The life of a lease with two roots: it ends when both are dead.
    #[must_use]
    pub fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Live => Self::Live,
            Self::Dead => other(),
            Self::Unknown => match other() {
                Self::Live => Self::Live,
                Self::Dead | Self::Unknown => Self::Unknown,
            },
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chip::ChipId;

    fn holder(pid: i32) -> Holder {
        Holder { pid, start: 100, pidns: 4_026_531_836 }
    }

    fn lease(id: &str, first: u32, len: u32, mode: Mode) -> Lease {
        Lease {
            id: id.into(),
            container: format!("c-{id}"),
            name: None,
            root: "/run/runc".into(),
            chips: ChipSet::run(ChipId::new(first).unwrap(), len).unwrap(),
            cores: None,
            lnc: None,
            mode,
            state: State::Claimed,
            holder: holder(7),
            cgroup: None,
            expires: None,
            since: "2026-11-30T10:02:03Z".into(),
            request: "any:2".into(),
            env: vec!["AWS_NEURON_VISIBLE_DEVICES=4,5".into()],
        }
    }

    /// The design's format, typed off its table of files.
    #[test]
    fn the_format_is_pinned() {
        let mut ledger = Ledger::empty("b00t");
        ledger.claim(lease("1", 4, 2, Mode::Exclusive)).unwrap();
        let claimed = r#"{"version":1,"boot_id":"b00t","leases":[{"id":"1","container":"c-1","root":"/run/runc","chips":[4,5],"mode":"exclusive","state":"claimed","holder":{"pid":7,"start":100,"pidns":4026531836},"since":"2026-11-30T10:02:03Z","request":"any:2","env":["AWS_NEURON_VISIBLE_DEVICES=4,5"]}]}"#;
        assert_eq!(String::from_utf8(ledger.to_text().unwrap()).unwrap().trim_end(), claimed);
        ledger.bind("1", "c-1", holder(9), Some("devices:/c-1".into())).unwrap();
        let text = ledger.to_text().unwrap();
        let bound = claimed
            .replace("claimed", "bound")
            .replace("\"pid\":7", "\"pid\":9")
            .replace(",\"since\"", ",\"cgroup\":\"devices:/c-1\",\"since\"");
        assert_eq!(String::from_utf8(text.clone()).unwrap().trim_end(), bound);
        assert_eq!(Ledger::parse(&text, "b00t").unwrap(), ledger);
    }

    #[test]
    fn a_ledger_of_another_boot_is_empty() {
        let mut ledger = Ledger::empty("before");
        ledger.claim(lease("1", 0, 1, Mode::Exclusive)).unwrap();
        assert_eq!(Ledger::parse(&ledger.to_text().unwrap(), "after").unwrap(), Ledger::empty("after"));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for text in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"version":1}"#,
            r#"{"version":1,"boot_id":"b","leases":[{}]}"#,
            "\0\0\0\0",
            r#"{"version":1,"boot_id":"b","leases":[],"more":1}"#,
            r#"{"version":-1,"boot_id":"b","leases":[]}"#,
        ] {
            assert!(matches!(Ledger::parse(text.as_bytes(), "b"), Err(Unreadable::Damaged(_))), "{text}");
        }
        let newer = Ledger::parse(br#"{"version":2,"boot_id":"b","leases":{"new":"shape"}}"#, "b");
        assert!(matches!(newer, Err(Unreadable::Newer(2))));
        // Even of another boot: a newer program may keep more than leases in it.
        assert!(Ledger::parse(br#"{"version":2,"boot_id":"a","leases":[]}"#, "b").is_err());
    }

    /// A row a case of I3.
    #[test]
    fn a_holder_is_a_pid_with_a_start_time_that_is_not_dead() {
        let there = |start, state, threads| Seen::There { start, state, threads };
        for (seen, life) in [
            (there(100, 'S', 1), Life::Live),
            (there(100, 'R', 9), Life::Live),
            (there(100, 'D', 1), Life::Live),
            (there(100, 'T', 1), Life::Live),
            (there(100, 'Z', 1), Life::Dead),
            (there(100, 'Z', 0), Life::Dead),
            (there(100, 'Z', 2), Life::Live),
            (there(100, 'X', 2), Life::Dead),
            (there(101, 'S', 1), Life::Dead),
            (Seen::Gone, Life::Dead),
            (Seen::Unreadable, Life::Unknown),
        ] {
            assert_eq!(holder(7).life(seen), life, "{seen:?}");
        }
        for (first, second, both) in [
            (Life::Dead, Life::Live, Life::Live),
            (Life::Dead, Life::Dead, Life::Dead),
            (Life::Dead, Life::Unknown, Life::Unknown),
            (Life::Unknown, Life::Live, Life::Live),
            (Life::Unknown, Life::Dead, Life::Unknown),
            (Life::Live, Life::Dead, Life::Live),
        ] {
            assert_eq!(first.or(|| second), both);
        }
    }

    #[test]
    fn a_lease_is_bound_once_by_its_own_container() {
        let mut ledger = Ledger::empty("b");
        ledger.claim(lease("1", 0, 1, Mode::Exclusive)).unwrap();
        assert!(matches!(ledger.bind("2", "c-1", holder(9), None), Err(NotBound::Unknown(_))));
        assert!(matches!(ledger.bind("1", "c-2", holder(9), None), Err(NotBound::OtherContainer { .. })));
        assert_eq!(ledger.bind("1", "c-1", holder(9), None).unwrap().holder.pid, 9);
        assert!(matches!(ledger.bind("1", "c-1", holder(10), None), Err(NotBound::Twice { pid: 9, .. })));
        assert_eq!(ledger.lease("1").unwrap().holder.pid, 9);
    }

    #[test]
    fn only_a_lease_that_a_caller_holds_for_this_container_is_taken_over() {
        for (expires, known_as, container, taken) in [
            (Some(9), "c-1", "c-1", true),
            (Some(9), "", "c-1", true),
            (Some(9), "c-1", "c-2", false),
            (None, "c-1", "c-1", false),
        ] {
            let mut ledger = Ledger::empty("b");
            ledger.claim(Lease { expires, container: known_as.into(), ..lease("1", 0, 1, Mode::Exclusive) }).unwrap();
            let before = ledger.clone();
            assert_eq!(ledger.take_over("2", container, holder(9)), None);
            let lease = ledger.take_over("1", container, holder(9)).map(|lease| (lease.container.clone(), lease.holder.pid, lease.expires));
            assert_eq!(lease, taken.then(|| (container.to_owned(), 9, None)));
            assert!(taken || ledger == before);
            // Once, and not when it is bound.
            assert_eq!(ledger.take_over("1", container, holder(10)), None);
        }
        let mut ledger = Ledger::empty("b");
        ledger.claim(Lease { expires: Some(9), container: String::new(), ..lease("1", 0, 1, Mode::Exclusive) }).unwrap();
        let bound = ledger.bind("1", "c-1", holder(9), None).unwrap();
        assert_eq!((&*bound.container, bound.expires), ("c-1", None));
        assert_eq!(ledger.take_over("1", "c-1", holder(10)), None);
    }

    #[test]
    fn what_cannot_be_judged_stays_and_what_is_dead_goes() {
        let mut ledger = Ledger::empty("b");
        for (id, first) in [("live", 0), ("dead", 1), ("unknown", 2)] {
            ledger.claim(lease(id, first, 1, Mode::Exclusive)).unwrap();
        }
        ledger.reap(|lease| match &*lease.id {
            "live" => Life::Live,
            "dead" => Life::Dead,
            _ => Life::Unknown,
        });
        assert_eq!(ledger.leases().iter().map(|lease| &*lease.id).collect::<Vec<_>>(), ["live", "unknown"]);
    }

    #[test]
    fn times_of_today_are_shown_without_the_date() {
        let mut ledger = Ledger::empty("b");
        ledger.claim(lease("1", 0, 1, Mode::Exclusive)).unwrap();
        assert_eq!(ledger.held("2026-11-30")[0].since, "10:02 UTC");
        assert_eq!(ledger.held("2026-12-01")[0].since, "2026-11-30 10:02 UTC");
    }

    #[derive(Debug, Clone)]
    enum Step {
        Claim { first: u32, len: u32, adopted: bool },
        Bind(usize),
        Die(usize),
        Reap,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..16u32, 1..=8u32, prop::bool::weighted(0.2)).prop_map(|(first, len, adopted)| Step::Claim { first, len, adopted }),
            (0..20usize).prop_map(Step::Bind),
            (0..20usize).prop_map(Step::Die),
            Just(Step::Reap),
        ]
    }

    proptest! {
        /// I1 over any history: no chip is in two live exclusive leases, and a dead holder's chips can be claimed after a reap.
        #[test]
        fn no_history_gives_a_chip_twice(steps in prop::collection::vec(step(), 1..60)) {
            let mut ledger = Ledger::empty("b");
            let mut dead: Vec<String> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                let nth = |ledger: &Ledger, n: usize| ledger.leases().get(n).map(|lease| (lease.id.clone(), lease.container.clone()));
                match step {
                    Step::Claim { first, len, adopted } => {
                        let mode = if adopted { Mode::Adopted } else { Mode::Exclusive };
                        let lease = lease(&number.to_string(), first, len, mode);
                        let (chips, before) = (lease.chips, ledger.clone());
                        let clash = before.leases().iter().any(|other| !other.chips.intersection(chips).is_empty());
                        prop_assert_eq!(ledger.claim(lease).is_err(), clash && !adopted);
                        if clash && !adopted { prop_assert_eq!(&ledger, &before); }
                    }
                    Step::Bind(n) => if let Some((id, container)) = nth(&ledger, n) {
                        let _ = ledger.bind(&id, &container, holder(i32::try_from(n).unwrap()), None);
                    },
                    Step::Die(n) => if let Some((id, _)) = nth(&ledger, n) { dead.push(id) },
                    Step::Reap => {
                        ledger.reap(|lease| if dead.contains(&lease.id) { Life::Dead } else { Life::Live });
                        prop_assert!(ledger.leases().iter().all(|lease| !dead.contains(&lease.id)));
                    }
                }
                let exclusive: Vec<_> = ledger.leases().iter().filter(|lease| lease.mode == Mode::Exclusive).collect();
                for (position, lease) in exclusive.iter().enumerate() {
                    for other in &exclusive[position + 1..] {
                        prop_assert!(lease.chips.intersection(other.chips).is_empty());
                    }
                }
                prop_assert_eq!(&Ledger::parse(&ledger.to_text().unwrap(), "b").unwrap(), &ledger);
            }
        }
    }
}
