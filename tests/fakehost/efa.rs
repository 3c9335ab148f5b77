//! Elastic Fabric Adapters: they come along with every chip of a host, where the settings say so.

use std::fs;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde_json::{Value, json};

use crate::host::{FakeHost, skipped};
use crate::specs::{annotated, asking, nodes, our_hooks};

/// A host of four chips and two adapters; the kernel's major of verbs is 231 (devices.txt), the first of them has minor 192.
fn host_with_adapters(settings: &str) -> Option<FakeHost> {
    let host = FakeHost::new("inf1.6xlarge");
    host.settings(settings);
    fs::create_dir(host.path("dev/infiniband")).unwrap();
    for (name, minor) in [("uverbs0", 192), ("uverbs1", 193), ("rdma_cm", 1)] {
        let made = mknod(&host.path("dev/infiniband").join(name), SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(231, minor));
        if made.is_err() {
            skipped("device nodes cannot be made here");
            return None;
        }
    }
    Some(host)
}

fn rules(spec: &Value) -> Vec<Value> {
    let rules = spec["linux"]["resources"]["devices"].as_array().unwrap();
    rules.iter().filter(|rule| rule["major"] == 231).cloned().collect()
}

#[test]
fn every_chip_of_the_host_brings_its_adapters() {
    let Some(host) = host_with_adapters("efa = \"whole-host\"") else { return };
    let bundle = host.bundle("c1", &asking("all"));
    let before = bundle.spec();
    let call = host.create(&bundle, "c1").ok();
    let spec = call.config();
    let expected: Vec<_> = (0..4).map(|chip| (format!("/dev/neuron{chip}"), chip)).collect();
    let adapters = [("/dev/infiniband/uverbs0".to_owned(), 192), ("/dev/infiniband/uverbs1".to_owned(), 193)];
    assert_eq!(nodes(&spec), [&expected[..], &adapters].concat());
    let rule = |minor: u32| json!({"allow": true, "type": "c", "major": 231, "minor": minor, "access": "rw"});
    assert_eq!(rules(&spec), [rule(192), rule(193)]);
    assert!(our_hooks(&spec)[0]["args"].as_array().unwrap().contains(&json!("efa1=/dev/infiniband/uverbs1=231:193")));
    assert_eq!(host.leases(), [("c1".to_owned(), vec![0, 1, 2, 3])]);
    // Run again without a request, the bundle is what it was.
    call.init().kill();
    let mut spec = bundle.spec();
    spec["annotations"].as_object_mut().unwrap().shift_remove("aws.amazon.com/neuron");
    bundle.write(&spec);
    let mut unasked = before;
    unasked["annotations"].as_object_mut().unwrap().shift_remove("aws.amazon.com/neuron");
    host.create(&bundle, "c2").ok();
    assert_eq!(bundle.spec(), unasked);
}

/// Only of the chips' driver has a container no device beside its grant.
#[test]
fn another_device_of_the_adapters_driver_stays() {
    let Some(host) = host_with_adapters("efa = \"whole-host\"") else { return };
    let mut spec = asking("all");
    spec["linux"]["devices"] = json!([{"path": "/dev/verbs", "type": "c", "major": 231, "minor": 199, "fileMode": 438}]);
    assert_eq!(nodes(&host.begin("c1", &spec).config()).len(), 7);
}

#[test]
fn less_than_every_chip_brings_none() {
    let Some(host) = host_with_adapters("efa = \"whole-host\"") else { return };
    let spec = host.begin("c1", &asking("3")).config();
    assert_eq!((nodes(&spec).len(), rules(&spec)), (3, vec![]));
}

#[test]
fn parts_of_every_chip_bring_none() {
    let Some(host) = host_with_adapters("efa = \"whole-host\"") else { return };
    // Sixteen cores are all four chips, but others may have the next part of them.
    let spec = host.begin("c1", &annotated(&[("aws.amazon.com/neuroncore", "16")])).config();
    assert_eq!((nodes(&spec).len(), rules(&spec)), (4, vec![]));
}

#[test]
fn unasked_for_in_the_settings_none_comes() {
    let Some(host) = host_with_adapters("") else { return };
    let spec = host.begin("c1", &asking("all")).config();
    assert_eq!((nodes(&spec).len(), rules(&spec)), (4, vec![]));
}

#[test]
fn a_host_without_adapters_is_as_it_was() {
    let host = FakeHost::new("inf1.6xlarge");
    host.settings("efa = \"whole-host\"");
    let spec = host.begin("c1", &asking("all")).config();
    assert_eq!(nodes(&spec).len(), 4);
}
