//! Files that the kernel makes up, in sysfs and procfs.
//!
//! Their text is short and comes in one read: three system calls a file, where `std::fs::read` takes six. A claim reads some eighty.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A page, the most that a file of sysfs holds.
const PAGE: usize = 4096;

/// The bytes of a file.
///
/// # Errors
/// As opening and reading have it.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut page = [0; PAGE];
    let length = file.read(&mut page)?;
    let mut bytes = page[..length].to_vec();
    if length == PAGE {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The text of a file; what is not UTF-8 in it is replaced.
///
/// # Errors
/// As [`read`].
pub fn text(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8(read(path)?).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
