//! What the wrapper is measured against: a program of the same build that only becomes another one.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let Some(program) = args.next() else { return ExitCode::FAILURE };
    let _ = Command::new(program).args(args).exec();
    ExitCode::FAILURE
}
