//! `exec` in a container that holds chips: the session gets what the container got.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::call::Call;
use crate::host::{FakeHost, Fault};
use crate::specs::{annotated, asking, given};

/// What Docker hands over, made from the unedited spec: the request is still in it.
fn process(uid: u32, env: &[&str]) -> Value {
    let env = [&["PATH=/bin"], env].concat();
    let held = json!(["CAP_CHOWN"]);
    json!({
        "user": {"uid": uid, "gid": uid},
        "args": ["true"],
        "env": env,
        "capabilities": {"bounding": held, "effective": held, "permitted": held},
        "x-unknown": 1.50,
    })
}

/// A session as the shim begins it; gives what the runtime saw beside the call.
fn exec(host: &FakeHost, container: &str, process: &Value, attached: bool) -> (Call, Value) {
    let file = host.folder().join("runc-process1");
    fs::write(&file, process.to_string()).unwrap();
    let flag = format!("--process={}", file.display());
    let named: Vec<&OsStr> = if attached { vec![flag.as_ref()] } else { vec!["--process".as_ref(), file.as_os_str()] };
    let args =
        [&["--root", "/run/standin", "exec", "--detach"].map(OsStr::new)[..], &named, &["--pid-file", "/f", container].map(OsStr::new)]
            .concat();
    let call = host.call(&args, "").ok();
    assert_eq!(fs::read_to_string(&file).unwrap(), process.to_string(), "the engine's file stays as it is");
    let seen = call.process();
    (call, seen)
}

fn env(process: &Value) -> Vec<&str> {
    process["env"].as_array().unwrap().iter().map(|entry| entry.as_str().unwrap()).collect()
}

#[test]
fn a_session_sees_the_variables_and_holds_the_capability() {
    let host = FakeHost::trn1();
    host.begin("c1", &asking("id:4-5"));
    for attached in [false, true] {
        let (call, seen) = exec(&host, "c1", &process(0, &["AWS_NEURON_VISIBLE_DEVICES=any:2"]), attached);
        assert_eq!(env(&seen), ["PATH=/bin", "AWS_NEURON_VISIBLE_DEVICES=4,5", "NEURON_RT_NUM_CORES=4"]);
        let named = String::from_utf8(call.argv()[if attached { 5 } else { 6 }].clone()).unwrap();
        let file = named.strip_prefix(if attached { "--process=" } else { "" }).unwrap();
        assert!(file.starts_with("/proc/self/fd/"), "{named}");
        assert_eq!(seen["x-unknown"], json!(1.5));
        if host.real_nodes() {
            assert_eq!(seen["capabilities"]["effective"], json!(["CAP_CHOWN", "CAP_IPC_LOCK"]));
            assert_eq!(seen["capabilities"].get("ambient"), None);
        }
    }
    let (_, seen) = exec(&host, "c1", &process(1000, &[]), false);
    if host.real_nodes() {
        assert_eq!(seen["capabilities"]["ambient"], json!(["CAP_IPC_LOCK"]));
    }
}

#[test]
fn a_sessions_own_word_on_cores_counts() {
    let host = FakeHost::trn1();
    host.begin("c1", &asking("2"));
    for own in ["NEURON_RT_NUM_CORES=1", "NEURON_RT_VISIBLE_CORES=1"] {
        let (_, seen) = exec(&host, "c1", &process(0, &[own]), false);
        assert_eq!(env(&seen), ["PATH=/bin", own, "AWS_NEURON_VISIBLE_DEVICES=0,1"]);
    }
    host.begin("c2", &annotated(&[("aws.amazon.com/neuroncore", "1")]));
    let (_, seen) = exec(&host, "c2", &process(0, &[]), false);
    assert_eq!(env(&seen), ["PATH=/bin", "AWS_NEURON_VISIBLE_DEVICES=3", "NEURON_RT_VISIBLE_CORES=0"]);
}

#[test]
fn any_other_session_goes_through_as_it_came() {
    let faults: [Fault; 8] = [
        ("another container", |host| drop(host.begin("other", &asking("1")))),
        ("a container of another root", |host| {
            let lease = host.begin("moved", &asking("1"));
            let text =
                fs::read_to_string(host.ledger()).unwrap().replace("\"moved\",\"root\":\"/run/standin", "\"c1\",\"root\":\"/elsewhere");
            host.put(&host.ledger(), &text);
            drop(lease);
        }),
        ("a container that has ended", |host| host.begin("c1", &asking("1")).init().kill()),
        ("chips given by hand", |host| drop(host.begin("c1", &given(host.major(), &[("/dev/neuron0", 0)])))),
        ("no ledger", |_| {}),
        ("a damaged ledger", |host| {
            host.begin("c1", &asking("1"));
            host.put(&host.ledger(), "{");
        }),
        ("an open state directory", |host| {
            host.begin("c1", &asking("1"));
            fs::set_permissions(host.ledger(), PermissionsExt::from_mode(0o666)).unwrap();
        }),
        ("a dry run", |host| {
            host.begin("c1", &asking("1"));
            host.settings("dry-run = true");
        }),
    ];
    for (fault, cause) in faults {
        let host = FakeHost::small();
        cause(&host);
        let process = process(0, &["AWS_NEURON_VISIBLE_DEVICES=any:2"]);
        let (call, seen) = exec(&host, "c1", &process, false);
        assert_eq!(seen, process, "{fault}");
        assert!(!String::from_utf8(call.argv().concat()).unwrap().contains("/proc/self/fd"), "{fault}");
    }
}

#[test]
fn a_session_that_is_no_json_is_the_runtimes_to_judge() {
    let host = FakeHost::small();
    host.begin("c1", &asking("1"));
    let file = host.folder().join("p");
    // The capability is given only by who holds it.
    let capabilities = host.real_nodes().then_some("{\"capabilities\": []}");
    for text in ["", "{", "[]", "{\"env\": 3}"].into_iter().chain(capabilities) {
        fs::write(&file, text).unwrap();
        let args = ["--root", "/run/standin", "exec", "--process", file.to_str().unwrap(), "c1"].map(OsStr::new);
        let call = host.call(&args, "").ok();
        assert_eq!(call.argv()[5], file.as_os_str().as_encoded_bytes(), "{text}");
    }
    let args = ["--root", "/run/standin", "exec", "--env", "A=B", "c1", "sh", "--process", "/x"].map(OsStr::new);
    let call = host.call(&args, "").ok();
    assert_eq!(call.argv().len(), 10);
}
