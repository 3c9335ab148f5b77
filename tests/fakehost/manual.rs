//! Device nodes that a spec has already, by `--device` or a device plugin: known by their numbers, recorded, and never a reason to fail.

use std::fs;

use serde_json::{Value, json};

use crate::host::{FakeHost, Fault};
use crate::specs::{asking, given, nodes, our_hooks, privileged};

/// The document without our hook and annotations.
fn without_ours(mut spec: Value) -> Value {
    let hooks = spec["hooks"].as_object_mut().unwrap();
    let ours = hooks.shift_remove("createRuntime").unwrap();
    assert_eq!((ours.as_array().unwrap().len(), &ours[0]["args"][0]), (1, &json!("neuron-container-hook")));
    spec["annotations"].as_object_mut().unwrap().retain(|key, _| !key.starts_with("neuron-container-runtime."));
    spec
}

#[test]
fn adopted_chips_are_recorded_and_given_to_nobody_else() {
    let host = FakeHost::trn1();
    // As AWS's plugin renumbers them: chip 3 is neuron0.
    let spec = given(host.major(), &[("/dev/neuron0", 3)]);
    let call = host.begin("manual", &spec);
    assert_eq!(without_ours(call.config()), spec, "only the hook is added");
    let lease = host.status()["leases"][0].clone();
    assert_eq!((&lease["mode"], &lease["state"], &lease["chips"]), (&json!("adopted"), &json!("bound"), &json!([3])));
    assert_eq!(host.chips_in("adopted"), [3]);
    assert!(host.refuses("c1", &asking("id:3")).contains("chip 3 is held by manual"));
    host.refuses("c1", &asking("all"));
    call.init().kill();
    host.begin("c1", &asking("all"));
}

#[test]
fn a_renamed_node_is_known_by_its_numbers_and_a_stranger_by_a_neurons_name_is_not() {
    let host = FakeHost::trn1();
    host.begin("renamed", &given(host.major(), &[("/dev/accel0", 4)]));
    assert_eq!(host.leases(), [("renamed".to_owned(), vec![4])]);
    for (id, spec) in [("fuse", given(10, &[("/dev/neuron5", 229)])), ("beyond", given(host.major(), &[("/dev/neuron5", 63)]))] {
        assert_eq!(host.create_with(&host.bundle(id, &spec), id, "nothing").ok().config(), spec);
    }
    assert_eq!(host.leases().len(), 1);
}

#[test]
fn an_annotation_of_none_does_not_stand_against_nodes_by_hand() {
    let host = FakeHost::trn1();
    let mut spec = given(host.major(), &[("/dev/neuron3", 3)]);
    spec["annotations"]["aws.amazon.com/neuron"] = json!("none");
    host.begin("manual", &spec);
    assert_eq!(host.leases(), [("manual".to_owned(), vec![3])]);
}

#[test]
fn an_adopted_chip_that_is_held_is_shown_as_a_conflict_and_the_container_starts() {
    let host = FakeHost::trn1();
    host.begin("web-1", &asking("id:3"));
    host.begin("manual", &given(host.major(), &[("/dev/neuron3", 3)]));
    let chip = host.status()["chips"][3].clone();
    assert_eq!((&chip["state"], &chip["containers"]), (&json!("held"), &json!(["web-1", "manual"])));
    assert_eq!(host.leases(), [("web-1".to_owned(), vec![3]), ("manual".to_owned(), vec![3])]);
    let table = String::from_utf8(host.ctk(&["status"]).stdout).unwrap();
    assert!(table.contains("web-1") && table.contains("manual") && table.contains("conflict"), "{table}");
}

/// Each spoils the host before a container with nodes by hand is created.
#[test]
fn an_adopted_container_starts_whatever_is_wrong_with_the_host() {
    let faults: [Fault; 6] = [
        ("garbage in the ledger", |host| host.put(&host.ledger(), "garbage")),
        ("a ledger of tomorrow", |host| host.put(&host.ledger(), "{\"version\":2}")),
        ("an open state directory", |host| {
            fs::set_permissions(host.state_dir(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        }),
        ("broken settings", |host| host.put(&host.config_toml(), "x = [")),
        ("unreadable sysfs", |host| {
            fs::remove_file(host.path("sys/class/neuron_device/neuron0/dev")).unwrap();
            fs::create_dir(host.path("sys/class/neuron_device/neuron0/dev")).unwrap();
        }),
        ("no hook", |host| host.settings("hook-path = \"/nowhere/hook\"")),
    ];
    for (fault, cause) in faults {
        let host = FakeHost::small();
        let spec = given(host.major(), &[("/dev/neuron0", 0)]);
        host.make_state_dir();
        cause(&host);
        let call = host.begin("manual", &spec);
        assert_eq!(call.config(), spec, "{fault}: what cannot be recorded is left alone");
        assert_eq!(call.engine_log(), "", "{fault}");
        assert!(call.init().alive(), "{fault}");
        assert!(host.log().contains(" WARN "), "{fault}: {}", host.log());
    }
}

#[test]
fn an_adopted_container_starts_though_the_ledger_breaks_before_its_hook() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("manual", &given(host.major(), &[("/dev/neuron3", 3)]));
    let running = host.start(&bundle, "manual", "hold-before-hook").wait_for_hold();
    host.put(&host.ledger(), "garbage");
    let call = running.release().ok();
    assert_eq!((call.hook(0, "code").as_deref(), call.hook(0, "stderr").as_deref()), (Some("0"), Some("")));
    assert!(call.init().alive());
}

#[test]
fn an_adopted_container_starts_though_its_node_is_another_one() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("manual", &given(host.major(), &[("/dev/neuron0", 3)]));
    let call = host.create_with(&bundle, "manual", "swap-node").ok();
    assert!(call.init().alive());
    assert!(host.log().contains(" WARN "), "{}", host.log());
}

#[test]
fn a_restore_with_nodes_by_hand_goes_through() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("manual", &given(host.major(), &[("/dev/neuron3", 3)]));
    host.call(&["restore".as_ref(), "--bundle".as_ref(), bundle.folder.as_ref(), "manual".as_ref()], "").ok();
}

#[test]
fn exclusive_nodes_by_hand_are_a_request_for_these_chips() {
    let host = FakeHost::trn1();
    host.settings("manual-devices = \"exclusive\"");
    let spec = given(host.major(), &[("/dev/accel0", 4)]);
    let call = host.begin("manual", &spec);
    let lease = host.status()["leases"][0].clone();
    assert_eq!((&lease["mode"], &lease["chips"]), (&json!("exclusive"), &json!([4])));
    assert_eq!(nodes(&call.config()), [("/dev/accel0".to_owned(), 4)]);
    assert!(call.config()["process"]["env"].as_array().unwrap().contains(&json!("AWS_NEURON_VISIBLE_DEVICES=4")));
    assert!(host.refuses("second", &spec).contains("chip 4 is held by manual"));
    // And such a container stops where bind finds something else.
    let bundle = host.bundle("third", &given(host.major(), &[("/dev/neuron0", 5)]));
    assert_eq!(host.create_with(&bundle, "third", "swap-node").code, Some(1));
    assert_eq!(host.leases().len(), 1);
}

#[test]
fn ignored_nodes_by_hand_are_nobodys_business() {
    let host = FakeHost::trn1();
    host.settings("manual-devices = \"ignore\"");
    let bundle = host.bundle("manual", &given(host.major(), &[("/dev/neuron3", 3)]));
    let text = bundle.text();
    assert_eq!(host.create(&bundle, "manual").ok().config_text(), text);
    assert_eq!(host.leases(), []);
    host.begin("c1", &asking("all"));
}

/// It carries every node of the host and means none of them: one monitoring agent would hold every chip.
#[test]
fn a_privileged_container_holds_no_chip() {
    for manual in ["adopt", "exclusive"] {
        let host = FakeHost::trn1();
        host.settings(&format!("manual-devices = \"{manual}\""));
        host.begin("c1", &asking("id:3"));
        let mut older = privileged(host.major(), 16);
        older["linux"]["resources"]["devices"] = json!([{"allow": true, "type": "a", "major": -1, "minor": -1, "access": "rwm"}]);
        for (id, spec) in [("agent", privileged(host.major(), 16)), ("older", older)] {
            let bundle = host.bundle(id, &spec);
            let text = bundle.text();
            assert_eq!(host.create(&bundle, id).ok().config_text(), text, "{manual}");
        }
        assert_eq!(host.leases(), [("c1".to_owned(), vec![3])]);
    }
}

#[test]
fn an_adopted_container_gets_neither_environment_nor_capability() {
    let host = FakeHost::trn1();
    let spec = given(host.major(), &[("/dev/neuron3", 3)]);
    let seen = host.begin("manual", &spec).config();
    assert_eq!(seen["process"], spec["process"]);
    assert!(our_hooks(&seen)[0]["args"].as_array().unwrap().contains(&json!("--adopted")));
}
