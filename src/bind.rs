//! Binding a lease to the container's own process, from inside `create`.
//!
//! Looks at `/dev` as the container will see it, and replaces the ledger. A container's process starts only after this (I2).

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use log::warn;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use rustix::fs::FileType;

use crate::chip::{ChipSet, DeviceNumber};
use crate::claim::lock_and_reap;
use crate::grant::Device;
use crate::host::{Host, number_of, parse_node_name};
use crate::kernel;
use crate::process::Processes;
use crate::words::short_container;

/// What the wrapper granted, as it put it into the hook's arguments.
#[derive(Debug, Default)]
pub struct Granted {
    /// The lease.
    pub lease: String,
    /// The nodes that the container is to have: of what, path in the container, numbers.
    pub nodes: Vec<(Device, String, DeviceNumber)>,
    /// The container's root, on the host.
    pub rootfs: PathBuf,
    /// Note its cgroup: it has no pid namespace of its own, so that processes of it may outlive its init.
    pub note_cgroup: bool,
    /// Only recorded: nothing that is found may stop the container.
    pub adopted: bool,
}

/// The container, as the runtime tells of it.
#[derive(Debug)]
pub struct Container {
    /// Its id.
    pub id: String,
    /// Its init.
    pub pid: i32,
}

/// Checks the container's nodes, and makes its init the lease's holder.
///
/// # Errors
/// What does not fit, or the lock is held longer than `limit`; the container must not start then.
pub fn bind(host: &Host, limit: Duration, granted: &Granted, container: &Container) -> Result<ChipSet> {
    let processes = Processes::new(&host.proc)?;
    let holder = processes.holder(container.pid).context("the container's process")?;
    // /proc/PID/root is the namespace that the runtime mounted everything in, before it changes to it.
    let root = host.proc.join(container.pid.to_string()).join("root").join(granted.rootfs.strip_prefix("/").unwrap_or(&granted.rootfs));
    let chips = || granted.nodes.iter().filter_map(|(device, ..)| device.chip());
    let healthy = || host.still_ready(chips());
    match check_nodes(host, &root, &granted.nodes).and_then(|()| healthy()) {
        // An adopted lease only records what somebody else gave: it is bound all the same.
        Err(error) if granted.adopted => warn!("{}: {error:#}", short_container(&container.id)),
        checked => checked?,
    }
    let cgroup = if granted.note_cgroup { processes.own_cgroup(container.pid)? } else { None };

    let mut locked = lock_and_reap(host, limit, &processes)?;
    let bound = locked.ledger.bind(&granted.lease, &container.id, holder, cgroup)?.chips;
    let named: ChipSet = chips().collect();
    ensure!(
        named == bound,
        "the hook was told of chips {named}, lease {} has {bound}: start the container again, by neuron-container-runtime",
        granted.lease
    );
    locked.commit()?;
    Ok(bound)
}

/// Are the granted nodes in the container's `/dev`, and no other chip's, under whatever name?
fn check_nodes(host: &Host, root: &Path, granted: &[(Device, String, DeviceNumber)]) -> Result<()> {
    let folder = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = nix::fcntl::open(root, folder | OFlag::O_PATH, Mode::empty()).context("the container's root cannot be opened")?;
    for (device, path, number) in granted {
        let seen = look(&root, path.trim_start_matches('/'), path)?;
        let right = match &seen {
            Seen::Device(found) => found == number,
            Seen::File(file) => host.simulated() && same_file(file, &host.dev.join(device.node_name())),
            Seen::Nothing | Seen::Else => false,
        };
        ensure!(right, "{path} in the container is {seen}, not {} ({number}) as granted: see what mounts or makes it", named(*device));
    }
    let driver =
        |number: DeviceNumber| granted.iter().any(|(device, _, of_grant)| device.chip().is_some() && of_grant.major == number.major);
    let said = "/dev of the container cannot be read";
    let dev = nix::fcntl::openat(&root, "dev", folder | OFlag::O_NOFOLLOW, Mode::empty()).context(said)?;
    for (name, kind) in kernel::entries(&dev).context(said)? {
        let path = format!("/dev/{}", name.to_string_lossy());
        let named = name.to_str().is_ok_and(|name| parse_node_name(name).is_some());
        // The folder itself tells what is a device, and most are none; a file system that does not tell is asked for each.
        let device = matches!(kind, FileType::CharacterDevice | FileType::Unknown);
        if !named && !device || granted.iter().any(|(_, granted, _)| *granted == path) {
            continue;
        }
        match look(&dev, &*name, &path)? {
            Seen::Device(number) if !named && !driver(number) => {}
            Seen::File(_) | Seen::Else | Seen::Nothing if !named => {}
            seen => bail!("{path} in the container is {seen}, and no chip that was granted: see what mounts or makes it"),
        }
    }
    Ok(())
}

/// A device, in words.
fn named(device: Device) -> String {
    device.chip().map_or_else(|| device.to_string(), |chip| format!("chip {chip}"))
}

/// What is found in the place of a node.
enum Seen {
    Nothing,
    Device(DeviceNumber),
    File(FileStat),
    Else,
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("missing"),
            Self::Device(number) => write!(f, "device {number}"),
            Self::File(_) => f.write_str("a regular file"),
            Self::Else => f.write_str("no device"),
        }
    }
}

/// What is there under a folder, at this path or as this link itself.
fn look<P: ?Sized + nix::NixPath>(folder: &impl AsFd, path: &P, name: &str) -> Result<Seen> {
    match fstatat(folder, path, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(file) => Ok(match SFlag::from_bits_truncate(file.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFCHR => Seen::Device(number_of(file.st_rdev)),
            SFlag::S_IFREG => Seen::File(file),
            _ => Seen::Else,
        }),
        Err(Errno::ENOENT) => Ok(Seen::Nothing),
        Err(error) => Err(error).with_context(|| format!("{name} in the container cannot be looked at")),
    }
}

/// In a simulation without root, regular files stand for nodes.
fn same_file(file: &FileStat, node: &Path) -> bool {
    fs::symlink_metadata(node).is_ok_and(|node| (node.dev(), node.ino()) == (file.st_dev, file.st_ino))
}
