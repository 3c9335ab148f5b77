//! What a request gets, read from the `config.json` that the runtime saw. Expected values are worked out by hand from the design.

use std::fs;

use serde_json::{Value, json};

use crate::host::FakeHost;
use crate::specs::{PLAIN, asking, env_asking, neuron_env, nodes, plain, with_env};

/// `CAP_IPC_LOCK` (include/uapi/linux/capability.h).
const IPC_LOCK: u32 = 14;

/// Does this process, and so the wrapper, hold a capability?
fn holds(capability: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() & 1 << capability != 0
}

/// Container paths and host chips, for a run that is renumbered.
fn renumbered(first: u64, count: u64) -> Vec<(String, u64)> {
    (0..count).map(|position| (format!("/dev/neuron{position}"), first + position)).collect()
}

/// On trn1.32xlarge a chip has two cores.
#[test]
fn each_form_of_a_request_gets_its_chips() {
    for (spec, first, count, visible, cores) in [
        (asking("any:2"), 0, 2, "0,1", 4),
        (asking("2"), 0, 2, "0,1", 4),
        (asking(" any: 4 "), 0, 4, "0,1,2,3", 8),
        (asking("id:4-5"), 4, 2, "4,5", 4),
        (asking("id:4, 6,5"), 4, 3, "4,5,6", 6),
        (asking("all"), 0, 16, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", 32),
        (asking("ALL"), 0, 16, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", 32),
        (crate::specs::annotated(&[("aws.amazon.com/neurondevice", "1")]), 0, 1, "0", 2),
        (env_asking("4-5"), 4, 2, "4,5", 4),
        (env_asking("7"), 7, 1, "7", 2),
        (env_asking("any:1"), 0, 1, "0", 2),
        (env_asking("id:15"), 15, 1, "15", 2),
        (env_asking("All"), 0, 16, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", 32),
        (with_env(plain(), &["AWS_NEURON_VISIBLE_DEVICES=3", "AWS_NEURON_VISIBLE_DEVICES=9"]), 9, 1, "9", 2),
        (with_env(asking("id:2"), &["AWS_NEURON_VISIBLE_DEVICES=9"]), 2, 1, "2", 2),
    ] {
        let host = FakeHost::trn1();
        let call = host.begin("c1", &spec);
        let seen = call.config();
        assert_eq!(nodes(&seen), renumbered(first, count), "{spec}");
        let mut env = neuron_env(&seen);
        env.dedup();
        assert_eq!(env, [format!("AWS_NEURON_VISIBLE_DEVICES={visible}"), format!("NEURON_RT_NUM_CORES={cores}")], "{spec}");
        let chips: Vec<u64> = (first..first + count).collect();
        assert_eq!(host.leases(), [("c1".to_owned(), chips)], "{spec}");
    }
}

#[test]
fn an_annotation_of_none_stands_against_the_environment() {
    for value in ["none", "None", "", " "] {
        let host = FakeHost::trn1();
        let spec = with_env(asking(value), &["AWS_NEURON_VISIBLE_DEVICES=all"]);
        assert_eq!(host.begin("c1", &spec).config(), spec, "{value:?}");
        assert_eq!(host.leases(), []);
    }
}

#[test]
fn the_environment_asks_for_nothing_where_the_settings_say_so() {
    let host = FakeHost::trn1();
    host.settings("accept-env = false");
    let spec = env_asking("0,1");
    assert_eq!(host.begin("c1", &spec).config(), spec);
    assert_eq!(host.leases(), []);
    host.begin("c2", &asking("1"));
    assert_eq!(host.leases(), [("c2".to_owned(), vec![0])]);
}

/// The whole document, built by hand from the design's list of edits.
#[test]
fn nothing_but_the_grant_is_changed_in_the_spec() {
    let host = FakeHost::trn1();
    let mut expected: Value = serde_json::from_str(PLAIN).unwrap();
    expected["annotations"]["aws.amazon.com/neuron"] = json!("id:4-5");
    let call = host.begin("c1", &expected);
    let (major, mut seen) = (host.major(), call.config());

    let rule = |minor: u64| json!({"allow": true, "type": "c", "major": major, "minor": minor, "access": "rw"});
    expected["linux"]["resources"]["devices"] = json!([{"allow": false, "access": "rwm"}, rule(4), rule(5)]);
    expected["process"]["env"] = json!(["PATH=/usr/bin:/bin", "HOSTNAME=h", "AWS_NEURON_VISIBLE_DEVICES=4,5", "NEURON_RT_NUM_CORES=4"]);
    if holds(IPC_LOCK) {
        for set in ["bounding", "effective", "permitted"] {
            expected["process"]["capabilities"][set] = json!(["CAP_CHOWN", "CAP_IPC_LOCK"]);
        }
    }
    if host.real_nodes() {
        let device = |path: &str, minor: u64| json!({"path": path, "type": "c", "major": major, "minor": minor, "fileMode": 0o666, "uid": 0, "gid": 0});
        expected["linux"]["devices"] = json!([device("/dev/neuron0", 4), device("/dev/neuron1", 5)]);
    } else {
        check_and_take_mounts(&host, &mut seen);
    }
    // Hook and annotations have tests of their own.
    seen["hooks"].as_object_mut().unwrap().shift_remove("createRuntime").unwrap();
    let annotations = seen["annotations"].as_object_mut().unwrap();
    annotations.retain(|key, _| !key.starts_with("neuron-container-runtime."));
    assert_eq!(seen, expected);
    assert!(call.config_text().contains("\"x-unknown\":1.50"), "the text of numbers stays");
}

/// Bind mounts of chips 4 and 5, after the mount of /dev; takes them out.
fn check_and_take_mounts(host: &FakeHost, spec: &mut Value) {
    let mounts = spec["mounts"].as_array_mut().unwrap();
    let dev = mounts.iter().position(|mount| mount["destination"] == "/dev").unwrap();
    for (name, chip) in [("/dev/neuron0", "neuron4"), ("/dev/neuron1", "neuron5")] {
        let at = mounts.iter().position(|mount| mount["destination"] == name).unwrap();
        assert!(at > dev, "before the mount of /dev it would be hidden");
        let mount = mounts.remove(at);
        assert_eq!(mount["source"], json!(host.path("dev").join(chip)));
        let options: Vec<&str> = mount["options"].as_array().unwrap().iter().map(|option| option.as_str().unwrap()).collect();
        assert!(options.contains(&"bind") && !options.contains(&"nodev") && !options.contains(&"ro"), "{options:?}");
    }
}

#[test]
fn the_hook_is_appended_with_all_that_it_needs_in_its_arguments() {
    let host = FakeHost::trn1();
    let mut spec = asking("id:4-5");
    let theirs = json!([{"path": "/bin/true", "args": ["true"], "env": ["A=b"]}]);
    spec["hooks"]["createRuntime"] = theirs.clone();
    let call = host.begin("c1", &spec);
    let hooks = call.config()["hooks"].clone();
    assert_eq!(hooks["prestart"], spec["hooks"]["prestart"]);
    assert_eq!((&hooks["createRuntime"][0], hooks["createRuntime"].as_array().unwrap().len()), (&theirs[0], 2));
    let hook = &hooks["createRuntime"][1];
    assert_eq!(hook["path"], json!(host.bin().join("neuron-container-hook")));
    let args: Vec<&str> = hook["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    assert_eq!(args[..4], ["neuron-container-hook", "createRuntime", "--lease", &call.lease()]);
    assert_eq!(host.status()["leases"][0]["id"], json!(call.lease()));
    // Of ten seconds, the default, the hook itself waits for the lock.
    assert!(hook["timeout"].as_u64().unwrap() > 10);
    // What the hook got: its list, and nothing of ours, the image's or the wrapper's caller's.
    assert_eq!(hook["env"], json!(["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]));
    assert_eq!((call.hook(1, "code").as_deref(), call.hook(1, "stderr").as_deref()), (Some("0"), Some("")));
}

#[test]
fn a_container_of_another_user_gets_nodes_and_a_capability_that_it_can_use() {
    let host = FakeHost::trn1();
    let mut spec = asking("1");
    spec["process"]["user"] = json!({"uid": 1000, "gid": 1000});
    let seen = host.begin("c1", &spec).config();
    if host.real_nodes() {
        assert_eq!((&seen["linux"]["devices"][0]["uid"], &seen["linux"]["devices"][0]["gid"]), (&json!(1000), &json!(1000)));
    }
    for set in ["bounding", "effective", "permitted", "inheritable", "ambient"] {
        let list = seen["process"]["capabilities"][set].as_array().cloned().unwrap_or_default();
        assert_eq!(list.contains(&json!("CAP_IPC_LOCK")), holds(IPC_LOCK), "{set}");
    }
}

#[test]
fn the_capability_is_not_given_where_the_settings_say_so() {
    let host = FakeHost::trn1();
    host.settings("ipc-lock = false");
    let spec = asking("1");
    assert_eq!(host.begin("c1", &spec).config()["process"]["capabilities"], spec["process"]["capabilities"]);
}

#[test]
fn in_a_user_namespace_the_hosts_nodes_are_mounted() {
    let host = FakeHost::trn1();
    let mut spec = asking("id:4-5");
    spec["linux"]["namespaces"].as_array_mut().unwrap().push(json!({"type": "user"}));
    let call = host.begin("c1", &spec);
    let mut seen = call.config();
    assert_eq!(seen["linux"].get("devices"), None);
    assert_eq!(seen["linux"]["resources"]["devices"].as_array().unwrap().len(), 3);
    check_and_take_mounts(&host, &mut seen);
    assert_eq!(host.leases(), [("c1".to_owned(), vec![4, 5])]);
}

#[test]
fn a_variable_of_the_containers_own_stays_and_no_second_is_set() {
    for (env, rest) in [
        ("NEURON_RT_NUM_CORES=1", "NEURON_RT_NUM_CORES=1"),
        ("NEURON_RT_VISIBLE_CORES=0-3", "NEURON_RT_VISIBLE_CORES=0-3"),
        ("NEURON_RT_VISIBLE_CORES=2", "NEURON_RT_VISIBLE_CORES=2"),
    ] {
        let host = FakeHost::trn1();
        let seen = host.begin("c1", &with_env(asking("2"), &[env])).config();
        assert_eq!(neuron_env(&seen), ["AWS_NEURON_VISIBLE_DEVICES=0,1", rest]);
    }
}

/// A Trainium2 chip has eight physical cores: four logical ones by default, eight where a logical core is one physical.
#[test]
fn cores_of_trainium_2_are_logical() {
    for (env, file, expected) in [
        (&[][..], None, &["AWS_NEURON_VISIBLE_DEVICES=0", "NEURON_RT_NUM_CORES=4"][..]),
        (
            &["NEURON_LOGICAL_NC_CONFIG=1"],
            Some("2"),
            &["AWS_NEURON_VISIBLE_DEVICES=0", "NEURON_LOGICAL_NC_CONFIG=1", "NEURON_RT_NUM_CORES=8"],
        ),
        (
            &["NEURON_RT_VIRTUAL_CORE_SIZE=1"],
            None,
            &["AWS_NEURON_VISIBLE_DEVICES=0", "NEURON_RT_NUM_CORES=8", "NEURON_RT_VIRTUAL_CORE_SIZE=1"],
        ),
        (&[], Some("1"), &["AWS_NEURON_VISIBLE_DEVICES=0", "NEURON_LOGICAL_NC_CONFIG=1", "NEURON_RT_NUM_CORES=8"]),
    ] {
        let host = FakeHost::new("trn2.48xlarge");
        if let Some(size) = file {
            fs::create_dir_all(host.path("opt/aws/neuron")).unwrap();
            host.put(&host.path("opt/aws/neuron/logical_nc_config"), &format!("NEURON_LOGICAL_NC_CONFIG={size}\n"));
        }
        assert_eq!(neuron_env(&host.begin("c1", &with_env(asking("1"), env)).config()), expected);
    }
}

/// The driver maps renumbered nodes from 2.12.14 on.
#[test]
fn nodes_are_named_as_driver_and_settings_allow() {
    let kept = vec![("/dev/neuron4".to_owned(), 4), ("/dev/neuron5".to_owned(), 5)];
    for (driver, naming, expected) in [
        ("2.12.14.0", "auto", renumbered(4, 2)),
        ("2.12.13.0", "auto", kept.clone()),
        ("2.9.4.0", "container", renumbered(4, 2)),
        ("2.24.7.0", "host", kept),
    ] {
        let host = FakeHost::trn1();
        host.put(&host.path("sys/module/neuron/version"), &format!("{driver}\n"));
        host.settings(&format!("device-naming = \"{naming}\""));
        assert_eq!(nodes(&host.begin("c1", &asking("id:4-5")).config()), expected, "{driver} {naming}");
    }
}

#[test]
fn a_privileged_container_with_a_request_keeps_only_the_nodes_of_its_grant() {
    let host = FakeHost::trn1();
    let mut spec = crate::specs::privileged(host.major(), 16);
    spec["annotations"]["aws.amazon.com/neuron"] = json!("id:4-5");
    let seen = host.begin("c1", &spec).config();
    assert_eq!(nodes(&seen), renumbered(4, 2));
    assert!(host.log().contains("privileged"), "{}", host.log());
}

/// The runtimes read JSON so; an escape or a double must not hide a request, nor make one.
#[test]
fn a_request_is_found_in_any_spelling_of_json() {
    for (written, first, count) in [
        (r#""aws.amazon.com\/ne\u0075ron": "id\u003a4-5""#, 4, 2),
        (r#""aws.amazon.com/neuron": "8", "aws.amazon.com/neuron": "id:7""#, 7, 1),
        (r#""x": "y"}, "annotations": {"aws.amazon.com/neuron": "id:7""#, 7, 1),
    ] {
        let host = FakeHost::trn1();
        let text = PLAIN.replace(r#""org.example.other": "kept""#, written);
        let seen = host.create(&host.bundle_of_text("c1", &text), "c1").ok().config();
        assert_eq!(nodes(&seen), renumbered(first, count), "{written}");
    }
    let host = FakeHost::trn1();
    let text = PLAIN.replace(r#""org.example.other": "kept""#, r#""aws.amazon.com/neuron": "8", "aws.amazon.com/neuron": "none""#);
    assert_eq!(host.create(&host.bundle_of_text("c1", &text), "c1").ok().config_text(), text);
}
