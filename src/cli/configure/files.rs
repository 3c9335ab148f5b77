//! Which files are changed for an engine, in which order.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Configure, Engine, Installed, utf8};
use crate::configure::accept_env::AcceptEnv;
use crate::configure::{self, Change, Edit, State, containerd, crio, docker, podman};
use crate::settings::Settings;
use crate::textfile::TextFile;

/// A file, and what is done to it.
pub(super) struct Step<'a> {
    pub(super) file: TextFile,
    pub(super) edit: Box<dyn Edit + 'a>,
    pub(super) part: Part,
}

/// What a file is to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Our own settings.
    Settings,
    /// The file of the hook.
    Hook,
    /// The engine's own.
    Engine,
}

impl Part {
    /// What is put in.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Settings => "accept-env = false",
            Self::Hook => "the hook precreate",
            Self::Engine => "the runtime neuron",
        }
    }
}

/// All that is done for an engine.
#[derive(Default)]
pub(super) struct Files<'a> {
    pub(super) steps: Vec<Step<'a>>,
    /// What somebody should know.
    pub(super) notes: Vec<String>,
}

/// Our own settings come first and go last, so that no image can ask in between.
pub(super) fn of<'a>(verb: &Configure, installed: &'a Installed, settings: &Path) -> Result<Files<'a>> {
    let mut files = match verb.engine {
        Engine::Docker => single(verb, docker::FILE, Box::new(docker::Daemon { runtime: &installed.runtime }))?,
        Engine::Crio => single(verb, crio::FILE, Box::new(crio::Config { runtime: &installed.runtime }))?,
        Engine::Containerd => containerd_files(verb, installed)?,
        Engine::Podman => podman_files(verb, installed)?,
    };
    if verb.default || verb.remove {
        let file = TextFile::read(settings)?;
        files.steps.insert(0, Step { file, edit: Box::new(AcceptEnv { engine: verb.engine.name() }), part: Part::Settings });
    }
    if verb.remove {
        files.steps.reverse();
    }
    Ok(files)
}

impl Step<'_> {
    /// What is to become of the file.
    pub(super) fn change(&self, verb: &Configure) -> Result<Change> {
        let said = || self.file.path.display().to_string();
        let text = self.file.text();
        let change = if verb.remove {
            configure::remove(&*self.edit, text, self.file.copy()?.as_deref())
        } else {
            configure::add(&*self.edit, text, verb.role())
        };
        let change = change.with_context(|| format!("{} is left as it is", said()))?;
        if self.part == Part::Settings && verb.default {
            // A file that is broken counts as its defaults, and those accept the environment.
            Settings::parse(change.after.as_deref().unwrap_or_default()).with_context(|| format!("{} is left as it is", said()))?;
        }
        Ok(change)
    }
}

fn single<'a>(verb: &Configure, default: &str, edit: Box<dyn Edit + 'a>) -> Result<Files<'a>> {
    let file = TextFile::read(verb.config.as_deref().unwrap_or(Path::new(default)))?;
    Ok(Files { steps: vec![Step { file, edit, part: Part::Engine }], notes: Vec::new() })
}

fn containerd_files<'a>(verb: &Configure, installed: &'a Installed) -> Result<Files<'a>> {
    let main = TextFile::read(verb.config.as_deref().unwrap_or(Path::new(containerd::FILE)))?;
    let in_main = || Box::new(containerd::Config { runtime: &installed.runtime, main: None });
    let step = |file, edit| Step { file, edit, part: Part::Engine };
    let Some(text) = main.text() else { return Ok(Files { steps: vec![step(main, in_main())], notes: Vec::new() }) };
    let left = || format!("{} is left as it is", main.path.display());
    let imports = containerd::imports(text).with_context(left)?;
    let folder = main.path.parent().unwrap_or(Path::new("/")).to_owned();
    let own = imports.folder.as_ref().map(|path| TextFile::read(&folder.join(path).join(containerd::DROP_IN))).transpose()?;
    let in_own = || Box::new(containerd::Config { runtime: &installed.runtime, main: Some(imports.main) });
    let mut files = Files::default();
    if imports.cri_disabled {
        files
            .notes
            .push(format!("{} disables the CRI plugin (disabled_plugins), and only that plugin reads the runtime", main.path.display()));
    }
    if !verb.remove && imports.replace_sections() {
        for import in imports.patterns.iter().flat_map(|pattern| matching(&folder.join(pattern))) {
            let file = TextFile::read(&import)?;
            if containerd::has_cri(file.text().unwrap_or_default()).with_context(|| import.display().to_string())? {
                bail!(
                    "{}: it imports {import}, whose section of the CRI plugin takes the place of its own: neuron-ctk configure containerd --config {import}",
                    left(),
                    import = import.display(),
                );
            }
        }
    }
    let absent = in_main().state(text).with_context(left)? == State::Absent;
    match own {
        // Both, for imports may have come or gone since.
        Some(own) if verb.remove => files.steps = vec![step(own, in_own()), step(main, in_main())],
        Some(own) if absent => files.steps.push(step(own, in_own())),
        _ => files.steps.push(step(main, in_main())),
    }
    Ok(files)
}

/// The files that a path matches, its last part with one `*` at most.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some((start, end)) = name.split_once('*') else { return vec![pattern.to_owned()] };
    let entries = pattern.parent().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| {
        path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with(start) && name.ends_with(end)
        })
    });
    found.sort();
    found
}

fn podman_files<'a>(verb: &Configure, installed: &'a Installed) -> Result<Files<'a>> {
    let file = TextFile::read(verb.config.as_deref().unwrap_or(Path::new(podman::FILE)))?;
    let hooks_dir = std::path::absolute(verb.hooks_dir.as_deref().unwrap_or(Path::new(podman::HOOKS_DIR)))?;
    let hook = TextFile::read(&hooks_dir.join(podman::HOOK_FILE))?;
    let hooks_dir = utf8(hooks_dir)?;
    let mut notes = Vec::new();
    let mut other_dirs = None;
    // A file that was named is read alone (CONTAINERS_CONF).
    if verb.config.is_none() {
        let folder = file.path.parent().unwrap_or(Path::new("/"));
        let beside = matching(&folder.join("*.conf"));
        for path in podman::READ_BEFORE.iter().map(PathBuf::from).chain(beside.iter().filter(|path| **path < file.path).cloned()) {
            other_dirs = dirs_after(&path, other_dirs)?;
        }
        for path in beside.iter().filter(|path| **path > file.path) {
            let after = dirs_after(path, Some(vec![hooks_dir.clone()]))?;
            if after.is_some_and(|dirs| !dirs.contains(&hooks_dir)) {
                notes.push(format!("{} is read after ours and names hooks_dir too: add {hooks_dir} there", path.display()));
            }
        }
    }
    let steps = vec![
        Step { file: hook, edit: Box::new(podman::Hook { hook: &installed.hook }), part: Part::Hook },
        Step { file, edit: Box::new(podman::Config { runtime: &installed.runtime, hooks_dir, other_dirs }), part: Part::Engine },
    ];
    Ok(Files { steps, notes })
}

fn dirs_after(path: &Path, before: Option<Vec<String>>) -> Result<Option<Vec<String>>> {
    let file = TextFile::read(path)?;
    podman::hooks_dirs(file.text().unwrap_or_default(), before).with_context(|| path.display().to_string())
}
