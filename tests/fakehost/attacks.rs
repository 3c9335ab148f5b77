//! What a stranger's spec, image or bundle may try; more of them are in `untrusted`, `messages`, `again` and `binding`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::call::Running;
use crate::host::FakeHost;
use crate::specs::{annotated, asking, given, nodes, our_hooks, plain, with_env};

/// An image can set any variable; neither wrapper nor hook takes it for its own.
#[test]
fn variables_of_the_image_steer_neither_wrapper_nor_hook() {
    let host = FakeHost::trn1();
    let elsewhere = host.folder().join("elsewhere");
    let variables = [
        "LD_PRELOAD=/evil.so".to_owned(),
        format!("NEURON_HOST_ROOT={}", elsewhere.display()),
        format!("NEURON_SETTINGS={}", elsewhere.display()),
        "PATH=/evil".to_owned(),
    ];
    let call = host.begin("c1", &with_env(asking("2"), &variables.each_ref().map(String::as_str)));
    assert_eq!(host.leases(), [("c1".to_owned(), vec![0, 1])]);
    assert_eq!(our_hooks(&call.config())[0]["env"], json!(["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]));
    let environ = call.hook(0, "environ").unwrap();
    assert_eq!(environ.trim_end_matches('\0'), "PATH=/usr/sbin:/usr/bin:/sbin:/bin");
}

/// Of the low-level runtime's own environment the hook has nothing either.
#[test]
fn the_engines_environment_does_not_reach_the_hook() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("c1", &asking("1"));
    let (mut command, record) = host.wrapper(&["create".as_ref(), "--bundle".as_ref(), bundle.folder.as_os_str(), "c1".as_ref()], "");
    command.env("LD_LIBRARY_PATH", "/evil");
    let call = Running::start(command, record).finish().ok();
    assert!(!call.hook(0, "environ").unwrap().contains("evil"));
}

#[test]
fn a_hook_entry_that_looks_like_ours_is_left_alone_and_binds_nothing() {
    let host = FakeHost::trn1();
    let victim = host.begin("victim", &asking("id:3"));
    let forged = json!({"path": host.bin().join("neuron-container-hook"), "args": ["neuron-container-hook", "createRuntime", "--lease", victim.lease(),
        "--rootfs", "/", "--state-dir", host.state_dir(), "--node", "3=/dev/neuron0=240:3"]});
    let mut spec = asking("id:5");
    spec["hooks"]["createRuntime"] = json!([forged]);
    let call = host.create(&host.bundle("forger", &spec), "forger");
    assert_eq!(call.code, Some(1), "somebody else's lease is not bound, so the container does not start");
    assert_eq!(host.leases(), [("victim".to_owned(), vec![3])]);
    assert!(victim.init().alive());
}

/// Go's runtimes read ten thousand levels, serde_json builds 128. Who asks is refused; who does not is not hurt, and the log tells of it.
#[test]
fn a_deeply_nested_spec_is_refused_where_it_asks_and_told_of_where_not() {
    let host = FakeHost::small();
    let deep = |spec: &serde_json::Value| {
        let list = "[".repeat(5000) + &"]".repeat(5000);
        spec.to_string().replacen('{', &format!("{{\"x\":{list},"), 1)
    };
    let said = "its config.json is not understood: recursion limit exceeded";
    assert!(host.refuses_bundle(&host.bundle_of_text("asks", &deep(&asking("1"))), "c1").starts_with(said));
    for spec in [plain(), given(host.major(), &[("/dev/neuron0", 0)])] {
        let text = deep(&spec);
        let bundle = host.bundle_of_text("deep", &text);
        let args = ["create".as_ref(), "--bundle".as_ref(), bundle.folder.as_os_str(), "c2".as_ref()];
        let call = host.call(&args, "nothing").ok();
        assert_eq!((call.config_text(), host.leases()), (text, vec![]));
    }
    assert!(host.log().contains(&format!("c2: gets no chips, and what chips it has are not recorded as taken: {said}")), "{}", host.log());
}

#[test]
fn a_large_spec_is_served_like_a_small_one() {
    let host = FakeHost::small();
    let text = asking("1").to_string().replacen('{', &format!("{{\"x\":\"{}\",", "y".repeat(8 << 20)), 1);
    let bundle = host.bundle_of_text("large", &text);
    let call = host.create(&bundle, "c1").ok();
    assert_eq!(nodes(&call.config()).len(), 1);
    assert_eq!(call.config()["x"].as_str().unwrap().len(), 8 << 20);
}

#[test]
fn a_spec_that_is_a_fifo_or_a_folder_or_has_no_end_hangs_nobody() {
    let host = FakeHost::small();
    let bundle = host.bundle("b", &plain());
    // The stand-in would read it itself.
    host.put(&host.config_toml(), "runtimes = [\"/bin/true\"]\n");
    for make in [
        |path: &Path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        |path: &Path| fs::create_dir(path).unwrap(),
        |path: &Path| symlink("/dev/zero", path).unwrap(),
    ] {
        fs::remove_file(bundle.config()).or_else(|_| fs::remove_dir(bundle.config())).unwrap();
        make(&bundle.config());
        let args = ["create".as_ref(), "--bundle".as_ref(), bundle.folder.as_os_str(), "c1".as_ref()];
        assert!(host.wrapper(&args, "").0.status().unwrap().success());
    }
}

#[test]
fn keys_that_are_there_twice_count_as_they_do_for_the_runtime() {
    let host = FakeHost::trn1();
    // Go takes the last one, so that is what is asked for.
    let text = asking("1").to_string().replacen(
        "\"aws.amazon.com/neuron\":\"1\"",
        "\"aws.amazon.com/neuron\":\"1\",\"aws.amazon.com/neuron\":\"3\"",
        1,
    );
    let bundle = host.bundle_of_text("twice", &text);
    host.create(&bundle, "c1").ok();
    assert_eq!(host.leases(), [("c1".to_owned(), vec![0, 1, 2])]);
}

/// The engine gives id and bundle; nothing is written outside the bundle and the state directory, whatever they hold.
#[test]
fn ids_that_are_paths_name_no_file() {
    let host = FakeHost::trn1();
    let before = fs::read_dir(host.folder()).unwrap().count();
    for id in ["../../etc/passwd", "..", "/", "a/b", "-x", "\u{1b}]0;x\u{7}"] {
        let bundle = host.bundle("b", &annotated(&[("aws.amazon.com/neuron", "1")]));
        let args: Vec<&OsStr> =
            ["create", "--bundle"].map(OsStr::new).into_iter().chain([bundle.folder.as_os_str(), "--".as_ref(), id.as_ref()]).collect();
        let call = host.call(&args, "fail-before-hook");
        assert_eq!(call.code, Some(1), "{id:?}");
        let mut names: Vec<_> = fs::read_dir(&bundle.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["config.json", "rootfs"], "{id:?}");
    }
    assert_eq!(fs::read_dir(host.folder()).unwrap().count() - before, 2, "the folders of bundles and records");
    let mut state: Vec<_> = fs::read_dir(host.state_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    state.sort();
    assert_eq!(state, ["ledger.json", "lock"]);
}

/// What is not the driver's node is not granted: a link, a file, another driver's.
#[test]
fn a_node_of_the_host_that_is_something_else_is_not_granted() {
    let host = FakeHost::small();
    let node = host.path("dev/neuron0");
    for make in [|path: &Path| symlink("/dev/null", path).unwrap(), |path: &Path| fs::create_dir(path).unwrap()] {
        fs::remove_file(&node).or_else(|_| fs::remove_dir(&node)).unwrap();
        make(&node);
        assert!(host.refuses("c1", &asking("1")).contains("is not the driver's node"));
    }
}
