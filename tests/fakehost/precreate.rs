//! Podman's stage `precreate`: the hook edits a spec, its caller holds the lease for a while; and the stages that find nobody did.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::call::{Call, Running, one_error_line};
use crate::host::{Bundle, FakeHost, boot_id};
use crate::specs::{annotated, asking, env_asking, given, nodes, our_hooks, plain};

const ID: &str = "aa729c9f8e539a9ed8f8d405b06664d84d502b620c2369ac0bbace92f5acca5c";

/// Runs a stage of the hook as an engine does: no environment, this on stdin.
fn hook(host: &FakeHost, stage: &str, stdin: &str) -> Output {
    let mut command = host.program("neuron-container-hook");
    command.env_clear().arg(stage).arg("--settings").arg(host.config_toml()).arg("--host-root").arg(host.root());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// A spec as Podman writes it.
fn of_podman(mut spec: Value, host: &FakeHost) -> Value {
    spec["linux"]["cgroupsPath"] = json!(format!("/libpod_parent/libpod-{ID}"));
    spec["root"]["path"] = json!(host.folder().join("bundles/podman/rootfs"));
    spec
}

/// The bundle that Podman makes of what the hook says.
fn prepared(host: &FakeHost, spec: Value) -> Bundle {
    let output = hook(host, "precreate", &of_podman(spec, host).to_string());
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""));
    host.bundle_of_text("podman", &String::from_utf8(output.stdout).unwrap())
}

/// The low-level runtime without the wrapper.
fn created_by_the_runtime(host: &FakeHost, bundle: &Bundle) -> Call {
    let record = host.folder().join("records/runtime");
    fs::create_dir_all(&record).unwrap();
    let mut command = host.program("standin-runtime");
    command.env("STANDIN_RECORD", &record).args(["create", "--bundle"]).arg(&bundle.folder).arg(ID);
    Running::start(command, record).finish()
}

/// Whole seconds since boot (proc(5)).
fn uptime() -> u64 {
    fs::read_to_string("/proc/uptime").unwrap().split('.').next().unwrap().parse().unwrap()
}

#[test]
fn the_caller_holds_the_lease_until_the_hook_inside_create_binds_it() {
    let host = FakeHost::trn1();
    let bundle = prepared(&host, asking("2"));
    assert_eq!(nodes(&bundle.spec()), [("/dev/neuron0".to_owned(), 0), ("/dev/neuron1".to_owned(), 1)]);
    let lease = host.status()["leases"][0].clone();
    assert_eq!(
        (&lease["container"], &lease["state"], &lease["holder"]["pid"]),
        (&json!(ID), &json!("claimed"), &json!(std::process::id()))
    );
    let left = lease["expires"].as_u64().unwrap() - uptime();
    assert!((100..=120).contains(&left), "two minutes from now: {left}");

    let call = created_by_the_runtime(&host, &bundle).ok();
    let lease = host.status()["leases"][0].clone();
    assert_eq!((&lease["state"], &lease["holder"]["pid"], lease.get("expires")), (&json!("bound"), &json!(call.init().pid), None));
    call.init().kill();
    assert_eq!(host.leases(), []);
}

/// The wrapper of the same container goes on with that lease; nobody else's does.
#[test]
fn the_wrapper_goes_on_with_the_lease_of_precreate() {
    let host = FakeHost::trn1();
    let bundle = prepared(&host, asking("2"));
    let before = (bundle.text(), host.status()["leases"][0]["id"].clone());
    assert!(host.refuses_bundle(&bundle, "another").contains("container aa729c9f8e53"));
    let running = host.start(&bundle, ID, "hold-before-hook").wait_for_hold();
    let lease = host.status()["leases"][0].clone();
    assert_eq!((bundle.text(), lease["id"].clone()), before);
    assert_eq!((&lease["holder"]["pid"], lease.get("expires"), &lease["state"]), (&json!(running.pid()), None, &json!("claimed")));
    running.release().ok();
    assert_eq!(host.leases(), [(ID.to_owned(), vec![0, 1])]);
}

#[test]
fn bind_tells_a_lease_its_container_where_precreate_could_not() {
    let host = FakeHost::trn1();
    let mut spec = of_podman(asking("2"), &host);
    spec["linux"]["cgroupsPath"] = Value::Null;
    let output = hook(&host, "precreate", &spec.to_string());
    let bundle = host.bundle_of_text("podman", &String::from_utf8(output.stdout).unwrap());
    assert_eq!(host.leases(), [(String::new(), vec![0, 1])]);
    created_by_the_runtime(&host, &bundle).ok();
    assert_eq!(host.leases(), [(ID.to_owned(), vec![0, 1])]);
}

/// The holder, this test, lives in all three cases.
#[test]
fn a_lease_whose_time_is_up_is_dead_though_its_holder_lives() {
    let host = FakeHost::trn1();
    prepared(&host, asking("all"));
    let ledger: Value = serde_json::from_str(&fs::read_to_string(host.ledger()).unwrap()).unwrap();
    let minutes: u64 = uptime() / 60;
    for (expires, live) in [(0, false), (60 * minutes + 120, true)] {
        let mut lease = ledger["leases"][0].clone();
        lease["expires"] = json!(expires);
        host.put_ledger(&boot_id(), &[lease]);
        assert_eq!(host.leases().len(), usize::from(live));
    }
    host.refuses("c1", &asking("1"));
    let mut lease = ledger["leases"][0].clone();
    lease["expires"] = json!(0);
    host.put_ledger(&boot_id(), &[lease]);
    host.begin("c1", &asking("all"));
}

#[test]
fn who_asks_for_nothing_gets_the_very_same_text_back() {
    let host = FakeHost::trn1();
    let text = plain().to_string();
    for (text, settings) in [(&*text, ""), (&*text, "x = ["), ("{\"a\": 1,  \"a\": 2}", ""), ("junk", ""), ("", "")] {
        host.put(&host.config_toml(), settings);
        let output = hook(&host, "precreate", text);
        assert_eq!((output.status.code(), &*String::from_utf8(output.stdout).unwrap()), (Some(0), text), "{settings}");
    }
    assert!(!host.state_dir().exists());
}

/// Any image can set it, and Podman calls the hook for every container.
#[test]
fn the_environment_does_not_ask() {
    let host = FakeHost::trn1();
    let spec = of_podman(env_asking("any:2"), &host).to_string();
    assert_eq!(String::from_utf8(hook(&host, "precreate", &spec).stdout).unwrap(), spec);
    assert_eq!(host.leases(), []);
}

#[test]
fn nodes_given_by_hand_are_adopted() {
    let host = FakeHost::trn1();
    let bundle = prepared(&host, given(host.major(), &[("/dev/neuron3", 3)]));
    assert_eq!(our_hooks(&bundle.spec()).len(), 1);
    created_by_the_runtime(&host, &bundle).ok();
    assert_eq!(host.chips_in("adopted"), [3]);
}

/// Podman throws away what the hook says on stderr, so it is also said on Podman's own.
#[test]
fn a_refusal_is_said_to_the_caller_and_in_the_log_and_no_spec_comes_out() {
    let host = FakeHost::trn1();
    let (spec, heard) = (host.folder().join("spec.json"), host.folder().join("heard"));
    fs::write(&spec, of_podman(asking("17"), &host).to_string()).unwrap();
    fs::write(&heard, "earlier\n").unwrap();
    // timeout is the parent; a shell may redirect its own stderr while it waits.
    let script = "exec $HOOK precreate --settings $S --host-root $R <spec.json >out 2>/dev/null";
    let mut parent = Command::new("timeout");
    parent
        .args(["60", "sh", "-c", script])
        .env_clear()
        .env("HOOK", host.bin().join("neuron-container-hook"))
        .env("S", host.config_toml())
        .env("R", host.root());
    parent.current_dir(host.folder()).stderr(OpenOptions::new().append(true).open(&heard).unwrap());
    assert_eq!(parent.status().unwrap().code(), Some(1));
    let read = |name: &str| fs::read_to_string(host.folder().join(name)).unwrap();
    assert_eq!(read("out"), "");
    let sentence = "asked for 17 Neuron chips, this host has 16: ask for fewer, or use a larger instance";
    assert_eq!(read("heard"), format!("earlier\nneuron-container-hook: {sentence}\n"));
    assert!(host.log().contains(&format!("aa729c9f8e53: refused: {sentence}")), "{}", host.log());
    assert_eq!(host.leases(), []);
}

#[test]
fn a_stage_without_a_lease_stops_a_container_that_asks_and_that_nobody_prepared() {
    let host = FakeHost::trn1();
    let state = |bundle: &Bundle, id: &str| {
        let spec = bundle.spec();
        json!({"ociVersion": "1.0.2", "id": id, "status": "creating", "pid": 1, "bundle": bundle.folder, "annotations": spec["annotations"]})
    };
    for stage in ["prestart", "createRuntime"] {
        for (spec, stops) in [
            (plain(), false),
            (asking("2"), true),
            (env_asking("0-3"), true),
            (asking("none"), false),
            (annotated(&[("aws.amazon.com/neuron", "2"), ("neuron-container-runtime.lease", "00000000000000aa")]), true),
            (given(host.major(), &[("/dev/neuron3", 3)]), false),
        ] {
            let bundle = host.bundle("b", &spec);
            let output = hook(&host, stage, &state(&bundle, "b").to_string());
            assert_eq!(output.status.code() == Some(1), stops, "{stage}: {spec}");
            if stops {
                let said = one_error_line(output.status.code(), "", &String::from_utf8(output.stderr).unwrap());
                assert!(said.starts_with("asked for ") && said.contains("neuron-ctk configure docker"), "{said}");
            }
        }
        // crun in a user namespace gives no bundle: the state's annotations have to do.
        let mut somewhere = state(&host.bundle("b", &asking("2")), "b");
        somewhere["bundle"] = json!("/");
        assert_eq!(hook(&host, stage, &somewhere.to_string()).status.code(), Some(1));
    }
    let bundle = prepared(&host, asking("2"));
    assert_eq!(hook(&host, "prestart", &state(&bundle, ID).to_string()).status.code(), Some(0));
    assert_eq!(hook(&host, "prestart", &state(&bundle, "another").to_string()).status.code(), Some(1));
}
