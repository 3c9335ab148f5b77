//! `neuron-ctk doctor`: each fault is found, named, and has a remedy.

use std::fs;

use serde_json::Value;

use crate::host::FakeHost;
use crate::specs::{asking, given};

/// What the doctor says of one thing: its verdict, what was found, the remedy.
fn said(host: &FakeHost, check: &str) -> (String, String, String) {
    let output = host.ctk(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["version"], 1);
    let findings = report["findings"].as_array().unwrap();
    let faulty = findings.iter().any(|finding| finding["verdict"] == "fault");
    assert_eq!(output.status.code(), Some(if faulty { 4 } else { 0 }));
    for finding in findings {
        assert_eq!(finding["verdict"] == "good", finding["remedy"] == "", "what is not good has a remedy: {finding}");
    }
    let finding = findings.iter().find(|finding| finding["check"] == check).unwrap();
    let text = |key: &str| finding[key].as_str().unwrap().to_owned();
    (text("verdict"), text("found"), text("remedy"))
}

fn finds(host: &FakeHost, check: &str, verdict: &str, part: &str) {
    let (found_verdict, found, _) = said(host, check);
    assert_eq!(found_verdict, verdict, "{check}: {found}");
    assert!(found.contains(part), "{check}: {found}");
}

#[test]
fn a_host_that_is_well_has_no_faults() {
    let host = FakeHost::trn1();
    for (check, part) in [
        ("driver", "neuron 2."),
        ("chips", "16, as a trn1.32xlarge has"),
        ("ready", "all chips"),
        ("nodes", "everybody"),
        ("settings", ""),
        ("ledger", ""),
        ("runtime", "standin-runtime"),
        ("hook", "neuron-container-hook"),
        ("orphans", "no container"),
    ] {
        finds(&host, check, "good", part);
    }
}

#[test]
fn faults_of_driver_and_chips_are_found() {
    let host = FakeHost::trn1();
    host.put(&host.path("sys/class/neuron_device/neuron3/reset"), "0\n");
    finds(&host, "ready", "fault", "chip 3 is resetting");
    fs::remove_dir_all(host.path("sys/class/neuron_device/neuron15")).unwrap();
    finds(&host, "chips", "fault", "15, where a trn1.32xlarge has 16");
    host.put(&host.path("sys/module/neuron/version"), "2.12.13.0\n");
    finds(&host, "driver", "note", "2.12.13.0: chips keep their host's names");
    fs::remove_dir_all(host.path("sys/module/neuron")).unwrap();
    finds(&host, "driver", "fault", "not loaded");
}

#[test]
fn faults_of_our_own_files_are_found() {
    let host = FakeHost::trn1();
    host.settings("max-chip = 3");
    finds(&host, "settings", "fault", "did you mean max-chips?");
    host.settings("dry-run = true");
    finds(&host, "settings", "note", "no container gets chips");
    host.put(&host.config_toml(), "runtimes = [\"none-such\"]");
    finds(&host, "runtime", "fault", "none-such is not there");
    host.settings("hook-path = \"/none/such\"");
    finds(&host, "hook", "fault", "/none/such is not there");
}

#[test]
fn a_ledger_that_cannot_be_read_is_found() {
    let host = FakeHost::trn1();
    host.begin("first", &asking("1"));
    finds(&host, "ledger", "good", "1 lease");
    host.put(&host.path("run/neuron-container-runtime/ledger.json"), "{");
    finds(&host, "ledger", "fault", "ledger.json");
}

#[test]
fn a_chip_that_two_containers_have_is_found() {
    let host = FakeHost::trn1();
    host.begin("first", &asking("id:0-1"));
    finds(&host, "conflicts", "good", "no chip");
    host.begin("second", &given(host.major(), &[("/dev/neuron1", 1)]));
    finds(&host, "conflicts", "note", "first and second both have chip 1");
    let metrics = String::from_utf8(host.ctk(&["status", "--prometheus"]).stdout).unwrap();
    assert!(metrics.contains("\nneuron_container_conflicts 1\n"), "{metrics}");
}
