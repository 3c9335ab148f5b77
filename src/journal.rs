//! The tool's own log, so that warnings reach neither the engine's log nor a container's terminal.
//!
//! Appends to one file, 0600, opened without following a symbolic link; where that cannot be had there is no log, and nothing fails
//! for it (I7). Opened with the first line: most runs of the hook have nothing to say.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use log::{LevelFilter, Log, Metadata, Record};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

/// Sends the log to this file.
pub fn begin(path: &Path, level: LevelFilter) {
    let journal = Journal { path: path.to_owned(), level, logger: OnceLock::new() };
    // A logger that is there already is as good.
    if log::set_boxed_logger(Box::new(journal)).is_ok() {
        log::set_max_level(level);
    }
}

struct Journal {
    path: PathBuf,
    level: LevelFilter,
    logger: OnceLock<Option<env_logger::Logger>>,
}

impl Log for Journal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= self.level
    }

    fn log(&self, record: &Record<'_>) {
        if let Some(logger) = self.logger.get_or_init(|| Some(logger(open(&self.path).ok()?, self.level))) {
            logger.log(record);
        }
    }

    fn flush(&self) {}
}

fn logger(file: File, level: LevelFilter) -> env_logger::Logger {
    env_logger::Builder::new()
        .filter_level(level)
        .target(env_logger::Target::Pipe(Box::new(file)))
        .format(|out, record| {
            let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
            let line = crate::words::one_line(&record.args().to_string());
            writeln!(out, "{now} {:5} {}: {line}", record.level(), std::process::id())
        })
        .build()
}

/// The file, made where it is not there, and the folder that it is in.
fn open(path: &Path) -> io::Result<File> {
    let opening = || OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
    let file = match (opening(), path.parent()) {
        (Err(error), Some(folder)) if error.kind() == ErrorKind::NotFound => {
            DirBuilder::new().mode(0o755).create(folder)?;
            opening()?
        }
        (opened, _) => opened?,
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("is no regular file")) }
}
