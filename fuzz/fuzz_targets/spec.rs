//! A `config.json`: read, edited, edited again, taken back. Nothing panics, twice is once, and what comes back is what went in.

#![no_main]

use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use neuron_container_runtime::chip::{ChipId, DeviceNumber, HostNode};
use neuron_container_runtime::document::Document;
use neuron_container_runtime::grant::{Device, Node};
use neuron_container_runtime::peek::{Peek, concerns};
use neuron_container_runtime::request;
use neuron_container_runtime::spec::{self, Delivery, Edit, Subject};

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, text) = input;
    let document = Document::new(text.to_vec());
    let Ok(mut tree) = document.tree() else { return };
    if let Ok(peek) = Peek::of(&tree.spec) {
        let asks = request::read(&peek, choice & 1 == 0) != Ok(None);
        let _ = request::ignored(&peek, choice & 1 == 0);
        let words = || peek.annotations().any(|(key, _)| key.contains("neuron"));
        assert!(concerns(text) || !(asks || words() || peek.dynamic_devices().next().is_some()));
        let _ = (peek.privileged(), peek.mount_over_nodes());
    }
    let value = &mut tree.spec;
    // As it is without a word of ours.
    let foreign = spec::is_edited(value);
    if spec::revert(value).is_err() {
        return;
    }
    let before = value.clone();
    let _ = Subject::of(value);
    let Ok(()) = spec::apply(value, &edit(choice)) else { return };
    let once = value.to_string();
    let mut twice = value.clone();
    spec::apply(&mut twice, &edit(choice)).expect("what was applied once can be applied again");
    assert_eq!(twice.to_string(), once);
    spec::revert(&mut twice).expect("what was applied can be taken out");
    if !foreign {
        assert_eq!(twice.to_string(), before.to_string());
    }
    let written = document.with(&tree).expect("a value is JSON");
    serde_json::from_slice::<serde_json::Value>(&written).expect("what is written can be read");
});

fn edit(choice: u8) -> Edit {
    let node = |minor: u32| Node {
        device: Device::Chip(ChipId::new(minor).expect("below 64")),
        path: format!("/dev/neuron{}", minor - 3),
        number: DeviceNumber { major: 240, minor },
        host: HostNode { mode: 0o660, uid: 0, gid: 7 },
    };
    Edit {
        lease: "00000000000000aa".to_owned(),
        nodes: vec![node(3), node(4)],
        delivery: [Delivery::Given, Delivery::Devices, Delivery::Mounts][usize::from(choice >> 1) % 3],
        host_dev: PathBuf::from("/dev"),
        env: vec![("AWS_NEURON_VISIBLE_DEVICES".to_owned(), "3,4".to_owned()), ("NEURON_RT_NUM_CORES".to_owned(), "4".to_owned())],
        ipc_lock: choice & 8 != 0,
        only_these: choice & 16 != 0,
        hook: PathBuf::from("/usr/local/bin/neuron-container-hook"),
        hook_args: vec!["--rootfs".to_owned(), "/b".to_owned()],
        hook_timeout: 30,
    }
}
