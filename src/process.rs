//! What the kernel tells of processes: who is alive, in which namespaces, with which capabilities, in which cgroup.
//!
//! Reads `/proc` and, for cgroups, `/sys/fs/cgroup` as mounted; writes nothing. Each file format has a pure `parse_` twin.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{CapabilitySet, capabilities};

use crate::kernel;
use crate::lease::{Holder, Lease, Life, Seen, Waiter};

/// The inode of the initial pid namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
pub const INITIAL_PIDNS: u64 = 0xEFFF_FFFC;
/// The inode of the initial user namespace (`PROC_USER_INIT_INO`, include/linux/proc_ns.h).
const INITIAL_USERNS: u64 = 0xEFFF_FFFD;
/// Who owns files of users that a user namespace does not know (`DEFAULT_OVERFLOWUID`, include/linux/highuid.h).
const OVERFLOW_UID: u32 = 65534;

/// Is this root's file or the caller's, and writable by nobody else?
///
/// In a user namespace that does not know the real root (rootless Podman) his files seem to be nobody's; they are taken for his.
///
/// # Errors
/// Whose it is, or its mode.
pub fn trusted(metadata: &Metadata) -> Result<()> {
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    let known = owner == 0 || owner == nix::unistd::geteuid().as_raw() || owner == OVERFLOW_UID && !root_is_known();
    ensure!(known, "must belong to root (owner is uid {owner}): chown root");
    ensure!(mode & 0o022 == 0, "must not be writable by others (mode is {mode:04o}): chmod go-w");
    Ok(())
}

/// Seconds since boot, those asleep included (`CLOCK_BOOTTIME`).
///
/// # Errors
/// Never on Linux.
pub fn boot_seconds() -> Result<u64> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).context("CLOCK_BOOTTIME")?;
    Ok(u64::try_from(now.tv_sec())?)
}

/// Is the real root a user of this process's user namespace? (user_namespaces(7), "User and group ID mappings")
fn root_is_known() -> bool {
    let map = kernel::text(Path::new("/proc/self/uid_map")).unwrap_or_default();
    // Where the map cannot be read, nobody is nobody.
    map.is_empty() || map.lines().any(|line| line.split_ascii_whitespace().nth(1) == Some("0"))
}

/// What this process is to the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oneself {
    /// Pid and start, as a lease's holder.
    pub holder: Holder,
    /// Is its pid namespace the initial one?
    pub initial_pidns: bool,
    /// Is its user namespace the initial one?
    pub initial_userns: bool,
    /// Does it hold `CAP_IPC_LOCK`?
    pub ipc_lock: bool,
    /// Does it hold `CAP_MKNOD`?
    pub mknod: bool,
}

/// The processes of this host.
#[derive(Debug, Clone)]
pub struct Processes {
    proc: PathBuf,
    /// The pid namespace in which this process counts pids.
    pidns: u64,
}

impl Processes {
    /// The processes that `/proc` shows.
    ///
    /// # Errors
    /// `/proc` is not mounted, or is of a kernel without namespaces.
    pub fn new(proc: &Path) -> Result<Self> {
        Ok(Self { proc: proc.to_owned(), pidns: namespace(&proc.join("self/ns/pid"))? })
    }

    /// The pid namespace in which this process counts pids, by inode.
    #[must_use]
    pub fn pidns(&self) -> u64 {
        self.pidns
    }

    /// The random id of this boot.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn boot_id(&self) -> Result<String> {
        let path = self.proc.join("sys/kernel/random/boot_id");
        let text = kernel::text(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        Ok(text.trim().to_owned())
    }

    /// This process.
    ///
    /// # Errors
    /// `/proc/self` cannot be read.
    pub fn oneself(&self) -> Result<Oneself> {
        let pid = nix::unistd::getpid().as_raw();
        let effective = capabilities(None).context("this process's capabilities cannot be asked for")?.effective;
        Ok(Oneself {
            holder: self.holder(pid)?,
            initial_pidns: self.pidns == INITIAL_PIDNS,
            initial_userns: namespace(&self.proc.join("self/ns/user"))? == INITIAL_USERNS,
            ipc_lock: effective.contains(CapabilitySet::IPC_LOCK),
            mknod: effective.contains(CapabilitySet::MKNOD),
        })
    }

    /// A process as a lease's holder.
    ///
    /// # Errors
    /// It is gone, or cannot be looked at.
    pub fn holder(&self, pid: i32) -> Result<Holder> {
        match self.seen(pid) {
            Seen::There { start, .. } => Ok(Holder { pid, start, pidns: self.pidns }),
            Seen::Gone => bail!("process {pid} has ended"),
            Seen::Unreadable => bail!("{}/{pid}/stat cannot be read", self.proc.display()),
        }
    }

    /// What is known of a pid.
    #[must_use]
    pub fn seen(&self, pid: i32) -> Seen {
        match kernel::read(&self.proc.join(format!("{pid}/stat"))) {
            Ok(stat) => parse_stat(&stat).unwrap_or(Seen::Unreadable),
            // ESRCH: it ended between open and read.
            Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH) => Seen::Gone,
            Err(_) => Seen::Unreadable,
        }
    }

    /// Is a lease live? `namespaces` are the pid namespaces that were found alive, where they were looked for.
    #[must_use]
    pub fn life(&self, lease: &Lease, namespaces: Option<&Namespaces>) -> Life {
        // A clock that cannot be read ends no lease.
        if lease.expires.is_some_and(|end| boot_seconds().is_ok_and(|now| now > end)) {
            return Life::Dead;
        }
        if lease.holder.pidns != self.pidns {
            return match namespaces {
                Some(found) if found.judges(lease) => {
                    if found.alive.contains(&lease.holder.pidns) {
                        Life::Unknown
                    } else {
                        Life::Dead
                    }
                }
                _ => Life::Unknown,
            };
        }
        let cgroup = || lease.cgroup.as_deref().map_or(Life::Dead, |cgroup| self.cgroup_life(cgroup));
        lease.holder.life(self.seen(lease.holder.pid)).or(cgroup)
    }

    /// Does a waiter still wait? One of another pid namespace is believed until its time is up.
    #[must_use]
    pub fn life_of_waiter(&self, waiter: &Waiter) -> Life {
        if boot_seconds().is_ok_and(|now| now > waiter.until) {
            return Life::Dead;
        }
        if waiter.holder.pidns == self.pidns { waiter.holder.life(self.seen(waiter.holder.pid)) } else { Life::Unknown }
    }

    /// Which pid namespaces have a process, for leases of others than our own. A walk over `/proc`: never under the lock.
    ///
    /// Only from the initial namespace are all processes to be seen; `None` from any other, and where no lease needs it.
    #[must_use]
    pub fn namespaces(&self, leases: &[Lease]) -> Option<Namespaces> {
        let foreign: Vec<String> = leases.iter().filter(|lease| lease.holder.pidns != self.pidns).map(|lease| lease.id.clone()).collect();
        if foreign.is_empty() || self.pidns != INITIAL_PIDNS {
            return None;
        }
        let mut alive = Vec::new();
        for entry in fs::read_dir(&self.proc).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name();
            // Pid 1 is of our own namespace, and not always to be read.
            if name == "1" || !name.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
                continue;
            }
            match fs::read_link(entry.path().join("ns/pid")) {
                Ok(link) => alive.extend(parse_namespace(&link.to_string_lossy())),
                // It has ended meanwhile, or is a zombie: neither holds a chip.
                Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH) => {}
                Err(_) => return None,
            }
        }
        Some(Namespaces { foreign, alive })
    }

    /// The cgroup of a process that is not the caller's too, as `/proc/PID/cgroup` has it; `None` where it has none of its own.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn own_cgroup(&self, pid: i32) -> Result<Option<String>> {
        let read = |who: &str| {
            let path = self.proc.join(who).join("cgroup");
            kernel::text(&path).with_context(|| format!("{} cannot be read", path.display()))
        };
        Ok(pick_cgroup(&read(&pid.to_string())?, &read("self")?))
    }

    /// Is a process left in this cgroup or below it?
    fn cgroup_life(&self, cgroup: &str) -> Life {
        let mountinfo = fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        match cgroup_folder(cgroup, &mountinfo) {
            Some(folder) => populated(&folder, 0),
            None => Life::Unknown,
        }
    }
}

/// The pid namespaces that were found alive, and the leases that are judged by them.
#[derive(Debug)]
pub struct Namespaces {
    foreign: Vec<String>,
    alive: Vec<u64>,
}

impl Namespaces {
    /// A lease that came later may be of a namespace that came later.
    fn judges(&self, lease: &Lease) -> bool {
        self.foreign.contains(&lease.id)
    }
}

/// The inode of a namespace.
fn namespace(path: &Path) -> Result<u64> {
    let link = fs::read_link(path).with_context(|| format!("{} cannot be read", path.display()))?;
    parse_namespace(&link.to_string_lossy()).with_context(|| format!("{} is no namespace", path.display()))
}

/// `pid:[4026531836]`
fn parse_namespace(link: &str) -> Option<u64> {
    link.split_once(":[")?.1.strip_suffix(']')?.parse().ok()
}

/// State, threads and start of `/proc/PID/stat` (fields 3, 20 and 22, proc(5)); the name in field 2 may hold anything.
fn parse_stat(stat: &[u8]) -> Option<Seen> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(stat.get(after_name..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let threads = fields.nth(16)?.parse().ok()?;
    let start = fields.nth(1)?.parse().ok()?;
    Some(Seen::There { start, state, threads })
}

/// The first cgroup of a process, cgroup v2's before v1's, that is not the caller's own.
fn pick_cgroup(theirs: &str, ours: &str) -> Option<String> {
    let lines = |text: &str| {
        text.lines()
            .filter_map(|line| line.split_once(':').map(|(_, rest)| rest.to_owned()))
            .filter(|line| !line.ends_with(":/"))
            .collect::<Vec<_>>()
    };
    let ours = lines(ours);
    let mut theirs: Vec<_> = lines(theirs).into_iter().filter(|line| !ours.contains(line)).collect();
    theirs.sort_by_key(|line| !line.starts_with(':'));
    theirs.into_iter().next()
}

/// The folder of a cgroup (`CONTROLLERS:PATH`) under this mount table (proc(5), `/proc/PID/mountinfo`).
fn cgroup_folder(cgroup: &str, mountinfo: &str) -> Option<PathBuf> {
    let (controllers, path) = cgroup.split_once(':')?;
    // A mount further down the table lies over those before it.
    mountinfo.lines().rev().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut file_system = file_system.split(' ');
        let (kind, options) = (file_system.next()?, file_system.nth(1)?);
        let fits = match controllers {
            "" => kind == "cgroup2",
            names => kind == "cgroup" && names.split(',').all(|name| options.split(',').any(|option| option == name)),
        };
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let below = path.strip_prefix(root.trim_end_matches('/'))?;
        (fits && (below.is_empty() || below.starts_with('/'))).then(|| PathBuf::from(format!("{point}{below}")))
    })
}

/// Is a process in this cgroup or below it? A cgroup that is gone has none.
fn populated(folder: &Path, depth: u32) -> Life {
    let gone = |error: &std::io::Error| matches!(error.raw_os_error(), Some(nix::libc::ENOENT | nix::libc::ENODEV));
    match kernel::read(&folder.join("cgroup.procs")) {
        Ok(pids) if !pids.is_empty() => return Life::Live,
        Ok(_) => {}
        // cgroup v2, threaded: the processes are named in the domain above.
        Err(error) if error.raw_os_error() == Some(nix::libc::EOPNOTSUPP) => return Life::Unknown,
        Err(error) if gone(&error) => return Life::Dead,
        Err(_) => return Life::Unknown,
    }
    // Deeper than any engine nests them; bounded, for the lock is held.
    if depth == 8 {
        return Life::Unknown;
    }
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if gone(&error) => return Life::Dead,
        Err(_) => return Life::Unknown,
    };
    let mut life = Life::Dead;
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            life = life.or(|| populated(&entry.path(), depth + 1));
        }
    }
    life
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_from_the_last_parenthesis() {
        let stat = b"4121 (a) b (c)) S 1 4121 4121 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 3 0 987654 1000 200\n";
        assert_eq!(parse_stat(stat), Some(Seen::There { start: 987_654, state: 'S', threads: 3 }));
        for junk in [&b""[..], b"1 (x", b"1 (x)", b"1 (x) S 1", b"1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 t 18 start"] {
            assert_eq!(parse_stat(junk), None);
        }
    }

    #[test]
    fn oneself_is_alive() {
        let processes = Processes::new(Path::new("/proc")).unwrap();
        let holder = processes.holder(nix::unistd::getpid().as_raw()).unwrap();
        assert_eq!(holder.life(processes.seen(holder.pid)), Life::Live);
        let earlier = Holder { start: holder.start + 1, ..holder };
        assert_eq!(earlier.life(processes.seen(earlier.pid)), Life::Dead);
        assert_eq!(processes.seen(0), Seen::Gone);
    }

    #[test]
    fn a_cgroup_of_its_own_is_one_that_the_runtime_is_not_in() {
        let v1 = "5:devices:/docker/1\n4:memory:/docker/1\n0::/\n";
        let v2 = "0::/system.slice/docker-1.scope\n";
        let shell = "5:devices:/user\n4:memory:/user\n0::/\n";
        for (theirs, ours, noted) in [
            (v1, shell, Some("devices:/docker/1")),
            (v2, "0::/user.slice\n", Some(":/system.slice/docker-1.scope")),
            ("5:devices:/d\n0::/u\n", "5:devices:/\n0::/\n", Some(":/u")),
            (shell, shell, None),
            ("5:devices:/\n0::/\n", shell, None),
            ("", shell, None),
        ] {
            assert_eq!(pick_cgroup(theirs, ours).as_deref(), noted, "{theirs}");
        }
    }

    #[test]
    fn a_cgroup_is_found_under_the_last_mount_of_its_hierarchy() {
        let mountinfo = "30 25 0:26 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n\
             31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             32 25 0:28 / /sys/fs/cgroup/systemd rw shared:1 - cgroup cgroup rw,xattr,name=systemd\n\
             33 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
             34 25 0:26 /docker/1 /inner rw - cgroup cgroup rw,devices\n";
        for (cgroup, folder) in [
            ("devices:/docker/2", Some("/sys/fs/cgroup/devices/docker/2")),
            ("devices:/docker/1/x", Some("/inner/x")),
            ("devices:/docker/1", Some("/inner")),
            ("devices:/docker/10", Some("/sys/fs/cgroup/devices/docker/10")),
            ("cpu,cpuacct:/a", Some("/sys/fs/cgroup/cpu,cpuacct/a")),
            ("name=systemd:/a", Some("/sys/fs/cgroup/systemd/a")),
            (":/a", Some("/sys/fs/cgroup/unified/a")),
            ("pids:/a", None),
            ("junk", None),
        ] {
            assert_eq!(cgroup_folder(cgroup, mountinfo).as_deref(), folder.map(Path::new), "{cgroup}");
        }
    }

    #[test]
    fn a_process_in_a_cgroup_below_counts_and_an_unreadable_one_is_not_judged() {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        for folder in [root.path(), &root.path().join("a"), &below] {
            fs::write(folder.join("cgroup.procs"), "").unwrap();
        }
        assert_eq!(populated(root.path(), 0), Life::Dead);
        fs::write(below.join("cgroup.procs"), "17\n").unwrap();
        assert_eq!(populated(root.path(), 0), Life::Live);
        fs::remove_file(below.join("cgroup.procs")).unwrap();
        fs::create_dir(below.join("cgroup.procs")).unwrap();
        assert_eq!(populated(root.path(), 0), Life::Unknown);
        assert_eq!(populated(&root.path().join("gone"), 0), Life::Dead);
    }
}
