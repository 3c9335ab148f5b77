//! The OCI runtime wrapper: edits `config.json` for who asks for chips, then becomes the low-level runtime.
//!
//! It understands as much of the argument list as it needs to find the subcommand, the bundle, the id and the log; all arguments go
//! on as they came. Who asks for nothing is passed through whatever is wrong with us (I7).

#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
mod argv;
mod session;

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::bundle::Bundle;
use crate::claim::HeldBy;
use crate::programs;
use crate::serve::{Call, serve};
use crate::settings::{Flags, Loaded};
use crate::words::json_string;

pub use argv::{Action, Invocation, scan};

/// Runs as the wrapper; comes back only with what went wrong.
pub fn run(args: &[OsString]) -> anyhow::Error {
    match prepare(args) {
        Ok(mut command) => {
            let error = command.exec();
            anyhow::Error::new(error).context(format!("{} cannot be started", command.get_program().display()))
        }
        Err(error) => error,
    }
}

/// Everything before the exec.
fn prepare(args: &[OsString]) -> Result<Command> {
    let (called_as, rest) = args.split_first().map_or((OsStr::new(""), &[][..]), |(name, rest)| (name.as_os_str(), rest));
    let invocation = scan(rest);
    let loaded = Loaded::new(&Flags::default(), |name| std::env::var_os(name));
    let path = std::env::var_os("PATH");
    let runtime = programs::low_level_runtime(&loaded.settings, path.as_deref())?;
    let mut command = Command::new(&runtime);
    match invocation.action {
        Action::Begin | Action::Restore => edit(&invocation, &loaded, called_as, path.as_deref())?,
        // Whatever is wrong with us, the session goes on as it came (I7).
        Action::Exec => {
            if let Ok(Some(session)) = session::edited(&invocation, &loaded.settings) {
                command.args(session.arguments(rest));
                return Ok(command);
            }
        }
        Action::Other => {}
    }
    command.args(rest);
    Ok(command)
}

/// Puts what a container asks for into its spec.
fn edit(invocation: &Invocation<'_>, loaded: &Loaded, called_as: &OsStr, path: Option<&OsStr>) -> Result<()> {
    let folder = invocation.bundle.unwrap_or(Path::new("."));
    // What cannot be read asks for nothing that we could know of, and the runtime has its own words for it.
    let Ok(bundle) = Bundle::read(folder, invocation.config) else { return Ok(()) };
    let text = |text: Option<&OsStr>| text.unwrap_or_default().to_string_lossy().into_owned();
    serve(&Call {
        loaded,
        document: &bundle.document,
        bundle: folder,
        container: text(invocation.id),
        root: text(invocation.root),
        restored: invocation.action == Action::Restore,
        held_by: HeldBy::Oneself,
        hook: &|| programs::hook(&loaded.settings, called_as, path),
        replace: &|spec, unique| bundle.replace(spec, unique),
    })
}

/// Tells the engine what went wrong: one line in the file that it named, for that is what it shows.
pub fn tell_engine(args: &[OsString], line: &str) {
    let rest = args.get(1..).unwrap_or_default();
    let Invocation { log: Some(path), json, .. } = scan(rest) else { return };
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
    let message = json_string(line);
    let entry = if json {
        format!("{{\"level\":\"error\",\"msg\":{message},\"time\":\"{now}\"}}\n")
    } else {
        format!("time=\"{now}\" level=error msg={message}\n")
    };
    // Where the engine's own log cannot be written there is nobody to tell; stderr has the line too.
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let _ = file.and_then(|mut file| file.write_all(entry.as_bytes()));
}
