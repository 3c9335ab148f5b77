//! `config.json` as real engines wrote it (`tests/data/specs`), through the whole program.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::host::{Bundle, FakeHost};
use crate::specs::{nodes, our_hooks};

/// A spec of tests/data, with the root that a test has and the major that this host's nodes have (there it is 240).
fn engine_spec(host: &FakeHost, name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/specs").join(name);
    let mut spec: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    spec["root"]["path"] = json!("rootfs");
    for pointer in ["/linux/devices", "/linux/resources/devices"] {
        for entry in spec.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten() {
            if entry["major"] == 240 {
                entry["major"] = json!(host.major());
            }
        }
    }
    spec
}

/// Neuron's own among the nodes of a spec: where, and which chip.
fn neuron_nodes(host: &FakeHost, spec: &Value) -> Vec<(String, u64)> {
    let mut of_host = spec.clone();
    if let Some(devices) = of_host.pointer_mut("/linux/devices").and_then(Value::as_array_mut) {
        devices.retain(|device| device["major"] == host.major());
    }
    nodes(&of_host)
}

fn run(host: &FakeHost, bundle: &Bundle) -> Value {
    host.create_with(bundle, "c1", "nothing").ok().config()
}

/// Each gets its chips, and once it asks no more it is the very document that the engine wrote.
#[test]
fn what_an_engine_wrote_gets_its_chips_and_is_given_back_unchanged() {
    let run_of = |first: u64, count: u64| (0..count).map(|at| (format!("/dev/neuron{at}"), first + at)).collect::<Vec<_>>();
    let given = |nodes: &[(&str, u64)]| nodes.iter().map(|(path, chip)| ((*path).to_owned(), *chip)).collect::<Vec<_>>();
    for (name, expected) in [
        ("ctr16-annotation.json", run_of(0, 2)),
        ("docker20-cap-drop-all.json", run_of(2, 1)),
        ("docker20-env-all.json", run_of(0, 16)),
        ("docker20-manual-devices.json", given(&[("/dev/neuron0", 0), ("/dev/neuron1", 3)])),
        ("docker20-manual-renamed.json", given(&[("/dev/accel0", 4)])),
        ("docker20-privileged.json", run_of(0, 2)),
        ("docker20-readonly-nnp.json", run_of(0, 4)),
        ("docker20-session.json", run_of(0, 1)),
        ("docker20-user.json", run_of(0, 2)),
        ("docker26-annotation-2.json", run_of(0, 2)),
        ("docker26-annotation-all-user.json", run_of(0, 16)),
        ("docker26-privileged.json", run_of(0, 1)),
        ("docker26-userns-remap.json", run_of(0, 2)),
        ("podman4-annotation.json", run_of(0, 2)),
        ("podman4-user-device.json", given(&[("/dev/neuron5", 5)])),
        ("podman5-annotation.json", run_of(0, 2)),
    ] {
        let host = FakeHost::trn1();
        let mut original = engine_spec(&host, name);
        let bundle = host.bundle(name, &original);
        let seen = run(&host, &bundle);
        assert_eq!((neuron_nodes(&host, &seen), our_hooks(&seen).len()), (expected, 1), "{name}");

        host.settings("accept-env = false\nmanual-devices = \"ignore\"");
        let mut edited = bundle.spec();
        for spec in [&mut edited, &mut original] {
            if let Some(annotations) = spec.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.shift_remove("aws.amazon.com/neuron");
            }
        }
        bundle.write(&edited);
        let mut reverted = run(&host, &bundle);
        for spec in [&mut reverted, &mut original] {
            // Where the request was the only annotation, the map may go or stay.
            if spec["annotations"].as_object().is_none_or(serde_json::Map::is_empty) {
                spec.as_object_mut().unwrap().shift_remove("annotations");
            }
        }
        assert_eq!(reverted, original, "{name}");
    }
}

#[test]
fn what_an_engine_wrote_without_a_request_is_not_touched() {
    for name in ["docker20-plain.json", "docker26-plain.json"] {
        let host = FakeHost::trn1();
        let bundle = host.bundle(name, &engine_spec(&host, name));
        let text = bundle.text();
        run(&host, &bundle);
        assert_eq!(bundle.text(), text, "{name}");
    }
}

#[test]
fn the_hosts_dev_mounted_over_the_containers_is_refused_as_docker_writes_it() {
    let host = FakeHost::trn1();
    assert!(host.refuses("c1", &engine_spec(&host, "docker20-dev-mount.json")).contains("a mount at \"/dev\""));
}
