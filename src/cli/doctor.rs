//! `doctor`: what on this host keeps containers from their chips, and what to do about it.
//!
//! Reads, and runs `PROGRAM --version` of the runtimes and engines that are installed; changes nothing. Each check gives one finding; a
//! finding that is not good has a remedy.

mod chips;
mod engines;
mod files;
mod leases;

use std::ffi::OsString;
use std::io::Write;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::status::paint;
use crate::chip::Inventory;
use crate::host::Host;
use crate::picture::Paint;
use crate::settings::{Loaded, Settings};
use crate::words::one_line;

/// Say what on this host keeps containers from their chips, and what to do about it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n  neuron-ctk doctor\n  neuron-ctk doctor --json | jq '.findings[] | select(.verdict == \"fault\")'\n\n\
Exit codes: 0 no fault, 4 a fault. As root: only root can see all there is to see.")]
pub(super) struct Doctor {
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// As it should be.
    Good,
    /// It works, but somebody should know.
    Note,
    /// Containers will not get what they ask for.
    Fault,
}

/// What a check found.
#[derive(Debug, Serialize)]
struct Finding {
    /// What was looked at.
    check: &'static str,
    verdict: Verdict,
    found: String,
    /// What to do; empty where all is well.
    remedy: String,
}

impl Finding {
    fn good(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Good, found: found.into(), remedy: String::new() }
    }

    fn note(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Note, found: found.into(), remedy: remedy.into() }
    }

    fn fault(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Fault, found: found.into(), remedy: remedy.into() }
    }
}

/// What the checks look at.
struct Patient<'a> {
    host: &'a Host,
    settings: &'a Settings,
    /// The chips, or why they are not known.
    inventory: &'a Result<Inventory>,
    /// The command line, by which the program is found.
    args: &'a [OsString],
}

/// A fault was found.
#[derive(Debug, thiserror::Error)]
#[error("{0} found: each has its remedy above")]
pub(super) struct Unwell(String);

#[derive(Debug, Serialize)]
struct Report<'a> {
    version: u32,
    findings: &'a [Finding],
}

impl Doctor {
    /// Looks at everything, and says what it found.
    pub(super) fn run(&self, loaded: &Loaded, args: &[OsString], out: &mut dyn Write) -> Result<()> {
        let host = Host::new(&loaded.settings);
        let inventory = host.discover();
        let patient = Patient { host: &host, settings: &loaded.settings, inventory: &inventory, args };
        let findings: Vec<_> = chips::findings(&patient)
            .into_iter()
            .chain(files::findings(&patient, loaded))
            .chain(engines::findings(&patient))
            .chain(leases::findings(&patient))
            .collect();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&Report { version: 1, findings: &findings })?)?;
        } else {
            show(&findings, paint(), out)?;
        }
        let faults = findings.iter().filter(|finding| finding.verdict == Verdict::Fault).count();
        if faults > 0 {
            return Err(Unwell(crate::words::count(u32::try_from(faults)?, "fault")).into());
        }
        Ok(())
    }
}

fn show(findings: &[Finding], paint: Paint, out: &mut dyn Write) -> Result<()> {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    for Finding { check, verdict, found, remedy } in findings {
        let (word, colour) = match verdict {
            Verdict::Good => ("good ", "32"),
            Verdict::Note => ("note ", "33"),
            Verdict::Fault => ("FAULT", "31"),
        };
        let word = if paint == Paint::Colour { format!("\u{1b}[{colour}m{word}\u{1b}[0m") } else { word.to_owned() };
        writeln!(out, "{word}  {check:width$}  {}", one_line(found))?;
        if !remedy.is_empty() {
            writeln!(out, "{:indent$}{}", "", one_line(remedy), indent = 5 + 2 + width + 2)?;
        }
    }
    Ok(())
}
