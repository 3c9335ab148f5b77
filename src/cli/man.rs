//! `man`: the manual pages, one for each face and one for each verb.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_mangen::Man;

/// Print a manual page
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n  neuron-ctk man | man -l -\n  neuron-ctk man neuron-container-runtime | man -l -\n  neuron-ctk man --output target/man\n\n\
The packages bring them.")]
pub(super) struct ManPage {
    /// neuron-ctk, neuron-ctk-VERB, neuron-container-runtime or neuron-container-hook
    #[arg(default_value = "neuron-ctk", value_name = "PAGE")]
    page: String,
    /// Write every page into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "page")]
    output: Option<PathBuf>,
}

/// The section of the manual for whoever administers a host.
const SECTION: &str = "8";

struct Page {
    name: String,
    text: Vec<u8>,
}

impl ManPage {
    /// Prints it, or writes them all.
    pub(super) fn run(&self, command: &Command, out: &mut dyn Write) -> Result<()> {
        let pages = pages(command)?;
        if let Some(folder) = &self.output {
            let said = || format!("{} cannot be written", folder.display());
            fs::create_dir_all(folder).with_context(said)?;
            for page in &pages {
                fs::write(folder.join(format!("{}.{}", page.name, SECTION)), &page.text).with_context(said)?;
            }
            return Ok(());
        }
        let names = || pages.iter().map(|page| &*page.name).collect::<Vec<_>>().join(", ");
        let page = pages.iter().find(|page| page.name == self.page);
        let page = page.with_context(|| format!("there is no page {}: there are {}", crate::words::quoted(&self.page), names()))?;
        Ok(out.write_all(&page.text)?)
    }
}

fn pages(command: &Command) -> Result<Vec<Page>> {
    let mut all = vec![page(command.clone())?, page(wrapper())?, page(hook())?];
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("{}-{}", command.get_name(), verb.get_name());
        // As it is typed, with what stands before every verb.
        let mut verb = verb.clone().bin_name(format!("{} {}", command.get_name(), verb.get_name()));
        for global in command.get_arguments().filter(|argument| argument.is_global_set()) {
            verb = verb.arg(global.clone());
        }
        all.push(page(verb.display_name(name))?);
    }
    Ok(all)
}

fn page(command: Command) -> Result<Page> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let more = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let verbs = command.get_subcommands().any(|verb| !verb.is_hide_set());
    let options = command.get_arguments().next().is_some();
    let mut text = Vec::new();
    writeln!(text, ".TH \"{name}\" {SECTION} \"\" \"neuron-container-runtime {}\" Neuron", env!("CARGO_PKG_VERSION"))?;
    let man = Man::new(command.disable_help_subcommand(true)).section(SECTION);
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if options {
        man.render_options_section(&mut text)?;
    }
    if verbs {
        man.render_subcommands_section(&mut text)?;
    }
    text.extend(sections(&more).into_bytes());
    Ok(Page { name, text })
}

/// What stands below a help text: lists under their headings as they are, paragraphs to be filled.
fn sections(help: &str) -> String {
    let mut roff = String::new();
    let mut notes = false;
    for block in help.split("\n\n").filter(|block| !block.is_empty()) {
        let (heading, rest) = block.split_once(':').unwrap_or((block, ""));
        if heading == "Exit codes" {
            roff += &format!(".SH EXIT STATUS\n{}\n", escaped(rest.trim_start()));
        } else if heading.chars().all(|c| c.is_alphabetic() || c == ' ') && (rest.starts_with("\n  ") || heading.starts_with("Example")) {
            let lines: Vec<_> = rest.trim().lines().map(|line| escaped(line.trim_start())).collect();
            roff += &format!(".SH {}\n.nf\n{}\n.fi\n", heading.to_uppercase(), lines.join("\n"));
            notes = false;
        } else {
            roff += &format!("{}\n{}\n", if notes { ".PP" } else { ".SH NOTES" }, escaped(block));
            notes = true;
        }
    }
    roff
}

/// Text that roff takes for nothing else.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    text.lines()
        .map(|line| if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() })
        .collect::<Vec<_>>()
        .join("\n")
}

/// What a face's page is made of that takes no help flag: its command line is a runtime's, or a hook's.
fn face(name: &'static str, about: &'static str, usage: &'static str, long: &'static str, more: &'static str) -> Command {
    Command::new(name).about(about).override_usage(usage).long_about(long).after_help(more).disable_help_flag(true)
}

fn wrapper() -> Command {
    face(
        "neuron-container-runtime",
        "OCI runtime that gives containers AWS Neuron chips, in front of runc or crun",
        "neuron-container-runtime [OPTION...] COMMAND [ARGUMENT...]",
        "Stands in front of runc or crun, and takes the same arguments. Where a container asks for Neuron chips, `create` and `run` find free \
         ones, write a lease down, edit the bundle's config.json and become the low-level runtime; `exec` gives further processes of such a \
         container the same variables and capability. Every other command, and every container that asks for nothing, goes through as it is.\n\n\
         A container asks by the annotation aws.amazon.com/neuron (a count, all, any:N, id:LIST, none), by aws.amazon.com/neuroncore (a number \
         of NeuronCores), or by the variables AWS_NEURON_VISIBLE_DEVICES and AWS_NEURON_CORES. aws.amazon.com/neuron.wait says how long it may \
         wait for chips.",
        "Environment:\n  NEURON_SETTINGS   another file of settings\n  NEURON_HOST_ROOT  a folder that stands for the host\n\n\
         Files:\n  /etc/neuron-container-runtime/config.toml  settings\n  /run/neuron-container-runtime/             lock and ledger\n  \
         /var/log/neuron-container-runtime.log      decisions, warnings, refusals\n\n\
         Example:\n  docker run --runtime neuron --annotation aws.amazon.com/neuron=2 IMAGE\n\n\
         See also:\n  neuron-ctk(8), neuron-container-hook(8), runc(8), crun(1)",
    )
}

fn hook() -> Command {
    face(
        "neuron-container-hook",
        "OCI hook that ties a container's AWS Neuron chips to its own process",
        "neuron-container-hook createRuntime|prestart|precreate [--settings FILE] [--host-root DIR]",
        "Called by the low-level runtime, by the entry that neuron-container-runtime puts into config.json: checks that the container's /dev \
         has the chips that were granted and no others, and makes the container's first process the lease's holder. What does not fit stops \
         the container.\n\n\
         Called by Podman's hooks.d as precreate, it reads a container's spec, claims what that asks for, and writes the edited spec. As \
         createRuntime or prestart without a lease it stops a container that asks for chips and that nobody prepared.",
        "Example:\n  neuron-ctk configure podman   enters it into Podman's files\n\n\
         See also:\n  neuron-ctk(8), neuron-container-runtime(8), oci-hooks(5)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stay_lines_and_paragraphs_are_filled() {
        let help = "Examples:\n  a -b\n  .c\n\nSome words.\n\nMore words.\n\nExit codes: 0 done.";
        let roff = ".SH EXAMPLES\n.nf\na \\-b\n\\&.c\n.fi\n.SH NOTES\nSome words.\n.PP\nMore words.\n.SH EXIT STATUS\n0 done.\n";
        assert_eq!(sections(help), roff);
    }
}
