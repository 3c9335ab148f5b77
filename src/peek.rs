//! What a `config.json` says that concerns this tool, read without building the rest.
//!
//! Pure. A borrowed deserialisation: seccomp, mount options, capabilities and the like are skipped, and text is copied only
//! where JSON escapes it. (Searching for byte strings instead would miss escaped ones, and `--device /dev/neuron4:/dev/accel0`
//! bears none.) It owns no policy: `request` decides what it means.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::chip::DeviceNumber;

/// The annotation that holds the lease of a spec that this tool has edited.
pub const LEASE_ANNOTATION: &str = "neuron-container-runtime.lease";

/// The parts of a `config.json` that this tool looks at.
#[derive(Debug, Default, Deserialize)]
pub struct Peek<'a> {
    #[serde(borrow, default)]
    annotations: Annotations<'a>,
    #[serde(borrow, default)]
    process: Option<Process<'a>>,
    #[serde(borrow, default)]
    mounts: Option<Vec<Mount<'a>>>,
    #[serde(borrow, default)]
    linux: Option<Linux<'a>>,
}

impl<'a> Peek<'a> {
    /// Reads the document.
    ///
    /// # Errors
    /// Not JSON, a key twice, or a value of another type than the runtime specification gives it.
    pub fn parse(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// The value of an annotation, if it is one of ours, AWS's or Kubernetes'.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// The annotations of this tool, of AWS and of Kubernetes.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value of a Neuron variable of the container; where it is set twice, the last.
    #[must_use]
    pub fn env(&self, name: &str) -> Option<&str> {
        let env = &self.process.as_ref()?.env.0;
        env.iter().rev().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='))
    }

    /// Where something other than an empty tmpfs is mounted at `/dev` or on a `/dev/neuronN`.
    #[must_use]
    pub fn mount_over_nodes(&self) -> Option<&str> {
        let mount = self.mounts.as_deref()?.iter().find(|mount| {
            let at = normal(&mount.destination);
            (at == "/dev" && (mount.kind.as_deref() != Some("tmpfs") || mount.options.binds)) || is_node_path(&at)
        })?;
        Some(&mount.destination)
    }

    /// The character devices that the spec names, except those of majors that no driver gets dynamically.
    ///
    /// Majors that Linux hands out are 234 to 254 and 384 to 511 (`CHRDEV_MAJOR_DYN_END` and `CHRDEV_MAJOR_DYN_EXT` in
    /// fs/char_dev.c; 240 to 254 are for local use), so `/dev/fuse` and the like need no look at the host.
    pub fn dynamic_devices(&self) -> impl Iterator<Item = (&str, DeviceNumber)> {
        let devices = self.linux.as_ref().and_then(|linux| linux.devices.as_deref()).unwrap_or_default();
        devices.iter().filter(|device| matches!(&*device.kind, "c" | "u")).filter_map(|device| {
            let number = DeviceNumber { major: u32::try_from(device.major).ok()?, minor: u32::try_from(device.minor).ok()? };
            matches!(number.major, 234..=254 | 384..=511).then_some((&*device.path, number))
        })
    }

    /// The text of its seccomp profile.
    #[must_use]
    pub fn seccomp(&self) -> Option<&'a str> {
        Some(self.linux.as_ref()?.seccomp?.get())
    }

    /// May the container open every device of the host? (Rules apply in order; Docker writes no major for privileged
    /// containers, older ones -1.)
    #[must_use]
    pub fn privileged(&self) -> bool {
        let rules = self.linux.as_ref().and_then(|linux| linux.resources.as_ref()?.devices.as_deref());
        let mut all = false;
        for rule in rules.unwrap_or_default() {
            let every = rule.major.is_none_or(|major| major == -1) && rule.minor.is_none_or(|minor| minor == -1);
            let kind = matches!(rule.kind.as_deref(), None | Some("" | "a" | "c"));
            if every && kind && rule.access.as_deref().is_none_or(|access| access.contains(['r', 'w'])) {
                all = rule.allow;
            }
        }
        all
    }
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

#[derive(Debug, Deserialize)]
struct Process<'a> {
    #[serde(borrow, default)]
    env: Env<'a>,
}

#[derive(Debug, Deserialize)]
struct Mount<'a> {
    #[serde(borrow)]
    destination: Text<'a>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(default)]
    options: MountOptions,
}

#[derive(Debug, Deserialize)]
struct Linux<'a> {
    #[serde(borrow, default)]
    devices: Option<Vec<Device<'a>>>,
    #[serde(borrow, default)]
    resources: Option<Resources<'a>>,
    #[serde(borrow, default)]
    seccomp: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Device<'a> {
    #[serde(borrow)]
    path: Text<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(default)]
    major: i64,
    #[serde(default)]
    minor: i64,
}

#[derive(Debug, Deserialize)]
struct Resources<'a> {
    #[serde(borrow, default)]
    devices: Option<Vec<Rule<'a>>>,
}

#[derive(Debug, Deserialize)]
struct Rule<'a> {
    #[serde(default)]
    allow: bool,
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(default)]
    major: Option<i64>,
    #[serde(default)]
    minor: Option<i64>,
    #[serde(borrow, default)]
    access: Option<Text<'a>>,
}

/// A string that borrows from the document where no escape stands in the way.
#[derive(Debug)]
struct Text<'a>(Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Borrow)
    }
}

/// The annotations whose keys this tool knows.
#[derive(Debug, Default)]
struct Annotations<'a>(Vec<(Text<'a>, Text<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Annotations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Known;
        impl<'de> Visitor<'de> for Known {
            type Value = Annotations<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Annotations::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut known: Vec<(Text<'de>, Text<'de>)> = Vec::new();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    if ["aws.amazon.com/", "neuron-container-runtime.", "io.kubernetes."].iter().any(|ours| key.starts_with(ours)) {
                        // The last of two equal keys counts, as in Go.
                        known.retain(|(earlier, _)| **earlier != *key);
                        known.push((key, map.next_value()?));
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Annotations(known))
            }
        }
        deserializer.deserialize_any(Known)
    }
}

/// The variables whose names begin as Neuron's do.
#[derive(Debug, Default)]
struct Env<'a>(Vec<Text<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Env<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Neurons;
        impl<'de> Visitor<'de> for Neurons {
            type Value = Env<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of strings")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Env::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut env = Env::default();
                while let Some(entry) = seq.next_element::<Text<'de>>()? {
                    if entry.starts_with("AWS_NEURON_") || entry.starts_with("NEURON_") {
                        env.0.push(entry);
                    }
                }
                Ok(env)
            }
        }
        deserializer.deserialize_any(Neurons)
    }
}

/// Of a mount's options, whether they make it a bind mount.
#[derive(Debug, Default)]
struct MountOptions {
    binds: bool,
}

impl<'de> Deserialize<'de> for MountOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Binds;
        impl<'de> Visitor<'de> for Binds {
            type Value = MountOptions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of strings")
            }

            fn visit_unit<E: de::Error>(self) -> Result<MountOptions, E> {
                Ok(MountOptions::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<MountOptions, A::Error> {
                let mut options = MountOptions::default();
                while let Some(option) = seq.next_element::<Text<'de>>()? {
                    options.binds |= matches!(&*option, "bind" | "rbind");
                }
                Ok(options)
            }
        }
        deserializer.deserialize_any(Binds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peek(text: &str) -> Peek<'_> {
        Peek::parse(text.as_bytes()).unwrap()
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
    fn only_devices_with_a_dynamic_major_need_a_look_at_the_host() {
        let text = r#"{"linux":{"devices":[{"path":"/dev/fuse","type":"c","major":10,"minor":229},
            {"path":"/dev/accel0","type":"c","major":240,"minor":4},{"path":"/dev/loop0","type":"b","major":240,"minor":1},
            {"path":"/dev/n","type":"u","major":511,"minor":63},{"path":"/dev/fifo","type":"p"}]}}"#;
        let found: Vec<_> = peek(text).dynamic_devices().map(|(path, number)| format!("{path} {number}")).collect();
        assert_eq!(found, ["/dev/accel0 240:4", "/dev/n 511:63"]);
    }
}
