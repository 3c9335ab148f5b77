//! `plan`: the dry run.
//!
//! The very code of a claim less the commit: it reads the host, the ledger without the lock, and a spec; it writes nothing and needs no
//! root (but who may not read sysfs `reset` is told that no chip is known to be ready).

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::bundle::Bundle;
use crate::chip::ChipSet;
use crate::claim::{self, Ask, Case, Claim, Claimant};
use crate::host::Host;
use crate::peek::Peek;
use crate::process::Processes;
use crate::programs;
use crate::request::{self, Want, in_words};
use crate::select::{self, Candidate, Held};
use crate::settings::Loaded;
use crate::spec::{self, HOOK_NAME, Subject};
use crate::words::{count, one_line, short_container};

/// Show what a container would get, and change nothing
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n  neuron-ctk plan --annotation aws.amazon.com/neuron=4\n  neuron-ctk plan --bundle /run/containerd/io.containerd.runtime.v2.task/moby/ID\n\n\
Exit codes: 0 it would start, 1 the request is invalid or the host at fault, 3 the chips cannot be had.")]
pub(super) struct Plan {
    /// The bundle of a container
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,
    /// A config.json by itself
    #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
    spec: Option<PathBuf>,
    /// An annotation to add; without bundle and spec, to an empty spec
    #[arg(long = "annotation", value_name = "K=V", value_parser = pair)]
    annotations: Vec<(String, String)>,
    /// A variable to add to the container's environment
    #[arg(long = "env", value_name = "K=V", value_parser = pair)]
    env: Vec<(String, String)>,
    /// The same as one JSON document
    #[arg(long)]
    json: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("KEY=VALUE is wanted")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct Report {
    version: u32,
    request: Option<Asked>,
    registered: u32,
    free: ChipSet,
    held: Vec<Holding>,
    considered: Vec<Possible>,
    choice: Option<ChipSet>,
    warnings: Vec<String>,
    refusal: Option<String>,
    command: Option<Vec<String>>,
    diff: String,
}

#[derive(Debug, Serialize)]
struct Asked {
    want: String,
    from: String,
    #[serde(skip)]
    words: String,
}

#[derive(Debug, Serialize)]
struct Holding {
    chips: ChipSet,
    container: String,
    pid: i32,
}

/// A run that could be chosen, and how many aligned blocks of free chips it leaves whole.
#[derive(Debug, Serialize)]
struct Possible {
    chips: ChipSet,
    leaves: Map<String, Value>,
    gap: u32,
}

impl Plan {
    /// Works it out, and shows it.
    pub(super) fn run(&self, loaded: &Loaded, args: &[OsString], out: &mut dyn Write) -> Result<()> {
        if let Some(fault) = &loaded.fault {
            bail!("{fault:#}");
        }
        let host = Host::new(&loaded.settings);
        let (folder, mut spec) = self.read()?;
        let bore = spec::revert(&mut spec)?;
        let before = spec.clone();
        let text = spec.to_string();
        let peek = Peek::parse(text.as_bytes()).context("the spec")?;
        let request = request::read(&peek, loaded.settings.accept_env)?;
        let inventory = host.discover()?;
        let ledger = claim::look(&host, &Processes::new(&host.proc)?)?;
        let held = ledger.held("");
        let path = std::env::var_os("PATH");
        let mut report = Report {
            version: 1,
            request: None,
            registered: inventory.ids().len(),
            free: select::free(&inventory, &held, &loaded.settings.policy()),
            held: held.iter().map(Holding::new).collect(),
            considered: Vec::new(),
            choice: None,
            warnings: Vec::new(),
            refusal: None,
            command: None,
            diff: String::new(),
        };
        match programs::low_level_runtime(&loaded.settings, path.as_deref()) {
            Ok(runtime) => report.command = Some(command(&runtime, &folder)),
            Err(error) => report.warnings.push(format!("{error:#}")),
        }
        let Some(ask) = claim::ask(&peek, request, &inventory, loaded.settings.manual_devices)? else {
            return self.show(&report, out);
        };
        report.request = Some(Asked::new(&ask, report.registered));
        let called_as = args.first().map(OsString::as_os_str).unwrap_or_default();
        let hook = programs::hook(&loaded.settings, called_as, path.as_deref()).unwrap_or_else(|error| {
            report.warnings.push(format!("{error:#}"));
            Path::new("/usr/local/bin").join(HOOK_NAME)
        });
        let claimant =
            Claimant { settings: &loaded.settings, host: &host, container: "ID".to_owned(), root: String::new(), bundle: &folder, hook };
        let subject = Subject::of(&spec);
        let case = Case { claimant: &claimant, ask: &ask, spec: &peek, subject: &subject, inventory: &inventory, bore: bore.as_deref() };
        match claim::plan(&case) {
            Ok(claim) => {
                report.take(&claim);
                spec::apply(&mut spec, &claim.edit)?;
                report.diff = diff(&before, &spec)?;
                self.show(&report, out)
            }
            Err(error) => {
                report.refusal = Some(format!("{error:#}"));
                self.show(&report, out)?;
                Err(error)
            }
        }
    }

    /// The spec, and the folder that stands for its bundle.
    fn read(&self) -> Result<(PathBuf, Value)> {
        let (folder, mut spec) = match (&self.bundle, &self.spec) {
            (Some(folder), _) => (folder.clone(), Bundle::read(folder, None)?.value()?),
            (None, Some(file)) => {
                let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                (folder.to_owned(), Bundle::read(Path::new(""), Some(file))?.value()?)
            }
            (None, None) => (PathBuf::from("."), json!({})),
        };
        let whole = spec.as_object_mut().context("the spec is no JSON object")?;
        if !self.annotations.is_empty() {
            let annotations = whole.entry("annotations").or_insert_with(|| json!({}));
            let annotations = annotations.as_object_mut().context("annotations of the spec are no map")?;
            annotations.extend(self.annotations.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
        }
        if !self.env.is_empty() {
            let process = whole.entry("process").or_insert_with(|| json!({}));
            let process = process.as_object_mut().context("process of the spec is no map")?;
            let env = process.entry("env").or_insert_with(|| json!([])).as_array_mut().context("process.env of the spec is no list")?;
            env.extend(self.env.iter().map(|(key, value)| Value::from(format!("{key}={value}"))));
        }
        Ok((folder, spec))
    }

    fn show(&self, report: &Report, out: &mut dyn Write) -> Result<()> {
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
        } else {
            report.print(out)?;
        }
        Ok(())
    }
}

/// What the wrapper would become.
fn command(runtime: &Path, folder: &Path) -> Vec<String> {
    let text = |path: &Path| path.display().to_string();
    vec![text(runtime), "create".to_owned(), "--bundle".to_owned(), text(folder), "ID".to_owned()]
}

/// The change to a spec, as a unified diff of the documents laid out a value a line.
fn diff(before: &Value, after: &Value) -> Result<String> {
    let (before, after) = (serde_json::to_string_pretty(before)? + "\n", serde_json::to_string_pretty(after)? + "\n");
    let mut options = diffy::DiffOptions::new();
    options
        .set_context_len(2)
        .set_original_filename("config.json")
        .set_modified_filename("config.json as the low-level runtime would get it");
    Ok(options.create_patch(&before, &after).to_string())
}

impl Asked {
    fn new(ask: &Ask, total: u32) -> Self {
        let want = match ask {
            Ask::Grant(request) => request.want,
            Ask::Given { chips, .. } => Want::Ids(*chips),
        };
        let only = if ask.is_adopted() { ", to be recorded as taken" } else { "" };
        Self { want: want.to_string(), from: ask.origin().to_string(), words: in_words(want, total) + only }
    }
}

impl Holding {
    fn new(held: &Held) -> Self {
        Self { chips: held.chips, container: held.container.clone(), pid: held.pid }
    }
}

impl Possible {
    fn new(candidate: &Candidate) -> Self {
        let leaves = ["8", "4", "2"].iter().zip(candidate.leaves).map(|(size, blocks)| ((*size).to_owned(), blocks.into()));
        Self { chips: candidate.run, leaves: leaves.collect(), gap: candidate.gap }
    }
}

impl Report {
    fn take(&mut self, claim: &Claim) {
        self.choice = Some(claim.lease.chips);
        self.considered = claim.considered.iter().map(Possible::new).collect();
        self.warnings.extend(claim.warnings.iter().cloned());
    }

    fn print(&self, out: &mut dyn Write) -> Result<()> {
        let chips = |set: ChipSet| if set.is_empty() { "none".to_owned() } else { set.to_string() };
        match &self.request {
            None => writeln!(out, "request   none: the container would be passed through unchanged")?,
            Some(asked) => writeln!(out, "request   {} ({}), from {}", asked.words, asked.want, asked.from)?,
        }
        writeln!(out, "free      {} of {}", chips(self.free), count(self.registered, "Neuron chip"))?;
        for held in &self.held {
            writeln!(out, "held      {} by {} (pid {})", held.chips, short_container(&held.container), held.pid)?;
        }
        if let Some(choice) = self.choice {
            writeln!(out, "choice    {choice}{}", self.why(choice))?;
        }
        for warning in &self.warnings {
            writeln!(out, "note      {}", one_line(warning))?;
        }
        if let Some(command) = self.command.as_ref().filter(|_| self.refusal.is_none()) {
            writeln!(out, "command   {}", command.join(" "))?;
        }
        if !self.diff.is_empty() {
            write!(out, "\n{}", self.diff)?;
        }
        Ok(())
    }

    /// Why this run: how many there were, what the best ones leave whole, how they are told apart.
    fn why(&self, choice: ChipSet) -> String {
        let Some(chosen) = self.considered.iter().find(|option| option.chips == choice) else { return String::new() };
        let blocks: Vec<_> = chosen.leaves.iter().map(|(size, blocks)| format!("{blocks} of {size}")).collect();
        let equal: Vec<_> = self.considered.iter().filter(|option| option.leaves == chosen.leaves).collect();
        let tie = match equal.len() {
            1 => "more than any other",
            _ if equal.iter().any(|option| option.gap != chosen.gap) => "as others do, and is from the smallest gap",
            _ => "as others do, and is the lowest",
        };
        format!(
            ", of {}: leaves whole aligned blocks of free chips, {}, {tie}",
            count(u32::try_from(self.considered.len()).unwrap_or(u32::MAX), "possible run"),
            blocks.join(", ")
        )
    }
}
