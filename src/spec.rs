//! The edits of a `config.json`: [`apply`] puts a grant in, [`revert`] takes it out again.
//!
//! Pure: works on a [`Value`] with key order and the text of numbers kept. It guarantees that nothing else changes, that applying
//! twice is applying once, and that reverting gives back the very document. What it inserts is built from oci-spec's types; the
//! document itself is never read into them, because that loses unknown fields and fails on valid input.
//!
//! [`revert`] trusts nothing that it reads: it takes out only what this tool puts in, by its shape, so a forged annotation can take
//! from the forger only what this tool gives.

mod undo;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use oci_spec::runtime::{HookBuilder, LinuxDeviceBuilder, LinuxDeviceCgroupBuilder, LinuxDeviceType, MountBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::chip::DeviceNumber;
use crate::document::{part, part_mut};
use crate::grant::{LOGICAL_CONFIG, NUM_CORES, Node, VISIBLE_CORES};
use crate::peek::{LEASE_ANNOTATION, is_node_path};
use crate::request::VISIBLE_DEVICES;

use undo::Undo;
pub use undo::revert;

/// The annotation that holds what [`revert`] cannot see in the document.
const UNDO_ANNOTATION: &str = "neuron-container-runtime.undo";
/// The name by which our hook is called.
pub const HOOK_NAME: &str = "neuron-container-hook";
/// The hook's stage.
pub const HOOK_STAGE: &str = "createRuntime";
/// The capability to lock memory, which the Neuron runtime's buffers want.
const IPC_LOCK: &str = "CAP_IPC_LOCK";
/// How the host's node is mounted: no `nodev`, or it could not be opened.
const BIND_OPTIONS: [&str; 4] = ["bind", "rw", "nosuid", "noexec"];
/// The variables that a grant may set.
const VARIABLES: [&str; 4] = [VISIBLE_DEVICES, NUM_CORES, VISIBLE_CORES, LOGICAL_CONFIG];

/// How the granted nodes come into the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// They are there already, by the user's `--device`.
    #[default]
    Given,
    /// The runtime makes them from `linux.devices`.
    Devices,
    /// The host's nodes are bind-mounted: in a user namespace nobody can make them.
    Mounts,
}

/// What is to be put into a spec.
#[derive(Debug, Clone)]
pub struct Edit {
    /// The lease's id.
    pub lease: String,
    /// The nodes of the grant.
    pub nodes: Vec<Node>,
    /// How they get there.
    pub delivery: Delivery,
    /// The host's folder of device nodes, for bind mounts.
    pub host_dev: PathBuf,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Give the container `CAP_IPC_LOCK`?
    pub ipc_lock: bool,
    /// Take out the Neuron nodes that are not of the grant? (Privileged containers carry every node of the host.)
    pub only_these: bool,
    /// The hook's executable, absolute.
    pub hook: PathBuf,
    /// The hook's arguments after `--lease ID` and the nodes.
    pub hook_args: Vec<String>,
    /// Seconds after which the runtime gives up on the hook.
    pub hook_timeout: i64,
}

/// What a spec says of the container's user and namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The user of its process.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its further groups.
    pub groups: Vec<u32>,
    /// Has it a user namespace of its own?
    pub user_namespace: bool,
    /// Has it a pid namespace of its own, not one that it only joins?
    pub own_pid_namespace: bool,
    /// `root.path`, relative to the bundle or absolute.
    pub rootfs: Option<String>,
}

impl Subject {
    /// Reads it off a spec; what is not there is root's and the host's.
    #[must_use]
    pub fn of(spec: &Value) -> Self {
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let part = |pointer| part(spec, pointer).unwrap_or(&Value::Null);
        let user = part("/process/user");
        let groups = user["additionalGids"].as_array().map(|list| list.iter().filter_map(number).collect());
        let joins_none = |namespace: &Value| namespace["path"].is_null() || namespace["path"] == "";
        let namespaces = part("/linux/namespaces").as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            uid: number(&user["uid"]).unwrap_or(0),
            gid: number(&user["gid"]).unwrap_or(0),
            groups: groups.unwrap_or_default(),
            user_namespace: namespaces.iter().any(|namespace| namespace["type"] == "user"),
            own_pid_namespace: namespaces.iter().any(|namespace| namespace["type"] == "pid" && joins_none(namespace)),
            rootfs: part("/root/path").as_str().map(str::to_owned),
        }
    }
}

/// Does this spec bear our edits?
#[must_use]
pub fn is_edited(spec: &Value) -> bool {
    [LEASE_ANNOTATION, UNDO_ANNOTATION].iter().any(|key| spec["annotations"].get(key).is_some())
}

/// The lease that a spec says it bears.
#[must_use]
pub fn lease_of(spec: &Value) -> Option<&str> {
    spec["annotations"].get(LEASE_ANNOTATION)?.as_str()
}

/// Puts a grant into a spec; earlier edits are taken out first.
///
/// # Errors
/// A part of the document is of another type than the runtime specification gives it; the document is not to be used then.
pub fn apply(spec: &mut Value, edit: &Edit) -> Result<()> {
    revert(spec)?;
    let mut undo = Undo { delivery: edit.delivery, ..Undo::default() };
    match edit.delivery {
        Delivery::Given => {}
        Delivery::Devices => add_devices(spec, edit, &mut undo)?,
        Delivery::Mounts => {
            remove_devices(spec, edit, &mut undo)?;
            add_mounts(spec, edit, &mut undo)?;
        }
    }
    if edit.delivery != Delivery::Given {
        add_rules(spec, edit, &mut undo)?;
    }
    if edit.ipc_lock {
        add_capability(spec, &mut undo)?;
    }
    set_env(spec, &edit.env, &mut undo)?;
    add_hook(spec, edit, &mut undo)?;
    // Last, for it holds what the others noted.
    let annotations = map(spec, "/annotations", &mut undo)?;
    let undo = serde_json::to_string(&undo)?;
    annotations.insert(LEASE_ANNOTATION.to_owned(), edit.lease.clone().into());
    annotations.insert(UNDO_ANNOTATION.to_owned(), undo.into());
    Ok(())
}

/// Gives another process of a container what the container's own got: these variables, and the capability.
///
/// Of the cores its own word counts, as it does for the container itself.
///
/// # Errors
/// A part of it is of another type than the runtime specification gives it.
pub fn apply_to_session(process: Value, variables: &[(String, String)], ipc_lock: bool) -> Result<Value> {
    let said = |names: &[&str]| {
        let env = process.get("env").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        env.iter().filter_map(Value::as_str).any(|entry| names.iter().any(|name| self::names(entry, name)))
    };
    let (cores, lnc) = (said(&[NUM_CORES, VISIBLE_CORES]), said(&[LOGICAL_CONFIG]));
    let own_word = |name: &str| match name {
        NUM_CORES | VISIBLE_CORES => cores,
        LOGICAL_CONFIG => lnc,
        _ => false,
    };
    let variables: Vec<_> = variables.iter().filter(|(name, _)| !own_word(name)).cloned().collect();
    let mut spec = Value::Object([("process".to_owned(), process)].into_iter().collect());
    let mut undo = Undo::default();
    if ipc_lock {
        add_capability(&mut spec, &mut undo)?;
    }
    set_env(&mut spec, &variables, &mut undo)?;
    Ok(spec.get_mut("process").map(Value::take).unwrap_or_default())
}

fn add_devices(spec: &mut Value, edit: &Edit, undo: &mut Undo) -> Result<()> {
    remove_devices(spec, edit, undo)?;
    let subject = Subject::of(spec);
    let devices = list(spec, "/linux/devices", undo)?;
    for node in &edit.nodes {
        // The container's own user, so that it can open a node of mode 0660.
        let (uid, gid) = if subject.uid == 0 { (node.host.uid, node.host.gid) } else { (subject.uid, subject.gid) };
        let device = LinuxDeviceBuilder::default()
            .path(&node.path)
            .typ(LinuxDeviceType::C)
            .major(node.number.major)
            .minor(node.number.minor)
            .file_mode(node.host.mode)
            .uid(uid)
            .gid(gid)
            .build()?;
        devices.push(serde_json::to_value(device)?);
    }
    Ok(())
}

/// Takes out entries in the place of a granted node and, where only the granted ones may stay, every other Neuron node.
fn remove_devices(spec: &mut Value, edit: &Edit, undo: &mut Undo) -> Result<()> {
    let Some(devices) = part_mut(spec, "/linux/devices").filter(|value| !value.is_null()) else { return Ok(()) };
    let devices = devices.as_array_mut().context("linux.devices is no list")?;
    let mut position = 0;
    devices.retain(|entry| {
        let path = entry["path"].as_str().unwrap_or_default();
        let replaced = edit.nodes.iter().any(|node| node.path == path);
        let of_driver = entry["type"] == "c" && edit.nodes.iter().any(|node| node.device.chip().is_some() && entry["major"] == node.number.major);
        let out = entry["type"] == "c" && (replaced || edit.only_these && (of_driver || is_node_path(path)));
        if out {
            undo.devices.push((position, entry.clone()));
        }
        position = position.saturating_add(1);
        !out
    });
    Ok(())
}

fn add_rules(spec: &mut Value, edit: &Edit, undo: &mut Undo) -> Result<()> {
    let rules = list(spec, "/linux/resources/devices", undo)?;
    for node in &edit.nodes {
        rules.push(rule(node.number)?);
    }
    Ok(())
}

fn rule(number: DeviceNumber) -> Result<Value> {
    let rule = LinuxDeviceCgroupBuilder::default()
        .allow(true)
        .typ(LinuxDeviceType::C)
        .major(number.major)
        .minor(number.minor)
        .access("rw")
        .build()?;
    Ok(serde_json::to_value(rule)?)
}

fn add_mounts(spec: &mut Value, edit: &Edit, undo: &mut Undo) -> Result<()> {
    let mounts = list(spec, "/mounts", undo)?;
    // Before the mount of /dev they would be hidden by it.
    let dev = mounts.iter().rposition(|mount| mount["destination"].as_str().is_some_and(|at| at.trim_end_matches('/') == "/dev"));
    let after = dev.map_or(mounts.len(), |position| position.saturating_add(1));
    for (at, node) in (after..).zip(&edit.nodes) {
        let mount = MountBuilder::default()
            .destination(&node.path)
            .typ("bind")
            .source(edit.host_dev.join(node.device.node_name()))
            .options(BIND_OPTIONS.map(str::to_owned).to_vec())
            .build()?;
        mounts.insert(at, serde_json::to_value(mount)?);
    }
    Ok(())
}

fn add_capability(spec: &mut Value, undo: &mut Undo) -> Result<()> {
    // Without the last two a user other than root has no effective capability at all.
    let sets: &[&str] = match Subject::of(spec).uid {
        0 => &["bounding", "effective", "permitted"],
        _ => &["bounding", "effective", "permitted", "inheritable", "ambient"],
    };
    for set in sets {
        let list = list(spec, &format!("/process/capabilities/{set}"), undo)?;
        if !list.iter().any(|capability| capability == IPC_LOCK) {
            list.push(IPC_LOCK.into());
            undo.sets.push((*set).to_owned());
        }
    }
    Ok(())
}

fn set_env(spec: &mut Value, variables: &[(String, String)], undo: &mut Undo) -> Result<()> {
    if variables.is_empty() {
        return Ok(());
    }
    let env = list(spec, "/process/env", undo)?;
    for (name, value) in variables {
        let entry = format!("{name}={value}");
        let mut replaced = false;
        // Every occurrence: some programs take the first, some the last.
        for (position, old) in env.iter_mut().enumerate() {
            if let Some(text) = old.as_str().filter(|text| names(text, name)) {
                undo.env.push((position, text.to_owned()));
                *old = entry.clone().into();
                replaced = true;
            }
        }
        if !replaced {
            env.push(entry.into());
            undo.added.push(name.clone());
        }
    }
    Ok(())
}

/// Is this environment entry of that variable?
fn names(entry: &str, name: &str) -> bool {
    entry.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
}

fn add_hook(spec: &mut Value, edit: &Edit, undo: &mut Undo) -> Result<()> {
    ensure!(edit.hook.is_absolute(), "the hook's path {} is not absolute", edit.hook.display());
    let mut args = [HOOK_NAME, HOOK_STAGE, "--lease", &edit.lease].map(str::to_owned).to_vec();
    for node in &edit.nodes {
        args.extend(["--node".to_owned(), node.to_argument()]);
    }
    args.extend_from_slice(&edit.hook_args);
    let hook = HookBuilder::default()
        .path(&*edit.hook)
        .args(args)
        // Never the runtime's environment, and never the image's (CVE-2025-23266).
        .env(vec!["PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned()])
        .timeout(edit.hook_timeout)
        .build()?;
    list(spec, "/hooks/createRuntime", undo)?.push(serde_json::to_value(hook)?);
    Ok(())
}

/// The list at a pointer, made with all that it stands in where it is missing.
fn list<'a>(spec: &'a mut Value, pointer: &str, undo: &mut Undo) -> Result<&'a mut Vec<Value>> {
    let (parent, key) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    let list = make(map(spec, parent, undo)?, key, pointer, || Value::Array(Vec::new()), undo);
    list.as_array_mut().with_context(|| format!("{pointer} is no list"))
}

/// The map at a pointer, made with all that it stands in where it is missing.
fn map<'a>(spec: &'a mut Value, pointer: &str, undo: &mut Undo) -> Result<&'a mut Map<String, Value>> {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return spec.as_object_mut().context("the spec is no map") };
    let map = make(self::map(spec, parent, undo)?, key, pointer, || Value::Object(Map::new()), undo);
    map.as_object_mut().with_context(|| format!("{pointer} is no map"))
}

/// What is called so in a map; the pointer to it is noted where it has to be made.
fn make<'a>(map: &'a mut Map<String, Value>, key: &str, pointer: &str, empty: fn() -> Value, undo: &mut Undo) -> &'a mut Value {
    let entry = map.entry(key).or_insert_with(|| {
        undo.made.push(pointer.to_owned());
        empty()
    });
    if entry.is_null() {
        undo.made.push(pointer.to_owned());
        undo.nulls.push(pointer.to_owned());
        *entry = empty();
    }
    entry
}

#[cfg(test)]
mod tests;
