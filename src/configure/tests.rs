//! Files before and after, typed by hand; what comes back, by hand and for files that are made up.

mod properties;

use serde_json::Value;

use super::accept_env::AcceptEnv;
use super::*;

const WRAPPER_PATH: &str = "/usr/local/bin/neuron-container-runtime";

fn docker() -> docker::Daemon<'static> {
    docker::Daemon { runtime: WRAPPER_PATH }
}

fn containerd() -> containerd::Config<'static> {
    containerd::Config { runtime: WRAPPER_PATH, main: None }
}

fn crio() -> crio::Config<'static> {
    crio::Config { runtime: WRAPPER_PATH }
}

fn podman() -> podman::Config<'static> {
    podman::Config { runtime: WRAPPER_PATH, hooks_dir: podman::HOOKS_DIR.to_owned(), other_dirs: None }
}

/// What the file is after it was configured, twice; and it must come back as it was.
fn configured(edit: &dyn Edit, before: Option<&str>, role: Role) -> String {
    let after = add(edit, before, role).unwrap().after.unwrap();
    assert_eq!(edit.state(&after).unwrap(), State::Ours, "{after}");
    let again = add(edit, Some(&after), role).unwrap();
    assert_eq!((again.after.as_deref(), again.copy), (Some(&*after), Copy::Stay), "twice is once");
    let back = remove(edit, Some(&after), before).unwrap();
    assert_eq!((back.after.as_deref(), back.copy), (before, Copy::Go), "{after}");
    after
}

/// What is left when somebody changed the configured file before it is taken out.
fn taken_out(edit: &dyn Edit, before: Option<&str>, role: Role, change: impl Fn(&str) -> String) -> String {
    let after = configured(edit, before, role);
    let changed = change(&after);
    assert_ne!(changed, after, "nothing was changed");
    let gone = remove(edit, Some(&changed), before).unwrap();
    let left = gone.after.unwrap_or_default();
    assert_ne!(edit.state(&left).unwrap(), State::Ours, "{left}");
    assert_eq!(gone.copy, Copy::Go);
    left
}

#[test]
fn dockers_file_keeps_its_keys_their_order_and_its_indentation() {
    for (before, after) in [
        ("{}", "{\n  \"runtimes\": {\n    \"neuron\": {\n      \"path\": \"/usr/local/bin/neuron-container-runtime\"\n    }\n  }\n}"),
        ("", "{\n  \"runtimes\": {\n    \"neuron\": {\n      \"path\": \"/usr/local/bin/neuron-container-runtime\"\n    }\n  }\n}\n"),
        (r#"{"b":1.50,"a":[ 1 ]}"#, r#"{"b":1.50,"a":[ 1 ],"runtimes":{"neuron":{"path":"/usr/local/bin/neuron-container-runtime"}}}"#),
        (r#"{"runtimes":{}, "x": 1}"#, r#"{"runtimes":{"neuron":{"path":"/usr/local/bin/neuron-container-runtime"}}, "x": 1}"#),
        (
            "{\n\t\"runtimes\": {\n\t\t\"runsc\": {\"path\": \"/r\"}\n\t},\n\t\"x\": 1\n}\n",
            "{\n\t\"runtimes\": {\n\t\t\"runsc\": {\"path\": \"/r\"},\n\t\t\"neuron\": {\n\t\t\t\"path\": \"/usr/local/bin/neuron-container-runtime\"\n\t\t}\n\t},\n\t\"x\": 1\n}\n",
        ),
        (
            "{\r\n    \"x\" : 1\r\n}\r\n",
            "{\r\n    \"x\" : 1,\r\n    \"runtimes\" : {\r\n        \"neuron\": {\r\n            \"path\": \"/usr/local/bin/neuron-container-runtime\"\r\n        }\r\n    }\r\n}\r\n",
        ),
        (
            r#"{"runtimes":{"neuron":{"path":"/opt/aws/neuron/bin/oci_neuron_hook_wrapper.sh","runtimeArgs":["x"]}}}"#,
            r#"{"runtimes":{"neuron":{"path":"/usr/local/bin/neuron-container-runtime"}}}"#,
        ),
        (r#"{"runtimes":null}"#, r#"{"runtimes":{"neuron":{"path":"/usr/local/bin/neuron-container-runtime"}}}"#),
    ] {
        assert_eq!(configured(&docker(), Some(before), Role::Extra), after);
    }
    assert_eq!(
        configured(&docker(), Some("{\"default-runtime\": \"runsc\"}"), Role::Default),
        "{\"default-runtime\": \"neuron\",\"runtimes\": {\"neuron\":{\"path\":\"/usr/local/bin/neuron-container-runtime\"}}}"
    );
    configured(&docker(), None, Role::Default);
}

#[test]
fn a_file_that_dockerd_would_not_read_is_left_alone() {
    for (text, fault) in [
        ("{\n  \"a\": 1,\n}", "at line 3 column 1"),
        ("{\n  // no\n}", "at line 2 column 3"),
        ("{\"a\": 1", "at line 1 column 7"),
        ("[]", "the document is no JSON object"),
        (r#"{"runtimes": []}"#, "\"runtimes\" is no JSON object"),
        (r#"{"runtimes": {}, "a": 1, "runtimes": {}}"#, "the document has \"runtimes\" twice: take one out"),
        ("{} {}", "at line 1 column 4"),
    ] {
        let said = format!("{:#}", add(&docker(), Some(text), Role::Extra).unwrap_err());
        assert!(said.ends_with(fault), "{text}: {said}");
        assert!(remove(&docker(), Some(text), None).is_err(), "{text}");
    }
}

#[test]
fn what_somebody_changed_in_dockers_file_meanwhile_stays() {
    let debug = |text: &str| text.replacen('{', "{\"debug\": true,", 1);
    for (before, role, left) in [
        (Some(r#"{"a":1}"#), Role::Extra, r#"{"debug": true,"a":1}"#),
        (Some(r#"{"a":1,"runtimes":{}}"#), Role::Extra, r#"{"debug": true,"a":1,"runtimes":{}}"#),
        (Some(r#"{"runtimes":{"x":{"path":"/x"}},"default-runtime":"x"}"#), Role::Default, r#"{"debug": true,"runtimes":{"x":{"path":"/x"}},"default-runtime":"x"}"#),
        (Some(r#"{"runtimes":{"neuron":{"path":"/aws"}}}"#), Role::Default, r#"{"debug": true,"runtimes":{"neuron":{"path":"/aws"}}}"#),
        (None, Role::Default, "{\"debug\": true\n}\n"),
    ] {
        assert_eq!(taken_out(&docker(), before, role, debug), left);
    }
    // Another default that was chosen since is somebody's.
    let other = |text: &str| text.replace("\"default-runtime\":\"neuron\"", "\"default-runtime\":\"runc\"");
    assert_eq!(taken_out(&docker(), Some(r#"{"a":1}"#), Role::Default, other), r#"{"a":1,"default-runtime":"runc"}"#);
    // Entered after ours, at the end.
    let runtime = |text: &str| text.replace("-runtime\"}}", "-runtime\"},\"y\":{\"path\":\"/y\"}}");
    assert_eq!(taken_out(&docker(), Some(r#"{"a":1}"#), Role::Extra, runtime), r#"{"a":1,"runtimes":{"y":{"path":"/y"}}}"#);
}

#[test]
fn a_runtime_that_was_registered_after_ours_is_not_taken_out() {
    let theirs = r#"{"runtimes":{"neuron":{"path":"/opt/aws/neuron/bin/oci_neuron_hook_wrapper.sh"}},"default-runtime":"neuron"}"#;
    let change = remove(&docker(), Some(theirs), Some("{}")).unwrap();
    assert_eq!((change.after.as_deref(), change.copy), (Some(theirs), Copy::Stay));
    assert_eq!(
        add(&docker(), Some(theirs), Role::Extra).unwrap().replaces.as_deref(),
        Some("\"/opt/aws/neuron/bin/oci_neuron_hook_wrapper.sh\"")
    );
}

#[test]
fn the_copy_is_of_the_file_before_ours_came_and_of_no_later_one() {
    let copy = |text: Option<&str>| add(&docker(), text, Role::Extra).unwrap().copy;
    assert_eq!(copy(Some("{}")), Copy::Make);
    assert_eq!(copy(None), Copy::Go, "a copy of a file that is gone");
    assert_eq!(copy(Some(r#"{"runtimes":{"neuron":{"path":"/old/neuron-container-runtime"}}}"#)), Copy::Stay, "ours, of another place");
    assert_eq!(copy(Some(r#"{"runtimes":{"neuron":{"path":"/aws"}}}"#)), Copy::Make);
}

#[test]
fn where_a_daemon_is_found() {
    let found = docker::address(r#"{"pidfile":"/p","hosts":["tcp://1:2","unix:///s","unix:///t"]}"#).unwrap();
    assert_eq!((found.pidfile.as_deref(), found.socket.as_deref()), (Some("/p"), Some("unix:///s")));
    assert_eq!(docker::address("").unwrap(), docker::Address { pidfile: None, socket: None });
}

const NOTE: &str = "# neuron-ctk configure wrote this; with --remove it takes it out again.\n";

#[test]
fn containerds_file_keeps_its_comments_and_order() {
    let grpc = "plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes";
    let ours = |options: &str| {
        format!(
            "[{grpc}.neuron]\nruntime_type = \"io.containerd.runc.v2\"\npod_annotations = [\"aws.amazon.com/*\"]\n\n\
             [{grpc}.neuron.options]\nBinaryName = \"{WRAPPER_PATH}\"\n{options}"
        )
    };
    let runc = format!("[{grpc}.runc]\nruntime_type = \"io.containerd.runc.v2\"\n");
    // Nothing names a runtime: containerd 1.x would drop its own runc.
    assert_eq!(configured(&containerd(), None, Role::Extra), format!("version = 2\n\n{NOTE}{runc}\n{}", ours("")));
    assert_eq!(configured(&containerd(), Some("# mine\n"), Role::Extra), format!("# mine\nversion = 2\n\n{NOTE}{runc}\n{}", ours("")));
    // A last line without its end.
    assert_eq!(
        configured(&containerd(), Some("# mine"), Role::Extra),
        format!("# mine\nversion = 2\n\n{NOTE}{runc}\n{}", ours(""))
    );
    let before = format!("version = 2 # two\n# about runc\n[{grpc}.runc]\n  runtime_type = \"x\" # kept\n[{grpc}.runc.options]\n  SystemdCgroup = true\n# the end\n");
    assert_eq!(configured(&containerd(), Some(&before), Role::Extra), format!("{before}\n{NOTE}{}", ours("SystemdCgroup = true\n")));
}

#[test]
fn a_plugin_is_called_as_the_files_version_has_it() {
    let name = |text: &str| {
        let after = configured(&containerd(), Some(text), Role::Extra);
        let header = after.lines().find(|line| line.ends_with(".runtimes.neuron]")).unwrap();
        header.trim_start_matches("[plugins.").trim_end_matches(".containerd.runtimes.neuron]").to_owned()
    };
    for (text, plugin) in [
        ("root = \"/x\"\n", "cri"),
        ("version = 2\n", "\"io.containerd.grpc.v1.cri\""),
        ("version = 3\n", "\"io.containerd.cri.v1.runtime\""),
        ("version = 4\n", "\"io.containerd.cri.v1.runtime\""),
        // An imported file need not say its version.
        ("[plugins.\"io.containerd.grpc.v1.cri\"]\n", "\"io.containerd.grpc.v1.cri\""),
    ] {
        assert_eq!(name(text), plugin, "{text}");
    }
}

#[test]
fn an_own_file_is_for_imports_that_are_merged() {
    let folder = |text: &str| containerd::imports(text).unwrap().folder;
    assert_eq!(folder("version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n").as_deref(), Some("/etc/containerd/conf.d"));
    assert_eq!(folder("version = 3\nimports = [\"/a.toml\", \"conf.d/*.toml\"]\n").as_deref(), Some("conf.d"));
    for text in ["version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n", "version = 3\nimports = [\"/a.toml\", \"/*/x/*.toml\", \"/x/a*.toml\"]\n", ""] {
        assert_eq!(folder(text), None, "{text}");
    }
    let main = "version = 3\nimports = [\"d/*.toml\"]\n[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runc.options]\nSystemdCgroup = false\n";
    let own = containerd::Config { runtime: WRAPPER_PATH, main: Some(containerd::imports(main).unwrap().main) };
    let new = "plugins.\"io.containerd.cri.v1.runtime\".containerd";
    assert_eq!(
        configured(&own, None, Role::Default),
        format!(
            "version = 3\n\n{NOTE}[{new}]\ndefault_runtime_name = \"neuron\"\n\n[{new}.runtimes.neuron]\n\
             runtime_type = \"io.containerd.runc.v2\"\npod_annotations = [\"aws.amazon.com/*\"]\n\n\
             [{new}.runtimes.neuron.options]\nBinaryName = \"{WRAPPER_PATH}\"\nSystemdCgroup = false\n"
        )
    );
}

#[test]
fn what_somebody_changed_in_containerds_file_meanwhile_stays() {
    let before = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  default_runtime_name = \"kata\" # k\n# the end\n";
    let debug = |text: &str| text.replacen("version = 2\n", "version = 2\noom_score = -999\n", 1);
    assert_eq!(taken_out(&containerd(), Some(before), Role::Default, debug), debug(before));
    let no_end = "version = 2\n[debug]\n  level = \"info\"\n";
    let runc = |text: &str| format!("{}[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nSystemdCgroup = true\n", text);
    let left = taken_out(&containerd(), Some(no_end), Role::Default, runc);
    assert!(left.contains("SystemdCgroup = true") && left.contains("runtimes.runc]"), "{left}");
    assert!(!left.contains("neuron"), "{left}");
}

#[test]
fn crio_gets_a_file_of_our_own() {
    let entry = format!("[crio.runtime.runtimes.neuron]\nruntime_path = \"{WRAPPER_PATH}\"\nruntime_type = \"oci\"\n");
    assert_eq!(configured(&crio(), None, Role::Extra), format!("{NOTE}{entry}"));
    assert_eq!(configured(&crio(), None, Role::Default), format!("{NOTE}[crio.runtime]\ndefault_runtime = \"neuron\"\n\n{entry}"));
    let before = "[crio.runtime]\ndefault_runtime = \"crun\" # c\n";
    let changed = |text: &str| format!("log_level = \"info\"\n{text}");
    assert_eq!(taken_out(&crio(), Some(before), Role::Default, changed), changed(before));
}

#[test]
fn podmans_own_folders_of_hooks_stay_in_the_list() {
    assert_eq!(
        configured(&podman(), None, Role::Default),
        format!(
            "{NOTE}[engine]\nhooks_dir = [\"/usr/share/containers/oci/hooks.d\", \"/etc/containers/oci/hooks.d\", \
             \"/etc/neuron-container-runtime/hooks.d\"]\nruntime = \"neuron\"\n\n[engine.runtimes]\nneuron = [\"{WRAPPER_PATH}\"]\n"
        )
    );
    let theirs = podman::Config { other_dirs: Some(vec!["/theirs".to_owned()]), ..podman() };
    let made = configured(&theirs, None, Role::Extra);
    assert!(made.contains("hooks_dir = [\"/theirs\", \"/etc/neuron-container-runtime/hooks.d\"]\n"), "{made}");
    // A list that came to be since is taken over too, and does not keep ours from going.
    let now = add(&theirs, Some(&configured(&podman(), None, Role::Extra)), Role::Extra).unwrap().after.unwrap();
    assert!(now.contains("\"/etc/neuron-container-runtime/hooks.d\", \"/theirs\"]\n"), "{now}");
    assert_eq!(remove(&theirs, Some(&now), None).unwrap().after, None);
    let before = "[engine]\nhooks_dir = [ \"/a\" ] # a\n[engine.runtimes]\nx = [\"/x\"]\n";
    let changed = |text: &str| text.replace("[ \"/a\"", "[ \"/a\", \"/b\"").replace("[\"/a\"", "[\"/a\", \"/b\"");
    assert_eq!(taken_out(&podman(), Some(before), Role::Extra, changed), "[engine]\nhooks_dir = [ \"/a\", \"/b\" ] # a\n[engine.runtimes]\nx = [\"/x\"]\n");
}

#[test]
fn the_folders_of_hooks_that_are_in_force() {
    let some = |dirs: &[&str]| Some(dirs.iter().map(|dir| (*dir).to_owned()).collect::<Vec<_>>());
    for (text, before, after) in [
        ("", None, None),
        ("[engine]\n", some(&["/a"]), some(&["/a"])),
        ("[engine]\nhooks_dir = [\"/b\"]\n", some(&["/a"]), some(&["/b"])),
        ("[engine]\nhooks_dir = [\"/b\", {append = true}]\n", some(&["/a"]), some(&["/a", "/b"])),
        ("[engine]\nhooks_dir = [\"/b\", {append = false}]\n", some(&["/a"]), some(&["/b"])),
        ("[engine]\nhooks_dir = [{append = true}, \"/b\"]\n", None, some(&["/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d", "/b"])),
    ] {
        assert_eq!(podman::hooks_dirs(text, before).unwrap(), after, "{text}");
    }
    // What is said of a list stays said.
    let appending = configured(&podman(), Some("[engine]\nhooks_dir = [\"/b\", {append = true}]\n"), Role::Extra);
    assert!(appending.contains("[\"/b\", {append = true}, \"/etc/neuron-container-runtime/hooks.d\"]\n"), "{appending}");
}

#[test]
fn the_hooks_file_is_the_repositorys_with_the_installed_path() {
    let hook = podman::Hook { hook: "/opt/n/neuron-container-hook" };
    let text = configured(&hook, None, Role::Extra);
    let file: Value = serde_json::from_str(&text).unwrap();
    let wanted = serde_json::json!({
        "version": "1.0.0",
        "hook": {"path": "/opt/n/neuron-container-hook", "args": ["/opt/n/neuron-container-hook", "precreate"]},
        "when": {"always": true},
        "stages": ["precreate"],
    });
    assert_eq!(file, wanted);
}

#[test]
fn toml_that_does_not_parse_is_left_alone_with_line_and_column() {
    let engines: [(&str, &dyn Edit); 4] = [("containerd", &containerd()), ("crio", &crio()), ("podman", &podman()), ("own", &AcceptEnv { engine: "docker" })];
    for (name, edit) in engines {
        let fault = format!("{:#}", add(edit, Some("a = 1\n  b == 2\n"), Role::Extra).unwrap_err());
        assert!(fault.starts_with("line 2, column 6: "), "{name}: {fault}");
        assert!(!fault.contains('\n'), "{name}: {fault}");
    }
    let fault = format!("{:#}", add(&crio(), Some("crio = 1\n"), Role::Extra).unwrap_err());
    assert_eq!(fault, "crio is no table");
}

#[test]
fn accept_env_says_for_whom_it_stands_and_goes_with_the_last() {
    let (docker, podman) = (AcceptEnv { engine: "docker" }, AcceptEnv { engine: "podman" });
    let note = " # an image could ask; set by neuron-ctk configure --default for ";
    for before in [None, Some(""), Some("# all\nmax-chips = 2 # two\n# end\n"), Some("accept-env = true # yes\nmax-chips = 2\n"), Some("#accept-env = true\n")] {
        let one = configured(&docker, before, Role::Default);
        assert!(one.contains(&format!("accept-env = false{note}docker\n")), "{one}");
        let both = add(&podman, Some(&one), Role::Default).unwrap();
        assert_eq!(both.copy, Copy::Stay, "the copy of the first");
        let both = both.after.unwrap();
        assert!(both.contains(&format!("accept-env = false{note}docker, podman\n")), "{both}");
        let other = remove(&docker, Some(&both), before).unwrap();
        assert_eq!(other.copy, Copy::Stay);
        let other = other.after.unwrap();
        assert!(other.contains(&format!("accept-env = false{note}podman\n")), "{other}");
        assert_eq!(remove(&podman, Some(&other), before).unwrap().after.as_deref(), before);
        let changed = both.clone() + "strict-counts = true\n";
        let first = remove(&podman, Some(&changed), before).unwrap().after.unwrap();
        let last = remove(&docker, Some(&first), before).unwrap().after.unwrap();
        assert_eq!(last, before.unwrap_or_default().to_owned() + "strict-counts = true\n");
    }
    let by_hand = "accept-env = false # ours\n";
    let change = add(&docker, Some(by_hand), Role::Default).unwrap();
    assert_eq!((change.after.as_deref(), change.copy), (Some(by_hand), Copy::Stay));
    assert_eq!(remove(&docker, Some(by_hand), None).unwrap().after.as_deref(), Some(by_hand));
}
