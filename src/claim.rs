//! The claim, from a request to a lease: discover, lock, reap, select, commit.
//!
//! Reads the host's chips and processes, replaces the ledger. Nothing is to be undone when a later step fails: the lease's holder is
//! the claiming process, and the lease dies with it.

mod decide;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::chip::{ChipSet, DeviceNumber, Inventory};
use crate::host::Host;
use crate::lease::{Lease, Ledger, Life};
use crate::peek::Peek;
use crate::process::{Namespaces, Oneself, Processes};
use crate::request::{Invalid, Origin, Request};
use crate::select::{Candidate, Shortage};
use crate::settings::{Manual, Settings};
use crate::spec::{Edit, Subject};
use crate::store::{Locked, Store};
use crate::users::{driver_is_used, users};
use crate::wait::Waiting;
use decide::Turn;
pub use decide::random_id;

/// Whose life a lease's is, until bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBy {
    /// This process, which becomes the low-level runtime.
    Oneself,
    /// The process that called this one, which goes on after it; it may be a service, so only for a while.
    Caller,
}

/// Who claims, and with what.
#[derive(Debug)]
pub struct Claimant<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// The host.
    pub host: &'a Host,
    /// The container's id.
    pub container: String,
    /// The runtime's `--root`.
    pub root: String,
    /// The bundle's folder.
    pub bundle: &'a Path,
    /// Whose life the lease's is.
    pub held_by: HeldBy,
    /// The hook's executable.
    pub hook: PathBuf,
}

/// What a container asks for, by whichever way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Chips, to be chosen or named.
    Grant(Request),
    /// The chips whose nodes the spec already has, each by path; to be granted or only to be recorded.
    Given {
        /// The nodes that the spec names.
        nodes: Vec<(String, DeviceNumber)>,
        /// Their chips.
        chips: ChipSet,
        /// Refuse them where somebody else has them?
        exclusive: bool,
    },
}

impl Ask {
    /// Is this only to be recorded? Then nothing of ours may stop the container.
    #[must_use]
    pub fn is_adopted(&self) -> bool {
        matches!(self, Self::Given { exclusive: false, .. })
    }

    /// How long it may wait.
    fn wait(&self) -> Duration {
        match self {
            Self::Grant(request) => request.wait,
            Self::Given { .. } => Duration::ZERO,
        }
    }

    /// Where it was said.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match self {
            Self::Grant(request) => request.origin.clone(),
            Self::Given { .. } => Origin::Devices,
        }
    }
}

/// A lease, and what is to be done to the spec for it.
#[derive(Debug)]
pub struct Claim {
    /// The lease, as it is in the ledger.
    pub lease: Lease,
    /// The edit.
    pub edit: Edit,
    /// What the administrator should know.
    pub warnings: Vec<String>,
    /// The runs that could have been chosen.
    pub considered: Vec<Candidate>,
}

/// Puts the request of a spec and its device nodes together. `None`: it asks for nothing.
///
/// # Errors
/// Chips are asked for in two ways at once.
pub fn ask(spec: &Peek, request: Option<Request>, inventory: &Inventory, manual: Manual) -> Result<Option<Ask>, Invalid> {
    let mut nodes = Vec::new();
    let mut chips = ChipSet::EMPTY;
    // A privileged container carries every node of the host, and means none of them.
    if !spec.privileged() {
        for (path, number) in spec.dynamic_devices() {
            if let Some(chip) = inventory.by_number(number) {
                nodes.push((path.to_owned(), number));
                chips.insert(chip.id);
            }
        }
    }
    match (request, chips.is_empty()) {
        (Some(request), true) => Ok(Some(Ask::Grant(request))),
        (Some(request), false) => {
            Err(Invalid::Twice(request.origin, nodes.into_iter().map(|(path, _)| path).collect::<Vec<_>>().join(", ")))
        }
        (None, true) => Ok(None),
        (None, false) if manual == Manual::Ignore => Ok(None),
        (None, false) => Ok(Some(Ask::Given { nodes, chips, exclusive: manual == Manual::Exclusive })),
    }
}

/// A container that asks, on a host that may have what it asks for.
#[derive(Debug)]
pub struct Case<'a> {
    /// Who claims for it.
    pub claimant: &'a Claimant<'a>,
    /// What it asks for.
    pub ask: &'a Ask,
    /// Its spec.
    pub spec: &'a Peek,
    /// Its user and namespaces.
    pub subject: &'a Subject,
    /// The chips of the host.
    pub inventory: &'a Inventory,
    /// The lease that the spec bore before.
    pub bore: Option<&'a str>,
}

/// Takes a lease for what is asked, and writes it down; waits for its turn where the request says so.
///
/// # Errors
/// [`Invalid`] or [`Shortage`] where the request is refused; else what is wrong with the host or the ledger.
pub fn claim(case: &Case<'_>) -> Result<Claim> {
    let Claimant { settings, host, .. } = case.claimant;
    let processes = Processes::new(&host.proc)?;
    let oneself = entitled(host, &processes)?;
    let unused = |inventory| case.unused(&processes, inventory);
    let patience = case.ask.wait().min(settings.wait_limit);
    let mut place: Option<Place<'_>> = None;
    let mut inventory = unused(Cow::Borrowed(case.inventory))?;
    loop {
        let mut locked = lock_and_reap(host, settings.lock_timeout, &processes)?;
        let waiter = place.as_ref().map(|place| &*place.id);
        let turn = Turn { ledger: &locked.ledger, oneself: &oneself, processes: &processes, waiter };
        let decided = (Case { inventory: &inventory, ..*case }).decide(&turn);
        let may_pass = |error: &anyhow::Error| error.downcast_ref::<Shortage>().is_some_and(Shortage::may_pass);
        match decided {
            Err(error) if may_pass(&error) && place.as_ref().map_or(!patience.is_zero(), |place| !place.waiting.over()) => {}
            decided => {
                let left = waiter.is_some_and(|waiter| locked.ledger.leave(waiter));
                if let Ok(claim) = &decided {
                    locked.ledger.claim(claim.lease.clone())?;
                }
                if left || decided.is_ok() {
                    locked.commit()?;
                }
                return match place {
                    Some(_) => {
                        let cut = if patience < case.ask.wait() { " (wait-limit)" } else { "" };
                        let span = humantime::format_duration(patience).to_string() + cut;
                        decided.with_context(|| format!("waited {span}"))
                    }
                    None => decided,
                };
            }
        }
        let tried = match &place {
            Some(_) => locked.release(),
            None => {
                // Watched before the lock is let go, so that nothing is missed.
                let waiting = Waiting::new(host, &processes, patience)?;
                let waiter = case.waiter(&oneself, patience)?;
                place = Some(Place { id: waiter.id.clone(), waiting });
                locked.ledger.join(waiter);
                let tried = locked.ledger.clone();
                locked.commit()?;
                tried
            }
        };
        if let Some(place) = &place {
            place.waiting.sleep(&place.id, &tried)?;
        }
        // The chips may have changed meanwhile.
        inventory = unused(Cow::Owned(host.discover()?))?;
    }
}

impl Case<'_> {
    /// As [`without_used`], but for who only has recorded what it was given.
    fn unused<'a>(&self, processes: &Processes, inventory: Cow<'a, Inventory>) -> Result<Cow<'a, Inventory>> {
        let Claimant { settings, host, .. } = self.claimant;
        if self.ask.is_adopted() { Ok(inventory) } else { without_used(host, settings, processes, inventory) }
    }
}

/// The inventory with those chips marked that somebody uses outside this tool; never under the lock, for it is a walk over `/proc`.
///
/// # Errors
/// Who uses them cannot be told.
pub fn without_used<'a>(
    host: &Host,
    settings: &Settings,
    processes: &Processes,
    inventory: Cow<'a, Inventory>,
) -> Result<Cow<'a, Inventory>> {
    if !settings.avoid_unclaimed || !driver_is_used(host) {
        return Ok(inventory);
    }
    let leased = look(host, processes)?.leased();
    if leased.contains_all(inventory.ids()) {
        return Ok(inventory);
    }
    let users = users(host, &inventory, &settings.observers)?;
    if let Some(blind) = users.blind {
        bail!(
            "whether a chip is in use outside this tool cannot be told: {blind}; run as root with CAP_SYS_PTRACE, or set avoid-unclaimed = false"
        );
    }
    let mut inventory = inventory;
    if !users.all.is_empty() {
        users.mark(inventory.to_mut(), leased);
    }
    Ok(inventory)
}

/// A place in the queue.
struct Place<'a> {
    id: String,
    waiting: Waiting<'a>,
}

/// Works out the same without the lock, and writes nothing down.
///
/// # Errors
/// As [`claim`].
pub fn plan(case: &Case<'_>) -> Result<Claim> {
    let processes = Processes::new(&case.claimant.host.proc)?;
    let oneself = entitled(case.claimant.host, &processes)?;
    let ledger = look(case.claimant.host, &processes)?;
    let inventory = case.unused(&processes, Cow::Borrowed(case.inventory))?;
    (Case { inventory: &inventory, ..*case }).decide(&Turn { ledger: &ledger, oneself: &oneself, processes: &processes, waiter: None })
}

/// Goes on with a lease that a caller of ours holds for this container; `None` where there is none.
///
/// # Errors
/// As [`Store::lock`].
pub fn take_over(host: &Host, settings: &Settings, lease: &str, container: &str) -> Result<Option<ChipSet>> {
    let processes = Processes::new(&host.proc)?;
    let oneself = entitled(host, &processes)?;
    let mut locked = lock_and_reap(host, settings.lock_timeout, &processes)?;
    let Some(lease) = locked.ledger.take_over(lease, container, oneself.holder) else { return Ok(None) };
    let chips = lease.chips;
    locked.commit()?;
    Ok(Some(chips))
}

/// The live leases, read without the lock.
///
/// # Errors
/// As [`Store::load`]; or a claim would not trust what is there.
pub fn look(host: &Host, processes: &Processes) -> Result<Ledger> {
    let store = Store::new(&host.state, processes.boot_id()?);
    store.trusted()?;
    let mut ledger = store.load()?;
    let namespaces = processes.namespaces(ledger.leases());
    reap(&mut ledger, processes, namespaces.as_ref());
    Ok(ledger)
}

/// The live lease of this container of a runtime's `--root`, read without the lock.
///
/// # Errors
/// The ledger cannot be read.
pub fn lease_of(host: &Host, processes: &Processes, container: &str, root: &str) -> Result<Option<Lease>> {
    let ledger = Store::new(&host.state, processes.boot_id()?).load()?;
    let of_it = ledger.leases().iter().find(|lease| lease.container == container && lease.root == root);
    Ok(of_it.filter(|lease| processes.life(lease, None) == Life::Live).cloned())
}

/// This process, where it may give chips of this host away.
///
/// # Errors
/// It is in another pid namespace than the ledger's.
pub fn entitled(host: &Host, processes: &Processes) -> Result<Oneself> {
    let oneself = processes.oneself()?;
    ensure!(
        oneself.initial_pidns || host.own_state,
        "this is another pid namespace than the host's (a Docker in a Docker?), where a second ledger would give chips away twice: \
         set state-dir to a folder that all who give chips of this host share"
    );
    Ok(oneself)
}

/// The lock, with each dead lease dropped from the ledger under it.
///
/// # Errors
/// As [`Store::lock`], which waits no longer than `limit`.
pub fn lock_and_reap(host: &Host, limit: Duration, processes: &Processes) -> Result<Locked> {
    let store = Store::new(&host.state, processes.boot_id()?);
    let mut locked = store.lock(limit)?;
    let mut namespaces = None;
    // Whether a lease of another pid namespace lives takes a walk over /proc, and that is not for who holds the lock.
    if locked.ledger.leases().iter().any(|lease| lease.holder.pidns != processes.pidns()) {
        let leases = locked.ledger.leases().to_vec();
        drop(locked);
        namespaces = processes.namespaces(&leases);
        locked = store.lock(limit)?;
    }
    reap(&mut locked.ledger, processes, namespaces.as_ref());
    Ok(locked)
}

fn reap(ledger: &mut Ledger, processes: &Processes, namespaces: Option<&Namespaces>) {
    ledger.reap(|lease| processes.life(lease, namespaces));
    ledger.reap_queue(|waiter| processes.life_of_waiter(waiter));
}
