//! Reading files in as few system calls as can be: the wrapper stands before every container.
//!
//! `std` asks for a file's size and position first. What the kernel makes up, in sysfs and procfs, is short and has no size; what lies
//! on a disk has been looked at already, by who judged its owner.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat};

/// What nearly all of the kernel's fit in, bytes.
const SHORT: usize = 512;

/// The bytes of a file of the kernel's.
///
/// # Errors
/// As opening and reading have it.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    all(File::open(path)?)
}

fn all(mut file: File) -> io::Result<Vec<u8>> {
    let mut short = [0; SHORT];
    let length = file.read(&mut short)?;
    let mut bytes = short.get(..length).unwrap_or_default().to_vec();
    if length == SHORT {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The text of a file of the kernel's; what is not UTF-8 in it is replaced.
///
/// # Errors
/// As [`read`].
pub fn text(path: &Path) -> io::Result<String> {
    read(path).map(lossy)
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// A folder of which many files are read: the way to it is walked once.
#[derive(Debug)]
pub struct Folder {
    folder: File,
    /// Where it is, for people.
    pub path: PathBuf,
}

impl Folder {
    /// Opens it.
    ///
    /// # Errors
    /// As opening has it; it is no folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { folder: rustix::fs::open(path, flags, Mode::empty())?.into(), path: path.to_owned() })
    }

    /// The text of a file of the kernel's, as [`text`].
    ///
    /// # Errors
    /// As [`read`].
    pub fn text(&self, name: &str) -> io::Result<String> {
        let file = rustix::fs::openat(&self.folder, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        all(file.into()).map(lossy)
    }

    /// What a name in it is; a link itself, not what it points to.
    ///
    /// # Errors
    /// It is not there, or may not be looked at.
    pub fn stat(&self, name: &str) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// The names in an open folder, in no order, and what each is, as far as the folder itself tells.
///
/// # Errors
/// It cannot be read.
pub fn entries(folder: impl AsFd) -> io::Result<Vec<(CString, FileType)>> {
    let mut buffer = [MaybeUninit::uninit(); 4 * SHORT];
    let mut entries = RawDir::new(folder, &mut buffer);
    let mut found = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        found.push((entry.file_name().to_owned(), entry.file_type()));
    }
    Ok(found)
}

/// The bytes of an open file that is thought to have this length.
///
/// # Errors
/// As reading has it.
pub fn rest(file: File, length: u64) -> io::Result<Vec<u8>> {
    // One more, so that the read that finds the end fits in too.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0).saturating_add(1));
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Ends the process (SIGALRM) when it is kept waiting longer than this, unless it is dropped before.
///
/// No file of the kernel's has a time limit. A thread that watches would have words for people, but costs a tenth of a claim.
#[derive(Debug)]
pub struct Limit(());

impl Limit {
    /// So many seconds from now on.
    #[must_use]
    pub fn new(seconds: u32) -> Self {
        nix::unistd::alarm::set(seconds);
        Self(())
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // It would outlive exec.
        nix::unistd::alarm::cancel();
    }
}
