//! `neuron-ctk status`: the document and the table, pinned; what it never shows, and that it changes nothing.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use serde_json::{Value, json};

use crate::call::{is_rfc3339, state_of};
use crate::host::{FakeHost, NOBODY, listing, rules_over_nobody, skipped};
use crate::specs::{asking, given, with_env};

/// Every key and value by hand, from the design; what no hand can know is taken from the kernel.
#[test]
fn the_document_is_as_the_design_has_it() {
    let host = FakeHost::new("inf1.6xlarge");
    host.settings("reserved-chips = [3]");
    fs::remove_file(host.path("dev/neuron2")).unwrap();
    let call = host.begin("web-1", &asking("1"));
    let init = call.init();
    let mut status = host.status();
    let since = status["leases"][0].as_object_mut().unwrap().shift_remove("since").unwrap();
    assert!(is_rfc3339(since.as_str().unwrap()));
    let pidns = fs::read_link("/proc/self/ns/pid").unwrap();
    let pidns: u64 = pidns.to_str().unwrap().trim_start_matches("pid:[").trim_end_matches(']').parse().unwrap();
    let chip = |id: u64, links: [u64; 2], state: &str, containers: &[&str]| {
        json!({"id": id, "device": host.path(&format!("dev/neuron{id}")), "major": host.major(), "minor": id,
            "architecture": "Inferentia", "cores": 4, "connected": links, "state": state, "containers": containers, "users": []})
    };
    let expected = json!({
        "version": 1,
        "instance_type": "inf1.6xlarge",
        "driver_version": "2.24.7.0",
        "registered": 4,
        "remaining": 1,
        "chips": [
            chip(0, [1, 3], "held", &["web-1"]),
            chip(1, [0, 2], "free", &[]),
            chip(2, [1, 3], "missing", &[]),
            chip(3, [0, 2], "reserved", &[]),
        ],
        "leases": [{
            "id": call.lease(),
            "container": "web-1",
            "root": "/run/standin",
            "chips": [0],
            "mode": "exclusive",
            "state": "bound",
            "holder": {"pid": init.pid, "start": state_of(init.pid).unwrap().1, "pidns": pidns},
            "request": "any:1",
        }],
        "queue": [],
    });
    assert_eq!(status, expected);
}

#[test]
fn the_table_is_for_people() {
    let host = FakeHost::new("inf1.6xlarge");
    host.begin("3f2a9c1b7e44d06b3f8c745f1e9094807bc5794942913f54ff3128ccdd72b001", &asking("id:0-1"));
    host.put(&host.path("sys/class/neuron_device/neuron3/reset"), "0\n");
    let output = host.ctk(&["status"]);
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    let page = String::from_utf8(output.stdout).unwrap();
    // All but the age, which is some seconds.
    let age = page.split_whitespace().find(|word| word.ends_with('s') && word[..word.len() - 1].parse::<u32>().is_ok()).unwrap();
    let expected = format!(
        "\
inf1.6xlarge, driver 2.24.7.0: 4 Neuron chips, 1 free

CHIPS  CORES  STATE      CONTAINER     AGE  REQUEST
0-1    8      held       3f2a9c1b7e44  {age:<3}  id:0-1
2      4      free
3      4      unhealthy

chip 3 is resetting (sysfs reset reads 0)
"
    );
    assert_eq!(page, expected);
}

#[test]
fn a_dead_lease_is_never_shown_and_stays_in_the_ledger_for_the_next_claim_to_reap() {
    let host = FakeHost::trn1();
    host.begin("dead", &asking("all")).init().kill();
    let ledger = fs::read_to_string(host.ledger()).unwrap();
    assert!(ledger.contains("\"dead\""));
    let status = host.status();
    assert_eq!((&status["leases"], &status["remaining"]), (&json!([]), &json!(16)));
    assert!(!String::from_utf8(host.ctk(&["status"]).stdout).unwrap().contains("dead"));
    assert_eq!(fs::read_to_string(host.ledger()).unwrap(), ledger);
}

#[test]
fn it_changes_nothing() {
    let host = FakeHost::trn1();
    let untouched = listing(host.folder());
    for args in [&["status"][..], &["status", "--json"]] {
        host.ctk(args);
    }
    assert_eq!(listing(host.folder()), untouched, "no folder or lock is made");
    host.begin("dead", &asking("2")).init().kill();
    host.begin("alive", &asking("2"));
    let used = listing(host.folder());
    for args in [&["status"][..], &["status", "--json"]] {
        assert!(host.ctk(args).status.success());
    }
    assert_eq!(listing(host.folder()), used);
}

#[test]
fn it_does_not_wait_for_the_lock() {
    let host = FakeHost::trn1();
    host.begin("c1", &asking("2"));
    let lock = File::open(host.state_dir().join("lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(host.leases(), [("c1".to_owned(), vec![0, 1])]);
}

#[test]
fn leases_are_shown_without_the_environment_that_they_gave() {
    let host = FakeHost::trn1();
    host.begin("c1", &with_env(asking("1"), &["SECRET=x"]));
    let status = host.status();
    assert_eq!(status["leases"][0].get("env"), None);
    assert!(!fs::read_to_string(host.ledger()).unwrap().contains("SECRET"));
}

#[test]
fn a_host_without_chips_has_a_status_too() {
    let host = FakeHost::trn1();
    fs::remove_dir_all(host.root()).unwrap();
    fs::create_dir(host.root()).unwrap();
    let empty = json!({"version": 1, "instance_type": null, "driver_version": null, "registered": 0, "remaining": 0, "chips": [], "leases": [], "queue": []});
    assert_eq!(host.status(), empty);
    let table = host.ctk(&["status"]);
    assert!(table.status.success() && String::from_utf8(table.stdout).unwrap().contains("no Neuron chips"));
}

#[test]
fn a_host_root_that_is_not_there_is_no_host_without_chips_and_is_not_made() {
    let host = FakeHost::trn1();
    fs::remove_dir_all(host.root()).unwrap();
    let gone = format!("the host root {} is not there", host.root().display());
    for args in [&["status"][..], &["plan", "--annotation", "aws.amazon.com/neuron=1"]] {
        let output = host.ctk(args);
        assert_eq!((output.status.code(), output.stdout), (Some(1), vec![]), "{args:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(&gone), "{args:?}");
    }
    assert!(host.refuses("c1", &asking("1")).starts_with(&gone));
    assert!(!host.root().exists());
}

/// Chip 3 was given by hand while `web` held it: both are shown, a row each.
#[test]
fn a_conflict_is_a_row_for_each_holder_and_fits_a_terminal() {
    let host = FakeHost::new("inf1.6xlarge");
    host.begin("web", &asking("id:3"));
    host.begin("a-name-that-is-longer-than-its-column", &given(host.major(), &[("/dev/neuron3", 3)]));
    let page = String::from_utf8(host.ctk(&["status", "--topology"]).stdout).unwrap();
    let rows: Vec<Vec<&str>> = page.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = |name: &str| rows.iter().find(|row| row.contains(&name)).unwrap()[..5].to_vec();
    assert_eq!(row("web"), ["A", "3", "4", "held", "#"]);
    assert_eq!(row("a-name-that-is-longer-than-its-column"), ["B", "3", "4", "adopted", "#"]);
    assert!(page.contains(" 3 #") && page.contains("\n# a conflict: "), "{page}");
    assert!(host.log().contains("a conflict: chip 3 held by web too (pid "), "{}", host.log());
}

#[test]
fn what_a_claim_would_not_trust_is_a_fault_of_status_and_plan_too() {
    for spoil in [
        |host: &FakeHost| fs::set_permissions(host.state_dir(), PermissionsExt::from_mode(0o777)).unwrap(),
        |host: &FakeHost| fs::set_permissions(host.state_dir().join("lock"), PermissionsExt::from_mode(0o666)).unwrap(),
        |host: &FakeHost| {
            fs::remove_file(host.state_dir().join("lock")).unwrap();
            std::os::unix::fs::symlink("/dev/null", host.state_dir().join("lock")).unwrap();
        },
    ] {
        let host = FakeHost::small();
        host.begin("c1", &asking("1")).init().kill();
        spoil(&host);
        for args in [&["status"][..], &["plan", "--annotation", "aws.amazon.com/neuron=1"]] {
            assert_eq!(host.ctk(args).status.code(), Some(1), "{args:?}");
        }
        host.refuses("c2", &asking("1"));
    }
}

#[test]
fn another_user_sees_the_same() {
    let host = FakeHost::trn1();
    host.begin("dead", &asking("2")).init().kill();
    host.begin("alive", &asking("2"));
    if !rules_over_nobody() {
        skipped("only root can become another user");
        return;
    }
    let mut command = host.program("neuron-ctk");
    let output = match command.args(["status", "--json"]).uid(NOBODY).gid(NOBODY).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            skipped("the build folder is closed to other users");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), host.status());
}

#[test]
fn wrong_usage_ends_with_2() {
    let host = FakeHost::trn1();
    for args in [&["status", "--yaml"][..], &["stauts"], &["simulate"]] {
        let output = host.ctk(args);
        assert_eq!((output.status.code(), output.stdout), (Some(2), vec![]), "{args:?}");
    }
}
