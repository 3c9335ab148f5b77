//! Files that somebody else could have written are not believed where chips are asked for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::host::{FakeHost, NOBODY, rules_over_nobody, skipped};
use crate::specs::asking;

fn set_mode(path: &PathBuf, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Makes what is to be trusted, by one grant.
fn used_host() -> FakeHost {
    let host = FakeHost::trn1();
    host.begin("first", &asking("1")).init().kill();
    host
}

#[test]
fn what_others_can_write_is_refused() {
    let host = used_host();
    let state = host.state_dir();
    for (path, wide, right) in [
        (host.config_toml(), 0o666, 0o644),
        (host.config_toml(), 0o664, 0o644),
        (state.clone(), 0o777, 0o755),
        (state.join("ledger.json"), 0o646, 0o644),
        (state.join("lock"), 0o666, 0o600),
    ] {
        set_mode(&path, wide);
        let message = host.refuses("c1", &asking("1"));
        set_mode(&path, right);
        assert!(message.contains(&path.display().to_string()) && message.contains("must not be writable by others"), "{message}");
    }
    host.begin("c1", &asking("1"));
}

#[test]
fn what_belongs_to_another_user_is_refused() {
    if !rules_over_nobody() {
        skipped("only root can give a file to another user");
        return;
    }
    let host = used_host();
    let state = host.state_dir();
    for path in [host.config_toml(), state.clone(), state.join("ledger.json"), state.join("lock")] {
        chown(&path, Some(NOBODY), None).unwrap();
        let message = host.refuses("c1", &asking("1"));
        chown(&path, Some(0), None).unwrap();
        assert!(message.contains(&path.display().to_string()) && message.contains("must belong to root (owner is uid 65534)"), "{message}");
    }
    host.begin("c1", &asking("1"));
}

#[test]
fn links_in_the_place_of_ledger_lock_and_folder_are_not_followed() {
    let host = used_host();
    let state = host.state_dir();
    for path in [state.join("ledger.json"), state.join("lock"), state] {
        let aside = host.folder().join("aside");
        fs::rename(&path, &aside).unwrap();
        symlink(&aside, &path).unwrap();
        let message = host.refuses("c1", &asking("1"));
        assert!(message.contains(&path.display().to_string()), "{message}");
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    host.begin("c1", &asking("1"));
}

#[test]
fn a_hook_that_others_could_have_written_is_refused() {
    let host = FakeHost::trn1();
    let hook = host.folder().join("hook");
    host.put(&hook, "#!/bin/sh\n");
    set_mode(&hook, 0o777);
    host.settings(&format!("hook-path = {hook:?}"));
    let message = host.refuses("c1", &asking("1"));
    assert!(message.contains(&hook.display().to_string()) && message.contains("writable by others"), "{message}");
    fs::remove_file(&hook).unwrap();
    assert!(host.refuses("c1", &asking("1")).contains("hook-path"));
}

#[test]
fn a_log_that_is_a_link_is_not_written_through() {
    let host = FakeHost::trn1();
    let target = host.folder().join("target");
    host.put(&target, "");
    symlink(&target, host.path("var/log/neuron-container-runtime.log")).unwrap();
    host.begin("c1", &asking("1"));
    assert_eq!(fs::read_to_string(&target).unwrap(), "");
}

/// `unshare --map-root-user` for an ordinary user: the real root is no user of that namespace, and its files seem to be nobody's.
fn in_a_user_namespace(host: &FakeHost, args: &[&str]) -> Option<std::process::Output> {
    let wrapper = host.program("neuron-container-runtime");
    let mut command = Command::new("unshare");
    command.arg("--map-root-user").args(args).env_clear().envs(wrapper.get_envs().map(|(key, value)| (key, value.unwrap())));
    command.current_dir("/").stdin(Stdio::null());
    if rules_over_nobody() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().ok()
}

/// Rootless Podman calls its runtime so, and what it calls, `/usr/bin/crun`, is the real root's.
#[test]
fn the_runtime_of_the_real_root_is_trusted_in_a_user_namespace_that_does_not_know_him() {
    let host = FakeHost::trn1();
    let ctk = host.bin().join("neuron-ctk");
    if in_a_user_namespace(&host, &[ctk.to_str().unwrap(), "--version"]).is_none_or(|output| !output.status.success()) {
        skipped("no user namespaces here, or the build folder is closed to other users");
        return;
    }
    host.put(&host.config_toml(), "runtimes = [\"/bin/sh\"]\n");
    if rules_over_nobody() {
        chown(host.config_toml(), Some(NOBODY), None).unwrap();
    }
    let wrapper = host.bin().join("neuron-container-runtime");
    let output = in_a_user_namespace(&host, &[wrapper.to_str().unwrap(), "-c", "exit 7"]).unwrap();
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(7), ""));
}
