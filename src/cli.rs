//! The administrator's command line, one file a verb.

mod cdi;
mod completions;
mod configure;
mod demo;
mod doctor;
mod man;
mod plan;
mod reset;
mod simulate;
mod status;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

use crate::host::Host;
use crate::select::Shortage;
use crate::settings::{Flags, Loaded, Settings};

/// Gives containers free, neighbouring AWS Neuron chips for themselves alone, as long as their main process lives.
#[derive(Debug, Parser)]
#[command(
    name = "neuron-ctk",
    version,
    arg_required_else_help = true,
    after_help = "\
Example: a host that is not there, a look at it, and what a request would get\n\
  neuron-ctk simulate trn1.32xlarge /tmp/host\n\
  neuron-ctk --host-root /tmp/host status\n\
  neuron-ctk --host-root /tmp/host plan --annotation aws.amazon.com/neuron=4\n\n\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the chips cannot be had, 4 doctor found a fault."
)]
struct Cli {
    /// A folder that stands for the host, as `simulate` makes it
    #[arg(long, global = true, value_name = "DIR")]
    host_root: Option<PathBuf>,
    /// The settings [default: /etc/neuron-container-runtime/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    settings: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Cdi(cdi::Cdi),
    Completions(completions::Completions),
    Configure(configure::Configure),
    Demo(demo::Demo),
    Doctor(doctor::Doctor),
    Man(man::ManPage),
    Plan(plan::Plan),
    Reset(reset::Reset),
    Simulate(simulate::Simulate),
    Status(status::Status),
    /// The demo's low-level runtime, where there is no runc
    #[command(hide = true, disable_help_flag = true, name = "demo-runtime")]
    StandIn {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// What the demo's containers run
    #[command(hide = true)]
    Inside {
        #[arg(long, default_value = "/dev")]
        dev: PathBuf,
    },
}

/// Runs the command line.
///
/// # Errors
/// What went wrong; [`exit_code`] says how the process is to end.
pub fn run(args: &[OsString]) -> Result<()> {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        // Help and version are answers, and clap prints them to stdout.
        Err(answer) if !answer.use_stderr() => {
            answer.print()?;
            return Ok(());
        }
        Err(wrong) => return Err(Usage(wrong.to_string()).into()),
    };
    let flags = Flags { settings: cli.settings, host_root: cli.host_root };
    let context = || {
        let (settings, _) = Loaded::new(&flags, |name| std::env::var_os(name)).sound()?;
        Ok::<(Host, Settings), anyhow::Error>((Host::new(&settings), settings))
    };
    let mut out = io::stdout().lock();
    let done = match cli.verb {
        Verb::Cdi(verb) => context().and_then(|(host, _)| verb.run(&host, &mut out)),
        Verb::Completions(verb) => verb.run(&Cli::command(), &mut out),
        Verb::Configure(verb) => verb.run(&flags, args, &mut out),
        Verb::Demo(verb) => verb.run(&mut out),
        Verb::Doctor(verb) => verb.run(&Loaded::new(&flags, |name| std::env::var_os(name)), args, &mut out),
        Verb::StandIn { args } => demo::standin::run(&args),
        Verb::Inside { dev } => demo::inside(&dev, &mut out),
        Verb::Man(verb) => verb.run(&Cli::command(), &mut out),
        Verb::Plan(verb) => verb.run(&Loaded::new(&flags, |name| std::env::var_os(name)), args, &mut out),
        Verb::Reset(verb) => context().and_then(|(host, settings)| verb.run(&host, &settings, &mut out)),
        Verb::Simulate(verb) => verb.run(&mut out),
        Verb::Status(verb) => context().and_then(|(host, settings)| verb.run(&host, &settings, &mut out)),
    };
    // A reader who has seen enough (`| head`) is no error.
    done.or_else(|error| match error.downcast_ref::<io::Error>() {
        Some(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    })
}

/// The command line was not understood.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// The exit code for a command line that was not understood.
pub const WRONG_USAGE: i32 = 2;

/// How the process ends after an error.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> i32 {
    if error.is::<Usage>() {
        WRONG_USAGE
    } else if error.chain().any(|cause| cause.is::<Shortage>()) {
        3
    } else if error.is::<doctor::Unwell>() {
        4
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
