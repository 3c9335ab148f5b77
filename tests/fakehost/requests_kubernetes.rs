//! Requests under Kubernetes, where pod annotations reach every container of the pod.

use serde_json::Value;

use crate::host::FakeHost;
use crate::specs::{annotated, with_env};

fn container(name: &str, annotations: &[(&str, &str)]) -> Value {
    let mut all = vec![("io.kubernetes.cri.container-type", "container"), ("io.kubernetes.cri.container-name", name)];
    all.extend(annotations);
    annotated(&all)
}

#[test]
fn a_sandbox_asks_for_nothing() {
    let host = FakeHost::trn1();
    for key in ["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"] {
        let spec = annotated(&[("aws.amazon.com/neuron", "2"), (key, "sandbox")]);
        assert_eq!(host.begin(key.rsplit('.').next().unwrap(), &spec).config(), spec);
    }
    assert_eq!(host.leases(), []);
}

#[test]
fn the_bare_key_asks_for_each_container_of_the_pod() {
    let host = FakeHost::trn1();
    let pod = [("aws.amazon.com/neuron", "2")];
    host.begin("a", &container("main", &pod));
    host.begin("b", &container("sidecar", &pod));
    assert_eq!(host.leases(), [("a".to_owned(), vec![0, 1]), ("b".to_owned(), vec![2, 3])]);
}

#[test]
fn a_key_by_name_asks_for_that_container_only_and_the_bare_key_counts_for_nobody() {
    let host = FakeHost::trn1();
    let pod = [("aws.amazon.com/neuron.main", "1"), ("aws.amazon.com/neuron", "4")];
    let sidecar = container("sidecar", &pod);
    assert_eq!(host.begin("sidecar", &sidecar).config(), sidecar);
    host.begin("main", &container("main", &pod));
    assert_eq!(host.leases(), [("main".to_owned(), vec![0])]);
}

#[test]
fn the_environment_is_never_a_request_there() {
    let host = FakeHost::trn1();
    for (id, key) in [("containerd", "io.kubernetes.cri.container-type"), ("crio", "io.kubernetes.cri-o.ContainerType")] {
        let spec = with_env(annotated(&[(key, "container")]), &["AWS_NEURON_VISIBLE_DEVICES=0,1"]);
        assert_eq!(host.begin(id, &spec).config(), spec);
    }
    assert_eq!(host.leases(), []);
}
