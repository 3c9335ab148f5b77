//! Real engines' specs and arbitrary ones.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::chip::{ChipId, HostNode};
use crate::grant::Device;

/// Each `config.json` that a real engine wrote, by name.
#[expect(clippy::disallowed_methods, reason = "a test may read its data")]
fn real_specs() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/specs");
    let mut specs: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap()))
        .filter(|(name, _)| name != "docker20-session-exec")
        .collect();
    specs.sort();
    assert_eq!(specs.len(), 19, "the engines' specs");
    specs
}

fn node(chip: u32, path: &str) -> Node {
    Node {
        device: Device::Chip(ChipId::new(chip).unwrap()),
        path: path.into(),
        number: DeviceNumber { major: 240, minor: chip },
        host: HostNode { mode: 0o660, uid: 0, gid: 99 },
    }
}

/// Chips 4 and 5 as neuron0 and neuron1.
fn edit(delivery: Delivery) -> Edit {
    Edit {
        lease: "1234567890abcdef".into(),
        nodes: vec![node(4, "/dev/neuron0"), node(5, "/dev/neuron1")],
        delivery,
        host_dev: "/dev".into(),
        env: [("AWS_NEURON_VISIBLE_DEVICES", "4,5"), ("NEURON_RT_NUM_CORES", "4")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        ipc_lock: true,
        only_these: false,
        hook: "/usr/local/bin/neuron-container-hook".into(),
        hook_args: ["--rootfs", "/b/rootfs"].map(str::to_owned).into(),
        hook_timeout: 30,
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The JSON pointers at which two documents differ; for lists of another length, the list's.
fn differences(before: &Value, after: &Value, at: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let none = Value::Null;
                differences(a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none), &format!("{at}/{key}"), found);
            }
        }
        (a, b) if a != b => found.push(at.to_owned()),
        _ => {}
    }
}

#[test]
fn a_grant_is_put_into_dockers_spec_as_the_design_says() {
    let text = real_specs().into_iter().find(|(name, _)| name == "docker26-annotation-2").unwrap().1;
    let before = parse(&text);
    let mut spec = before.clone();
    apply(&mut spec, &edit(Delivery::Devices)).unwrap();

    let mut changed = Vec::new();
    differences(&before, &spec, "", &mut changed);
    changed.sort();
    assert_eq!(
        changed,
        [
            "/annotations/neuron-container-runtime.lease",
            "/annotations/neuron-container-runtime.undo",
            "/hooks/createRuntime",
            "/linux/devices",
            "/linux/resources/devices",
            "/process/capabilities/bounding",
            "/process/capabilities/effective",
            "/process/capabilities/permitted",
            "/process/env",
        ]
    );
    assert_eq!(
        spec["linux"]["devices"],
        json!([
            {"path": "/dev/neuron0", "type": "c", "major": 240, "minor": 4, "fileMode": 0o660, "uid": 0, "gid": 99},
            {"path": "/dev/neuron1", "type": "c", "major": 240, "minor": 5, "fileMode": 0o660, "uid": 0, "gid": 99},
        ])
    );
    let appended = |pointer: &str| {
        let (old, new) = (before.pointer(pointer).and_then(Value::as_array).unwrap(), spec.pointer(pointer).unwrap().as_array().unwrap());
        assert_eq!(&new[..old.len()], &old[..], "{pointer}");
        Value::from(new[old.len()..].to_vec())
    };
    assert_eq!(
        appended("/linux/resources/devices"),
        json!([
            {"allow": true, "type": "c", "major": 240, "minor": 4, "access": "rw"},
            {"allow": true, "type": "c", "major": 240, "minor": 5, "access": "rw"},
        ])
    );
    assert_eq!(appended("/process/env"), json!(["AWS_NEURON_VISIBLE_DEVICES=4,5", "NEURON_RT_NUM_CORES=4"]));
    assert_eq!(appended("/process/capabilities/bounding"), json!(["CAP_IPC_LOCK"]));
    assert_eq!(
        spec["hooks"]["createRuntime"],
        json!([{
            "path": "/usr/local/bin/neuron-container-hook",
            "args": ["neuron-container-hook", "createRuntime", "--lease", "1234567890abcdef", "--node", "4=/dev/neuron0=240:4",
                "--node", "5=/dev/neuron1=240:5", "--rootfs", "/b/rootfs"],
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
            "timeout": 30,
        }])
    );
    assert_eq!(spec["hooks"]["prestart"], before["hooks"]["prestart"]);
    assert_eq!(spec["annotations"]["neuron-container-runtime.lease"], "1234567890abcdef");
}

#[test]
fn a_user_other_than_root_gets_the_node_and_all_five_capability_sets() {
    let text = real_specs().into_iter().find(|(name, _)| name == "docker20-user").unwrap().1;
    let mut spec = parse(&text);
    apply(&mut spec, &edit(Delivery::Devices)).unwrap();
    assert_eq!((&spec["linux"]["devices"][0]["uid"], &spec["linux"]["devices"][0]["gid"]), (&json!(1000), &json!(1000)));
    for set in ["bounding", "effective", "permitted", "inheritable", "ambient"] {
        let holds = spec["process"]["capabilities"][set].as_array().unwrap().iter().any(|capability| capability == "CAP_IPC_LOCK");
        assert!(holds, "{set}");
    }
    // The request in the environment gave way to the grant, in its place.
    assert_eq!(spec["process"]["env"][2], "AWS_NEURON_VISIBLE_DEVICES=4,5");
}

#[test]
fn in_a_user_namespace_the_hosts_nodes_are_mounted_after_dev() {
    let text = real_specs().into_iter().find(|(name, _)| name == "docker26-userns-remap").unwrap().1;
    let mut spec = parse(&text);
    assert!(Subject::of(&spec).user_namespace);
    apply(&mut spec, &edit(Delivery::Mounts)).unwrap();
    assert_eq!(spec["linux"].get("devices"), None);
    let destinations: Vec<_> = spec["mounts"].as_array().unwrap().iter().map(|mount| mount["destination"].as_str().unwrap()).collect();
    assert_eq!(destinations[..5], ["/proc", "/dev", "/dev/neuron0", "/dev/neuron1", "/dev/pts"]);
    assert_eq!(
        spec["mounts"][2],
        json!({"destination": "/dev/neuron0", "type": "bind", "source": "/dev/neuron4", "options": ["bind", "rw", "nosuid", "noexec"]})
    );
}

#[test]
fn a_privileged_container_keeps_only_the_granted_neuron_nodes() {
    for (name, text) in real_specs().into_iter().filter(|(name, _)| name.ends_with("-privileged")) {
        let mut spec = parse(&text);
        apply(&mut spec, &Edit { only_these: true, ..edit(Delivery::Devices) }).unwrap();
        let neurons: Vec<_> = spec["linux"]["devices"].as_array().unwrap().iter().filter(|device| device["major"] == 240).collect();
        let shown: Vec<_> = neurons.iter().map(|device| format!("{} {}", device["path"], device["minor"])).collect();
        assert_eq!(shown, ["\"/dev/neuron0\" 4", "\"/dev/neuron1\" 5"], "{name}");
    }
}

#[test]
fn every_real_spec_comes_back_byte_for_byte() {
    for (name, text) in real_specs() {
        let before = parse(&text);
        for delivery in [Delivery::Given, Delivery::Devices, Delivery::Mounts] {
            for only_these in [false, true] {
                let edit = Edit { only_these, ..edit(delivery) };
                let mut spec = before.clone();
                apply(&mut spec, &edit).unwrap();
                let once = spec.to_string();
                apply(&mut spec, &edit).unwrap();
                assert_eq!(spec.to_string(), once, "{name}: applying twice is applying once");
                assert_eq!(revert(&mut spec).unwrap().as_deref(), Some("1234567890abcdef"));
                assert_eq!(spec.to_string(), before.to_string(), "{name} {delivery:?}");
                assert_eq!(revert(&mut spec).unwrap(), None);
            }
        }
    }
}

/// Of any length and precision. (An exponent keeps its value; serde_json spells it `1e+3`. No engine writes one.)
/// The kernel's major of verbs is 231 (devices.txt); a privileged container carries all of the host's nodes.
#[test]
fn a_fabric_adapter_comes_and_goes_by_itself() {
    let number = |minor| DeviceNumber { major: 231, minor };
    let adapter = Node { device: Device::Efa(1), path: "/dev/infiniband/uverbs1".into(), number: number(193), ..node(4, "") };
    let other = serde_json::json!({"path": "/dev/infiniband/uverbs7", "type": "c", "major": 231, "minor": 199});
    for delivery in [Delivery::Devices, Delivery::Mounts] {
        let before = serde_json::json!({"mounts": [{"destination": "/dev", "type": "tmpfs"}], "linux": {"devices": [other]}});
        let mut edit = Edit { only_these: true, ..edit(delivery) };
        edit.nodes.push(adapter.clone());
        let mut spec = before.clone();
        apply(&mut spec, &edit).unwrap();
        let paths = |list: &Value, key: &str| -> Vec<String> {
            list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
        };
        let nodes = ["/dev/neuron0", "/dev/neuron1", "/dev/infiniband/uverbs1"];
        let (devices, mounts) = (paths(&spec["linux"]["devices"], "path"), paths(&spec["mounts"], "destination"));
        match delivery {
            Delivery::Mounts => assert_eq!((devices, &mounts[1..]), (vec!["/dev/infiniband/uverbs7".into()], &nodes.map(String::from)[..])),
            _ => assert_eq!((&devices[1..], mounts.len()), (&nodes.map(String::from)[..], 1)),
        }
        assert!(spec["mounts"].as_array().unwrap().iter().skip(3).all(|mount| mount["source"] == "/dev/infiniband/uverbs1"));
        revert(&mut spec).unwrap();
        assert_eq!(spec.to_string(), before.to_string());
    }
}

#[test]
fn the_text_of_numbers_is_kept() {
    let text = r#"{"b":18446744073709551616,"c":1.0,"d":-0,"f":0.10,"linux":{"x":12345678901234567890123}}"#;
    let mut spec = parse(text);
    apply(&mut spec, &edit(Delivery::Devices)).unwrap();
    let kept = r#"{"b":18446744073709551616,"c":1.0,"d":-0,"f":0.10,"linux":{"x":12345678901234567890123,"#;
    assert!(spec.to_string().starts_with(kept), "{spec}");
    revert(&mut spec).unwrap();
    assert_eq!(spec.to_string(), text);
}

#[test]
fn a_forged_annotation_brings_nothing_in() {
    let undo = json!({
        "delivery": "devices",
        "made": ["/process", "/process/args", "/linux"],
        "nulls": ["/process/args"],
        "env": [[0, "LD_PRELOAD=/evil.so"], [1, "AWS_NEURON_VISIBLE_DEVICES=all"]],
        "added": ["PATH", "HOME"],
        "sets": ["bounding"],
        "devices": [[0, {"path": "/dev/sda", "type": "b", "major": 8, "minor": 0}], [0, {"path": "/dev/mem", "type": "c", "major": 1, "minor": 1}]],
    });
    let text = json!({
        "process": {"args": ["sh"], "env": ["PATH=/bin", "HOME=/"], "capabilities": {"bounding": ["CAP_KILL"]}},
        "linux": {"devices": [{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229}]},
        "hooks": {"createRuntime": [{"path": "/bin/guard", "args": ["guard"]}]},
    });
    let mut spec = text.clone();
    spec["annotations"] = json!({"neuron-container-runtime.lease": "x", "neuron-container-runtime.undo": undo.to_string()});
    revert(&mut spec).unwrap();
    spec.as_object_mut().unwrap().shift_remove("annotations");
    assert_eq!(spec, text);
}

#[test]
fn junk_in_our_annotations_is_no_obstacle() {
    for junk in [json!("{"), json!(7), json!(null), json!("[]"), json!("{\"delivery\":\"teleport\"}")] {
        let mut spec = json!({"annotations": {"neuron-container-runtime.undo": junk, "neuron-container-runtime.lease": junk}});
        apply(&mut spec, &edit(Delivery::Devices)).unwrap();
        assert_eq!(spec["annotations"]["neuron-container-runtime.lease"], "1234567890abcdef");
    }
}

#[test]
fn a_document_of_another_shape_is_an_error() {
    for text in ["[]", "7", "null", r#"{"linux":[]}"#, r#"{"process":{"env":{}}}"#, r#"{"hooks":1}"#, r#"{"annotations":[]}"#] {
        assert!(apply(&mut parse(text), &edit(Delivery::Devices)).is_err(), "{text}");
    }
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/]{0,6}".prop_map(Value::from)
    ]
}

/// A list or map that may be missing, null, empty or full.
fn absent_or(full: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    prop_oneof![2 => Just(None), 1 => Just(Some(Value::Null)), 7 => full.prop_map(Some)].boxed()
}

fn object(fields: Vec<(&'static str, BoxedStrategy<Option<Value>>)>) -> BoxedStrategy<Value> {
    let (keys, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    (values, prop::collection::vec(("x[a-z]{1,3}", leaf()), 0..3))
        .prop_map(move |(values, more)| {
            let known = keys.iter().zip(values).filter_map(|(key, value)| Some(((*key).to_owned(), value?)));
            Value::Object(known.chain(more).collect())
        })
        .boxed()
}

fn list_of(element: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    absent_or(prop::collection::vec(element, 0..6).prop_map(Value::from))
}

/// Specs of every shape that the runtime specification allows, and entries that resemble ours.
fn any_spec() -> impl Strategy<Value = Value> {
    let device = (0..4u32, 238..242u32, 0..8u32, prop_oneof![Just("c"), Just("b")]).prop_map(|(name, major, minor, kind)| {
        let path = ["/dev/neuron0", "/dev/neuron7", "/dev/accel0", "/dev/fuse"][name as usize];
        json!({"path": path, "type": kind, "major": major, "minor": minor})
    });
    let rule = (any::<bool>(), 238..242u32, 3..7u32)
        .prop_map(|(allow, major, minor)| json!({"allow": allow, "type": "c", "major": major, "minor": minor, "access": "rw"}));
    let mount = (0..4u32).prop_map(|at| {
        let at = ["/proc", "/dev", "/dev/neuron0", "/data"][at as usize];
        json!({"destination": at, "type": "bind", "source": "/dev/neuron4"})
    });
    let entry = prop_oneof![
        Just("PATH=/bin"),
        Just("AWS_NEURON_VISIBLE_DEVICES=any:2"),
        Just("AWS_NEURON_VISIBLE_DEVICES="),
        Just("NEURON_RT_NUM_CORES=1"),
        Just("NEURON_RT_NUM_CORES_X=1"),
        Just("junk"),
    ]
    .prop_map(Value::from);
    let capability = || list_of(prop_oneof![Just("CAP_KILL"), Just("CAP_IPC_LOCK")].prop_map(Value::from));
    let sets = ["bounding", "effective", "permitted", "inheritable", "ambient"].map(|set| (set, capability())).to_vec();
    let user = prop_oneof![Just(None), (0..3u32).prop_map(|uid| Some(json!({"uid": uid, "gid": uid})))].boxed();
    let process = object(vec![("user", user), ("env", list_of(entry)), ("capabilities", absent_or(object(sets)))]);
    let resources = object(vec![("devices", list_of(rule))]);
    let linux = object(vec![("devices", list_of(device)), ("resources", absent_or(resources))]);
    let hook = || list_of(Just(json!({"path": "/bin/true", "args": ["neuron-container-hook", "createRuntime", "--other"]})));
    let hooks = object(vec![("prestart", hook()), ("createRuntime", hook())]);
    object(vec![
        ("process", absent_or(process)),
        ("mounts", list_of(mount)),
        ("hooks", absent_or(hooks)),
        ("annotations", absent_or(object(vec![]))),
        ("linux", absent_or(linux)),
    ])
}

proptest! {
    #[test]
    fn any_spec_comes_back(before in any_spec(), delivery in 0..3usize, only_these: bool, ipc_lock: bool) {
        let delivery = [Delivery::Given, Delivery::Devices, Delivery::Mounts][delivery];
        let edit = Edit { only_these, ipc_lock, ..edit(delivery) };
        let mut spec = before.clone();
        apply(&mut spec, &edit).unwrap();
        let once = spec.to_string();
        apply(&mut spec, &edit).unwrap();
        prop_assert_eq!(spec.to_string(), once);
        revert(&mut spec).unwrap();
        prop_assert_eq!(spec.to_string(), before.to_string());
    }
}

#[test]
fn a_pid_namespace_that_is_joined_or_missing_is_not_the_containers_own() {
    for (namespaces, own) in [
        (json!([{"type": "pid"}, {"type": "mount"}]), true),
        (json!([{"type": "pid", "path": ""}]), true),
        (json!([{"type": "pid", "path": "/proc/7/ns/pid"}]), false),
        (json!([{"type": "mount"}]), false),
        (json!([]), false),
        (json!(null), false),
    ] {
        let subject = Subject::of(&json!({"linux": {"namespaces": namespaces}}));
        assert_eq!(subject.own_pid_namespace, own, "{namespaces}");
    }
}
