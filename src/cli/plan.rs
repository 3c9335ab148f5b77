//! `plan`: the dry run.
//!
//! The very code of a claim less the commit: it reads the host, the ledger without the lock, and a spec; it writes nothing and needs no
//! root (but who may not read sysfs `reset` is told that no chip is known to be ready).

mod report;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::bundle::Bundle;
use crate::claim::{self, Case, Claimant, HeldBy};
use crate::host::Host;
use crate::peek::Peek;
use crate::process::Processes;
use crate::programs;
use crate::request;
use crate::settings::Loaded;
use crate::spec::{self, HOOK_NAME, Subject};

use report::{Asked, Report};

/// Show what a container would get, and change nothing
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n  neuron-ctk plan --annotation aws.amazon.com/neuron=4\n  neuron-ctk plan --bundle /run/containerd/io.containerd.runtime.v2.task/moby/ID\n\n\
Exit codes: 0 it would start, 1 its request is not understood, or something is wrong with the host, 3 the chips cannot be had;\n\
the line says whether that may pass.")]
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

impl Plan {
    /// Works it out, and shows it; as far as it came, where it is refused.
    pub(super) fn run(&self, loaded: &Loaded, args: &[OsString], out: &mut dyn Write) -> Result<()> {
        let mut report = None;
        let done = self.work_out(loaded, args, &mut report);
        if let Some(mut report) = report {
            report.refusal = done.as_ref().err().map(|error| format!("{error:#}"));
            if self.json {
                writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
            } else {
                report.print(out)?;
            }
        }
        done
    }

    fn work_out(&self, loaded: &Loaded, args: &[OsString], report: &mut Option<Report>) -> Result<()> {
        if let Some(fault) = &loaded.fault {
            bail!("{fault:#}");
        }
        let settings = &loaded.settings;
        let host = Host::new(settings);
        let (folder, mut spec) = self.read()?;
        let bore = spec::revert(&mut spec)?;
        let before = spec.clone();
        let peek = Peek::of(&spec).context("the spec is not understood")?;
        let request = request::read(&peek, settings.accept_env)?;
        let inventory = host.discover()?;
        let ledger = claim::look(&host, &Processes::new(&host.proc)?)?;
        let report = report.insert(Report::new(&inventory, &ledger.held(""), &settings.policy()));
        report.warnings.extend(request::ignored(&peek, settings.accept_env));
        let path = std::env::var_os("PATH");
        let runtime = programs::low_level_runtime(settings, path.as_deref());
        report.command = runtime.as_ref().ok().map(|runtime| command(runtime, &folder));
        let Some(ask) = claim::ask(&peek, request, &inventory, settings.manual_devices)? else {
            return runtime.map(drop);
        };
        report.request = Some(Asked::new(&ask, report.registered));
        let called_as = args.first().map(OsString::as_os_str).unwrap_or_default();
        let hook = programs::hook(settings, called_as, path.as_deref());
        let claimant = Claimant {
            settings,
            host: &host,
            container: "ID".to_owned(),
            root: String::new(),
            bundle: &folder,
            held_by: HeldBy::Oneself,
            // Only to be shown, where it is not there.
            hook: hook.as_ref().map_or_else(|_| Path::new("/usr/local/bin").join(HOOK_NAME), PathBuf::clone),
        };
        let subject = Subject::of(&spec);
        let claim = claim::plan(&Case {
            claimant: &claimant,
            ask: &ask,
            spec: &peek,
            subject: &subject,
            inventory: &inventory,
            bore: bore.as_deref(),
        });
        if let Ok(claim) = &claim {
            report.take(claim);
            spec::apply(&mut spec, &claim.edit)?;
            report.diff = diff(&before, &spec)?;
        }
        // In the order in which the wrapper would meet them.
        runtime.map(drop).and(hook.map(drop)).and(claim.map(drop))
    }

    /// The spec, and the folder that stands for its bundle.
    fn read(&self) -> Result<(PathBuf, Value)> {
        let (folder, mut spec) = match (&self.bundle, &self.spec) {
            (Some(folder), _) => (folder.clone(), document(folder, None)?),
            (None, Some(file)) => {
                let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                (folder.to_owned(), document(Path::new(""), Some(file))?)
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
}

fn document(folder: &Path, name: Option<&Path>) -> Result<Value> {
    let value = Bundle::read(folder, name)?.document.value();
    value.with_context(|| format!("{} is not JSON", folder.join(name.unwrap_or(Path::new("config.json"))).display()))
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
