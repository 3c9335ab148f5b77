//! What the host tells of its chips, and what is made of it when it tells less.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::host::{FakeHost, skipped};
use crate::specs::{asking, neuron_env, nodes};

fn chip(host: &FakeHost, id: usize) -> Value {
    host.status()["chips"][id].clone()
}

/// A file of a chip's in sysfs.
fn of_chip(id: usize, host: &FakeHost, name: &str) -> std::path::PathBuf {
    host.path(&format!("sys/class/neuron_device/neuron{id}")).join(name)
}

/// A file of the chip that is asked what all have in common.
fn of_chip_0(host: &FakeHost, name: &str) -> std::path::PathBuf {
    of_chip(0, host, name)
}

/// A file of a chip that is only asked for what is its own.
fn of_chip_3(host: &FakeHost, name: &str) -> std::path::PathBuf {
    of_chip(3, host, name)
}

#[test]
fn chip_10_comes_after_chip_9() {
    let status = FakeHost::trn1().status();
    let ids: Vec<u64> = status["chips"].as_array().unwrap().iter().map(|chip| chip["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..16).collect::<Vec<_>>());
    let minors: Vec<u64> = status["chips"].as_array().unwrap().iter().map(|chip| chip["minor"].as_u64().unwrap()).collect();
    assert_eq!(minors, ids);
}

#[test]
fn values_are_read_with_a_newline_and_without() {
    let host = FakeHost::trn1();
    assert!(!fs::read_to_string(of_chip_0(&host, "core_count")).unwrap().ends_with('\n'), "as the driver writes it");
    let before = host.status();
    for (name, text) in
        [("core_count", "2\n"), ("connected_devices", "12, 3, 4, 1"), ("reset", "1"), ("info/architecture/device_name", "Trainium1")]
    {
        host.put(&of_chip_0(&host, name), text);
        assert_eq!(host.status(), before, "{name}");
    }
}

/// Torus: chip 0 is in row 0, column 0: its neighbours are 12, 3, 4 and 1.
#[test]
fn what_sysfs_does_not_tell_is_in_the_table_of_instance_types() {
    for (name, text) in [
        ("connected_devices", Some("\n")),
        ("connected_devices", Some("\0")),
        ("connected_devices", None),
        ("core_count", None),
        ("info/architecture/device_name", None),
    ] {
        let host = FakeHost::trn1();
        match text {
            Some(text) => host.put(&of_chip_0(&host, name), text),
            None => fs::remove_file(of_chip_0(&host, name)).unwrap(),
        }
        let chip = chip(&host, 0);
        assert_eq!(
            (&chip["cores"], &chip["connected"], &chip["architecture"]),
            (&json!(2), &json!([1, 3, 4, 12]), &json!("Trainium1")),
            "{name}"
        );
        host.begin("c1", &asking("4"));
    }
}

#[test]
fn files_that_only_root_may_read_are_no_fault() {
    let host = FakeHost::trn1();
    let before = host.status();
    for name in ["core_count", "connected_devices", "info/architecture/device_name"] {
        fs::set_permissions(of_chip_0(&host, name), PermissionsExt::from_mode(0o000)).unwrap();
    }
    assert_eq!(host.status(), before);
}

#[test]
fn a_file_that_cannot_be_read_refuses_requests_and_names_itself() {
    let host = FakeHost::trn1();
    fs::remove_file(of_chip_0(&host, "dev")).unwrap();
    fs::create_dir(of_chip_0(&host, "dev")).unwrap();
    assert!(host.refuses("c1", &asking("1")).contains("neuron0/dev"));
    fs::remove_dir(of_chip_0(&host, "dev")).unwrap();
    host.put(&of_chip_0(&host, "dev"), "junk\n");
    assert!(host.refuses("c1", &asking("1")).contains("neuron0/dev"));
}

#[test]
fn a_chip_without_its_node_is_missing_and_not_given() {
    let host = FakeHost::trn1();
    fs::remove_file(host.path("dev/neuron1")).unwrap();
    // A folder is no node, with or without root.
    fs::remove_file(host.path("dev/neuron2")).unwrap();
    fs::create_dir(host.path("dev/neuron2")).unwrap();
    assert_eq!(host.chips_in("missing"), [1, 2]);
    assert!(host.refuses("c1", &asking("id:1")).contains("chip 1 is missing"));
    host.refuses("c1", &asking("all"));
    host.begin("c1", &asking("2"));
    // By hand: pairs that are free and leave the halves and rows whole: 0 and 3 stand alone, so the row 4-7 is broken first.
    assert_eq!(host.leases(), [("c1".to_owned(), vec![4, 5])]);
    assert_eq!((&host.status()["registered"], &host.status()["remaining"]), (&json!(16), &json!(12)));
}

#[test]
fn a_node_with_another_chips_numbers_is_not_given() {
    let host = FakeHost::trn1();
    if !host.real_nodes() {
        skipped("regular files stand for nodes and have no numbers");
        return;
    }
    fs::remove_file(host.path("dev/neuron1")).unwrap();
    fs::hard_link(host.path("dev/neuron2"), host.path("dev/neuron1")).unwrap();
    assert_eq!(host.chips_in("missing"), [1]);
    assert!(host.refuses("c1", &asking("id:1")).contains("chip 1 is missing"));
}

/// The driver's minors are its indices; should one not be, then sysfs counts, and not the order.
#[test]
fn a_chip_has_the_number_that_sysfs_says() {
    let host = FakeHost::trn1();
    if !host.real_nodes() {
        skipped("regular files stand for nodes and have no numbers");
        return;
    }
    let exchange = |one: &str, other: &str| {
        for (from, to) in [(one, "kept"), (other, one), ("kept", other)] {
            fs::rename(host.path(from), host.path(to)).unwrap();
        }
    };
    let minors = |host: &FakeHost| [0, 1, 5, 6].map(|id| chip(host, id)["minor"].as_u64().unwrap());
    for (one, other, expected) in [(5, 6, [0, 1, 6, 5]), (0, 1, [1, 0, 6, 5])] {
        exchange(&format!("dev/neuron{one}"), &format!("dev/neuron{other}"));
        let dev = |id| format!("sys/class/neuron_device/neuron{id}/dev");
        exchange(&dev(one), &dev(other));
        assert_eq!(minors(&host), expected);
        assert_eq!(host.chips_in("free").len(), 16);
    }
}

/// One line of a torus tells the others; a line that differs tells nothing but itself.
#[test]
fn links_that_are_no_torus_are_read_chip_by_chip() {
    let host = FakeHost::trn1();
    host.put(&of_chip_3(&host, "connected_devices"), "2\n");
    for (line, of_chip_3) in [("12, 3, 4, 1\n", json!([0, 2, 7, 15])), ("12, 3, 4\n", json!([2])), ("12, 3, 4, 1, 8\n", json!([2]))] {
        host.put(&of_chip_0(&host, "connected_devices"), line);
        assert_eq!(chip(&host, 3)["connected"], of_chip_3, "{line:?}");
    }
}

/// sysfs `reset`: 0 resetting, 2 invalid; opening would hang or fail. Drivers before there was such a file had only ready chips.
#[test]
fn only_a_chip_whose_reset_reads_1_is_given() {
    let host = FakeHost::trn1();
    for (text, word) in [("0\n", "resetting"), ("2\n", "invalid"), ("7\n", "reset")] {
        host.put(&of_chip_3(&host, "reset"), text);
        assert_eq!(host.chips_in("unhealthy"), [3]);
        let message = host.refuses("c1", &asking("id:3"));
        assert!(message.contains("chip 3 is ") && message.contains(word), "{message}");
        host.refuses("c1", &asking("all"));
    }
    host.begin("c1", &asking("4"));
    assert_eq!(host.leases(), [("c1".to_owned(), vec![4, 5, 6, 7])]);
    fs::remove_file(of_chip_3(&host, "reset")).unwrap();
    host.begin("c2", &asking("id:3"));
}

#[test]
fn a_chip_whose_reset_cannot_be_read_is_not_given() {
    let host = FakeHost::trn1();
    fs::remove_file(of_chip_3(&host, "reset")).unwrap();
    fs::create_dir(of_chip_3(&host, "reset")).unwrap();
    assert!(host.refuses("c1", &asking("id:3")).contains("chip 3 is "));
}

#[test]
fn entries_with_other_names_are_no_chips() {
    let host = FakeHost::trn1();
    let before = host.status();
    for name in ["neuron01", "neuron64", "neuron_core", "neuron", "xneuron1"] {
        symlink("../../devices/virtual/neuron_device/neuron0", host.path("sys/class/neuron_device").join(name)).unwrap();
        host.put(&host.path("dev").join(name), "");
    }
    assert_eq!(host.status(), before);
}

#[test]
fn without_sysfs_the_nodes_and_the_instance_type_tell_all() {
    let host = FakeHost::trn1();
    if !host.real_nodes() {
        skipped("regular files stand for nodes and have no numbers");
        return;
    }
    let (before, major) = (host.status(), host.major());
    fs::remove_dir_all(host.path("sys/class/neuron_device")).unwrap();
    fs::remove_dir_all(host.path("sys/devices")).unwrap();
    assert_eq!(host.status(), before);
    let seen = host.begin("c1", &asking("id:10-11")).config();
    assert_eq!(nodes(&seen), [("/dev/neuron0".to_owned(), 10), ("/dev/neuron1".to_owned(), 11)]);
    assert_eq!(seen["linux"]["devices"][0]["major"], json!(major));
    assert_eq!(neuron_env(&seen), ["AWS_NEURON_VISIBLE_DEVICES=10,11", "NEURON_RT_NUM_CORES=4"]);
    // Without the type nobody knows a chip's cores.
    fs::remove_file(host.path("sys/class/dmi/id/product_name")).unwrap();
    assert_eq!(chip(&host, 0)["cores"], json!(null));
    assert!(host.refuses("c2", &asking("id:0")).contains("cores"));
}

#[test]
fn without_sysfs_regular_files_are_no_chips() {
    let host = FakeHost::trn1();
    for id in 0..16 {
        let path = host.path("dev").join(format!("neuron{id}"));
        fs::remove_file(&path).unwrap();
        host.put(&path, "");
    }
    fs::remove_dir_all(host.path("sys/class/neuron_device")).unwrap();
    assert_eq!(host.status()["registered"], json!(0));
}

#[test]
fn a_host_of_an_unknown_type_serves_what_sysfs_tells() {
    let host = FakeHost::trn1();
    host.put(&host.path("sys/class/dmi/id/product_name"), "trn9.tomorrow\n");
    assert_eq!(host.status()["instance_type"], json!("trn9.tomorrow"));
    host.begin("c1", &asking("4"));
    assert_eq!(host.leases(), [("c1".to_owned(), vec![0, 1, 2, 3])]);
}

/// The class has links; what they lead to may be gone before they are.
#[test]
fn a_chip_whose_sysfs_folder_is_gone_is_not_given() {
    let host = FakeHost::trn1();
    let link = host.path("sys/class/neuron_device/neuron9");
    fs::remove_dir_all(fs::canonicalize(&link).unwrap()).unwrap();
    assert!(link.symlink_metadata().is_ok(), "the link stays");
    assert_eq!(host.chips_in("missing"), [9]);
    assert!(host.refuses("c1", &asking("id:9")).contains("neuron9 leads nowhere"));
    host.begin("c2", &asking("id:8"));
}
