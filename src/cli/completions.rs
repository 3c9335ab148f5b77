//! `completions`: what a shell needs to complete the command line.

use std::io::Write;

use anyhow::Result;
use clap::{Args, Command, ValueEnum};
use clap_complete::generate;
use clap_complete::shells;

/// Print what a shell needs to complete this command line
#[derive(Debug, Args)]
#[command(after_help = "Example: neuron-ctk completions bash > /etc/bash_completion.d/neuron-ctk\n\nThe packages bring them.")]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

/// Those that people have on such hosts.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    /// Prints it.
    pub(super) fn run(&self, command: &Command, out: &mut dyn Write) -> Result<()> {
        // The generators show what is hidden, too.
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
        let mut command = Command::new("neuron-ctk").version(env!("CARGO_PKG_VERSION")).args(command.get_arguments()).subcommands(shown);
        let mut script = Vec::new();
        let name = "neuron-ctk";
        match self.shell {
            Shell::Bash => generate(shells::Bash, &mut command, name, &mut script),
            Shell::Zsh => generate(shells::Zsh, &mut command, name, &mut script),
            Shell::Fish => generate(shells::Fish, &mut command, name, &mut script),
        }
        Ok(out.write_all(&script)?)
    }
}
