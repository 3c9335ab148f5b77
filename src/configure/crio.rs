//! CRI-O's configuration: a runtime in a file of our own.
//!
//! Annotations of a pod reach the spec of its containers without being named (cri-o internal/factory/container,
//! `SpecAddAnnotations`); `allowed_annotations` governs CRI-O's own experimental ones only (`FilterDisallowedAnnotations`).

use anyhow::Result;
use toml_edit::{Item, Table, Value};

use super::{Edit, RUNTIME, Role, State, is_wrapper, tables};
use crate::words::quoted;

/// Our file, which CRI-O reads after its own.
pub const FILE: &str = "/etc/crio/crio.conf.d/99-neuron.conf";

const ENTRY: [&str; 4] = ["crio", "runtime", "runtimes", RUNTIME];
const DEFAULT: [&str; 3] = ["crio", "runtime", "default_runtime"];

/// A file of CRI-O's.
#[derive(Debug)]
pub struct Config<'a> {
    /// The wrapper, absolute.
    pub runtime: &'a str,
}

impl Edit for Config<'_> {
    fn state(&self, text: &str) -> Result<State> {
        let document = tables::parse(text)?;
        let Some(entry) = tables::get(&document, &ENTRY) else { return Ok(State::Absent) };
        Ok(match entry.get("runtime_path").and_then(Item::as_str) {
            Some(path) if is_wrapper(path) => State::Ours,
            Some(path) => State::Foreign(quoted(path)),
            None => State::Foreign("a runtime without runtime_path".to_owned()),
        })
    }

    fn put_in(&self, text: &str, role: Role) -> Result<String> {
        let mut document = tables::parse(text)?;
        if role == Role::Default {
            tables::put(&mut document, &DEFAULT, RUNTIME.into())?;
        }
        let mut entry = Table::new();
        entry.insert("runtime_path", Item::Value(Value::from(self.runtime)));
        entry.insert("runtime_type", Item::Value("oci".into()));
        tables::put_table(&mut document, &ENTRY, entry)?;
        Ok(tables::written(&document))
    }

    fn take_out(&self, text: &str, before: Option<&str>) -> Result<String> {
        let mut document = tables::parse(text)?;
        let before = before.map(tables::parse).transpose()?;
        tables::back(&mut document, &ENTRY, before.as_ref());
        tables::back_from(&mut document, &DEFAULT, RUNTIME, before.as_ref());
        Ok(tables::left(&document))
    }
}
