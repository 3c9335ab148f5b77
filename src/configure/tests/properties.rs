//! Any file of an engine comes back byte for byte.

use proptest::prelude::*;

use super::*;

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z\"\\\\{}, \n]{0,6}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(("[a-z\"{:]{1,4}", inner), 0..4).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// A daemon.json: what matters to us among what does not, in some layout.
fn daemon_json() -> impl Strategy<Value = String> {
    let runtimes = prop_oneof![
        Just(None),
        Just(Some(serde_json::json!({}))),
        Just(Some(Value::Null)),
        Just(Some(serde_json::json!({"runsc": {"path": "/r", "runtimeArgs": ["a"]}}))),
        Just(Some(serde_json::json!({"neuron": {"path": "/aws"}, "z": {}}))),
    ];
    let default = prop_oneof![Just(None), Just(Some("runc")), Just(Some("neuron"))];
    let pairs = proptest::collection::vec(("[a-z\"{:]{1,4}", json()), 0..4);
    (runtimes, default, pairs, any::<prop::sample::Index>(), 0..4_usize, any::<bool>()).prop_map(|(runtimes, default, mut pairs, at, indent, end)| {
        if let Some(runtimes) = runtimes {
            pairs.insert(at.index(pairs.len() + 1), ("runtimes".to_owned(), runtimes));
        }
        if let Some(default) = default {
            pairs.insert(at.index(pairs.len() + 1), ("default-runtime".to_owned(), default.into()));
        }
        let whole = Value::Object(pairs.into_iter().collect());
        let mut text = if indent == 0 { whole.to_string() } else { serde_json::to_string_pretty(&whole).unwrap() };
        if indent > 1 {
            text = text.lines().map(|line| { let rest = line.trim_start(); format!("{}{rest}\n", ["    ", "\t"][indent - 2].repeat((line.len() - rest.len()) / 2)) }).collect();
            text.pop();
        }
        text + if end { "\n" } else { "" }
    })
}

/// A containerd file, piece by piece.
fn containerd_toml() -> impl Strategy<Value = String> {
    let pick = |pieces: &'static [&'static str]| prop::sample::select(pieces);
    let head = pick(&["", "version = 2\n", "version = 3 # v\n", "# c\n\nversion = 2\nimports = []\n", "root = \"/r\"\n"]);
    let section = pick(&[
        "",
        "[plugins.PLUGIN]\n  sandbox_image = \"p\" # s\n",
        "[plugins]\n  [plugins.PLUGIN.containerd]\n    default_runtime_name = \"runc\" # d\n    [plugins.PLUGIN.containerd.runtimes.runc]\n      runtime_type = \"t\"\n      [plugins.PLUGIN.containerd.runtimes.runc.options]\n        SystemdCgroup = true\n",
        "[plugins.PLUGIN.containerd]\nruntimes = { kata = { runtime_type = \"k\" } }\n",
        "[plugins.PLUGIN]\ncontainerd.default_runtime_name = \"x\"\ncontainerd.runtimes.x.runtime_type = \"x\"\n",
        "[plugins.PLUGIN.containerd.runtimes.neuron]\nruntime_type = \"theirs\" # t\n[plugins.PLUGIN.containerd.runtimes.neuron.options]\nBinaryName = \"/aws\"\n",
    ]);
    let other = pick(&["", "[debug]\n  level = \"info\"\n", "# before\n[[stream]]\na = 1\n[[stream]]\na = 2\n", "\n[grpc] # g\naddress = \"/a\""]);
    let tail = pick(&["", "\n# the end\n", "\n#[more]\n#  x = 1"]);
    (head, other.clone(), section, other, tail).prop_map(|(head, first, section, second, tail)| {
        let plugin = if head.contains('3') { "\"io.containerd.cri.v1.runtime\"" } else if head.contains('2') { "\"io.containerd.grpc.v1.cri\"" } else { "cri" };
        let second = if second == first { "" } else { second };
        let gap = |text: &str| if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        format!("{head}{first}{}{}{second}{}{tail}", gap(first), section.replace("PLUGIN", plugin), gap(second))
    })
}

fn parsed(text: &str) -> toml::Table {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

proptest! {
    #[test]
    fn a_daemon_json_comes_back(text in daemon_json(), default in any::<bool>()) {
        let role = if default { Role::Default } else { Role::Extra };
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let after = configured(&docker(), Some(&text), role);
        let mut wanted = value(&text);
        if wanted["runtimes"].is_null() {
            wanted["runtimes"] = serde_json::json!({});
        }
        wanted["runtimes"]["neuron"] = serde_json::json!({"path": WRAPPER_PATH});
        if default {
            wanted["default-runtime"] = "neuron".into();
        }
        prop_assert_eq!(value(&after), wanted);
        // With a key that came since, the old file and that key are left, in their order.
        let changed = json::set(&after, &["since"], &1.into()).unwrap();
        let mut wanted = value(&text);
        wanted["since"] = 1.into();
        let left = remove(&docker(), Some(&changed), Some(&text)).unwrap().after.unwrap();
        prop_assert_eq!(serde_json::to_string(&value(&left)).unwrap(), serde_json::to_string(&wanted).unwrap());
    }

    #[test]
    fn a_containerd_toml_comes_back(text in containerd_toml(), default in any::<bool>()) {
        let role = if default { Role::Default } else { Role::Extra };
        let after = configured(&containerd(), Some(&text), role);
        for line in text.lines().filter(|line| line.contains('#') && !line.contains("# t") && !line.contains("# d")) {
            prop_assert!(after.contains(line.trim()), "{line} of\n{text}\nis lost in\n{after}");
        }
        parsed(&after);
        let changed = format!("since = 1\n{after}");
        let mut wanted = parsed(&text);
        if wanted.is_empty() {
            // The version that the addition was made in.
            wanted.insert("version".to_owned(), 2.into());
        }
        wanted.insert("since".to_owned(), 1.into());
        let left = remove(&containerd(), Some(&changed), Some(&text)).unwrap().after.unwrap();
        prop_assert_eq!(parsed(&left), wanted, "{}", left);
        for line in text.lines().filter(|line| line.contains('#')) {
            prop_assert!(left.contains(line.trim()), "{line} of\n{text}\nis lost in\n{left}");
        }
    }
}
