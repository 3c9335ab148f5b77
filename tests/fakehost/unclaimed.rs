//! Chips that a process uses without a lease of this tool: seen, shown, not granted.
//!
//! No driver is behind a simulated node, so that nobody can open it; a regular file stands for one here, as where there is no root. It is
//! opened as `/dev/neuron3` in a mount namespace of its own, and only root can make one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::host::{FakeHost, is_root, skipped, wait_until};
use crate::specs::asking;

/// A process that has a chip open, until it is dropped.
struct Outsider(Child);

impl Outsider {
    /// Opens `/dev/neuron3` with these flags, under this name; there is no driver behind it, so a file of the same name stands for it.
    fn new(host: &FakeHost, name: &str, redirection: &str) -> Option<Self> {
        if !is_root() {
            skipped("only root can mount over /dev");
            return None;
        }
        let shell = host.folder().join("bin").join(name);
        fs::copy("/bin/sh", &shell).unwrap();
        let ready = host.folder().join(format!("ready-{name}"));
        let dev = host.folder().join("outside-dev");
        fs::create_dir_all(&dev).unwrap();
        let node = host.path("dev/neuron3");
        if host.real_nodes() {
            fs::remove_file(&node).unwrap();
            fs::write(&node, "").unwrap();
            fs::set_permissions(&node, PermissionsExt::from_mode(0o666)).unwrap();
        }
        let script = format!(
            "mount -t tmpfs none {dev} && touch {dev}/neuron3 && mount --bind {node} {dev}/neuron3 && mkdir {dev}/shm && mount --bind /dev/shm {dev}/shm && mount --rbind {dev} /dev && exec {shell} -c 'exec 9{redirection}/dev/neuron3; : >{ready}; read x'",
            dev = dev.display(),
            node = node.display(),
            shell = shell.display(),
            ready = ready.display(),
        );
        let child =
            Command::new("unshare").args(["--mount", "--propagation", "private", "sh", "-c", &script]).stdin(Stdio::piped()).spawn();
        let child = Self(child.unwrap());
        wait_until("the outsider's word", || ready.exists());
        host.put(&host.path("sys/module/neuron/refcnt"), "1\n");
        Some(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_chip_that_somebody_uses_is_not_granted() {
    let host = FakeHost::trn1();
    let Some(outsider) = Outsider::new(&host, "python3", "<>") else { return };
    let by = format!("in use outside this tool by python3 (pid {})", outsider.pid());
    assert_eq!(host.refuses("c1", &asking("id:3")), format!("asked for Neuron chip 3: chip 3 is {by}"));
    assert!(host.refuses("c1", &asking("all")).contains(&format!("15 of 16 are free: 3 {by}")));
    assert_eq!(host.chips_in("unclaimed"), [3]);
    assert_eq!(host.status()["chips"][3]["users"], json!([{"pid": outsider.pid(), "command": "python3", "observer": false}]));
    assert!(String::from_utf8(host.ctk(&["status"]).stdout).unwrap().contains(&format!("\nchip 3 is {by}\n")));
    // 0-1 and 1-2 keep the same blocks whole, so the lower one.
    assert_eq!(host.begin("c1", &asking("2")).config()["annotations"]["aws.amazon.com/neuron"], "2");
    assert_eq!(host.leases(), [("c1".to_owned(), vec![0, 1])]);
    drop(outsider);
    host.begin("c3", &asking("id:3"));
}

#[test]
fn it_can_be_turned_off_and_costs_nothing_while_the_driver_is_not_used() {
    let host = FakeHost::trn1();
    let Some(_outsider) = Outsider::new(&host, "python3", "<>") else { return };
    host.settings("avoid-unclaimed = false");
    host.begin("c1", &asking("id:3")).init().kill();
    host.settings("");
    host.put(&host.path("sys/module/neuron/refcnt"), "0\n");
    host.begin("c1", &asking("id:3"));
}

#[test]
fn who_only_watches_or_only_writes_does_not_use_a_chip() {
    for (name, redirection, settings, users) in
        [("neuron-monitor", "<>", "", 1), ("my-monitor", "<>", "observers = [\"my-monitor\"]", 1), ("python3", ">", "", 0)]
    {
        let host = FakeHost::trn1();
        let Some(_outsider) = Outsider::new(&host, name, redirection) else { return };
        host.settings(settings);
        assert_eq!(host.chips_in("unclaimed"), [] as [u64; 0], "{name}");
        assert_eq!(host.status()["chips"][3]["users"].as_array().unwrap().len(), users, "{name}");
        host.begin("c1", &asking("id:3"));
    }
}

/// What a container uses of its own chips is covered by its lease.
#[test]
fn use_that_a_lease_covers_is_none_outside() {
    let host = FakeHost::trn1();
    host.begin("c1", &asking("id:3"));
    let Some(_outsider) = Outsider::new(&host, "python3", "<>") else { return };
    assert_eq!((host.chips_in("held"), host.chips_in("unclaimed")), (vec![3], vec![]));
    host.begin("c2", &asking("4"));
}

/// A container may mount a file system of its own at such a name, and answer nothing that it is asked (FUSE).
#[test]
fn a_file_system_that_answers_nobody_keeps_nobody_waiting() {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        skipped("only root can mount a file system, and one by FUSE needs /dev/fuse");
        return;
    }
    let host = FakeHost::trn1();
    let (dev, ready) = (host.folder().join("mute-dev"), host.folder().join("ready"));
    fs::create_dir(&dev).unwrap();
    let script = format!(
        "mount -t tmpfs none {dev} && touch {dev}/neuron3 {dev}/null && mount --bind /dev/null {dev}/null && mkdir {dev}/shm && mount --bind /dev/shm {dev}/shm && exec 8<>/dev/fuse &&
        mount -i -t fuse -o fd=8,rootmode=100000,user_id=0,group_id=0 none {dev}/neuron3 && mount --rbind {dev} /dev &&
        exec {standin} --name-a-file /dev/neuron3 {ready}",
        dev = dev.display(),
        ready = ready.display(),
        standin = host.folder().join("bin/standin-runtime").display(),
    );
    let child = Command::new("unshare").args(["--mount", "--propagation", "private", "sh", "-c", &script]).stdin(Stdio::piped()).spawn();
    let _child = Outsider(child.unwrap());
    wait_until("the file's descriptor", || ready.exists());
    host.put(&host.path("sys/module/neuron/refcnt"), "1\n");
    let claim = host.start(&host.bundle("c1", &asking("1")), "c1", "");
    wait_until("an answer", || claim.has_init());
    claim.finish().ok();
}
