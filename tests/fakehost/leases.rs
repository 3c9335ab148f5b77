//! The life of a lease: never two containers on a chip, and chips come back as soon as their holder is dead, without a word from anyone.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::call::{Running, state_of};
use crate::host::{FakeHost, boot_id, skipped};
use crate::specs::{asking, nodes};

#[test]
fn two_containers_never_share_a_chip() {
    let host = FakeHost::trn1();
    // By hand: 2-3 leaves the half 8-15 and the row 4-7 whole, and so does 0 before it.
    for (id, ask, chips) in [("a", "2", vec![0, 1]), ("b", "2", vec![2, 3]), ("c", "8", (8..16).collect()), ("d", "1", vec![4])] {
        host.begin(id, &asking(ask));
        assert_eq!(host.leases().pop(), Some((id.to_owned(), chips)));
    }
    let message = host.refuses("e", &asking("4"));
    assert!(
        message.starts_with("asked for 4 Neuron chips, 3 of 16 are free: 0-1 held by a, 2-3 held by b, 4 held by d, 8-15 held by c"),
        "{message}"
    );
    host.begin("f", &asking("id:5-7"));
    assert!(host.refuses("g", &asking("1")).starts_with("asked for 1 Neuron chip, 0 of 16 are free"));
}

#[test]
fn a_lease_names_its_container_and_after_the_bind_its_process() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("c1", &asking("id:4-5"));
    let running = host.start(&bundle, "c1", "hold-before-hook").wait_for_hold();
    let lease = host.status()["leases"][0].clone();
    let wrapper = i32::try_from(running.pid()).unwrap();
    assert_eq!((&lease["state"], &lease["holder"]["pid"]), (&json!("claimed"), &json!(wrapper)));
    assert_eq!(lease["holder"]["start"], json!(state_of(wrapper).unwrap().1));
    let call = running.release().ok();
    let init = call.init();
    let lease = host.status()["leases"][0].clone();
    assert_eq!((&lease["state"], &lease["holder"]["pid"]), (&json!("bound"), &json!(init.pid)));
    assert_eq!(lease["holder"]["start"], json!(state_of(init.pid).unwrap().1));
    assert_eq!((&lease["container"], &lease["root"], &lease["mode"]), (&json!("c1"), &json!("/run/standin"), &json!("exclusive")));
    assert_eq!((&lease["chips"], &lease["request"]), (&json!([4, 5]), &json!("id:4-5")));
}

#[test]
fn chips_come_back_to_the_very_next_claim_when_the_container_is_killed() {
    let host = FakeHost::trn1();
    let first = host.begin("a", &asking("all"));
    host.refuses("b", &asking("1"));
    first.init().kill();
    // No delete, no poststop hook, nothing in between.
    host.begin("b", &asking("all"));
    assert_eq!(host.leases(), [("b".to_owned(), (0..16).collect())]);
}

#[test]
fn chips_come_back_when_the_creating_process_is_killed_even_as_a_zombie() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("a", &asking("all"));
    let mut running = host.start(&bundle, "a", "hold-before-hook").wait_for_hold();
    assert_eq!(host.leases().len(), 1);
    running.kill();
    assert_eq!(host.leases(), []);
    host.begin("b", &asking("all"));
    assert_eq!(host.leases(), [("b".to_owned(), (0..16).collect())]);
}

#[test]
fn chips_come_back_when_the_runtime_cannot_be_started() {
    let host = FakeHost::trn1();
    // It passes for an executable, and what is to interpret it is not there.
    let runtime = host.folder().join("no-program");
    host.put(&runtime, "#!/nowhere/interpreter\n");
    fs::set_permissions(&runtime, PermissionsExt::from_mode(0o755)).unwrap();
    host.put(&host.config_toml(), &format!("runtimes = [\"{}\"]\n", runtime.display()));
    let call = host.create(&host.bundle("a", &asking("all")), "a");
    assert!(call.refusal().contains("no-program"));
    // The lease had been written down: the ledger is there.
    assert!(host.ledger().exists());
    assert_eq!(host.leases(), []);
    host.settings("");
    host.begin("b", &asking("all"));
}

#[test]
fn chips_come_back_when_the_runtime_fails_before_the_hook() {
    let host = FakeHost::trn1();
    let call = host.create_with(&host.bundle("a", &asking("all")), "a", "fail-before-hook");
    assert_eq!((call.code, call.ran()), (Some(1), true));
    assert_eq!(host.leases(), []);
    host.begin("b", &asking("all"));
}

#[test]
fn chips_come_back_when_the_hook_fails() {
    let host = FakeHost::trn1();
    let call = host.create_with(&host.bundle("a", &asking("id:0-3")), "a", "swap-node");
    assert_eq!((call.code, call.hook(0, "code").as_deref()), (Some(1), Some("1")));
    assert_eq!(host.leases(), []);
    host.begin("b", &asking("all"));
}

#[test]
fn a_container_that_is_being_created_holds_its_chips() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("a", &asking("all"));
    let running = host.start(&bundle, "a", "hold-before-hook").wait_for_hold();
    assert!(host.refuses("b", &asking("1")).contains("0 of 16 are free"));
    running.release().ok();
    assert!(host.refuses("b", &asking("1")).contains("0 of 16 are free"));
}

#[test]
fn thirty_two_creates_at_once_share_sixteen_chips_without_sharing_one() {
    let host = FakeHost::trn1();
    let running: Vec<_> = (0..32)
        .map(|number| {
            let id = format!("c{number}");
            host.start(&host.bundle(&id, &asking("1")), &id, "")
        })
        .collect();
    let calls: Vec<_> = running.into_iter().map(Running::finish).collect();
    let (begun, refused): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| call.code == Some(0));
    for call in &refused {
        assert!(call.refusal().starts_with("asked for 1 Neuron chip, 0 of 16 are free"));
    }
    let mut chips: Vec<u64> = begun.iter().flat_map(|call| nodes(&call.config())).map(|(_, chip)| chip).collect();
    chips.sort_unstable();
    assert_eq!(chips, (0..16).collect::<Vec<u64>>());
    let mut held: Vec<u64> = host.leases().into_iter().flat_map(|(_, chips)| chips).collect();
    held.sort_unstable();
    assert_eq!(held, chips);
}

/// A lease as another process might have written it; its holder is this test.
fn lease(pidns: u64) -> serde_json::Value {
    let own = i32::try_from(std::process::id()).unwrap();
    json!({"id": "00000000000000aa", "container": "old", "root": "", "chips": [0, 1, 2, 3], "mode": "exclusive", "state": "bound",
        "holder": {"pid": own, "start": state_of(own).unwrap().1, "pidns": pidns},
        "since": "2026-01-01T00:00:00Z", "request": "any:4", "env": []})
}

/// `pid:[4026531836]`
fn own_pidns() -> u64 {
    let link = fs::read_link("/proc/self/ns/pid").unwrap();
    link.to_str().unwrap().trim_start_matches("pid:[").trim_end_matches(']').parse().unwrap()
}

#[test]
fn a_ledger_written_by_hand_from_the_design_is_read() {
    let host = FakeHost::trn1();
    host.put_ledger(&boot_id(), &[lease(own_pidns())]);
    assert_eq!(host.leases(), [("old".to_owned(), vec![0, 1, 2, 3])]);
    assert!(host.refuses("b", &asking("id:3")).contains("chip 3 is held by old (pid "));
}

#[test]
fn a_ledger_of_another_boot_is_empty() {
    let host = FakeHost::trn1();
    host.put_ledger("00000000-0000-4000-8000-000000000000", &[lease(own_pidns())]);
    assert_eq!(host.leases(), []);
    host.begin("b", &asking("id:0-3"));
    assert_eq!(host.leases(), [("b".to_owned(), vec![0, 1, 2, 3])]);
}

#[test]
fn a_holder_whose_pid_is_anothers_now_is_dead() {
    let host = FakeHost::trn1();
    let mut reused = lease(own_pidns());
    reused["holder"]["start"] = json!(reused["holder"]["start"].as_u64().unwrap() + 1);
    host.put_ledger(&boot_id(), &[reused]);
    assert_eq!(host.leases(), []);
    host.begin("b", &asking("all"));
}

/// Is the pid namespace of every process to be seen? Only from the initial one, and by root; pid 1, which some sandboxes hide even from
/// root, is of that namespace anyway.
fn sees_all_namespaces() -> bool {
    let process = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(|name| name != "1" && name.parse::<u32>().is_ok());
    let readable = |entry: fs::DirEntry| match fs::read_link(entry.path().join("ns/pid")) {
        Ok(_) => true,
        // It has ended meanwhile.
        Err(error) => error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(3),
    };
    // PROC_PID_INIT_INO, include/linux/proc_ns.h.
    own_pidns() == 0xEFFF_FFFC && fs::read_dir("/proc").unwrap().map(Result::unwrap).filter(process).all(readable)
}

#[test]
fn a_lease_of_a_pid_namespace_that_is_gone_is_dead_to_who_sees_all_processes_and_busy_to_who_does_not() {
    let host = FakeHost::trn1();
    host.put_ledger(&boot_id(), &[lease(1)]);
    if sees_all_namespaces() {
        host.begin("b", &asking("id:3"));
        assert_eq!(host.leases(), [("b".to_owned(), vec![3])]);
    } else {
        skipped("not every process's pid namespace can be read here: only the busy half is tested");
        assert!(host.refuses("b", &asking("id:3")).contains("chip 3 is held by old"));
    }
}
