//! The ledger on disk: lock, load, replace.
//!
//! Reads and writes `lock` and `ledger.json` in one folder. It guarantees that only the guard of the lock can write (I4, I5): the
//! lock file is never renamed, truncated or unlinked; after locking, its inode is compared with the path's; the ledger is replaced
//! whole by rename. It does not make the ledger durable: a lease cannot outlive a reboot, so there is no fsync.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::libc::O_NOFOLLOW;

use crate::kernel;
use crate::lease::Ledger;
use crate::process;

/// How long until a lock that was not free is tried again: about as long as one holds it.
///
/// flock(2) itself has no time limit, and is no fairer: it sends whoever was overtaken while waking up to the end of the line.
const AGAIN: Duration = Duration::from_micros(500);

/// Where lock and ledger are.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    boot_id: String,
}

/// The lock, held, and the ledger as it is under it.
#[derive(Debug)]
pub struct Locked {
    /// The ledger; nobody sees a change before [`Locked::commit`].
    pub ledger: Ledger,
    store: Store,
    // Dropped last: the lock goes with the descriptor.
    _lock: File,
}

impl Store {
    /// The store in this folder, in this boot.
    #[must_use]
    pub fn new(folder: &Path, boot_id: String) -> Self {
        Self { folder: folder.to_owned(), boot_id }
    }

    /// The ledger as it is, without the lock: for who only looks.
    ///
    /// # Errors
    /// It cannot be read or understood.
    pub fn load(&self) -> Result<Ledger> {
        let path = self.ledger();
        let said = || format!("the ledger {}", path.display());
        let text = match open(&path, OpenOptions::new().read(true)) {
            Ok((file, metadata)) => {
                process::trusted(&metadata).with_context(said)?;
                kernel::rest(file, metadata.len()).with_context(said)?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ledger::empty(&self.boot_id)),
            Err(error) => return Err(error).with_context(|| format!("{} cannot be opened: see what it is and who put it there", said())),
        };
        Ledger::parse(&text, &self.boot_id).map_err(|error| {
            anyhow::anyhow!(
                "{} {error}: who holds which chip is not known, so none is free; see what wrote it, and remove it once no container has chips",
                said()
            )
        })
    }

    /// Takes the lock and loads the ledger.
    ///
    /// # Errors
    /// The folder or the lock is not to be trusted, somebody holds the lock longer than `limit`, or as [`Self::load`].
    pub fn lock(&self, limit: Duration) -> Result<Locked> {
        self.make_folder()?;
        let path = self.folder.join("lock");
        let now = Instant::now();
        let deadline = now.checked_add(limit).unwrap_or(now);
        loop {
            let (file, metadata) = open(&path, OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600))
                .with_context(|| format!("the lock {} cannot be opened", path.display()))?;
            process::trusted(&metadata).with_context(|| format!("the lock {}", path.display()))?;
            let Some(file) = flock(file, deadline)? else {
                bail!(
                    "the lock {} is held by {} for more than {}: see what that process is doing, or raise lock-timeout",
                    path.display(),
                    holder(metadata.ino()).map_or("another process".to_owned(), |pid| format!("pid {pid}")),
                    humantime::format_duration(limit),
                );
            };
            // Somebody may have put another file in its place meanwhile: then that one is the lock.
            let current = fs::symlink_metadata(&path).is_ok_and(|now| (now.dev(), now.ino()) == (metadata.dev(), metadata.ino()));
            if current {
                return Ok(Locked { ledger: self.load()?, store: self.clone(), _lock: file });
            }
            ensure!(Instant::now() < deadline, "the lock {} is replaced again and again: see what does that", path.display());
        }
    }

    /// Would [`Self::lock`] trust the folder and the lock, where they are there already?
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn trusted(&self) -> Result<()> {
        self.has_folder()?;
        is_there(&self.folder.join("lock"), "the lock", false).map(drop)
    }

    fn has_folder(&self) -> Result<bool> {
        is_there(&self.folder, "the state directory", true)
    }

    fn ledger(&self) -> PathBuf {
        self.folder.join("ledger.json")
    }

    fn make_folder(&self) -> Result<()> {
        if !self.has_folder()? {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(&self.folder);
            made.with_context(|| format!("the state directory {} cannot be made", self.folder.display()))?;
            // The umask, or somebody else, may have made another of it.
            self.has_folder()?;
        }
        Ok(())
    }
}

impl Locked {
    /// Lets the lock go, and changes nothing.
    #[must_use]
    pub fn release(self) -> Ledger {
        self.ledger
    }

    /// Replaces the ledger, and lets the lock go.
    ///
    /// # Errors
    /// It cannot be written; the old one stays.
    pub fn commit(self) -> Result<()> {
        let path = self.store.ledger();
        // One name will do: only the holder of the lock writes it, and what a killed one left is in nobody's way.
        let new = self.store.folder.join("ledger.json.new");
        let make = || OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new);
        let made = match make() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => fs::remove_file(&new).and_then(|()| make()),
            made => made,
        };
        let written = made.and_then(|mut file| {
            file.write_all(&self.ledger.to_text()?)?;
            // Whatever the umask: people without root read it.
            file.set_permissions(PermissionsExt::from_mode(0o644))?;
            fs::rename(&new, &path)
        });
        written.with_context(|| {
            // Nothing is lost: the ledger itself is untouched.
            let _ = fs::remove_file(&new);
            format!("the ledger {} cannot be written", path.display())
        })
    }
}

/// Is it there? Then it must be what it should be, no symbolic link to that, and nobody's to change but root's.
fn is_there(path: &Path, what: &str, folder: bool) -> Result<bool> {
    let said = || format!("{what} {}", path.display());
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        metadata => metadata.with_context(said)?,
    };
    let fits = if folder { metadata.is_dir() } else { metadata.is_file() };
    ensure!(fits, "{} is no {}: see who put it there", said(), if folder { "folder" } else { "regular file" });
    process::trusted(&metadata).with_context(said)?;
    Ok(true)
}

/// Opens a regular file, never through a symbolic link.
fn open(path: &Path, options: &mut OpenOptions) -> std::io::Result<(File, fs::Metadata)> {
    let file = options.custom_flags(O_NOFOLLOW).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(std::io::Error::other("is no regular file"));
    }
    Ok((file, metadata))
}

/// Locks the file, or `None` when the time is up.
fn flock(file: File, deadline: Instant) -> Result<Option<File>> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(AGAIN),
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error).context("the lock cannot be taken"),
        }
    }
}

/// The process that holds a flock on this inode (`/proc/locks`, proc(5)).
fn holder(inode: u64) -> Option<i32> {
    parse_locks(&fs::read_to_string("/proc/locks").ok()?, inode)
}

/// `1: FLOCK  ADVISORY  WRITE 4121 00:19:1234 0 EOF`; a line with `->` is of one who waits.
fn parse_locks(locks: &str, inode: u64) -> Option<i32> {
    locks.lines().filter(|line| !line.contains("->")).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let ours = fields.get(5)?.rsplit(':').next()?.parse() == Ok(inode);
        (ours && fields.get(1) == Some(&"FLOCK")).then(|| fields.get(4)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn store(folder: &tempfile::TempDir) -> Store {
        Store::new(&folder.path().join("state"), "b".to_owned())
    }

    #[test]
    fn what_is_committed_is_loaded_and_what_is_dropped_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        assert_eq!(store.load().unwrap(), Ledger::empty("b"));
        drop(store.lock(MINUTE).unwrap());
        assert!(!store.ledger().exists());
        store.lock(MINUTE).unwrap().commit().unwrap();
        assert_eq!(store.load().unwrap(), Ledger::empty("b"));
        let mode = |name: &str| fs::metadata(store.folder.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("lock"), mode("ledger.json"), mode(".")), (0o600, 0o644, 0o755));
    }

    #[test]
    fn one_at_a_time_and_the_next_gets_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        let first = store.lock(MINUTE).unwrap();
        let refused = store.lock(Duration::from_millis(20)).unwrap_err().to_string();
        assert!(refused.contains(&format!("is held by pid {} for more than 20ms", std::process::id())), "{refused}");
        let second = {
            let store = store.clone();
            thread::spawn(move || store.lock(MINUTE).map(|locked| locked.ledger))
        };
        drop(first);
        assert_eq!(second.join().unwrap().unwrap(), Ledger::empty("b"));
    }

    #[test]
    fn a_lock_file_that_was_replaced_is_not_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        let old = store.lock(MINUTE).unwrap();
        let waiting = {
            let store = store.clone();
            thread::spawn(move || store.lock(MINUTE))
        };
        // Whoever waits for the old file must find the new one in its place.
        fs::rename(store.folder.join("lock"), store.folder.join("gone")).unwrap();
        let new = store.lock(MINUTE).unwrap();
        drop(old);
        assert!(!waiting.is_finished());
        drop(new);
        let got = waiting.join().unwrap().unwrap();
        let inode = |name: &str| fs::metadata(store.folder.join(name)).unwrap().ino();
        assert_eq!(got._lock.metadata().unwrap().ino(), inode("lock"));
    }

    #[test]
    fn what_others_could_have_made_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        store.lock(MINUTE).unwrap().commit().unwrap();
        let set = |name: &str, mode| fs::set_permissions(store.folder.join(name), PermissionsExt::from_mode(mode)).unwrap();
        for (name, wide, right) in [("lock", 0o666, 0o600), ("ledger.json", 0o646, 0o644), (".", 0o777, 0o755)] {
            set(name, wide);
            let refused = format!("{:#}", store.lock(MINUTE).unwrap_err());
            assert!(refused.contains("must not be writable by others"), "{name}: {refused}");
            set(name, right);
        }
        for name in ["lock", "ledger.json"] {
            let path = store.folder.join(name);
            fs::rename(&path, folder.path().join(name)).unwrap();
            std::os::unix::fs::symlink(folder.path().join(name), &path).unwrap();
            assert!(store.lock(MINUTE).is_err(), "{name} through a link");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_damaged_ledger_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        store.lock(MINUTE).unwrap().commit().unwrap();
        fs::write(store.ledger(), "{\"version\":1,").unwrap();
        let refused = format!("{:#}", store.lock(MINUTE).unwrap_err());
        assert!(refused.contains("none is free") && refused.contains("remove it") && refused.contains("is damaged"), "{refused}");
    }

    #[test]
    fn what_a_killed_writer_left_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        drop(store.lock(MINUTE).unwrap());
        fs::write(store.folder.join("ledger.json.new"), "half of a led").unwrap();
        store.lock(MINUTE).unwrap().commit().unwrap();
        assert_eq!(store.load().unwrap(), Ledger::empty("b"));
    }

    #[test]
    fn the_locks_holder_is_not_one_who_waits() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 00:19:77 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 12 00:19:77 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 13 00:19:77 0 EOF\n4: FLOCK  ADVISORY  WRITE 14 00:19:78 0 EOF\n";
        assert_eq!(parse_locks(locks, 77), Some(13));
        assert_eq!(parse_locks(locks, 79), None);
    }
}
