//! Whose life a lease's is: a process, and whether it lives.

use serde::{Deserialize, Serialize};

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
