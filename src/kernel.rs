//! Reading files in as few system calls as can be: the wrapper stands before every container.
//!
//! `std` asks for a file's size and position first. What the kernel makes up, in sysfs and procfs, is short and has no size; what lies
//! on a disk has been looked at already, by who judged its owner.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What nearly all of the kernel's fit in, bytes.
const SHORT: usize = 512;

/// The bytes of a file of the kernel's.
///
/// # Errors
/// As opening and reading have it.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
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
    Ok(String::from_utf8(read(path)?).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
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
