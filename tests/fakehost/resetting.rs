//! `neuron-ctk reset`: a thread plays the driver.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde_json::json;

use crate::host::{FakeHost, listing, wait_until};
use crate::specs::{asking, given};

/// Takes the order to reset, does `meanwhile`, resets, and is done once the program has seen that.
fn driver(file: &Path, meanwhile: impl Fn()) {
    wait_until("the order to reset", || fs::read_to_string(file).unwrap() == "1");
    meanwhile();
    fs::write(file, "0\n").unwrap();
    let reads = Inotify::init(InitFlags::empty()).unwrap();
    reads.add_watch(file, AddWatchFlags::IN_CLOSE_NOWRITE).unwrap();
    // The first look may have begun before.
    for _ in 0..2 {
        reads.read_events().unwrap();
    }
    fs::write(file, "1\n").unwrap();
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8(output.stderr.clone()).unwrap())
}

#[test]
fn chips_that_are_being_reset_are_nobody_elses() {
    let host = FakeHost::new("inf1.6xlarge");
    let file = |chip: u32| host.path(&format!("sys/class/neuron_device/neuron{chip}/reset"));
    // One of them is ill, which a reset may cure.
    host.put(&file(3), "2\n");
    let mut reset = host.program("neuron-ctk");
    reset.args(["--settings", host.config_toml().to_str().unwrap(), "--host-root", host.root().to_str().unwrap(), "reset", "1,3"]);
    let reset = reset.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    driver(&file(1), || {
        let lease = &host.status()["leases"][0];
        assert_eq!(
            (&lease["container"], &lease["chips"], &lease["holder"]["pid"]),
            (&json!("neuron-ctk reset"), &json!([1, 3]), &json!(reset.id()))
        );
        assert!(host.refuses("c1", &asking("id:1")).contains("chip 1 is held by neuron-ctk reset"));
    });
    assert_eq!(fs::read_to_string(file(1)).unwrap(), "1\n");
    driver(&file(3), || {});
    let output = reset.wait_with_output().unwrap();
    let play = "no driver is behind a simulated host: to play it, write 0 and then 1 into the chip's sysfs file reset\n";
    assert_eq!(said(&output), (Some(0), play.to_owned()));
    let lines: Vec<_> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| line.split(", after ").next().unwrap().to_owned()).collect();
    assert_eq!(lines, ["chip 1 is ready", "chip 3 is ready"]);
    assert_eq!(host.status()["remaining"], 4);
}

#[test]
fn chips_that_somebody_has_are_not_reset() {
    let host = FakeHost::new("inf1.6xlarge");
    host.begin("c1", &asking("id:0"));
    host.begin("c2", &given(host.major(), &[("/dev/neuron1", 1)]));
    let before = listing(&host.path("sys"));
    for (chips, why) in [
        ("0", "asked for Neuron chip 0: chip 0 is held by c1"),
        ("0-1,3", "asked for Neuron chip 0: chip 0 is held by c1"),
        ("3,1", "asked for Neuron chip 1: chip 1 is held by c2"),
        ("4", "asked for Neuron chip 4, this host has no chip 4"),
    ] {
        for flags in [&["reset", chips][..], &["reset", chips, "--dry-run"]] {
            let (code, said) = said(&host.ctk(flags));
            assert_eq!(code, Some(3), "{said}");
            assert!(said.contains(why), "{said}");
        }
    }
    assert_eq!(listing(&host.path("sys")), before);
    assert_eq!(host.leases().len(), 2);
}

#[test]
fn a_dry_run_resets_nothing() {
    let host = FakeHost::new("inf1.6xlarge");
    let before = listing(host.folder());
    let output = host.ctk(&["reset", "0-1", "--dry-run"]);
    assert_eq!(said(&output), (Some(0), String::new()));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "would reset chips 0-1: nobody holds them\n");
    assert_eq!(listing(host.folder()), before);
}

#[test]
fn a_chip_that_does_not_come_back_is_told_of_within_the_limit() {
    let host = FakeHost::small();
    let file = host.path("sys/class/neuron_device/neuron0/reset");
    // Nobody plays the driver: what was written is read again.
    let (code, told) = said(&host.ctk(&["reset", "0", "--limit", "50ms"]));
    assert_eq!(code, Some(1));
    assert!(told.contains("the driver did not begin to reset chip 0: it does so only where no process has it open"), "{told}");
    fs::remove_file(&file).unwrap();
    let (code, told) = said(&host.ctk(&["reset", "0"]));
    assert_eq!(code, Some(1));
    assert!(told.contains("chip 0 cannot be reset: "), "{told}");
    assert_eq!(host.status()["leases"], json!([]));
}

#[test]
fn what_is_no_list_of_chips_is_wrong_usage() {
    let host = FakeHost::small();
    for args in [&["reset"][..], &["reset", "all"], &["reset", "3-1"], &["reset", "0", "--limit", "soon"]] {
        assert_eq!(host.ctk(args).status.code(), Some(2), "{args:?}");
    }
}
