//! The `config.json` documents that the tests run.

use serde_json::{Value, json};

/// A container that asks for nothing, with things in it that no typed reader of the specification keeps.
pub(crate) const PLAIN: &str = r#"{
    "ociVersion": "1.0.2",
    "process": {
        "user": {"uid": 0, "gid": 0},
        "args": ["sh"],
        "env": ["PATH=/usr/bin:/bin", "HOSTNAME=h"],
        "cwd": "/",
        "capabilities": {"bounding": ["CAP_CHOWN"], "effective": ["CAP_CHOWN"], "permitted": ["CAP_CHOWN"]}
    },
    "root": {"path": "rootfs"},
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts"}
    ],
    "hooks": {"prestart": [{"path": "/usr/bin/true"}]},
    "linux": {
        "namespaces": [{"type": "pid"}, {"type": "mount"}],
        "resources": {"devices": [{"allow": false, "access": "rwm"}]},
        "seccomp": {"defaultAction": "SCMP_ACT_OF_TOMORROW"},
        "x-unknown": 1.50
    },
    "annotations": {"org.example.other": "kept"}
}
"#;

pub(crate) fn plain() -> Value {
    serde_json::from_str(PLAIN).unwrap()
}

/// A container with these annotations.
pub(crate) fn annotated(annotations: &[(&str, &str)]) -> Value {
    let mut spec = plain();
    for (key, value) in annotations {
        spec["annotations"][*key] = json!(value);
    }
    spec
}

/// A container whose `aws.amazon.com/neuron` is this.
pub(crate) fn asking(value: &str) -> Value {
    annotated(&[("aws.amazon.com/neuron", value)])
}

/// The same container with more variables.
pub(crate) fn with_env(mut spec: Value, env: &[&str]) -> Value {
    spec["process"]["env"].as_array_mut().unwrap().extend(env.iter().map(|entry| json!(entry)));
    spec
}

/// A container whose `AWS_NEURON_VISIBLE_DEVICES` is this.
pub(crate) fn env_asking(value: &str) -> Value {
    with_env(plain(), &[&format!("AWS_NEURON_VISIBLE_DEVICES={value}")])
}

/// A container that was given these nodes by hand: path and minor.
pub(crate) fn given(major: u64, nodes: &[(&str, u64)]) -> Value {
    let mut spec = plain();
    spec["linux"]["devices"] = nodes
        .iter()
        .map(|(path, minor)| json!({"path": path, "type": "c", "major": major, "minor": minor, "fileMode": 438, "uid": 0, "gid": 0}))
        .collect();
    for (_, minor) in nodes {
        let rule = json!({"allow": true, "type": "c", "major": major, "minor": minor, "access": "rwm"});
        spec["linux"]["resources"]["devices"].as_array_mut().unwrap().push(rule);
    }
    spec
}

/// A privileged container: every node of the host, and a rule that allows all, as Docker writes it.
pub(crate) fn privileged(major: u64, chips: u64) -> Value {
    let nodes: Vec<(String, u64)> = (0..chips).map(|minor| (format!("/dev/neuron{minor}"), minor)).collect();
    let nodes: Vec<(&str, u64)> = nodes.iter().map(|(path, minor)| (path.as_str(), *minor)).collect();
    let mut spec = given(major, &nodes);
    spec["linux"]["resources"]["devices"] = json!([{"allow": true, "access": "rwm"}]);
    spec
}

/// The entries of a container's environment that a grant may touch, sorted.
pub(crate) fn neuron_env(spec: &Value) -> Vec<String> {
    let env = spec["process"]["env"].as_array().unwrap().iter().map(|entry| entry.as_str().unwrap().to_owned());
    let mut ours: Vec<String> = env.filter(|entry| entry.contains("NEURON")).collect();
    ours.sort();
    ours
}

/// What is in `linux.devices` and, as bind mounts, in `mounts` of Neuron: container path and host index, by either way.
pub(crate) fn nodes(spec: &Value) -> Vec<(String, u64)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let devices = list(&spec["linux"]["devices"])
        .into_iter()
        .map(|device| (device["path"].as_str().unwrap().to_owned(), device["minor"].as_u64().unwrap()));
    let mounts = list(&spec["mounts"]).into_iter().filter(|mount| mount["destination"].as_str().unwrap().starts_with("/dev/neuron"));
    let mounts = mounts.map(|mount| {
        let source = mount["source"].as_str().unwrap();
        (mount["destination"].as_str().unwrap().to_owned(), source.rsplit_once("neuron").unwrap().1.parse().unwrap())
    });
    devices.chain(mounts).collect()
}

/// The hook entries of ours.
pub(crate) fn our_hooks(spec: &Value) -> Vec<Value> {
    let hooks = spec["hooks"]["createRuntime"].as_array().cloned().unwrap_or_default();
    hooks.into_iter().filter(|hook| hook["args"][0] == "neuron-container-hook").collect()
}
