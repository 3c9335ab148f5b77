//! Files that the kernel makes up, in sysfs and procfs.
//!
//! Their text is short and comes in one read: three system calls a file, where `std::fs::read` takes six. A claim reads some eighty.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What nearly all of them fit in, bytes.
const SHORT: usize = 512;

/// The bytes of a file.
///
/// # Errors
/// As opening and reading have it.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut short = [0; SHORT];
    let length = file.read(&mut short)?;
    let mut bytes = short[..length].to_vec();
    if length == SHORT {
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
