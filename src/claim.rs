//! The claim, from a request to a lease: discover, lock, reap, select, commit.
//!
//! Reads the host's chips and processes, replaces the ledger. Nothing is to be undone when a later step fails: the lease's holder is
//! the claiming process, and the lease dies with it.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};

use crate::chip::{ChipSet, DeviceNumber, HostNode, Inventory};
use crate::grant::{Naming, Node, Terms, Wishes, terms};
use crate::host::Host;
use crate::lease::{Lease, Ledger, Mode, State};
use crate::peek::Peek;
use crate::process::{self, Oneself, Processes};
use crate::request::{Invalid, Origin, Request, Want};
use crate::select::{self, Candidate, Choice, Held, Warning};
use crate::settings::{Manual, Settings};
use crate::spec::{Delivery, Edit, Subject};
use crate::store::{Locked, Store};
use crate::words::short_container;

/// Whose life a lease's is, until bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBy {
    /// This process, which becomes the low-level runtime.
    Oneself,
    /// The process that called this one, which goes on after it; it may be a service, so only for a while.
    Caller,
}

/// How long a lease lives that is held by a caller, seconds: longer than any container takes to be created.
const CALLER_HOLDS: u64 = 120;

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
pub fn ask(spec: &Peek<'_>, request: Option<Request>, inventory: &Inventory, manual: Manual) -> Result<Option<Ask>, Invalid> {
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
    pub spec: &'a Peek<'a>,
    /// Its user and namespaces.
    pub subject: &'a Subject,
    /// The chips of the host.
    pub inventory: &'a Inventory,
    /// The lease that the spec bore before.
    pub bore: Option<&'a str>,
}

/// Takes a lease for what is asked, and writes it down.
///
/// # Errors
/// [`Invalid`] or [`select::Shortage`] where the request is refused; else what is wrong with the host or the ledger.
pub fn claim(case: &Case<'_>) -> Result<Claim> {
    let Claimant { settings, host, .. } = case.claimant;
    let processes = Processes::new(&host.proc)?;
    let oneself = entitled(host, &processes)?;
    let mut locked = lock_and_reap(host, settings.lock_timeout, &processes)?;
    let claim = case.decide(&locked.ledger, oneself, &processes)?;
    locked.ledger.claim(claim.lease.clone())?;
    locked.commit()?;
    Ok(claim)
}

/// Works out the same without the lock, and writes nothing down.
///
/// # Errors
/// As [`claim`].
pub fn plan(case: &Case<'_>) -> Result<Claim> {
    let processes = Processes::new(&case.claimant.host.proc)?;
    let oneself = entitled(case.claimant.host, &processes)?;
    case.decide(&look(case.claimant.host, &processes)?, oneself, &processes)
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
    ledger.reap(|lease| processes.life(lease, namespaces.as_ref()));
    Ok(ledger)
}

/// This process, where it may give chips of this host away.
fn entitled(host: &Host, processes: &Processes) -> Result<Oneself> {
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
    locked.ledger.reap(|lease| processes.life(lease, namespaces.as_ref()));
    Ok(locked)
}

/// A spec that bears a live lease is a running container's, or one that is being created.
fn still_running(ledger: &Ledger, bore: Option<&str>) -> Result<()> {
    let Some(lease) = bore.and_then(|id| ledger.lease(id)) else { return Ok(()) };
    let doing = match lease.state {
        State::Bound => "runs",
        State::Claimed => "is being created",
    };
    bail!(
        "this bundle is container {}'s, which {doing} (pid {}, chips {}): wait for its end, or use a bundle of its own",
        short_container(&lease.container),
        lease.holder.pid,
        lease.chips
    );
}

impl Case<'_> {
    /// Chooses chips, and works out the lease and the edit: all of a claim but the commit.
    fn decide(&self, ledger: &Ledger, oneself: Oneself, processes: &Processes) -> Result<Claim> {
        still_running(ledger, self.bore)?;
        let Claimant { settings, host, .. } = self.claimant;
        let since = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let held = ledger.held(since.get(..10).unwrap_or(&since));
        let choose = |want| select::select(self.inventory, &held, want, &settings.policy());
        let mut warnings = Vec::new();
        let mut considered = Vec::new();
        let mut note = |choice: Choice| {
            warnings.extend(choice.warnings.iter().map(Warning::to_string));
            considered = choice.considered;
            choice.chips
        };
        let (chips, terms, delivery, request) = match self.ask {
            Ask::Grant(request) => {
                if let Some(at) = self.spec.mount_over_nodes() {
                    bail!(Invalid::Mount(at.to_owned()));
                }
                let chips = note(choose(request.want)?);
                let terms = self.terms(chips, settings.device_naming)?;
                let delivery = delivery(host, self.subject, &oneself, &terms.nodes)?;
                (chips, terms, delivery, request.want.to_string())
            }
            Ask::Given { nodes, chips, exclusive } => {
                let env = if *exclusive {
                    note(choose(Want::Ids(*chips))?);
                    self.terms(*chips, naming_of(self.inventory, nodes))?.env
                } else {
                    Vec::new()
                };
                warnings.extend(conflicts(&held, *chips).filter(|_| !exclusive));
                (*chips, Terms { nodes: as_given(self.inventory, nodes), env }, Delivery::Given, Origin::Devices.to_string())
            }
        };
        let adopted = self.ask.is_adopted();
        let ipc_lock = !adopted && settings.ipc_lock && ipc_lock(self.subject, &oneself, &mut warnings);
        if self.spec.privileged() && !adopted {
            warnings.push("the container is privileged: it can make every other chip's node by itself".to_owned());
        }
        let (holder, expires) = match self.claimant.held_by {
            HeldBy::Oneself => (oneself.holder, None),
            HeldBy::Caller => (processes.holder(nix::unistd::getppid().as_raw())?, Some(process::boot_seconds()? + CALLER_HOLDS)),
        };
        let lease = Lease {
            id: random_id(),
            container: self.claimant.container.clone(),
            root: self.claimant.root.clone(),
            chips,
            mode: if adopted { Mode::Adopted } else { Mode::Exclusive },
            state: State::Claimed,
            holder,
            cgroup: None,
            expires,
            since,
            request,
            env: terms.env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        };
        let edit = Edit {
            lease: lease.id.clone(),
            nodes: terms.nodes,
            delivery,
            host_dev: std::path::absolute(&host.dev)?,
            env: terms.env,
            ipc_lock,
            only_these: self.spec.privileged(),
            hook: self.claimant.hook.clone(),
            hook_args: hook_args(self.claimant, self.subject, adopted)?,
            // Longer than the hook itself waits for the lock, so that it is the hook that says what was wrong.
            hook_timeout: i64::try_from(settings.lock_timeout.as_secs())?.saturating_add(20),
        };
        Ok(Claim { lease, edit, warnings, considered })
    }

    fn terms(&self, chips: ChipSet, naming: Naming) -> Result<Terms> {
        let env = |name: &str| self.spec.env(name).map(str::to_owned);
        let host_logical = self.claimant.host.logical_config()?;
        Ok(terms(self.inventory, chips, &Wishes { naming, env: &env, host_logical })?)
    }
}

/// Who else holds chips that a container was given by hand.
fn conflicts(held: &[Held], chips: ChipSet) -> impl Iterator<Item = String> {
    held.iter().filter(move |held| !held.chips.intersection(chips).is_empty()).map(move |held| {
        let both = held.chips.intersection(chips).named("chip");
        format!("a conflict: {both} held by {} too (pid {}, since {})", short_container(&held.container), held.pid, held.since)
    })
}

/// Do nodes that a spec names itself have the host's names?
fn naming_of(inventory: &Inventory, nodes: &[(String, DeviceNumber)]) -> Naming {
    let kept = |(path, number): &(String, DeviceNumber)| {
        inventory.by_number(*number).is_some_and(|chip| path.strip_prefix("/dev/") == Some(&chip.id.node_name()))
    };
    if nodes.iter().all(kept) { Naming::Host } else { Naming::Container }
}

/// The nodes that a spec names itself, as the hook is to find them.
fn as_given(inventory: &Inventory, nodes: &[(String, DeviceNumber)]) -> Vec<Node> {
    let node = |(path, number): &(String, DeviceNumber)| {
        let chip = inventory.by_number(*number)?;
        let host = chip.node.unwrap_or(HostNode { mode: 0o666, uid: 0, gid: 0 });
        Some(Node { chip: chip.id, path: path.clone(), number: *number, host })
    };
    nodes.iter().filter_map(node).collect()
}

/// Can the runtime make the nodes, or must the host's be mounted? And could the container's user open them then?
fn delivery(host: &Host, subject: &Subject, oneself: &Oneself, nodes: &[Node]) -> Result<Delivery, Invalid> {
    let apart = subject.user_namespace || !oneself.initial_userns;
    if !apart && oneself.mknod {
        return Ok(Delivery::Devices);
    }
    for node in nodes {
        let mode = node.host.mode;
        let owner = !apart && (subject.uid == 0 || subject.uid == node.host.uid);
        let group = !apart && (subject.gid == node.host.gid || subject.groups.contains(&node.host.gid)) && mode & 0o060 == 0o060;
        if mode & 0o006 != 0o006 && !owner && !group {
            let why = if apart { "the container has a user namespace" } else { "this process cannot make device nodes (no CAP_MKNOD)" };
            let path = host.dev.join(node.chip.node_name()).display().to_string();
            return Err(Invalid::ClosedNode { path, mode, why });
        }
    }
    Ok(Delivery::Mounts)
}

/// May the capability be given? Where we lack it ourselves, the runtime would fail.
fn ipc_lock(subject: &Subject, oneself: &Oneself, warnings: &mut Vec<String>) -> bool {
    if !oneself.ipc_lock {
        warnings.push("CAP_IPC_LOCK is not given to the container, for this process lacks it".to_owned());
    } else if subject.user_namespace || !oneself.initial_userns {
        warnings.push("CAP_IPC_LOCK has no effect in a user namespace".to_owned());
    }
    oneself.ipc_lock
}

/// Everything that the hook needs beside lease and nodes: crun gives it `/` for bundle and working directory in some cases, and
/// settings read once cannot be others by the time it runs.
fn hook_args(claimant: &Claimant<'_>, subject: &Subject, adopted: bool) -> Result<Vec<String>> {
    let Claimant { settings, host, .. } = claimant;
    let rootfs = claimant.bundle.join(subject.rootfs.as_deref().unwrap_or("rootfs"));
    // Where it does not exist, the runtime says so, before any hook.
    let rootfs = rootfs.canonicalize().or_else(|_| std::path::absolute(&rootfs)).context("the container's root cannot be named")?;
    let mut args = Vec::new();
    let mut path = |name: &str, path: &Path| {
        let path = std::path::absolute(path)?.into_os_string().into_string();
        args.extend([name.to_owned(), path.map_err(|path| anyhow::anyhow!("the path {path:?} is not UTF-8, and config.json is"))?]);
        anyhow::Ok(())
    };
    path("--rootfs", &rootfs)?;
    path("--state-dir", &host.state)?;
    path("--log-file", &host.log)?;
    if host.simulated() {
        path("--host-root", &host.root)?;
    }
    args.extend(["--log-level".to_owned(), settings.log_level.to_string().to_lowercase()]);
    args.extend(["--lock-timeout".to_owned(), humantime::format_duration(settings.lock_timeout).to_string()]);
    // With a pid namespace of its own nothing of a container outlives its init.
    if !subject.own_pid_namespace {
        args.push("--note-cgroup".to_owned());
    }
    if adopted {
        args.push("--adopted".to_owned());
    }
    Ok(args)
}

/// 64 random bits in hex. (std keys each hasher with random bits of the kernel's.)
fn random_id() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}
