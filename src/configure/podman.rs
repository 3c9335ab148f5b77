//! Podman's `containers.conf` (the runtime, and the folders of hooks) and the file of our hook.

use anyhow::{Context, Result};
use serde_json::Value as Json;
use toml_edit::{Array, DocumentMut, Item, Value};

use super::{Edit, RUNTIME, Role, State, is_wrapper, json, tables};
use crate::spec::HOOK_NAME;
use crate::words::quoted;

/// Our file, which is read after `containers.conf`.
pub const FILE: &str = "/etc/containers/containers.conf.d/99-neuron.conf";
/// What is read before it, in this order; then the other files of its folder that sort before.
pub const READ_BEFORE: [&str; 2] = ["/usr/share/containers/containers.conf", "/etc/containers/containers.conf"];
/// A folder for our hook alone: CRI-O fails on a file of the stage precreate in its own folder, which is Podman's default one too.
pub const HOOKS_DIR: &str = "/etc/neuron-container-runtime/hooks.d";
/// The hook's file in it.
pub const HOOK_FILE: &str = "neuron-precreate.json";

/// Podman's folders where nothing names any (containers/common, `DefaultHooksDirs`; libpod, `hooks.OverrideDir`): a list of ours
/// takes their place.
const DEFAULT_HOOKS_DIRS: [&str; 2] = ["/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d"];

const ENTRY: [&str; 3] = ["engine", "runtimes", RUNTIME];
const DEFAULT: [&str; 2] = ["engine", "runtime"];
const DIRS: [&str; 2] = ["engine", "hooks_dir"];

/// A `containers.conf`.
#[derive(Debug)]
pub struct Config<'a> {
    /// The wrapper, absolute.
    pub runtime: &'a str,
    /// The folder of our hook, absolute.
    pub hooks_dir: String,
    /// The folders that files read before this one name.
    pub other_dirs: Option<Vec<String>>,
}

impl Config<'_> {
    fn others(&self) -> Vec<String> {
        self.other_dirs.clone().unwrap_or_else(|| DEFAULT_HOOKS_DIRS.map(str::to_owned).to_vec())
    }

    /// The list with our folder in it; where there is none yet, with those that it would hide.
    fn add_dir(&self, document: &mut DocumentMut) -> Result<()> {
        let Some(list) = tables::get_mut(document, &DIRS).and_then(Item::as_array_mut) else {
            let list: Array = self.others().iter().chain([&self.hooks_dir]).map(String::as_str).collect();
            return tables::put(document, &DIRS, list.into());
        };
        for dir in self.other_dirs.iter().flatten().chain([&self.hooks_dir]) {
            if !strings(list).contains(dir) {
                list.push(dir.as_str());
            }
        }
        Ok(())
    }

    /// The list without our folder; one that holds nothing of somebody else's own goes.
    fn take_dir_out(&self, document: &mut DocumentMut, before: Option<&DocumentMut>) {
        let Some(list) = tables::get_mut(document, &DIRS).and_then(Item::as_array_mut) else { return };
        list.retain(|dir| dir.as_str() != Some(&self.hooks_dir));
        let left = strings(list);
        let had = before.and_then(|before| tables::get(before, &DIRS)).and_then(Item::as_array).map(strings);
        // A file that was made for us has no list of its own; files that were read before it may have changed since.
        if before.is_none() || left == had.unwrap_or_else(|| self.others()) {
            tables::back(document, &DIRS, before);
        }
    }
}

impl Edit for Config<'_> {
    fn state(&self, text: &str) -> Result<State> {
        let document = tables::parse(text)?;
        let Some(entry) = tables::get(&document, &ENTRY) else { return Ok(State::Absent) };
        let paths: Vec<_> = entry.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        Ok(if paths.iter().any(|path| is_wrapper(path)) { State::Ours } else { State::Foreign(quoted(&paths.join(", "))) })
    }

    fn put_in(&self, text: &str, role: Role) -> Result<String> {
        let mut document = tables::parse(text)?;
        self.add_dir(&mut document)?;
        if role == Role::Default {
            tables::put(&mut document, &DEFAULT, RUNTIME.into())?;
        }
        tables::put(&mut document, &ENTRY, [self.runtime].into_iter().collect::<Array>().into())?;
        Ok(tables::written(&document))
    }

    fn take_out(&self, text: &str, before: Option<&str>) -> Result<String> {
        let mut document = tables::parse(text)?;
        let before = before.map(tables::parse).transpose()?;
        tables::back(&mut document, &ENTRY, before.as_ref());
        tables::back_from(&mut document, &DEFAULT, RUNTIME, before.as_ref());
        self.take_dir_out(&mut document, before.as_ref());
        Ok(tables::left(&document))
    }
}

fn strings(list: &Array) -> Vec<String> {
    list.iter().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}

/// The folders of hooks that are in force after this `containers.conf`, where these were before it; none where no file names any.
///
/// # Errors
/// It does not parse.
pub fn hooks_dirs(text: &str, before: Option<Vec<String>>) -> Result<Option<Vec<String>>> {
    let document = tables::parse(text)?;
    let Some(list) = tables::get(&document, &DIRS).and_then(Item::as_array) else { return Ok(before) };
    // `{append = true}` adds to what is there (containers.conf(5), from Podman 4.8 on).
    let appends = list.iter().any(|item| item.as_inline_table().is_some_and(|set| set.get("append").and_then(Value::as_bool) == Some(true)));
    let there = if appends { before.unwrap_or_else(|| DEFAULT_HOOKS_DIRS.map(str::to_owned).to_vec()) } else { Vec::new() };
    Ok(Some([there, strings(list)].concat()))
}

/// The hook's file: `hooks/neuron-precreate.json` with the installed hook's path.
#[derive(Debug)]
pub struct Hook<'a> {
    /// The hook, absolute.
    pub hook: &'a str,
}

impl Edit for Hook<'_> {
    fn state(&self, text: &str) -> Result<State> {
        let file: Json = serde_json::from_str(text)?;
        let path = file["hook"]["path"].as_str().unwrap_or_default();
        Ok(if path.rsplit('/').next() == Some(HOOK_NAME) { State::Ours } else { State::Foreign(quoted(path)) })
    }

    fn put_in(&self, _: &str, _: Role) -> Result<String> {
        let text = json::set(include_str!("../../hooks/neuron-precreate.json"), &["hook", "path"], &self.hook.into())?;
        // Its own path is how the hook finds what it is to put into specs.
        json::set(&text, &["hook", "args"], &[self.hook, "precreate"].as_slice().into()).context("the hook's own file")
    }

    fn take_out(&self, _: &str, before: Option<&str>) -> Result<String> {
        Ok(before.unwrap_or_default().to_owned())
    }
}
