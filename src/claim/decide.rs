//! All of a claim but the commit: the choice, the lease and the edit.
//!
//! Reads small facts of the host (the logical cores' file, the container's root); the ledger is passed in.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use super::{Ask, Case, Claim, Claimant, HeldBy};
use crate::chip::{ChipSet, DeviceNumber, HostNode, Inventory};
use crate::cores::{self, Share, Wanted};
use crate::grant::{self, Device, Efa, Naming, Node, Terms, Wishes, terms};
use crate::host::Host;
use crate::lease::{Lease, Ledger, Mode, State, Waiter};
use crate::process::{self, Oneself, Processes};
use crate::request::{Invalid, Origin, Want, in_words};
use crate::select::{self, Choice, Held, Shortage, Warning};
use crate::spec::{Delivery, Edit, Subject};

/// How long a lease lives that is held by a caller, seconds: longer than any container takes to be created.
const CALLER_HOLDS: u64 = 120;

/// What a decision rests on beside the case.
pub(super) struct Turn<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) oneself: &'a Oneself,
    pub(super) processes: &'a Processes,
    /// This process' place in the queue, where it waits.
    pub(super) waiter: Option<&'a str>,
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
        lease.called(),
        lease.holder.pid,
        lease.chips
    );
}

impl Case<'_> {
    /// Chooses chips, and works out the lease and the edit: all of a claim but the commit.
    pub(super) fn decide(&self, turn: &Turn<'_>) -> Result<Claim> {
        let Turn { ledger, oneself, processes, .. } = turn;
        still_running(ledger, self.bore)?;
        let Claimant { settings, host, .. } = self.claimant;
        let since = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let held = ledger.held(since.get(..10).unwrap_or(&since));
        let env = self.env();
        let mut warnings = Vec::new();
        let mut considered = Vec::new();
        let mut note = |choice: Choice| {
            warnings.extend(choice.warnings.iter().map(Warning::to_string));
            considered = choice.considered;
            choice.chips
        };
        let mut share = None;
        let (chips, terms, delivery, request) = match self.ask {
            Ask::Grant(request) => {
                if let Some(at) = self.spec.mount_over_nodes() {
                    bail!(Invalid::Mount(at.to_owned()));
                }
                in_line(turn, request.want, self.inventory)?;
                let (choice, part) = self.choose(request.want, &held)?;
                share = part;
                let chips = note(choice);
                let mut terms = terms(self.inventory, chips, share, &self.wishes(settings.device_naming, &env)?)?;
                if settings.efa == Efa::WholeHost && share.is_none() && chips == self.inventory.ids() {
                    terms.nodes.extend(host.efa_nodes()?);
                }
                let delivery = delivery(host, self.subject, oneself, &terms.nodes)?;
                (chips, terms, delivery, request.want.to_string())
            }
            Ask::Given { nodes, chips, exclusive } => {
                let env = if *exclusive {
                    in_line(turn, Want::Ids(*chips), self.inventory)?;
                    note(self.choose(Want::Ids(*chips), &held)?.0);
                    terms(self.inventory, *chips, None, &self.wishes(naming_of(self.inventory, nodes), &env)?)?.env
                } else {
                    Vec::new()
                };
                warnings.extend(conflicts(&held, *chips).filter(|_| !exclusive));
                (*chips, Terms { nodes: as_given(self.inventory, nodes), env }, Delivery::Given, Origin::Devices.to_string())
            }
        };
        let adopted = self.ask.is_adopted();
        let ipc_lock = !adopted && settings.ipc_lock && ipc_lock(self.subject, oneself, &mut warnings);
        if self.spec.privileged() && !adopted {
            warnings.push("the container is privileged: it can make every other chip's node by itself".to_owned());
        }
        let (holder, expires) = match self.claimant.held_by {
            HeldBy::Oneself => (oneself.holder.clone(), None),
            HeldBy::Caller => (processes.holder(nix::unistd::getppid().as_raw())?, Some(process::boot_seconds()? + CALLER_HOLDS)),
        };
        let lease = Lease {
            id: random_id(),
            container: self.claimant.container.clone(),
            name: self.spec.called(&self.claimant.container),
            root: self.claimant.root.clone(),
            chips,
            cores: share.map(|share| share.cores),
            lnc: share.map(|share| share.lnc),
            mode: match share {
                Some(_) => Mode::Shared,
                None if adopted => Mode::Adopted,
                None => Mode::Exclusive,
            },
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

    /// This container, as it stands in the queue.
    pub(super) fn waiter(&self, oneself: &Oneself, patient: Duration) -> Result<Waiter> {
        Ok(Waiter {
            id: random_id(),
            container: self.claimant.container.clone(),
            name: self.spec.called(&self.claimant.container),
            holder: oneself.holder.clone(),
            // Not to be overtaken while it waits for the lock one last time.
            until: process::boot_seconds()? + (patient + self.claimant.settings.lock_timeout).as_secs() + 1,
            since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            request: match self.ask {
                Ask::Grant(request) => request.want.to_string(),
                Ask::Given { .. } => Origin::Devices.to_string(),
            },
        })
    }

    /// Chooses chips or, where cores are asked for, a part of some.
    fn choose(&self, want: Want, held: &[Held]) -> Result<(Choice, Option<Share>)> {
        let policy = self.claimant.settings.policy();
        let Want::Cores(count) = want else { return Ok((select::select(self.inventory, held, want, &policy)?, None)) };
        let lnc = grant::lnc(self.inventory, &self.wishes(Naming::Auto, &self.env())?)?.size;
        let of_chip = match self.inventory.chips.first() {
            // Chips of one kind: an instance has no others.
            Some(chip) => chip.cores.ok_or(Invalid::UnknownCores(chip.id))?,
            None => 1,
        };
        let (choice, share) = cores::select(self.inventory, held, Wanted { count, lnc, of_chip }, &policy)?;
        Ok((choice, Some(share)))
    }

    /// The container's variables.
    fn env(&self) -> impl Fn(&str) -> Option<String> {
        |name| self.spec.env(name).map(str::to_owned)
    }

    fn wishes<'a>(&self, naming: Naming, env: &'a dyn Fn(&str) -> Option<String>) -> Result<Wishes<'a>> {
        Ok(Wishes { naming, env, host_logical: self.claimant.host.logical_config()? })
    }
}

/// Whoever came first is served first, or who wants many chips would never get them.
fn in_line(turn: &Turn<'_>, want: Want, inventory: &Inventory) -> Result<(), Shortage> {
    let Some((first, others)) = turn.ledger.before(turn.waiter).split_first() else { return Ok(()) };
    let more = if others.is_empty() { String::new() } else { format!(", and {} more", others.len()) };
    Err(Shortage::Queued { asked: in_words(want, inventory.ids().len()), first: first.called(), request: first.request.clone() + &more })
}

/// Who else holds chips that a container was given by hand.
fn conflicts(held: &[Held], chips: ChipSet) -> impl Iterator<Item = String> {
    held.iter().filter(move |held| !held.chips.intersection(chips).is_empty()).map(move |held| {
        let both = held.chips.intersection(chips).named("chip");
        format!("a conflict: {both} held by {} too (pid {}, since {})", held.container, held.pid, held.since)
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
        Some(Node { device: Device::Chip(chip.id), path: path.clone(), number: *number, host })
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
            let path = host.dev.join(node.device.node_name()).display().to_string();
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
#[must_use]
pub fn random_id() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}
