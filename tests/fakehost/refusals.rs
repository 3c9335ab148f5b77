//! What is refused, and how: nothing runs, nothing is claimed, nothing is changed, and one line says why (`FakeHost::refuses`).

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use serde_json::json;

use crate::call::Running;
use crate::host::{FakeHost, boot_id, is_root, skipped};
use crate::specs::{annotated, asking, env_asking, given, plain, with_env};

#[test]
fn a_value_that_is_not_in_the_grammar_is_quoted_with_what_is_allowed() {
    let host = FakeHost::trn1();
    let allowed = "allowed are a count such as 2, all, any:N, id:LIST such as id:0,2-4, none";
    for (value, said) in [
        ("0", "no chip"),
        ("any:0", "no chip"),
        ("0-1", "id:"),
        ("1,2", "id:"),
        ("id:1,1", "chip 1 twice"),
        ("id:0-3,2", "chip 2 twice"),
        ("id:64", "64"),
        ("id:3-1", "backwards"),
        ("two", ""),
        ("+2", ""),
        ("-1", ""),
        ("02", ""),
        ("1.0", ""),
        ("any:", ""),
        ("any:x", ""),
        ("id:", ""),
        ("id:1,,2", ""),
        ("id:1-", ""),
        ("any: 2 3", ""),
        ("99999999999999999999", ""),
        ("ANY:2", ""),
    ] {
        let message = host.refuses("c1", &asking(value));
        assert!(message.starts_with(&format!("aws.amazon.com/neuron=\"{value}\"")), "{message}");
        assert!(message.contains(said) && message.contains(allowed), "{message}");
    }
    for value in ["x", "0,0", "0-", "01", "2-1"] {
        let message = host.refuses("c1", &env_asking(value));
        assert!(message.starts_with(&format!("AWS_NEURON_VISIBLE_DEVICES=\"{value}\"")), "{message}");
        assert!(message.contains("allowed are ids such as 0,2-4, all, any:N, id:LIST, none"), "{message}");
    }
}

#[test]
fn two_annotations_at_once_are_refused() {
    let host = FakeHost::trn1();
    let message = host.refuses("c1", &annotated(&[("aws.amazon.com/neuron", "1"), ("aws.amazon.com/neurondevice", "1")]));
    assert!(message.contains("aws.amazon.com/neuron ") && message.contains("aws.amazon.com/neurondevice "), "{message}");
}

#[test]
fn more_than_the_host_has_is_refused_with_numbers() {
    let host = FakeHost::trn1();
    let message = host.refuses("c1", &asking("17"));
    assert!(message.starts_with("asked for 17 Neuron chips, this host has 16"), "{message}");
    for spec in [asking("id:16"), env_asking("16")] {
        let message = host.refuses("c1", &spec);
        assert!(message.contains("no chip 16") && message.contains("0-15"), "{message}");
    }
}

#[test]
fn limits_of_the_settings_are_kept() {
    let host = FakeHost::trn1();
    host.settings("max-chips = 4\nreserved-chips = [0, 1]");
    assert!(host.refuses("c1", &asking("5")).contains("max-chips"));
    assert!(host.refuses("c1", &asking("id:1")).contains("chip 1 is reserved"));
    assert_eq!(host.chips_in("reserved"), [0, 1]);
    host.begin("c2", &asking("1"));
    assert_eq!(host.leases(), [("c2".to_owned(), vec![2])]);
}

/// The design's own example.
#[test]
fn not_enough_chips_are_refused_with_who_holds_the_others() {
    let host = FakeHost::trn1();
    host.begin("3f2a9c1b7e44d06b3f8c745f1e9094807bc5794942913f54ff3128ccdd72b001", &asking("id:0-7"));
    host.begin("train-1", &asking("id:8-13"));
    let message = host.refuses("c1", &asking("4"));
    assert!(message.starts_with("asked for 4 Neuron chips, 2 of 16 are free: 0-7 held by 3f2a9c1b7e44, 8-13 held by train-1"), "{message}");
}

/// The design's own example.
#[test]
fn enough_chips_apart_are_refused_with_the_largest_run() {
    let host = FakeHost::trn1();
    for (id, ask) in [("a", "id:0"), ("b", "id:2"), ("c", "id:4-7"), ("d", "id:9-11"), ("e", "id:13-15")] {
        host.begin(id, &asking(ask));
    }
    let message = host.refuses("c1", &asking("4"));
    assert!(message.contains("4 free (1, 3, 8, 12) but no 4 consecutive ones: largest run is 1"), "{message}");
}

#[test]
fn ids_apart_are_refused() {
    let host = FakeHost::trn1();
    assert!(host.refuses("c1", &asking("id:0,2")).contains("consecutive"));
    assert!(host.refuses("c1", &env_asking("0,15")).contains("consecutive"));
}

#[test]
fn a_held_id_is_refused_with_its_holder() {
    let host = FakeHost::trn1();
    let holder = host.begin("web-1", &asking("id:3"));
    let message = host.refuses("c1", &asking("id:2-3"));
    assert!(message.contains(&format!("chip 3 is held by web-1 (pid {}, since ", holder.init().pid)), "{message}");
}

#[test]
fn a_request_and_nodes_by_hand_are_refused_together() {
    let host = FakeHost::trn1();
    for (key, by) in [("annotation", "aws.amazon.com/neuron"), ("env", "AWS_NEURON_VISIBLE_DEVICES")] {
        let mut spec = given(host.major(), &[("/dev/accel0", 3)]);
        if key == "env" {
            spec = with_env(spec, &["AWS_NEURON_VISIBLE_DEVICES=3"]);
        } else {
            spec["annotations"]["aws.amazon.com/neuron"] = json!("1");
        }
        let message = host.refuses("c1", &spec);
        assert!(message.contains(by) && message.contains("/dev/accel0") && message.contains("one way only"), "{message}");
    }
}

#[test]
fn a_mount_that_would_hide_the_granted_nodes_is_refused() {
    let host = FakeHost::trn1();
    for destination in ["/dev", "/dev/", "//dev/.", "/dev/neuron0", "/dev/neuron12"] {
        let mut spec = asking("1");
        let mount = json!({"destination": destination, "type": "bind", "source": "/dev", "options": ["rbind"]});
        spec["mounts"].as_array_mut().unwrap().push(mount);
        assert!(host.refuses("c1", &spec).contains(&format!("a mount at \"{destination}\"")));
        // Without a request it is nobody's business.
        spec["annotations"]["aws.amazon.com/neuron"] = json!("none");
        host.create_with(&host.bundle("free", &spec), "free", "nothing").ok();
    }
}

#[test]
fn restore_with_a_request_is_refused_and_without_one_is_not() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("c1", &asking("1"));
    let (mut command, record) = host.wrapper(&[], "");
    command.arg("--log").arg(record.join("log.json")).args(["--log-format", "json", "restore", "--bundle"]).arg(&bundle.folder).arg("c1");
    let call = Running::start(command, record).finish();
    assert!(call.refusal().contains("cannot be restored"));
    assert!(!call.ran());
    assert_eq!((bundle.spec(), host.leases()), (asking("1"), vec![]));
    let bundle = host.bundle("c2", &plain());
    host.call(&["restore".as_ref(), "--bundle".as_ref(), bundle.folder.as_ref(), "c2".as_ref()], "").ok();
}

/// Two trn1 chips have four cores, 0-3 in the container.
#[test]
fn cores_that_the_container_will_not_have_are_refused_with_those_that_it_will() {
    let host = FakeHost::trn1();
    for value in ["8-11", "4", "0-4", "3,9"] {
        let message = host.refuses("c1", &with_env(asking("id:4-5"), &[&format!("NEURON_RT_VISIBLE_CORES={value}")]));
        assert!(message.contains(&format!("\"{value}\"")) && message.contains("0-3"), "{message}");
    }
}

#[test]
fn a_host_without_chips_refuses_who_asks_for_some() {
    let host = FakeHost::trn1();
    fs::remove_dir_all(host.root()).unwrap();
    fs::create_dir(host.root()).unwrap();
    for ask in ["1", "all", "id:0"] {
        let message = host.refuses("c1", &asking(ask));
        assert!(message.contains("this host has no") && message.contains("driver"), "{message}");
    }
}

#[test]
fn without_a_low_level_runtime_nothing_goes_and_nothing_is_claimed() {
    let host = FakeHost::trn1();
    let (own, loose) = (host.bin().join("neuron-ctk"), host.folder().join("loose"));
    host.put(&loose, "#!/bin/sh\n");
    fs::set_permissions(&loose, PermissionsExt::from_mode(0o777)).unwrap();
    for (runtime, said) in [
        ("/nowhere/runc".to_owned(), "/nowhere/runc is not there"),
        (own.display().to_string(), "this program itself"),
        (loose.display().to_string(), "must not be writable by others"),
        (host.config_toml().display().to_string(), "is not executable"),
    ] {
        host.put(&host.config_toml(), &format!("runtimes = [{runtime:?}]\n"));
        for spec in [asking("1"), plain()] {
            let message = host.refuses("c1", &spec);
            assert!(message.contains(said) && message.contains("runtimes"), "{message}");
        }
        let call = host.call(&["--version".as_ref()], "");
        assert_eq!(call.code, Some(1));
    }
    assert!(!host.ledger().exists());
}

#[test]
fn a_bundle_that_cannot_be_written_is_refused_and_the_lease_dies_with_the_wrapper() {
    if is_root() {
        skipped("root can write everywhere; a full disk is tested below");
        return;
    }
    let host = FakeHost::trn1();
    let bundle = host.bundle("c1", &asking("1"));
    fs::set_permissions(&bundle.folder, PermissionsExt::from_mode(0o555)).unwrap();
    let message = host.refuses_bundle(&bundle, "c1");
    fs::set_permissions(&bundle.folder, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(message.contains("config.json cannot be replaced"), "{message}");
}

/// `create` where no file may grow beyond so many blocks of 512 bytes: to the program that is a full disk.
fn create_on_a_full_disk(host: &FakeHost, blocks: u32) -> crate::call::Call {
    let (wrapper, record) = host.wrapper(&[], "");
    let bundle = host.bundle("c1", &with_env(asking("any:2"), &[&format!("LONG={}", "x".repeat(4096))]));
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\""), wrapper.get_program().to_str().unwrap()]);
    command.args(["--log".as_ref(), record.join("log.json").as_os_str()]).args(["--log-format", "json", "create", "--bundle"]);
    command.arg(&bundle.folder).arg("c1").env_clear().envs(wrapper.get_envs().map(|(key, value)| (key, value.unwrap())));
    let before = bundle.text();
    let call = Running::start(command, record).finish();
    assert!(!call.ran());
    assert_eq!(bundle.text(), before);
    let left: Vec<_> = fs::read_dir(&bundle.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "config.json and rootfs alone: {left:?}");
    assert_eq!(host.leases(), []);
    call
}

#[test]
fn a_disk_too_full_for_the_ledger_is_refused() {
    let host = FakeHost::trn1();
    let call = create_on_a_full_disk(&host, 0);
    // The engine's log cannot grow either.
    let message = crate::call::one_error_line(call.code, &call.stdout, &call.stderr);
    assert!(message.contains("the ledger") && message.contains("cannot be written"), "{message}");
    host.begin("c2", &asking("all"));
}

#[test]
fn a_disk_too_full_for_the_new_config_json_is_refused() {
    let host = FakeHost::trn1();
    let message = create_on_a_full_disk(&host, 2).refusal();
    assert!(message.contains("config.json cannot be replaced"), "{message}");
    assert!(host.ledger().exists(), "the claim came before");
    host.begin("c2", &asking("all"));
}

#[test]
fn a_config_json_that_is_a_link_is_refused_and_what_it_points_to_stays() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("c1", &asking("1"));
    let target = host.folder().join("shared.json");
    fs::rename(bundle.config(), &target).unwrap();
    symlink(&target, bundle.config()).unwrap();
    assert!(host.refuses_bundle(&bundle, "c1").contains("symbolic link"));
}

#[test]
fn a_ledger_that_cannot_be_read_is_refused_with_the_remedy() {
    let host = FakeHost::trn1();
    host.make_state_dir();
    for text in ["", "\0garbage", "[]", "{\"version\":1", r#"{"version":2,"boot":"x","chips":{}}"#, r#"{"version":1}"#] {
        host.put(&host.ledger(), text);
        let message = host.refuses("c1", &asking("1"));
        assert!(message.contains("ledger.json") && message.contains("remove it"), "{message}");
        assert_eq!(fs::read_to_string(host.ledger()).unwrap(), text, "evidence stays");
    }
    // A newer program may mean something else by the same keys.
    for boot in [boot_id(), "of-another-boot".to_owned()] {
        host.put(&host.ledger(), &json!({"version": 2, "boot_id": boot, "leases": []}).to_string());
        assert!(host.refuses("c1", &asking("1")).contains("version 2"));
    }
    assert!(host.ctk(&["status"]).status.code() == Some(1), "what cannot be read is not shown as free");
}

#[test]
fn a_lock_that_another_process_holds_is_given_up_after_the_time_that_the_settings_say() {
    let host = FakeHost::trn1();
    host.settings("lock-timeout = \"200ms\"");
    host.begin("first", &asking("1"));
    let lock = File::open(host.state_dir().join("lock")).unwrap();
    lock.lock().unwrap();
    let message = host.refuses("c1", &asking("1"));
    assert!(message.contains("is held by") && message.contains("200ms"), "{message}");
    lock.unlock().unwrap();
    host.begin("c1", &asking("1"));
}

#[test]
fn settings_that_are_at_fault_are_refused_with_the_fault() {
    let host = FakeHost::trn1();
    for (text, said) in [
        ("runtimes = [", "line 1"),
        ("accept-env = true\nmax-chip = 3", "line 2: unknown key max-chip, did you mean max-chips?"),
        ("max-chips = -1", "line 1"),
        ("lock-timeout = 3", "line 1"),
    ] {
        host.put(&host.config_toml(), text);
        let message = host.refuses("c1", &asking("1"));
        assert!(message.contains("config.toml") && message.contains(said), "{message}");
    }
    fs::remove_file(host.config_toml()).unwrap();
    assert!(host.refuses("c1", &asking("1")).contains("config.toml"));
}

#[test]
fn a_node_that_its_user_could_not_open_is_refused_with_the_remedy() {
    let host = FakeHost::trn1();
    fs::set_permissions(host.path("dev/neuron0"), PermissionsExt::from_mode(0o660)).unwrap();
    let mut spec = asking("id:0");
    spec["linux"]["namespaces"].as_array_mut().unwrap().push(json!({"type": "user"}));
    let message = host.refuses("c1", &spec);
    assert!(message.contains("dev/neuron0") && message.contains("0660") && message.contains("0666"), "{message}");
}
