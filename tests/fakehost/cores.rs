//! Parts of chips: containers that share one, each with cores of its own.

use serde_json::json;

use crate::host::FakeHost;
use crate::specs::{annotated, asking, neuron_env, nodes, plain, with_env};

fn cores(number: &str) -> serde_json::Value {
    annotated(&[("aws.amazon.com/neuroncore", number)])
}

/// trn1: two cores a chip. Chip 1's are 2 and 3 on the host, 0 and 1 in the container.
#[test]
fn two_containers_share_a_chip_and_a_third_gets_the_next() {
    let host = FakeHost::trn1();
    for (id, spec, chip, visible) in [
        ("a", cores("1"), 0, "0"),
        ("b", with_env(plain(), &["AWS_NEURON_CORES=1"]), 0, "1"),
        ("c", cores("1"), 1, "0"),
        // Three of two chips: 2 and half of 3; the other half is for whoever asks for one.
        ("d", cores("3"), 2, "0-2"),
    ] {
        let seen = host.begin(id, &spec).config();
        assert_eq!(nodes(&seen)[0], ("/dev/neuron0".to_owned(), chip), "{id}");
        assert!(neuron_env(&seen).contains(&format!("NEURON_RT_VISIBLE_CORES={visible}")), "{id}: {seen}");
        assert!(!neuron_env(&seen).iter().any(|entry| entry.starts_with("NEURON_RT_NUM_CORES")), "{id}");
    }
    let status = host.status();
    assert_eq!(host.chips_in("shared"), [0, 1, 2, 3]);
    assert_eq!((&status["remaining"], &status["chips"][0]["containers"]), (&json!(12), &json!(["a", "b"])));
    let lease = |number: usize| (&status["leases"][number]["cores"], &status["leases"][number]["mode"], &status["leases"][number]["lnc"]);
    assert_eq!(lease(1), (&json!([1]), &json!("shared"), &json!(1)));
    assert_eq!(lease(3), (&json!([4, 5, 6]), &json!("shared"), &json!(1)));

    let page = String::from_utf8(host.ctk(&["status", "--topology"]).stdout).unwrap();
    let rows: Vec<String> = page.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for row in [
        "A 0 1 (0) shared a",
        "B 0 1 (1) shared b",
        "C 1 1 (2) shared c",
        "1 1 shared, free",
        "D 2-3 3 (4-6) shared d",
        "2-3 1 shared, free",
    ] {
        assert!(rows.iter().any(|line| line.starts_with(row)), "{row}\n{page}");
    }
    assert!(page.contains(" 0 + ") && page.contains("\n+ shared: ") && !page.contains('#'), "{page}");
}

#[test]
fn a_shared_chip_is_nobodys_whole_and_its_cores_come_back_one_by_one() {
    let host = FakeHost::small();
    let first = host.begin("first", &cores("1"));
    host.begin("second", &cores("1"));
    assert_eq!(
        host.refuses("whole", &asking("1")),
        "asked for 1 Neuron chip, 0 of 1 are free: 0 shared by first and second; neuron-ctk status shows who holds them"
    );
    assert!(host.refuses("third", &cores("1")).starts_with("asked for 1 NeuronCore, 0 of 2 are free, at most 0 together"));
    first.init().kill();
    let seen = host.begin("third", &cores("1")).config();
    assert!(neuron_env(&seen).contains(&"NEURON_RT_VISIBLE_CORES=0".to_owned()), "{seen}");
}

#[test]
fn a_container_names_only_cores_that_it_has() {
    let host = FakeHost::trn1();
    host.begin("first", &cores("1"));
    let named = |cores: &str, value: &str| {
        with_env(annotated(&[("aws.amazon.com/neuroncore", cores)]), &[&format!("NEURON_RT_VISIBLE_CORES={value}")])
    };
    let said = host.refuses("c", &named("1", "0"));
    assert!(said.starts_with("NEURON_RT_VISIBLE_CORES=\"0\": the container will have the cores 1, "), "{said}");
    let seen = host.begin("c", &named("1", "1")).config();
    assert_eq!(neuron_env(&seen).iter().filter(|entry| entry.starts_with("NEURON_RT_")).count(), 1);
    // A number would let the Neuron runtime take anybody's.
    let seen = host.begin("n", &with_env(cores("1"), &["NEURON_RT_NUM_CORES=1"])).config();
    assert!(neuron_env(&seen).contains(&"NEURON_RT_VISIBLE_CORES=0".to_owned()), "{seen}");
}

/// trn2: eight physical cores a chip, by default four logical ones of two.
#[test]
fn a_second_size_of_logical_cores_is_another_chips() {
    let host = FakeHost::new("trn2.3xlarge");
    let seen = host.begin("two", &cores("1")).config();
    assert!(neuron_env(&seen).contains(&"NEURON_RT_VISIBLE_CORES=0".to_owned()), "{seen}");
    assert_eq!((&host.status()["leases"][0]["cores"], &host.status()["leases"][0]["lnc"]), (&json!([0, 1]), &json!(2)));
    let said = host.refuses("one", &with_env(cores("1"), &["NEURON_LOGICAL_NC_CONFIG=1"]));
    assert!(
        said.starts_with("asked for 1 NeuronCore of LNC 1, no chip is free and chip 0 with room is shared by containers of LNC 2"),
        "{said}"
    );
    let seen = host.begin("more", &cores("2")).config();
    assert!(neuron_env(&seen).contains(&"NEURON_RT_VISIBLE_CORES=2-3".to_owned()), "{seen}");
}
