//! `neuron-ctk simulate`: hosts of every instance type, as `status` sees them.

use std::fs;

use serde_json::{Value, json};

use crate::host::{FakeHost, listing};

#[derive(Clone, Copy)]
enum Links {
    None,
    Line,
    Ring,
    Torus,
}

/// Type, chips, physical cores a chip, links, device: typed off the field notes' table and its list of architectures.
const TYPES: [(&str, u64, u64, Links, &str); 14] = [
    ("inf1.xlarge", 1, 4, Links::None, "Inferentia"),
    ("inf1.2xlarge", 1, 4, Links::None, "Inferentia"),
    ("inf1.6xlarge", 4, 4, Links::Ring, "Inferentia"),
    ("inf1.24xlarge", 16, 4, Links::Ring, "Inferentia"),
    ("inf2.xlarge", 1, 2, Links::None, "Inferentia2"),
    ("inf2.8xlarge", 1, 2, Links::None, "Inferentia2"),
    ("inf2.24xlarge", 6, 2, Links::Line, "Inferentia2"),
    ("inf2.48xlarge", 12, 2, Links::Ring, "Inferentia2"),
    ("trn1.2xlarge", 1, 2, Links::None, "Trainium1"),
    ("trn1.32xlarge", 16, 2, Links::Torus, "Trainium1"),
    ("trn1n.32xlarge", 16, 2, Links::Torus, "Trainium1"),
    ("trn2.3xlarge", 1, 8, Links::None, "Trainium2"),
    ("trn2.48xlarge", 16, 8, Links::Torus, "Trainium2"),
    ("trn2u.48xlarge", 16, 8, Links::Torus, "Trainium2"),
];

/// The links of a 4×4 torus, worked out on paper: rows and columns of four, each closed to a ring.
const TORUS: [[u64; 4]; 16] = [
    [1, 3, 4, 12],
    [0, 2, 5, 13],
    [1, 3, 6, 14],
    [0, 2, 7, 15],
    [0, 5, 7, 8],
    [1, 4, 6, 9],
    [2, 5, 7, 10],
    [3, 4, 6, 11],
    [4, 9, 11, 12],
    [5, 8, 10, 13],
    [6, 9, 11, 14],
    [7, 8, 10, 15],
    [0, 8, 13, 15],
    [1, 9, 12, 14],
    [2, 10, 13, 15],
    [3, 11, 12, 14],
];

fn links(links: Links, id: u64, chips: u64) -> Vec<u64> {
    let mut ends = match links {
        Links::None => vec![],
        Links::Line => [id.checked_sub(1), Some(id + 1)].into_iter().flatten().filter(|end| *end < chips).collect(),
        Links::Ring if chips == 1 => vec![],
        Links::Ring => vec![(id + chips - 1) % chips, (id + 1) % chips],
        Links::Torus => TORUS[usize::try_from(id).unwrap()].to_vec(),
    };
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// Does `status` see these chips, all free?
fn check(status: &Value, kind: &str, chips: u64, cores: u64, shape: Links, device: &str) {
    assert_eq!((&status["instance_type"], &status["registered"], &status["remaining"]), (&json!(kind), &json!(chips), &json!(chips)));
    let seen = status["chips"].as_array().unwrap();
    assert_eq!(seen.len(), usize::try_from(chips).unwrap(), "{kind}");
    for (id, chip) in (0..).zip(seen) {
        assert_eq!((&chip["id"], &chip["minor"], &chip["state"]), (&json!(id), &json!(id), &json!("free")), "{kind}");
        assert_eq!((&chip["cores"], &chip["architecture"]), (&json!(cores), &json!(device)), "{kind}");
        // A host of one chip has nothing to link; sysfs is silent then.
        assert_eq!(chip["connected"], json!(links(shape, id, chips)), "{kind} {id}");
    }
}

#[test]
fn every_instance_type_is_as_the_field_notes_have_it() {
    for (kind, chips, cores, shape, device) in TYPES {
        check(&FakeHost::new(kind).status(), kind, chips, cores, shape, device);
    }
}

#[test]
fn no_instance_type_of_the_table_is_left_out_here() {
    let table = include_str!("../../data/instance-types.toml");
    let names: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("type = \"")?.strip_suffix('"')).collect();
    assert_eq!(names, TYPES.map(|(kind, ..)| kind));
}

#[test]
fn a_number_of_chips_makes_a_ring() {
    for chips in [1, 2, 3, 5, 16, 64] {
        let host = FakeHost::simulated(&["trn1.32xlarge", "--chips", &chips.to_string()]);
        check(&host.status(), "trn1.32xlarge", chips, 2, Links::Ring, "Trainium1");
    }
}

#[test]
fn nodes_are_of_a_major_that_no_driver_of_this_machine_has() {
    let host = FakeHost::trn1();
    let (major, devices) = (host.major(), fs::read_to_string("/proc/devices").unwrap());
    assert!((240..=254).contains(&major));
    let characters = devices.split("Block devices:").next().unwrap();
    assert!(!characters.lines().any(|line| line.trim().split(' ').next() == Some(&major.to_string())));
    if host.real_nodes() {
        let error = fs::File::open(host.path("dev/neuron0")).unwrap_err();
        // ENXIO where the device cgroup allows it, EPERM or EACCES (a mount without devices) where not.
        assert!(matches!(error.raw_os_error(), Some(6 | 1 | 13)), "{error}");
    }
}

#[test]
fn a_folder_with_something_in_it_is_refused_and_stays_as_it_was() {
    let host = FakeHost::trn1();
    let folder = host.folder().join("mine");
    fs::create_dir(&folder).unwrap();
    host.put(&folder.join("thesis"), "x");
    let before = listing(host.folder());
    for target in [folder.clone(), host.root(), folder.join("thesis")] {
        let output = host.ctk(&["simulate", "trn1.2xlarge", target.to_str().unwrap()]);
        let message = crate::call::one_error_line(output.status.code(), "", &String::from_utf8(output.stderr).unwrap());
        assert!(message.contains(target.to_str().unwrap()), "{message}");
    }
    assert_eq!(listing(host.folder()), before);
}

#[test]
fn an_unknown_type_is_refused_with_those_that_there_are() {
    let host = FakeHost::trn1();
    let output = host.ctk(&["simulate", "trn1.33xlarge", host.folder().join("new").to_str().unwrap()]);
    let message = crate::call::one_error_line(output.status.code(), "", &String::from_utf8(output.stderr).unwrap());
    assert!(TYPES.iter().all(|(kind, ..)| message.contains(kind)), "{message}");
    assert!(!host.folder().join("new").exists());
}

#[test]
fn a_number_of_chips_that_no_host_can_have_is_wrong_usage() {
    let host = FakeHost::trn1();
    for chips in ["0", "65", "-1", "x"] {
        let new = host.folder().join("new");
        let output = host.ctk(&["simulate", "trn1.32xlarge", new.to_str().unwrap(), "--chips", chips]);
        assert_eq!((output.status.code(), new.exists()), (Some(2), false), "{chips}");
    }
}
