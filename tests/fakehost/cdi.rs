//! `neuron-ctk cdi`, pinned; CDI's own schema reads it in tests/cdi.

use std::fs;

use serde_json::{Value, json};

use crate::host::{FakeHost, listing};

/// By hand, from CDI's SPEC.md.
#[test]
fn the_chips_are_devices_by_name() {
    let host = FakeHost::new("inf1.6xlarge");
    fs::remove_file(host.path("dev/neuron2")).unwrap();
    let before = listing(host.folder());
    let output = host.ctk(&["cdi"]);
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    assert_eq!(listing(host.folder()), before);
    let node =
        |chip: u32| json!({"path": format!("/dev/neuron{chip}"), "hostPath": host.path(&format!("dev/neuron{chip}")), "permissions": "rw"});
    let device = |name: &str, chips: &[u32]| {
        let nodes: Vec<_> = chips.iter().map(|chip| node(*chip)).collect();
        json!({"name": name, "containerEdits": {"deviceNodes": nodes}})
    };
    let devices = [device("0", &[0]), device("1", &[1]), device("3", &[3]), device("all", &[0, 1, 3])];
    let expected = json!({"cdiVersion": "0.5.0", "kind": "aws.amazon.com/neuron", "devices": devices});
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), expected);
}

#[test]
fn the_document_is_written_whole() {
    let host = FakeHost::trn1();
    let file = host.folder().join("cdi/aws.amazon.com-neuron.json");
    for _ in 0..2 {
        let output = host.ctk(&["cdi", "--output", file.to_str().unwrap()]);
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    }
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no mark of configure's in the folder that was made");
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written["devices"].as_array().unwrap().len(), 17);
}

#[test]
fn a_host_without_chips_is_described_by_no_document() {
    let host = FakeHost::trn1();
    fs::remove_dir_all(host.path("sys/class/neuron_device")).unwrap();
    fs::remove_dir_all(host.path("dev")).unwrap();
    let file = host.folder().join("neuron.json");
    let output = host.ctk(&["cdi", "--output", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no Neuron chip to describe: load the driver"));
    assert!(!file.exists());
}
