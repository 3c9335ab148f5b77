//! containerd's `config.toml`: a runtime of its CRI plugin.
//!
//! Two facts decide what is written where; both were seen in `containerd config dump` of 1.6.20, 1.7.24 and 2.1.9:
//!
//! - Up to 1.7 a plugin's section of an imported file takes the place of the main file's whole section (`mergeConfig` in
//!   services/server/config/config.go; containerd issue 5837). So there the main file is edited, and refused where an import has the
//!   section. From 2.0 on sections are merged (containerd pull request 9982): a file of our own goes where `imports` looks.
//! - Up to 1.7 a file that names any runtime drops containerd's own `runc` (containerd issue 7982). So where no runtime is named,
//!   `runc` is entered beside ours.

use anyhow::{Context, Result};
use toml_edit::{Array, DocumentMut, Item, Table, Value};

use super::{Edit, RUNTIME, Role, State, is_wrapper, tables};
use crate::words::quoted;

/// Where containerd looks unless `--config` says otherwise.
pub const FILE: &str = "/etc/containerd/config.toml";
/// Our file in a folder of imports.
pub const DROP_IN: &str = "99-neuron.toml";

/// The runtime that is there by default, and its shim.
const RUNC: &str = "runc";
const SHIM: &str = "io.containerd.runc.v2";

/// The CRI plugin's name in files of version 1, 2, and from 3 on.
const PLUGINS: [&str; 3] = ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"];

/// The main file, or a file that it imports.
#[derive(Debug)]
pub struct Config<'a> {
    /// The wrapper, absolute.
    pub runtime: &'a str,
    /// What the main file says, where this is a file of our own beside it.
    pub main: Option<Main>,
}

/// What a file of our own takes from the main one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Main {
    version: i64,
    systemd_cgroup: Option<bool>,
}

impl Edit for Config<'_> {
    fn state(&self, text: &str) -> Result<State> {
        let document = tables::parse(text)?;
        let path = runtime(plugin(&document), RUNTIME);
        let Some(item) = tables::get(&document, &path) else { return Ok(State::Absent) };
        let binary = item.get("options").and_then(|options| options.get("BinaryName")).and_then(Item::as_str);
        Ok(match binary {
            Some(binary) if is_wrapper(binary) => State::Ours,
            Some(binary) => State::Foreign(quoted(binary)),
            None => State::Foreign("a runtime without BinaryName".to_owned()),
        })
    }

    fn put_in(&self, text: &str, role: Role) -> Result<String> {
        let mut document = tables::parse(text)?;
        if document.as_table().is_empty() {
            // 2 is understood by 1.3 and by everything since.
            let version = self.main.map_or(2, |main| main.version);
            tables::put(&mut document, &["version"], version.into())?;
        }
        let plugin = plugin(&document);
        let default_name = [&section(plugin)[..], &["default_runtime_name"]].concat();
        let others = tables::get(&document, &runtimes(plugin)).and_then(Item::as_table_like);
        let none_named = others.is_none_or(|others| others.iter().all(|(name, _)| name == RUNTIME));
        let systemd_cgroup = match self.main {
            Some(main) => main.systemd_cgroup,
            None => systemd_cgroup(&document),
        };
        if role == Role::Default {
            tables::put(&mut document, &default_name, RUNTIME.into())?;
        }
        if none_named && self.main.is_none() {
            tables::put_table(&mut document, &runtime(plugin, RUNC), entry(&[("runtime_type", SHIM.into())]))?;
        }
        let mut ours = entry(&[("runtime_type", SHIM.into()), ("pod_annotations", ["aws.amazon.com/*"].into_iter().collect::<Array>().into())]);
        let mut options = entry(&[("BinaryName", self.runtime.into())]);
        if let Some(systemd_cgroup) = systemd_cgroup {
            options.insert("SystemdCgroup", Item::Value(systemd_cgroup.into()));
        }
        ours.insert("options", Item::Table(options));
        tables::put_table(&mut document, &runtime(plugin, RUNTIME), ours)?;
        Ok(tables::written(&document))
    }

    fn take_out(&self, text: &str, before: Option<&str>) -> Result<String> {
        let mut document = tables::parse(text)?;
        let before = before.map(tables::parse).transpose()?;
        let plugin = plugin(&document);
        tables::back(&mut document, &runtime(plugin, RUNTIME), before.as_ref());
        let runc = runtime(plugin, RUNC);
        let untouched = |item: &Item| tables::alike(item, &Item::Table(entry(&[("runtime_type", SHIM.into())])));
        if tables::get(&document, &runc).is_some_and(untouched) {
            tables::back(&mut document, &runc, before.as_ref());
        }
        let default_name = [&section(plugin)[..], &["default_runtime_name"]].concat();
        if tables::text(&document, &default_name) == Some(RUNTIME) {
            tables::back(&mut document, &default_name, before.as_ref());
        }
        // What somebody has added since is of the version that they found.
        let only_version = document.as_table().len() == 1 && document.contains_key("version");
        if only_version && before.as_ref().is_none_or(|before| !before.contains_key("version")) {
            tables::back(&mut document, &["version"], before.as_ref());
        }
        Ok(tables::left(&document))
    }
}

fn entry(values: &[(&str, Value)]) -> Table {
    let mut table = Table::new();
    for (name, value) in values {
        table.insert(name, Item::Value(value.clone()));
    }
    table
}

/// The CRI plugin's name in this file: the one that it uses, else the one of its version.
fn plugin(document: &DocumentMut) -> &'static str {
    let used = PLUGINS.into_iter().find(|plugin| tables::get(document, &["plugins", plugin]).is_some());
    used.unwrap_or_else(|| match version(document) {
        ..=1 => PLUGINS[0],
        2 => PLUGINS[1],
        _ => PLUGINS[2],
    })
}

fn version(document: &DocumentMut) -> i64 {
    tables::get(document, &["version"]).and_then(Item::as_integer).unwrap_or(1)
}

fn section(plugin: &'static str) -> [&'static str; 3] {
    ["plugins", plugin, "containerd"]
}

fn runtimes(plugin: &'static str) -> [&'static str; 4] {
    ["plugins", plugin, "containerd", "runtimes"]
}

fn runtime(plugin: &'static str, name: &'static str) -> [&'static str; 5] {
    ["plugins", plugin, "containerd", "runtimes", name]
}

fn systemd_cgroup(document: &DocumentMut) -> Option<bool> {
    let path = [&runtime(plugin(document), RUNC)[..], &["options", "SystemdCgroup"]].concat();
    tables::get(document, &path)?.as_bool()
}

/// What a main file says of the files that it imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imports {
    /// Paths and patterns as they stand there, relative ones to the file's folder.
    pub patterns: Vec<String>,
    /// Where a file of our own goes: the folder of a pattern, where imports are merged.
    pub folder: Option<String>,
    /// What our own file takes from this one.
    pub main: Main,
    /// Is the CRI plugin switched off?
    pub cri_disabled: bool,
}

/// Reads what a main file imports.
///
/// # Errors
/// It does not parse.
pub fn imports(text: &str) -> Result<Imports> {
    let document = tables::parse(text)?;
    let list = |name: &str| -> Vec<String> {
        let items = tables::get(&document, &[name]).and_then(Item::as_array).into_iter().flatten();
        items.filter_map(|item| Some(item.as_str()?.to_owned())).collect()
    };
    let patterns = list("imports");
    let version = version(&document);
    let whole_folder = |pattern: &String| pattern.strip_suffix("/*.toml").filter(|folder| !folder.contains(['*', '?', '['])).map(str::to_owned);
    let folder = patterns.iter().find_map(whole_folder).filter(|_| version >= 3);
    let cri_disabled = list("disabled_plugins").iter().any(|name| PLUGINS.contains(&name.as_str()));
    Ok(Imports { patterns, folder, main: Main { version, systemd_cgroup: systemd_cgroup(&document) }, cri_disabled })
}

impl Imports {
    /// Do imported sections take the place of the main file's, as far as its version tells?
    #[must_use]
    pub fn replace_sections(&self) -> bool {
        self.main.version <= 2
    }
}

/// Has this file a section of the CRI plugin?
///
/// # Errors
/// It does not parse.
pub fn has_cri(text: &str) -> Result<bool> {
    let document = tables::parse(text).context("an imported file")?;
    Ok(PLUGINS.into_iter().any(|plugin| tables::get(&document, &["plugins", plugin]).is_some()))
}
