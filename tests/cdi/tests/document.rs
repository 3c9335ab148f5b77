//! What `neuron-ctk cdi` writes, as CDI's own schema and library read it. NEURON_CTK is the binary; without it, the newest of this repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use container_device_interface::{schema, spec};

fn ctk(args: &[&str]) -> Output {
    let found = std::env::var_os("NEURON_CTK").map_or_else(newest, PathBuf::from);
    let output = Command::new(found).args(args).env_remove("NEURON_SETTINGS").env_remove("NEURON_HOST_ROOT").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn newest() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    let folders = std::fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().path());
    let built =
        folders.flat_map(|folder| ["release", "debug"].map(|kind| folder.join(kind).join("neuron-ctk"))).filter(|path| path.is_file());
    built.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("no neuron-ctk found: cargo build, or set NEURON_CTK")
}

#[test]
fn the_document_is_valid_by_schema_and_librarys_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (kind, devices) in [("trn1.2xlarge", 2), ("inf1.24xlarge", 17), ("trn2.48xlarge", 17)] {
        let (host, file) = (path(kind), path("aws.amazon.com-neuron.json"));
        ctk(&["simulate", kind, &host]);
        let shown = ctk(&["--host-root", &host, "cdi"]).stdout;
        schema::validate_builtin(&shown).unwrap();
        ctk(&["--host-root", &host, "cdi", "--output", &file]);
        assert_eq!(std::fs::read(&file).unwrap(), shown);
        let named = spec::read_spec(&file.into(), 0).unwrap().validate().unwrap();
        assert_eq!(named.len(), devices, "{kind}: each chip, and all");
        assert!(named.contains_key("0") && named.contains_key("all"));
    }
}

/// The check can fail: what CDI forbids is found.
#[test]
fn what_cdi_forbids_is_found() {
    let node = br#"{"cdiVersion":"0.5.0","kind":"aws.amazon.com/neuron","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"hostPath":"/dev/x"}]}}]}"#;
    assert!(schema::validate_builtin(node).is_err(), "a node without a path");
}
