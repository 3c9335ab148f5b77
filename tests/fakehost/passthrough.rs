//! Who asks for nothing is never hurt (I7): argument list, environment and `config.json` go through as they came, whatever is wrong.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;

use crate::call::Running;
use crate::host::{FakeHost, Fault, listing};
use crate::specs::{PLAIN, annotated, asking, env_asking, plain, with_env};

/// What can be wrong with a host.
const FAULTS: [Fault; 14] = [
    ("nothing", |_| {}),
    ("config.toml is not TOML", |host| host.put(&host.config_toml(), "runtimes = [")),
    ("config.toml has an unknown key", |host| host.settings("max-chip = 1")),
    ("config.toml is not there", |host| fs::remove_file(host.config_toml()).unwrap()),
    ("config.toml is a folder", |host| {
        fs::remove_file(host.config_toml()).unwrap();
        fs::create_dir(host.config_toml()).unwrap();
    }),
    ("config.toml can be written by all", |host| {
        fs::set_permissions(host.config_toml(), PermissionsExt::from_mode(0o666)).unwrap();
    }),
    ("the ledger is garbage", |host| {
        host.make_state_dir();
        host.put(&host.ledger(), "\0garbage");
    }),
    ("the ledger is empty", |host| {
        host.make_state_dir();
        host.put(&host.ledger(), "");
    }),
    ("the ledger is of a newer version", |host| {
        host.make_state_dir();
        host.put(&host.ledger(), r#"{"version":2,"boot":"x","chips":{}}"#);
    }),
    ("the state directory is open to all", |host| {
        host.make_state_dir();
        fs::set_permissions(host.state_dir(), PermissionsExt::from_mode(0o777)).unwrap();
    }),
    ("the state directory is a file", |host| host.put(&host.state_dir(), "")),
    ("sysfs is no folder", |host| {
        fs::remove_dir_all(host.path("sys/class/neuron_device")).unwrap();
        host.put(&host.path("sys/class/neuron_device"), "");
    }),
    ("a file of sysfs cannot be read", |host| {
        fs::remove_file(host.path("sys/class/neuron_device/neuron0/dev")).unwrap();
        fs::create_dir(host.path("sys/class/neuron_device/neuron0/dev")).unwrap();
    }),
    ("there is no host at all", |host| fs::remove_dir_all(host.root()).unwrap()),
];

/// The bytes of each argument, as the stand-in is to get them.
fn bytes(args: &[&OsStr]) -> Vec<Vec<u8>> {
    args.iter().map(|arg| arg.as_bytes().to_vec()).collect()
}

#[test]
fn a_container_without_a_request_goes_through_whatever_is_wrong() {
    let mut no_requests = vec![
        ("plain", PLAIN.to_owned()),
        ("none", asking("none").to_string()),
        ("empty", asking("").to_string()),
        ("none over env", with_env(asking("none"), &["AWS_NEURON_VISIBLE_DEVICES=0"]).to_string()),
        ("env none", env_asking("none").to_string()),
        ("not JSON", "{\"annotations\":".to_owned()),
        ("no UTF-8 in the root's name", PLAIN.replace("org.example.other", "\u{fffd}")),
        ("empty file", String::new()),
    ];
    let sandbox = annotated(&[("aws.amazon.com/neuron", "2"), ("io.kubernetes.cri.container-type", "sandbox")]);
    no_requests.push(("sandbox", sandbox.to_string()));
    for (fault, cause) in FAULTS {
        let host = FakeHost::small();
        cause(&host);
        for (name, text) in &no_requests {
            let bundle = host.bundle_of_text(name, text);
            let before = listing(&bundle.folder);
            let call = host.create_with(&bundle, "c1", "nothing").ok();
            assert_eq!(&call.config_text(), text, "{name}, {fault}");
            assert_eq!(listing(&bundle.folder), before, "{name}, {fault}");
            assert_eq!(call.engine_log(), "", "{name}, {fault}: warnings are for our own log");
        }
    }
}

#[test]
fn a_container_without_a_request_leaves_no_trace_on_the_host() {
    for (fault, cause) in FAULTS.into_iter().filter(|(fault, _)| *fault != "there is no host at all") {
        let host = FakeHost::small();
        cause(&host);
        let before = listing(&host.root());
        let bundle = host.bundle_of_text("b", PLAIN);
        host.create_with(&bundle, "c1", "nothing").ok();
        host.call(&["delete".as_ref(), "c1".as_ref()], "").ok();
        assert_eq!(listing(&host.root()), before, "{fault}");
    }
}

#[test]
fn every_other_subcommand_goes_through_whatever_is_wrong() {
    let raw = OsString::from_vec(b"id\xfe\xff".to_vec());
    let lines: Vec<Vec<&OsStr>> = vec![
        vec![],
        vec!["--version".as_ref()],
        vec!["features".as_ref()],
        vec!["--root".as_ref(), "/r".as_ref(), "start".as_ref(), "c1".as_ref()],
        vec!["--root=/r".as_ref(), "delete".as_ref(), "--force".as_ref(), &raw],
        vec!["state".as_ref(), "c1".as_ref()],
        vec!["kill".as_ref(), "c1".as_ref(), "15".as_ref()],
        vec!["exec".as_ref(), "--process".as_ref(), "/nowhere".as_ref(), "--detach".as_ref(), "c1".as_ref()],
        vec!["update".as_ref(), "--resources".as_ref(), "-".as_ref(), "c1".as_ref()],
        vec!["of-tomorrow".as_ref(), "--unheard-of".as_ref(), "".as_ref(), "create ".as_ref()],
    ];
    for (fault, cause) in FAULTS {
        let host = FakeHost::small();
        cause(&host);
        // In the working directory of an exec there may well be a bundle that asks for chips.
        host.put(&host.folder().join("config.json"), &asking("any:2").to_string());
        let before = (fault != "there is no host at all").then(|| listing(&host.root()));
        for args in &lines {
            let call = host.call(args, "").ok();
            assert_eq!(call.argv()[1..], bytes(args), "{fault}");
            assert_eq!(call.stdout, "", "{fault}");
        }
        assert_eq!(before.is_some().then(|| listing(&host.root())), before, "{fault}");
    }
}

#[test]
fn arguments_reach_the_runtime_byte_for_byte() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &plain());
    let odd = OsString::from_vec(b"--unheard-of=\xff\xfe \n\x1b".to_vec());
    let raw = OsString::from_vec(b"id\xfe".to_vec());
    for args in [
        vec!["--root".as_ref(), "/r".as_ref(), &*odd, "create".as_ref(), "--bundle".as_ref(), bundle.folder.as_os_str(), &*raw],
        vec!["-log-format=json".as_ref(), "create".as_ref(), "-b".as_ref(), "".as_ref(), "--".as_ref(), &*raw],
        vec!["run".as_ref(), "--no-pivot".as_ref(), "--preserve-fds".as_ref(), "3".as_ref(), "--bundle=x=y".as_ref(), &*raw],
    ] {
        let call = host.call(&args, "nothing").ok();
        assert_eq!(call.argv()[1..], bytes(&args));
    }
}

#[test]
fn arguments_reach_the_runtime_byte_for_byte_with_a_request_too() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("any:2"));
    let odd = OsString::from_vec(b"--unheard-of=\xff\xfe \n".to_vec());
    let args: [&OsStr; 5] = ["create".as_ref(), &odd, "--bundle".as_ref(), bundle.folder.as_ref(), "c1".as_ref()];
    let call = host.call(&args, "nothing").ok();
    assert_eq!(call.argv()[1..], bytes(&args));
    assert!(call.config_text().contains("neuron-container-runtime.lease"));
}

#[test]
fn the_environment_reaches_the_runtime_as_it_was() {
    let host = FakeHost::trn1();
    for (id, spec) in [("plain", plain()), ("asking", asking("1"))] {
        let bundle = host.bundle(id, &spec);
        let (mut command, record) = host.wrapper(&["create".as_ref(), "--bundle".as_ref(), bundle.folder.as_ref(), id.as_ref()], "nothing");
        command.env("ODD", OsStr::from_bytes(b"\xff\n")).env("RUST_BACKTRACE", "1").env("NOTIFY_SOCKET", "/n");
        let mut given: Vec<Vec<u8>> =
            command.get_envs().map(|(key, value)| [key.as_bytes(), b"=", value.unwrap().as_bytes()].concat()).collect();
        let call = Running::start(command, record).finish().ok();
        let mut seen = call.environ();
        given.sort();
        seen.sort();
        assert_eq!(seen, given, "{id}");
    }
}

#[test]
fn a_bundle_is_found_in_every_spelling() {
    let host = FakeHost::trn1();
    let spellings: [fn(&OsStr) -> Vec<OsString>; 4] = [
        |bundle| vec!["create".into(), "--bundle".into(), bundle.into(), "c1".into()],
        |bundle| vec!["create".into(), attached("--bundle=", bundle), "c1".into()],
        |bundle| vec!["run".into(), "-b".into(), bundle.into(), "c1".into()],
        |bundle| vec!["create".into(), attached("-b=", bundle), "c1".into()],
    ];
    for (number, spelling) in spellings.into_iter().enumerate() {
        let bundle = host.bundle(&format!("b{number}"), &asking("1"));
        let args = spelling(bundle.folder.as_os_str());
        host.call(&args.iter().map(OsString::as_os_str).collect::<Vec<_>>(), "nothing").ok();
        assert!(bundle.text().contains("neuron-container-runtime.lease"), "{args:?}");
    }
    // And the working directory, where none is named.
    let bundle = host.bundle("here", &asking("1"));
    let (mut command, record) = host.wrapper(&["create".as_ref(), "c1".as_ref()], "nothing");
    command.current_dir(&bundle.folder);
    Running::start(command, record).finish().ok();
    assert!(bundle.text().contains("neuron-container-runtime.lease"));
}

/// A flag with its value attached.
fn attached(flag: &str, value: &OsStr) -> OsString {
    OsString::from_vec([flag.as_bytes(), value.as_bytes()].concat())
}

/// A Rust program ignores SIGPIPE, and an ignored signal stays ignored over exec; containers would inherit that.
#[test]
fn the_runtime_does_not_inherit_an_ignored_sigpipe() {
    let host = FakeHost::trn1();
    // A shell runs the file `create` of the working directory as its script, and ignores nothing by itself.
    host.put(&host.config_toml(), "runtimes = [\"/bin/sh\"]\n");
    let script = "while read -r name value; do [ \"$name\" = SigIgn: ] && echo \"$value\"; done </proc/self/status; exit 0\n";
    for (id, spec) in [("plain", plain()), ("asking", asking("1"))] {
        let bundle = host.bundle(id, &spec);
        host.put(&bundle.folder.join("create"), script);
        let (mut command, record) = host.wrapper(&["create".as_ref(), id.as_ref()], "");
        command.current_dir(&bundle.folder);
        let call = Running::start(command, record).finish().ok();
        let ignored = u64::from_str_radix(call.stdout.trim(), 16).unwrap();
        // SIGPIPE is signal 13, bit 12.
        assert_eq!(ignored & 1 << 12, 0, "{id}: SigIgn is {ignored:x}");
    }
}
