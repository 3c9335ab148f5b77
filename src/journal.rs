//! The tool's own log, so that warnings reach neither the engine's log nor a container's terminal.
//!
//! Appends to one file, 0600, opened without following a symbolic link; where that cannot be had there is no log, and nothing fails
//! for it (I7). Set up only by who has something to say: a container that asks for nothing never comes here.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use log::LevelFilter;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

/// Sends the log to this file.
pub fn open(path: &Path, level: LevelFilter) {
    if let Some(folder) = path.parent()
        && !folder.exists()
    {
        // Where it cannot be made, opening fails too.
        let _ = DirBuilder::new().recursive(true).mode(0o755).create(folder);
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
    let Ok(file) = file.and_then(|file| if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("no file")) }) else {
        return;
    };
    // A logger that is there already is as good.
    let _ = env_logger::Builder::new()
        .filter_level(level)
        .target(env_logger::Target::Pipe(Box::new(file)))
        .format(|out, record| {
            let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
            let line = crate::words::one_line(&record.args().to_string());
            writeln!(out, "{now} {:5} {}: {line}", record.level(), std::process::id())
        })
        .try_init();
}
