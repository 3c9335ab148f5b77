//! `configure`: enters the runtime `neuron` into an engine's configuration, and takes it out again.
//!
//! Every file is read and worked out before the first is written. What is written into which file is [`crate::configure`]'s; how a
//! file is replaced is [`crate::textfile`]'s.

mod files;
mod next;

use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use self::files::{Part, Step};
use crate::configure::{Change, Copy, RUNTIME, Role, State, WRAPPER};
use crate::programs;
use crate::settings::{self, FILE_VARIABLE, Flags};
use crate::spec::HOOK_NAME;

/// Enter the runtime `neuron` into an engine's configuration
#[derive(Debug, Args)]
#[command(after_help = "\
A changed file is left beside the new one as NAME.before-neuron until --remove, which gives it back; where the file was changed since,\n\
what is ours is taken out and the rest stays. A runtime of another program that is called neuron already (AWS's hook wrapper is) is\n\
replaced, which is said, and comes back the same way.\n\n\
Examples:\n  neuron-ctk configure docker --dry-run\n  neuron-ctk configure docker && docker run --rm --runtime neuron -e AWS_NEURON_VISIBLE_DEVICES=any:1 IMAGE\n  \
neuron-ctk configure docker --remove")]
pub(super) struct Configure {
    /// The engine
    #[arg(value_enum)]
    engine: Engine,
    /// Make it the runtime of containers that name none; chips are then not given for an image's environment any more
    #[arg(long)]
    default: bool,
    /// Show what would be changed, as a diff, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Take out what was put in, and nothing else
    #[arg(long, conflicts_with = "default")]
    remove: bool,
    /// The engine's file [default: where the engine looks, or a file of our own there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the file of Podman's hook goes [default: /etc/neuron-container-runtime/hooks.d]
    #[arg(long, value_name = "DIR")]
    hooks_dir: Option<PathBuf>,
}

/// A container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Engine {
    Docker,
    Containerd,
    Crio,
    Podman,
}

/// How an engine stands to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// It knows nothing of us.
    Absent,
    /// It calls something else by our name.
    Foreign(String),
    /// It has what another version put in.
    Old,
    /// There is nothing to change.
    Configured,
}

impl Engine {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Docker, Self::Containerd, Self::Crio, Self::Podman];

    /// The program that is there where the engine is.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Docker => "dockerd",
            other => other.name(),
        }
    }

    /// How it stands to us, by its files.
    pub(super) fn standing(self, args: &[OsString]) -> Result<Standing> {
        let verb = Configure { engine: self, default: false, dry_run: true, remove: false, config: None, hooks_dir: None };
        let installed = verb.installed(args)?;
        let files = files::of(&verb, &installed, Path::new(settings::DEFAULT_FILE))?;
        let mut standing = Standing::Configured;
        for step in &files.steps {
            let Some(text) = step.file.text() else { return Ok(Standing::Absent) };
            match step.edit.state(text)? {
                State::Foreign(what) => return Ok(Standing::Foreign(what)),
                State::Absent => return Ok(Standing::Absent),
                State::Ours if step.change(&verb)?.after.as_deref() != Some(text) => standing = Standing::Old,
                State::Ours => {}
            }
        }
        Ok(standing)
    }

    /// As it is typed.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "containerd",
            Self::Crio => "crio",
            Self::Podman => "podman",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The links that the engines are to call, as text: that is what their files hold.
#[derive(Debug)]
struct Installed {
    runtime: String,
    hook: String,
}

impl Configure {
    /// Does it, and says what was done.
    pub(super) fn run(&self, flags: &Flags, args: &[OsString], out: &mut dyn Write) -> Result<()> {
        if self.hooks_dir.is_some() && self.engine != Engine::Podman {
            bail!("--hooks-dir is for podman: {} takes no hook", self.engine);
        }
        let installed = self.installed(args)?;
        let settings = self.settings_file(flags);
        let files = files::of(self, &installed, &settings)?;
        let mut changes = Vec::with_capacity(files.steps.len());
        for step in &files.steps {
            changes.push(step.change(self)?);
        }
        if !self.remove {
            next::check(self, &files.steps)?;
        }
        if self.dry_run {
            return show(&files.steps, &changes, out);
        }
        let forgotten = if self.remove && self.engine == Engine::Docker { next::forget(self, &files.steps, &changes)? } else { None };
        for (step, change) in files.steps.iter().zip(&changes) {
            step.file.write(change)?;
            for line in self.words(step, change) {
                writeln!(out, "{}: {line}", step.file.path.display())?;
            }
        }
        for note in &files.notes {
            writeln!(out, "note: {note}")?;
        }
        let changed = files.steps.iter().zip(&changes).any(|(step, change)| change.after.as_deref() != step.file.text());
        if let Some(forgotten) = forgotten {
            forgotten.say(out)?;
        }
        next::say(self, &files.steps, changed, out)
    }

    fn role(&self) -> Role {
        if self.default { Role::Default } else { Role::Extra }
    }

    fn installed(&self, args: &[OsString]) -> Result<Installed> {
        let called_as = args.first().map(OsString::as_os_str).unwrap_or_default();
        let path = std::env::var_os("PATH");
        let link = |name| {
            let link = if self.remove {
                // What is taken out need not be there any more.
                programs::beside(called_as, path.as_deref(), name).context("where this program is cannot be told: call it by its path")
            } else {
                programs::installed(name, called_as, path.as_deref())
            };
            utf8(link?)
        };
        Ok(Installed { runtime: link(WRAPPER)?, hook: link(HOOK_NAME)? })
    }

    fn settings_file(&self, flags: &Flags) -> PathBuf {
        let named = std::env::var_os(FILE_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        flags.settings.clone().or(named).unwrap_or_else(|| settings::DEFAULT_FILE.into())
    }

    /// What was done to a file.
    fn words(&self, step: &Step<'_>, change: &Change) -> Vec<String> {
        let (before, after) = (step.file.text(), change.after.as_deref());
        let mut lines = Vec::new();
        if let Some(what) = &change.replaces {
            lines.push(format!("{RUNTIME} is {what} there; that is replaced, and --remove brings it back"));
        }
        if self.remove && before == after && step.part != Part::Engine {
            return lines;
        }
        lines.push(match (before, after, self.remove) {
            _ if before == after && self.remove => "nothing of ours is in it".to_owned(),
            _ if before == after => format!("{} is in it already", step.part.words()),
            (_, None, _) => "removed, for it was not there before".to_owned(),
            (_, _, true) if change.copy == Copy::Go => format!("{} taken out", step.part.words()),
            (_, _, true) => format!("{} no longer stands for {}", step.part.words(), self.engine),
            (None, ..) => format!("made, with {}", step.part.words()),
            (Some(_), ..) if change.copy == Copy::Make => {
                format!("{} put in; as it was it is in {}", step.part.words(), step.file.copy_path().display())
            }
            (Some(_), ..) => format!("{} put in", step.part.words()),
        });
        lines
    }
}

/// The changes as unified diffs.
fn show(steps: &[Step<'_>], changes: &[Change], out: &mut dyn Write) -> Result<()> {
    let mut same = true;
    for (step, change) in steps.iter().zip(changes) {
        let (before, after) = (step.file.text(), change.after.as_deref());
        if before == after {
            continue;
        }
        same = false;
        let name = |text: Option<&str>| text.map_or("/dev/null".to_owned(), |_| step.file.path.display().to_string());
        let mut options = diffy::DiffOptions::new();
        options.set_original_filename(name(before)).set_modified_filename(name(after));
        write!(out, "{}", options.create_patch(before.unwrap_or_default(), after.unwrap_or_default()))?;
    }
    if same {
        writeln!(out, "nothing to change")?;
    }
    Ok(())
}

/// A path as the engines' files can hold it.
fn utf8(path: PathBuf) -> Result<String> {
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", Path::new(&path).display()))
}
