//! Waiting for chips, in order of arrival.
//!
//! A waiter stands in the ledger's queue and sleeps until something changes: the ledger is replaced, or a process ends that holds chips
//! or waits before it. No lock is held meanwhile, and a waiter that is killed is no longer in the queue, for its holder is dead.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::claim::look;
use crate::host::Host;
use crate::lease::{Holder, Ledger, Life};
use crate::process::{Processes, boot_seconds};

/// How often to look where no event tells: for a lease that is held by a cgroup, by a process of another pid namespace, or for a time.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Somebody who waits.
#[derive(Debug)]
pub struct Waiting<'a> {
    host: &'a Host,
    processes: &'a Processes,
    ledger_changes: Inotify,
    /// The end of the wait.
    deadline: Instant,
}

impl<'a> Waiting<'a> {
    /// Begins to watch the ledger. The state directory is there: the lock is in it.
    ///
    /// # Errors
    /// The kernel gives no inotify instance.
    pub fn new(host: &'a Host, processes: &'a Processes, limit: Duration) -> Result<Self> {
        let said = "waiting for chips needs an inotify instance (fs.inotify.max_user_instances)";
        let ledger_changes = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).context(said)?;
        ledger_changes.add_watch(&host.state, AddWatchFlags::IN_MOVED_TO).context(said)?;
        Ok(Self { host, processes, ledger_changes, deadline: Instant::now() + limit })
    }

    /// Is the time up?
    #[must_use]
    pub fn over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Sleeps until the waiter with this id may be served, or the time is up; `tried` is the ledger with which it could not.
    ///
    /// # Errors
    /// The ledger cannot be read any more.
    pub fn sleep(&self, id: &str, tried: &Ledger) -> Result<()> {
        while !self.over() {
            // Whatever changes from here on wakes; what came before is in the ledger that is read now.
            while self.ledger_changes.read_events().is_ok() {}
            let ledger = look(self.host, self.processes)?;
            let turn = ledger.before(Some(id)).is_empty();
            if turn && ledger != *tried {
                break;
            }
            self.sleep_on(&ledger, id, turn)?;
            if turn {
                break;
            }
        }
        Ok(())
    }

    fn sleep_on(&self, ledger: &Ledger, id: &str, turn: bool) -> Result<()> {
        let leases = ledger.leases().iter().filter(|_| turn);
        // Such a lease may end without the end of a process that can be watched.
        let mut quiet = leases.clone().any(|lease| lease.cgroup.is_some() || lease.expires.is_some());
        let mut ends = Vec::new();
        // Whose turn it is not has nothing from the end of a holder.
        let held = leases.map(|lease| (&lease.holder, lease.cgroup.is_some()));
        let waited = ledger.before(Some(id)).iter().map(|waiter| (&waiter.holder, false));
        for (holder, outlived) in waited.chain(held) {
            match self.watch(holder) {
                Watch::End(end) => ends.push(end),
                Watch::Quiet => quiet = true,
                Watch::Ended if outlived => {}
                Watch::Ended => return Ok(()),
            }
        }
        // Who is before us may give up without its end, too: it may be stopped. `until` is in whole seconds.
        let now = boot_seconds()?;
        let given_up = ledger.before(Some(id)).iter().map(|waiter| Duration::from_secs(waiter.until.saturating_sub(now).saturating_add(1)));
        let left = given_up.chain([self.deadline.saturating_duration_since(Instant::now())]).min().unwrap_or_default();
        let limit = if quiet { left.min(LOOK_AGAIN) } else { left };
        let mut fds: Vec<_> = ends.iter().map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN)).collect();
        fds.push(PollFd::new(self.ledger_changes.as_fd(), PollFlags::POLLIN));
        // Rounded up, or the last millisecond would be spent in a loop.
        let limit = PollTimeout::try_from(limit + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, limit) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error).context("waiting for chips"),
        }
    }

    fn watch(&self, holder: &Holder) -> Watch {
        if holder.pidns != self.processes.pidns() {
            return Watch::Quiet;
        }
        let end = Pid::from_raw(holder.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // The pid may be another process' by now; looked at after it was opened, so that the descriptor is of whom we saw.
        match (holder.life(self.processes.seen(holder.pid)), end) {
            (Life::Dead, _) => Watch::Ended,
            (_, Some(end)) => Watch::End(end),
            (_, None) => Watch::Quiet,
        }
    }
}

/// How the end of a process is heard of.
enum Watch {
    /// Its descriptor is readable then.
    End(OwnedFd),
    /// By looking again.
    Quiet,
    /// It has ended.
    Ended,
}
