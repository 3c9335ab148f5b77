//! The demo's stand-in for a low-level runtime, where there is no `runc` or no root.
//!
//! It makes the nodes of a spec, starts a process, runs the `createRuntime` hooks with the state on stdin, and lets the process go on when they
//! agree: what a runtime does for this tool. It isolates nothing.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde_json::{Value, json};

use crate::bundle::Bundle;
use crate::runtime::{Action, scan};

/// Runs as the stand-in, with a low-level runtime's arguments.
///
/// # Errors
/// What a runtime would stop at.
pub(in crate::cli) fn run(args: &[OsString]) -> Result<()> {
    let invocation = scan(args);
    ensure!(invocation.action == Action::Begin, "the stand-in can only create and run");
    let id = invocation.id.and_then(|id| id.to_str()).context("a container needs an id")?;
    let bundle = std::path::absolute(invocation.bundle.context("a container needs a bundle")?)?;
    let spec = Bundle::read(&bundle, None)?.document.value()?;
    let dev = bundle.join("rootfs/dev");
    fs::create_dir_all(&dev)?;
    make_nodes(&spec, &bundle.join("rootfs"))?;

    let mut init = Command::new(std::env::current_exe()?)
        .args(["inside", "--dev"])
        .arg(&dev)
        .env_clear()
        .envs(list(&spec["process"]["env"]).filter_map(|entry| entry.split_once('=')))
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("the container's process cannot be started")?;
    let state = json!({"ociVersion": "1.0.2", "id": id, "status": "creating", "pid": init.id(), "bundle": bundle});
    for hook in spec["hooks"]["createRuntime"].as_array().into_iter().flatten() {
        if let Err(error) = run_hook(hook, &state, &bundle) {
            init.kill()?;
            init.wait()?;
            return Err(error);
        }
    }
    fs::write(bundle.join("pid"), init.id().to_string())?;
    // It waits for its stdin to end.
    drop(init.stdin.take());
    Ok(())
}

fn make_nodes(spec: &Value, rootfs: &Path) -> Result<()> {
    let inside = |path: &Value| Some(rootfs.join(path.as_str()?.trim_start_matches('/')));
    for device in spec["linux"]["devices"].as_array().into_iter().flatten() {
        let path = inside(&device["path"]).context("a device has a path")?;
        let number = makedev(device["major"].as_u64().unwrap_or(0), device["minor"].as_u64().unwrap_or(0));
        if mknod(&path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), number).is_err() {
            fs::write(&path, "")?;
        }
    }
    for mount in spec["mounts"].as_array().into_iter().flatten().filter(|mount| mount["type"] == "bind") {
        let path = inside(&mount["destination"]).context("a mount has a destination")?;
        fs::hard_link(mount["source"].as_str().context("a bind mount has a source")?, path)?;
    }
    Ok(())
}

fn run_hook(hook: &Value, state: &Value, bundle: &Path) -> Result<()> {
    let mut args = list(&hook["args"]);
    let mut child = Command::new(hook["path"].as_str().context("a hook has a path")?)
        .arg0(args.next().context("a hook has arguments")?)
        .args(args)
        .env_clear()
        .envs(list(&hook["env"]).filter_map(|entry| entry.split_once('=')))
        .current_dir(bundle)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("a hook cannot be started")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(state.to_string().as_bytes())?;
    }
    let done = child.wait_with_output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("a createRuntime hook stopped the container: {}", said.trim().trim_start_matches("error: "));
    }
    Ok(())
}

fn list(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}
