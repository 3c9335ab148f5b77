//! Who has a chip open, whether this tool gave it or not.
//!
//! Reads `/proc/PID/fd` of every process, and nothing while the driver's use count is 0. Counted are descriptors whose link begins with
//! `/dev/neuron` (so that no foreign file system is touched) and which are a chip's node, but not those that only write or only name it:
//! libnrt books cores through a write-only one. A mapping whose descriptor is closed is not seen.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::makedev;
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};

use crate::chip::{Chip, ChipSet, DeviceNumber, Health, Inventory};
use crate::host::Host;
use crate::kernel::{self, Folder};
use crate::words::quoted;

/// A process that has chips open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its pid.
    pub pid: i32,
    /// The name of its executable.
    pub command: String,
    /// The chips.
    pub chips: ChipSet,
    /// Is it one that only watches (`observers`)?
    pub observes: bool,
}

/// What was found out of the users.
#[derive(Debug, Default)]
pub struct Users {
    /// Ascending by pid.
    pub all: Vec<User>,
    /// Why some process could not be looked into.
    pub blind: Option<String>,
}

/// Has the driver any open file or mapping? (neuron_cdev.c.) Where its use count cannot be read, that is to be looked for.
#[must_use]
pub fn driver_is_used(host: &Host) -> bool {
    !kernel::text(&host.sys.join("module/neuron/refcnt")).is_ok_and(|count| count.trim() == "0")
}

/// Looks for users of these chips.
///
/// # Errors
/// `/proc` cannot be read.
pub fn users(host: &Host, inventory: &Inventory, observers: &[String]) -> Result<Users> {
    if inventory.chips.is_empty() || !driver_is_used(host) {
        return Ok(Users::default());
    }
    let said = || format!("{} cannot be read", host.proc.display());
    let mut pids = Vec::new();
    for entry in fs::read_dir(&host.proc).with_context(said)? {
        pids.extend(entry.with_context(said)?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    let threads = thread::available_parallelism().map_or(1, usize::from).min(8);
    let look = |pids: &[i32]| pids.iter().map(|pid| (*pid, open_chips(host, *pid, inventory))).collect::<Vec<_>>();
    let found: Vec<_> = thread::scope(|scope| {
        let parts: Vec<_> = pids.chunks(pids.len().div_ceil(threads).max(1)).map(|part| scope.spawn(move || look(part))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
    });
    let mut users = Users::default();
    for (pid, open) in found {
        match open {
            Ok(chips) if chips.is_empty() => {}
            Ok(chips) => {
                let command = command(&host.proc, pid);
                let observes = observers.contains(&command);
                users.all.push(User { pid, command, chips, observes });
            }
            // It has ended meanwhile.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound) || error.raw_os_error() == Some(Errno::ESRCH as i32) => {}
            Err(error) => users.blind = Some(format!("what process {pid} has open cannot be seen ({error})")),
        }
    }
    users.all.sort_by_key(|user| user.pid);
    Ok(users)
}

/// The chips that a process has open for use.
fn open_chips(host: &Host, pid: i32, inventory: &Inventory) -> io::Result<ChipSet> {
    let descriptors = Folder::open(&host.proc.join(format!("{pid}/fd")))?;
    let mut chips = ChipSet::EMPTY;
    for (name, _) in kernel::entries(&descriptors)? {
        let Ok(link) = readlinkat(&descriptors, &*name) else { continue };
        if !link.as_encoded_bytes().starts_with(b"/dev/neuron") {
            continue;
        }
        let name = OsStr::new(name.to_str().unwrap_or_default());
        // The name is the container's choice, and so may be the file system: one that answers nobody must not be asked.
        let Ok(file) = statx(&descriptors, name, AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT, StatxFlags::TYPE | StatxFlags::INO)
        else {
            continue;
        };
        let stands_for = |chip: &&Chip| {
            let node = fs::symlink_metadata(host.dev.join(chip.id.node_name()));
            let is_it = |node: fs::Metadata| {
                (node.dev(), node.ino()) == (makedev(file.stx_dev_major.into(), file.stx_dev_minor.into()), file.stx_ino)
            };
            host.simulated() && node.is_ok_and(is_it)
        };
        let number = DeviceNumber { major: file.stx_rdev_major, minor: file.stx_rdev_minor };
        let device = FileType::from_raw_mode(file.stx_mode.into()) == FileType::CharacterDevice;
        let chip = if device { inventory.by_number(number) } else { inventory.chips.iter().find(stands_for) };
        let Some(chip) = chip else { continue };
        let info = kernel::text(&host.proc.join(format!("{pid}/fdinfo")).join(name));
        if info.is_ok_and(|info| parse_uses(&info)) {
            chips.insert(chip.id);
        }
    }
    Ok(chips)
}

/// Is this descriptor open for more than to write or to name the file? (`flags` of `/proc/PID/fdinfo/N`, octal; proc(5).)
fn parse_uses(info: &str) -> bool {
    let flags = info.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    let path_only = OFlag::O_PATH.bits().cast_unsigned();
    flags.is_some_and(|flags| flags & path_only == 0 && flags & 0o3 != OFlag::O_WRONLY.bits().cast_unsigned())
}

/// The name of a process' executable; where that cannot be read (a kernel thread, another user's), the kernel's short name.
fn command(proc: &Path, pid: i32) -> String {
    let executable = fs::read_link(proc.join(format!("{pid}/exe"))).ok();
    let name = executable.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.or_else(|| Some(kernel::text(&proc.join(format!("{pid}/comm"))).ok()?.trim().to_owned())).unwrap_or_else(|| "?".to_owned())
}

impl Users {
    /// Marks the chips that somebody uses and that are in no lease: they are not free.
    pub fn mark(&self, inventory: &mut Inventory, leased: ChipSet) {
        let mut by_chip: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for user in self.all.iter().filter(|user| !user.observes) {
            for id in user.chips.difference(leased).iter() {
                by_chip.entry(id.index()).or_default().push(format!("{} (pid {})", quoted(&user.command).trim_matches('"'), user.pid));
            }
        }
        for chip in inventory.chips.iter_mut().filter(|chip| chip.health == Health::Ready) {
            if let Some(names) = by_chip.get(&chip.id.index()) {
                chip.health = Health::Used(format!("in use outside this tool by {}", names.join(" and ")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags as Linux numbers them: O_RDONLY 0, O_WRONLY 1, O_RDWR 2, O_CLOEXEC 02000000, O_PATH 010000000.
    #[test]
    fn who_only_writes_or_only_names_a_chip_does_not_use_it() {
        for (flags, uses) in [("02", true), ("0", true), ("02000002", true), ("01", false), ("02000001", false), ("010000000", false)] {
            assert_eq!(parse_uses(&format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t5\n")), uses, "{flags}");
        }
        assert!(!parse_uses("pos:\t0\n"));
    }
}
