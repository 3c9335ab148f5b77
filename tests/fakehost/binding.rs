//! The hook: a container's process starts only with the nodes of its lease, and a lease is bound once (I2).

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::call::{Init, one_error_line};
use crate::host::{FakeHost, Fault};
use crate::specs::{asking, given, our_hooks};

/// Runs the hook of a spec by hand, with this on stdin.
fn hook_by_hand(host: &FakeHost, spec: &Value, stdin: &str) -> Output {
    let entry = our_hooks(spec).remove(0);
    let args: Vec<&str> = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    let mut command = host.program("neuron-container-hook");
    command.arg0(args[0]).args(&args[1..]).env_clear().env("PATH", "/bin");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A hook that ends without reading has its reasons.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn state(id: &str, init: Init) -> String {
    json!({"ociVersion": "1.0.2", "id": id, "status": "creating", "pid": init.pid, "bundle": "/"}).to_string()
}

/// The message of a hook that stops its container.
fn stopped(output: &Output) -> String {
    one_error_line(output.status.code(), &String::from_utf8_lossy(&output.stdout), &String::from_utf8_lossy(&output.stderr))
}

#[test]
fn another_chips_node_in_a_granted_ones_place_stops_the_container() {
    let host = FakeHost::trn1();
    let call = host.create_with(&host.bundle("c1", &asking("id:4-5")), "c1", "swap-node");
    assert_eq!((call.code, call.hook(0, "code").as_deref()), (Some(1), Some("1")));
    let message = call.hook(0, "stderr").unwrap();
    assert!(message.starts_with("error: /dev/neuron0 in the container is ") && message.lines().count() == 1, "{message}");
    assert!(!call.init().alive());
    assert_eq!(host.leases(), []);
}

#[test]
fn a_node_that_was_not_granted_stops_the_container() {
    let host = FakeHost::trn1();
    let call = host.create_with(&host.bundle("c1", &asking("id:4-5")), "c1", "extra-node");
    assert_eq!(call.code, Some(1));
    assert!(call.hook(0, "stderr").unwrap().contains("/dev/neuron63"));
    assert_eq!(host.leases(), []);
}

#[test]
fn a_hook_that_runs_twice_stops_the_container_the_second_time() {
    let host = FakeHost::trn1();
    let call = host.create_with(&host.bundle("c1", &asking("id:4-5")), "c1", "hook-twice");
    assert_eq!((call.hook(0, "code").as_deref(), call.hook(1, "code").as_deref()), (Some("0"), Some("1")));
    assert!(call.hook(1, "stderr").unwrap().contains("bound already"));
    assert_eq!((call.code, call.init().alive()), (Some(1), false));
    assert_eq!(host.leases(), []);
}

#[test]
fn a_state_as_crun_writes_it_in_a_user_namespace_is_enough() {
    let host = FakeHost::trn1();
    let call = host.create_with(&host.bundle("c1", &asking("id:4-5")), "c1", "as-crun").ok();
    assert_eq!(host.status()["leases"][0]["holder"]["pid"], json!(call.init().pid));
}

#[test]
fn a_lease_of_somebody_elses_is_not_bound() {
    let host = FakeHost::trn1();
    host.begin("other", &asking("1"));
    let bundle = host.bundle("c1", &asking("id:4-5"));
    let running = host.start(&bundle, "c1", "hold-before-hook").wait_for_hold();
    let before = host.status();
    let message = stopped(&hook_by_hand(&host, &bundle.spec(), &state("other", running.init())));
    assert!(message.contains("c1") && message.contains("other"), "{message}");
    assert_eq!(host.status(), before);
    running.release().ok();
}

#[test]
fn a_lease_is_not_bound_again_by_hand() {
    let host = FakeHost::trn1();
    let call = host.begin("c1", &asking("id:4-5"));
    let before = host.status();
    let message = stopped(&hook_by_hand(&host, &call.config(), &state("c1", call.init())));
    assert!(message.contains(&format!("bound already, to pid {}", call.init().pid)), "{message}");
    assert_eq!(host.status(), before);
}

#[test]
fn a_lease_is_not_bound_after_the_containers_end() {
    let host = FakeHost::trn1();
    let call = host.begin("c1", &asking("id:4-5"));
    let bystander = host.begin("bystander", &asking("1"));
    call.init().kill();
    let message = stopped(&hook_by_hand(&host, &call.config(), &state("c1", bystander.init())));
    assert!(message.contains("not in the ledger"), "{message}");
    stopped(&hook_by_hand(&host, &call.config(), &state("c1", call.init())));
    // By hand: 6 and 7 are the rest of the row that is broken already, and 6 is next to another container's chip.
    assert_eq!(host.leases(), [("bystander".to_owned(), vec![7])]);
}

/// crun leaves a process behind where the one that creates is killed; its hook must not find a lease.
#[test]
fn a_lease_is_not_bound_after_the_creating_process_was_killed() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("c1", &asking("id:4-5"));
    let mut running = host.start(&bundle, "c1", "hold-before-hook").wait_for_hold();
    let init = running.init();
    running.kill();
    assert!(init.alive());
    let message = stopped(&hook_by_hand(&host, &bundle.spec(), &state("c1", init)));
    assert!(message.contains("not in the ledger"), "{message}");
    init.kill();
}

#[test]
fn a_state_that_names_no_process_stops_the_container() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("c1", &asking("id:4-5"));
    let running = host.start(&bundle, "c1", "hold-before-hook").wait_for_hold();
    let before = host.status();
    let with_pid = |pid: Value| json!({"ociVersion": "1.0.2", "id": "c1", "status": "creating", "pid": pid, "bundle": "/"}).to_string();
    for stdin in ["", "{", "{}", "[]", "null", &with_pid(json!(0)), &with_pid(json!(-1)), &with_pid(json!(null)), &with_pid(json!("1"))] {
        stopped(&hook_by_hand(&host, &bundle.spec(), stdin));
        assert_eq!(host.status(), before, "{stdin}");
    }
    running.release().ok();
}

#[test]
fn a_fault_of_the_ledger_between_claim_and_bind_stops_the_container() {
    let faults: [Fault; 3] = [
        ("damaged ledger", |host| host.put(&host.ledger(), "{")),
        ("no ledger", |host| fs::remove_file(host.ledger()).unwrap()),
        ("open state directory", |host| fs::set_permissions(host.state_dir(), PermissionsExt::from_mode(0o777)).unwrap()),
    ];
    for (fault, cause) in faults {
        let host = FakeHost::small();
        let running = host.start(&host.bundle("c1", &asking("1")), "c1", "hold-before-hook").wait_for_hold();
        cause(&host);
        let call = running.release();
        assert_eq!((call.code, call.hook(0, "code").as_deref()), (Some(1), Some("1")), "{fault}");
        assert!(!call.init().alive(), "{fault}");
    }
}

#[test]
fn settings_that_change_between_claim_and_bind_are_those_of_the_claim() {
    for text in ["x = [", "state-dir = \"/nowhere\"\n"] {
        let host = FakeHost::small();
        let running = host.start(&host.bundle("c1", &asking("1")), "c1", "hold-before-hook").wait_for_hold();
        host.put(&host.config_toml(), text);
        let call = running.release();
        assert_eq!((call.code, call.hook(0, "code").as_deref()), (Some(0), Some("0")), "{text}");
        host.put(&host.config_toml(), "");
        assert_eq!(host.status()["leases"][0]["state"], "bound", "{text}");
    }
}

#[test]
fn the_hook_of_an_adopted_lease_ends_well_on_any_fault() {
    let faults: [Fault; 5] = [
        ("none, but bound already", |_| {}),
        ("damaged ledger", |host| host.put(&host.ledger(), "{")),
        ("no ledger", |host| fs::remove_file(host.ledger()).unwrap()),
        ("open state directory", |host| fs::set_permissions(host.state_dir(), PermissionsExt::from_mode(0o777)).unwrap()),
        ("no /dev", |host| fs::remove_dir_all(host.folder().join("bundles/manual/rootfs/dev")).unwrap()),
    ];
    for (fault, cause) in faults {
        let host = FakeHost::small();
        let call = host.begin("manual", &given(host.major(), &[("/dev/neuron0", 0)]));
        cause(&host);
        for stdin in [state("manual", call.init()), state("other", call.init()), String::new(), "{}".to_owned(), "junk".to_owned()] {
            let output = hook_by_hand(&host, &call.config(), &stdin);
            assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(0), vec![], vec![]), "{fault}: {stdin}");
        }
        assert!(host.log().contains(" WARN "), "{fault}: {}", host.log());
    }
}

#[test]
fn arguments_that_are_not_the_wrappers_are_refused() {
    let host = FakeHost::trn1();
    for args in [&[][..], &["poststop"], &["createRuntime"], &["createRuntime", "--lease", "x"], &["createRuntime", "--force"]] {
        let output = host.program("neuron-container-hook").args(args).output().unwrap();
        stopped(&output);
    }
}
