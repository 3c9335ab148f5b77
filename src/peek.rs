//! What a `config.json` says that concerns this tool.
//!
//! Pure. It owns no policy: `request` decides what it means. [`concerns`] rules out most documents by a search for words, before
//! they are taken apart.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::chip::DeviceNumber;
use crate::document::part;
use crate::words::{is_made_up, quoted};

/// The annotation that holds the lease of a spec that this tool has edited.
pub const LEASE_ANNOTATION: &str = "neuron-container-runtime.lease";

/// The annotation in which nerdctl writes a container's name (its pkg/labels).
const NERDCTL_NAME: &str = "nerdctl/name";

/// The longest name of a container that is written down, bytes: Kubernetes' three of 63, 253 and 63 with their slashes.
const LONGEST_NAME: usize = 381;

/// May anything in this text be a request, a word of this tool's or a device of a driver's? Where it says no, [`Peek`] finds none.
///
/// Every key and name that counts bears one of these two words, unless a letter of it is escaped; a device that is called something
/// else (`--device /dev/neuron4:/dev/accel0`) has its major.
#[must_use]
pub fn concerns(text: &[u8]) -> bool {
    let text = lossy(text);
    ["neuron", "NEURON", "\\u"].iter().any(|word| text.contains(word)) || majors(&text).any(is_dynamic)
}

/// Does this text, which cannot be understood, look as if it asked for chips?
#[must_use]
pub fn seems_to_ask(text: &[u8]) -> bool {
    let text = lossy(text);
    ["aws.amazon.com/neuron", "AWS_NEURON_"].iter().any(|word| text.contains(word))
}

/// As [`String::from_utf8_lossy`], many times as fast for what is UTF-8.
fn lossy(text: &[u8]) -> Cow<'_, str> {
    str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::Borrowed)
}

/// What stands behind each key that is called `major`, where that is a number without a sign.
///
/// Looked for by its rarest letter: std finds a letter many times as fast as it finds where a word is.
fn majors(text: &str) -> impl Iterator<Item = u32> {
    text.match_indices('j').filter_map(|(at, _)| {
        let (before, from) = text.split_at_checked(at)?;
        let behind = from.strip_prefix("jor\"").filter(|_| before.ends_with("\"ma"))?;
        let number = behind.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        number.get(..digits)?.parse().ok()
    })
}

/// Is this one of the majors that Linux hands out: 234 to 254 and 384 to 511 (`CHRDEV_MAJOR_DYN_END` and `CHRDEV_MAJOR_DYN_EXT` in
/// fs/char_dev.c; 240 to 254 are for local use)? `/dev/fuse` and the like need no look at the host.
fn is_dynamic(major: u32) -> bool {
    matches!(major, 234..=254 | 384..=511)
}

/// What a spec says to this tool.
#[derive(Debug, Default)]
pub struct Peek {
    annotations: Vec<(String, String)>,
    env: Vec<String>,
    over: Option<String>,
    devices: Vec<(String, DeviceNumber)>,
    privileged: bool,
    hostname: Option<String>,
}

/// A part that may hold a request is not of the type that the runtime specification gives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} is no {kind}")]
pub struct Mistyped {
    part: String,
    kind: &'static str,
}

impl Peek {
    /// Looks at a spec.
    ///
    /// # Errors
    /// [`Mistyped`]; the runtimes refuse such a spec too.
    pub fn of(spec: &Value) -> Result<Self, Mistyped> {
        let part = |pointer| part(spec, pointer).unwrap_or(&Value::Null);
        let list = |pointer| part(pointer).as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Self {
            annotations: ours(part("/annotations"))?,
            env: neurons(part("/process/env"))?,
            over: list("/mounts").iter().find_map(over_nodes).map(str::to_owned),
            devices: list("/linux/devices").iter().filter_map(dynamic_device).collect(),
            privileged: is_privileged(list("/linux/resources/devices")),
            hostname: part("/hostname").as_str().filter(|_| list("/linux/namespaces").iter().any(is_network)).map(str::to_owned),
        })
    }

    /// The value of an annotation, if it is one of ours, AWS's or Kubernetes'.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// The annotations of this tool, of AWS and of Kubernetes.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value of a Neuron variable of the container; where it is set twice, the last.
    #[must_use]
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env.iter().rev().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='))
    }

    /// Where something other than an empty tmpfs is mounted at `/dev` or on a `/dev/neuronN`.
    #[must_use]
    pub fn mount_over_nodes(&self) -> Option<&str> {
        self.over.as_deref()
    }

    /// The character devices that the spec names, except those of majors that no driver gets dynamically.
    pub fn dynamic_devices(&self) -> impl Iterator<Item = (&str, DeviceNumber)> {
        self.devices.iter().map(|(path, number)| (&**path, *number))
    }

    /// What people call the container of this id, where the spec tells: Kubernetes' `NAMESPACE/POD/CONTAINER`, nerdctl's name; Docker and
    /// Podman write down only the host name, which is the id's beginning unless somebody chose another, or the host's own with its network.
    #[must_use]
    pub fn called(&self, id: &str) -> Option<String> {
        let one_of = |keys: [&str; 2]| keys.iter().find_map(|key| self.annotation(key));
        let pod = || {
            let namespace = one_of(["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"])?;
            let pod = one_of(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"])?;
            let container = one_of(["io.kubernetes.cri.container-name", "io.kubernetes.container.name"])?;
            Some(format!("{namespace}/{pod}/{container}"))
        };
        // Whoever starts a container by runc chose its id, and that is its name.
        let chosen = || self.hostname.as_deref().filter(|name| is_made_up(id) && !name.is_empty() && !id.starts_with(name));
        let name = pod().or_else(|| self.annotation(NERDCTL_NAME).or_else(chosen).map(str::to_owned))?;
        (name.len() <= LONGEST_NAME && name.bytes().all(|byte| byte.is_ascii_graphic())).then_some(name)
    }

    /// May the container open every device of the host?
    #[must_use]
    pub fn privileged(&self) -> bool {
        self.privileged
    }
}

fn mistyped(part: impl Into<String>, kind: &'static str) -> Mistyped {
    Mistyped { part: part.into(), kind }
}

/// The annotations whose keys this tool knows.
fn ours(annotations: &Value) -> Result<Vec<(String, String)>, Mistyped> {
    let none = Map::new();
    let all = match annotations {
        Value::Null => &none,
        other => other.as_object().ok_or_else(|| mistyped("annotations", "map"))?,
    };
    let known = |key: &str| ["aws.amazon.com/", "neuron-container-runtime.", "io.kubernetes.", NERDCTL_NAME].iter().any(|ours| key.starts_with(ours));
    let text = |(key, value): (&String, &Value)| {
        let value = value.as_str().ok_or_else(|| mistyped(format!("the annotation {}", quoted(key)), "string"))?;
        Ok((key.clone(), value.to_owned()))
    };
    all.iter().filter(|(key, _)| known(key)).map(text).collect()
}

/// The variables whose names begin as Neuron's do.
fn neurons(env: &Value) -> Result<Vec<String>, Mistyped> {
    let all = match env {
        Value::Null => &[][..],
        other => other.as_array().ok_or_else(|| mistyped("process.env", "list"))?,
    };
    let mut neurons = Vec::new();
    for entry in all {
        let entry = entry.as_str().ok_or_else(|| mistyped("an entry of process.env", "string"))?;
        if entry.starts_with("AWS_NEURON_") || entry.starts_with("NEURON_") {
            neurons.push(entry.to_owned());
        }
    }
    Ok(neurons)
}

/// The mount's destination, where our nodes would be hidden by it.
fn over_nodes(mount: &Value) -> Option<&str> {
    let destination = mount.get("destination")?.as_str()?;
    let at = normal(destination);
    let empty = || {
        let options = mount.get("options").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        mount.get("type").is_some_and(|kind| kind == "tmpfs") && !options.iter().any(|option| option == "bind" || option == "rbind")
    };
    (is_node_path(&at) || (at == "/dev" && !empty())).then_some(destination)
}

fn is_network(namespace: &Value) -> bool {
    namespace.get("type").is_some_and(|kind| kind == "network")
}

fn dynamic_device(device: &Value) -> Option<(String, DeviceNumber)> {
    let part = |name: &str| device.get(name).map_or(Some(0), |number| u32::try_from(number.as_i64()?).ok());
    let number = DeviceNumber { major: part("major")?, minor: part("minor")? };
    let named = is_dynamic(number.major) && matches!(device.get("type")?.as_str()?, "c" | "u");
    named.then_some((device.get("path")?.as_str()?.to_owned(), number))
}

/// Rules apply in order; Docker writes no major for privileged containers, older ones -1.
fn is_privileged(rules: &[Value]) -> bool {
    let mut all = false;
    for rule in rules {
        let text = |name: &str| rule.get(name).and_then(Value::as_str);
        let any = |name: &str| rule.get(name).is_none_or(|number| number.is_null() || number.as_i64() == Some(-1));
        let kind = matches!(text("type"), None | Some("" | "a" | "c"));
        if any("major") && any("minor") && kind && text("access").is_none_or(|access| access.contains(['r', 'w'])) {
            all = rule.get("allow").and_then(Value::as_bool).unwrap_or(false);
        }
    }
    all
}

/// Is this `/dev/neuronN`, N a plain number?
#[must_use]
pub fn is_node_path(path: &str) -> bool {
    path.strip_prefix("/dev/neuron").is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A path without empty, `.` and `..` parts, as the runtimes read a mount's destination.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peek(text: &str) -> Peek {
        Peek::of(&serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn what_has_no_word_of_ours_and_no_drivers_major_is_not_read_at_all() {
        let docker = include_str!("../tests/data/specs/docker26-plain.json");
        assert!(!concerns(docker.as_bytes()), "what most containers are");
        for (text, may) in [
            (r#"{"annotations":{"aws.amazon.com/neuron":"2"}}"#, true),
            (r#"{"annotations":{"aws.amazon.com/ne\u0075roncore":"2"}}"#, true),
            (r#"{"process":{"env":["AWS_NEURON_CORES=2"]}}"#, true),
            (r#"{"linux":{"devices":[{"path":"/dev/accel0","type":"c","major":240,"minor":4}]}}"#, true),
            ("{\"linux\":{\"devices\":[{\"major\"\n:\t511 ,\"minor\":4}]}}", true),
            (r#"{"linux":{"devices":[{"major":10,"minor":240}],"x":{"major":-240}}}"#, false),
            (r#"{"linux":{"devices":[{"minor":240,"major":"#, false),
        ] {
            assert_eq!(concerns(text.as_bytes()), may, "{text}");
        }
    }

    #[test]
    fn escaped_keys_and_values_are_read() {
        let spec = peek(
            r#"{"annotations":{"aws.amazon.com\/ne\u0075ron":"\u0032","org.other":"x"},"process":{"env":["PATH=/","AWS_NEURON_VISIBLE\u005fDEVICES=0"]}}"#,
        );
        assert_eq!(spec.annotation("aws.amazon.com/neuron"), Some("2"));
        assert_eq!(spec.env("AWS_NEURON_VISIBLE_DEVICES"), Some("0"));
        assert_eq!(spec.annotations().count(), 1);
    }

    #[test]
    fn a_variable_set_twice_counts_as_its_last() {
        let spec =
            peek(r#"{"process":{"env":["AWS_NEURON_VISIBLE_DEVICES=0","AWS_NEURON_VISIBLE_DEVICES_X=9","AWS_NEURON_VISIBLE_DEVICES=1"]}}"#);
        assert_eq!(spec.env("AWS_NEURON_VISIBLE_DEVICES"), Some("1"));
    }

    #[test]
    fn nulls_are_as_good_as_nothing() {
        let spec =
            peek(r#"{"annotations":null,"process":{"env":null},"mounts":null,"linux":{"devices":null,"resources":{"devices":null}}}"#);
        assert_eq!((spec.annotations().count(), spec.dynamic_devices().count()), (0, 0));
        assert!(!spec.privileged());
        assert!(peek("{}").env("X").is_none());
    }

    #[test]
    fn what_may_hold_a_request_and_is_of_another_type_is_a_fault() {
        for (text, said) in [
            (r#"{"annotations":["aws.amazon.com/neuron"]}"#, "annotations is no map"),
            (r#"{"annotations":{"aws.amazon.com/neuron":2}}"#, "the annotation \"aws.amazon.com/neuron\" is no string"),
            (r#"{"process":{"env":{"AWS_NEURON_CORES":"1"}}}"#, "process.env is no list"),
            (r#"{"process":{"env":["PATH=/",1]}}"#, "an entry of process.env is no string"),
        ] {
            assert_eq!(Peek::of(&serde_json::from_str(text).unwrap()).unwrap_err().to_string(), said);
        }
        assert_eq!(peek(r#"{"annotations":{"org.other":2}}"#).annotations().count(), 0);
    }

    #[test]
    fn mounts_that_hide_our_nodes_are_seen_in_every_spelling() {
        for (destination, kind, options, hides) in [
            ("/dev", "tmpfs", "[\"nosuid\"]", false),
            ("/dev", "bind", "[\"rbind\"]", true),
            ("/dev", "none", "[\"rbind\"]", true),
            ("/dev", "tmpfs", "[\"bind\"]", true),
            ("/dev", "devtmpfs", "[]", true),
            ("//dev/./", "bind", "null", true),
            ("/x/../dev", "bind", "[]", true),
            ("/dev/neuron0", "bind", "[]", true),
            ("/dev/neuron15/", "tmpfs", "[]", true),
            ("/dev/neuronal", "bind", "[]", false),
            ("/dev/shm", "bind", "[]", false),
            ("/data/dev", "bind", "[]", false),
        ] {
            let text = format!(
                r#"{{"mounts":[{{"destination":"/proc","type":"proc"}},{{"destination":"{destination}","type":"{kind}","options":{options}}}]}}"#
            );
            assert_eq!(peek(&text).mount_over_nodes(), hides.then_some(destination), "{destination} {kind}");
        }
    }

    #[test]
    fn privilege_is_the_last_rule_for_all_devices() {
        let all = r#"{"allow":true,"access":"rwm"}"#;
        let minus = r#"{"allow":true,"type":"a","major":-1,"minor":-1,"access":"rwm"}"#;
        let none = r#"{"allow":false,"access":"rwm"}"#;
        let one = r#"{"allow":true,"type":"c","major":240,"minor":4,"access":"rwm"}"#;
        let ptys = r#"{"allow":true,"type":"c","major":136,"access":"rwm"}"#;
        let mknod = r#"{"allow":true,"type":"c","access":"m"}"#;
        let disks = r#"{"allow":true,"type":"b","access":"rwm"}"#;
        for (rules, privileged) in [
            (vec![all], true),
            (vec![minus], true),
            (vec![none, one, all], true),
            (vec![all, none], false),
            (vec![none, one], false),
            (vec![none, ptys, mknod, disks], false),
            (vec![], false),
        ] {
            let text = format!(r#"{{"linux":{{"resources":{{"devices":[{}]}}}}}}"#, rules.join(","));
            assert_eq!(peek(&text).privileged(), privileged, "{text}");
        }
    }

    #[test]
    fn a_container_is_called_what_its_engine_calls_it() {
        let id = "3f2a9c1b7e44d06b3f8c745f1e9094807bc5794942913f54ff3128ccdd72b001";
        let cri = r#"{"annotations":{"io.kubernetes.cri.sandbox-namespace":"ml","io.kubernetes.cri.sandbox-name":"train-0","io.kubernetes.cri.container-name":"main"},"hostname":"train-0"}"#;
        let crio = r#"{"annotations":{"io.kubernetes.pod.namespace":"ml","io.kubernetes.pod.name":"train-0","io.kubernetes.container.name":"main"}}"#;
        for (text, called) in [
            (cri, Some("ml/train-0/main")),
            (crio, Some("ml/train-0/main")),
            (r#"{"annotations":{"nerdctl/name":"web"},"hostname":"3f2a9c1b7e44"}"#, Some("web")),
            (r#"{"hostname":"web-1","linux":{"namespaces":[{"type":"uts"},{"type":"network"}]}}"#, Some("web-1")),
            (r#"{"hostname":"ip-10-0-0-7","linux":{"namespaces":[{"type":"uts"}]}}"#, None),
            (r#"{"hostname":"3f2a9c1b7e44","linux":{"namespaces":[{"type":"network"}]}}"#, None),
            (r#"{"hostname":"","linux":{"namespaces":[{"type":"network"}]}}"#, None),
            (r#"{"hostname":"a\u001b[31m","linux":{"namespaces":[{"type":"network"}]}}"#, None),
            ("{}", None),
        ] {
            assert_eq!(peek(text).called(id).as_deref(), called, "{text}");
        }
        let long = format!(r#"{{"annotations":{{"nerdctl/name":"{}"}}}}"#, "x".repeat(LONGEST_NAME + 1));
        assert_eq!(peek(&long).called(id), None);
        let runcs = r#"{"hostname":"runc","linux":{"namespaces":[{"type":"network"}]}}"#;
        assert_eq!(peek(runcs).called("train-1"), None, "a name that its starter gave it");
    }

    #[test]
    fn only_devices_with_a_dynamic_major_need_a_look_at_the_host() {
        let text = r#"{"linux":{"devices":[{"path":"/dev/fuse","type":"c","major":10,"minor":229},
            {"path":"/dev/accel0","type":"c","major":240,"minor":4},{"path":"/dev/loop0","type":"b","major":240,"minor":1},
            {"path":"/dev/n","type":"u","major":511,"minor":63},{"path":"/dev/fifo","type":"p"}]}}"#;
        let found: Vec<_> = peek(text).dynamic_devices().map(|(path, number)| format!("{path} {number}")).collect();
        assert_eq!(found, ["/dev/accel0 240:4", "/dev/n 511:63"]);
    }
}
