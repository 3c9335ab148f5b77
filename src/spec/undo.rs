//! Taking the edits out again.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BIND_OPTIONS, Delivery, HOOK_NAME, HOOK_STAGE, IPC_LOCK, UNDO_ANNOTATION, VARIABLES, is_edited, names, rule};
use crate::chip::DeviceNumber;
use crate::document::part_mut;
use crate::grant;
use crate::peek::{LEASE_ANNOTATION, is_node_path};

/// What [`revert`] needs beside the document itself.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Undo {
    /// How nodes were delivered.
    pub(super) delivery: Delivery,
    /// Lists and maps that were not there, as JSON pointers, in the order of their making.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) made: Vec<String>,
    /// The same for those that were `null`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) nulls: Vec<String>,
    /// Environment entries that were replaced: position and old text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) env: Vec<(usize, String)>,
    /// Names of the variables that were added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) added: Vec<String>,
    /// Capability sets that `CAP_IPC_LOCK` was added to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) sets: Vec<String>,
    /// Device entries that were taken out: position and entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) devices: Vec<(usize, Value)>,
}

/// Takes our edits out of a spec, and returns the lease that it bore.
///
/// # Errors
/// As [`apply`](super::apply).
pub fn revert(spec: &mut Value) -> Result<Option<String>> {
    if !is_edited(spec) {
        return Ok(None);
    }
    let mut lease = None;
    let mut undo = Undo::default();
    if let Some(annotations) = part_mut(spec, "/annotations").and_then(Value::as_object_mut) {
        lease = annotations.shift_remove(LEASE_ANNOTATION).and_then(|value| value.as_str().map(str::to_owned));
        let text = annotations.shift_remove(UNDO_ANNOTATION);
        undo = text.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    }
    let nodes = remove_hooks(spec);
    unset_env(spec, &undo);
    remove_capability(spec, &undo);
    if undo.delivery != Delivery::Given {
        for node in &nodes {
            let rule = rule(node.number)?;
            remove_last(part_mut(spec, "/linux/resources/devices"), |entry| *entry == rule);
            remove_last(part_mut(spec, "/mounts"), |entry| undo.delivery == Delivery::Mounts && node.is_mount(entry));
            remove_last(part_mut(spec, "/linux/devices"), |entry| undo.delivery == Delivery::Devices && node.is_device(entry));
        }
    }
    if let Some(devices) = part_mut(spec, "/linux/devices").and_then(Value::as_array_mut) {
        for (position, entry) in undo.devices {
            let of_driver = nodes.iter().any(|node| entry.get("major").is_some_and(|major| *major == node.number.major));
            let at_node = entry.get("path").and_then(Value::as_str).is_some_and(is_node_path);
            let ours = entry.get("type").is_some_and(|kind| kind == "c") && (at_node || of_driver);
            if ours && position <= devices.len() {
                devices.insert(position, entry);
            }
        }
    }
    for pointer in undo.made.iter().rev() {
        unmake(spec, pointer, &undo.nulls);
    }
    Ok(lease)
}

fn unset_env(spec: &mut Value, undo: &Undo) {
    let Some(env) = part_mut(spec, "/process/env").and_then(Value::as_array_mut) else { return };
    for name in undo.added.iter().rev().filter(|name| VARIABLES.contains(&name.as_str())) {
        if let Some(position) = env.iter().rposition(|entry| entry.as_str().is_some_and(|text| names(text, name))) {
            env.remove(position);
        }
    }
    for (position, old) in &undo.env {
        let name = VARIABLES.iter().find(|name| names(old, name));
        let entry = env.get_mut(*position).filter(|entry| name.is_some_and(|name| entry.as_str().is_some_and(|text| names(text, name))));
        if let Some(entry) = entry {
            *entry = old.clone().into();
        }
    }
}

fn remove_capability(spec: &mut Value, undo: &Undo) {
    for set in &undo.sets {
        remove_last(part_mut(spec, "/process/capabilities").and_then(|sets| sets.get_mut(set)), |capability| capability == IPC_LOCK);
    }
}

/// A node as a hook entry of ours names it.
struct Named {
    path: String,
    source: String,
    number: DeviceNumber,
}

impl Named {
    fn is_device(&self, entry: &Value) -> bool {
        entry["type"] == "c" && entry["path"] == *self.path && entry["major"] == self.number.major && entry["minor"] == self.number.minor
    }

    fn is_mount(&self, entry: &Value) -> bool {
        let source = entry["source"].as_str().map(Path::new);
        entry["type"] == "bind"
            && entry["destination"] == *self.path
            && entry["options"] == Value::from(BIND_OPTIONS.to_vec())
            && source.is_some_and(|path| path.ends_with(&self.source))
    }
}

/// Takes out our hook entries, and returns the nodes that they name, the last first.
fn remove_hooks(spec: &mut Value) -> Vec<Named> {
    let mut nodes = Vec::new();
    let Some(hooks) = part_mut(spec, "/hooks/createRuntime").and_then(Value::as_array_mut) else { return nodes };
    hooks.retain(|hook| {
        let args: Vec<&str> = hook["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let ours = args.starts_with(&[HOOK_NAME, HOOK_STAGE, "--lease"]);
        if ours {
            let named = args.iter().zip(args.iter().skip(1)).filter(|(flag, _)| **flag == "--node").filter_map(|(_, node)| grant::parse_argument(node));
            nodes.extend(named.map(|(device, path, number)| Named { path: path.to_owned(), source: device.node_name(), number }));
        }
        !ours
    });
    nodes.reverse();
    nodes
}

fn remove_last(list: Option<&mut Value>, wanted: impl Fn(&Value) -> bool) {
    if let Some(list) = list.and_then(Value::as_array_mut)
        && let Some(position) = list.iter().rposition(wanted)
    {
        list.remove(position);
    }
}

/// Takes out a list or map that [`make`] made, if it is empty now.
fn unmake(spec: &mut Value, pointer: &str, nulls: &[String]) {
    let (parent, key) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    let Some(parent) = part_mut(spec, parent).and_then(Value::as_object_mut) else { return };
    let empty = match parent.get(key) {
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        _ => false,
    };
    if empty && nulls.iter().any(|null| null == pointer) {
        parent.insert(key.to_owned(), Value::Null);
    } else if empty {
        parent.shift_remove(key);
    }
}
