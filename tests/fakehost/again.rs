//! A bundle that was edited before: raw bundles are run again, engines' are not.

use serde_json::{Value, json};

use crate::host::FakeHost;
use crate::specs::{annotated, asking, env_asking, neuron_env, nodes, our_hooks, plain};

/// The device rules of a spec after the first, which is the engine's own: minors.
fn rules(spec: &Value) -> Vec<u64> {
    spec["linux"]["resources"]["devices"].as_array().unwrap()[1..].iter().map(|rule| rule["minor"].as_u64().unwrap()).collect()
}

#[test]
fn a_bundle_that_is_run_again_after_its_end_is_edited_once() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("2"));
    let first = host.create(&bundle, "c1").ok();
    first.init().kill();
    let second = host.create(&bundle, "c1").ok();
    assert_ne!(first.lease(), second.lease());
    let expected = first.config_text().replace(&first.lease(), &second.lease());
    assert_eq!(second.config(), serde_json::from_str::<Value>(&expected).unwrap());
    assert_eq!((our_hooks(&second.config()).len(), rules(&second.config())), (1, vec![0, 1]));
    assert_eq!(host.leases(), [("c1".to_owned(), vec![0, 1])]);
}

#[test]
fn a_bundle_that_is_run_again_gets_other_chips_where_its_own_are_taken() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("2"));
    host.create(&bundle, "c1").ok().init().kill();
    host.begin("other", &asking("id:0-1"));
    let seen = host.create(&bundle, "c1").ok().config();
    assert_eq!(nodes(&seen), [("/dev/neuron0".to_owned(), 2), ("/dev/neuron1".to_owned(), 3)]);
    assert_eq!((our_hooks(&seen).len(), rules(&seen)), (1, vec![2, 3]));
    assert_eq!(neuron_env(&seen), ["AWS_NEURON_VISIBLE_DEVICES=2,3", "NEURON_RT_NUM_CORES=4"]);
}

/// The edit put the granted ids where the request was; they are no request.
#[test]
fn a_request_in_the_environment_is_what_it_was_when_the_bundle_is_run_again() {
    let host = FakeHost::trn1();
    let other = host.begin("other", &asking("id:0-3"));
    let bundle = host.bundle("b", &env_asking("any:2"));
    let first = host.create(&bundle, "c1").ok();
    assert_eq!(neuron_env(&first.config()), ["AWS_NEURON_VISIBLE_DEVICES=4,5", "NEURON_RT_NUM_CORES=4"]);
    first.init().kill();
    other.init().kill();
    let second = host.create(&bundle, "c1").ok();
    assert_eq!(neuron_env(&second.config()), ["AWS_NEURON_VISIBLE_DEVICES=0,1", "NEURON_RT_NUM_CORES=4"]);
    assert_eq!(host.status()["leases"][0]["request"], json!("any:2"));
}

#[test]
fn a_bundle_whose_container_runs_is_refused_and_the_lease_stays() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("2"));
    let first = host.create(&bundle, "c1").ok();
    for id in ["c1", "c2"] {
        let message = host.refuses_bundle(&bundle, id);
        assert!(message.contains("container c1") && message.contains(&first.init().pid.to_string()), "{message}");
    }
    assert!(first.init().alive());
    assert_eq!(host.status()["leases"][0]["id"], json!(first.lease()));
}

#[test]
fn a_bundle_whose_container_is_being_created_is_refused_and_the_lease_stays() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("2"));
    let running = host.start(&bundle, "c1", "hold-before-hook").wait_for_hold();
    assert!(host.refuses_bundle(&bundle, "c2").contains("container c1"));
    running.release().ok();
    assert_eq!(host.leases(), [("c1".to_owned(), vec![0, 1])]);
}

#[test]
fn a_bundle_whose_request_was_taken_out_is_what_it_was_before() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("2"));
    host.create(&bundle, "c1").ok().init().kill();
    let mut spec = bundle.spec();
    spec["annotations"].as_object_mut().unwrap().shift_remove("aws.amazon.com/neuron").unwrap();
    bundle.write(&spec);
    let call = host.create(&bundle, "c1").ok();
    assert_eq!(call.config(), plain());
    assert_eq!(call.hook(0, "code"), None);
    assert_eq!(host.leases(), []);
}

#[test]
fn a_bundle_whose_request_was_changed_gets_what_it_asks_for_now() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("2"));
    host.create(&bundle, "c1").ok().init().kill();
    let mut spec = bundle.spec();
    spec["annotations"]["aws.amazon.com/neuron"] = json!("id:7");
    bundle.write(&spec);
    let seen = host.create(&bundle, "c1").ok().config();
    assert_eq!((nodes(&seen), rules(&seen)), (vec![("/dev/neuron0".to_owned(), 7)], vec![7]));
    assert_eq!(neuron_env(&seen), ["AWS_NEURON_VISIBLE_DEVICES=7", "NEURON_RT_NUM_CORES=2"]);
}

#[test]
fn a_bundle_that_failed_to_start_can_be_run_again_at_once() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("all"));
    for orders in ["fail-before-hook", "swap-node"] {
        assert_eq!(host.create_with(&bundle, "c1", orders).code, Some(1));
    }
    let seen = host.create(&bundle, "c1").ok().config();
    assert_eq!((our_hooks(&seen).len(), nodes(&seen).len()), (1, 16));
}

#[test]
fn a_forged_annotation_takes_nothing_from_others_and_only_itself_from_the_forger() {
    let host = FakeHost::trn1();
    let victim = host.begin("victim", &asking("id:3"));
    let lease = victim.lease();
    // Of a lease that is alive.
    host.refuses("forger", &annotated(&[("neuron-container-runtime.lease", &lease), ("aws.amazon.com/neuron", "id:3")]));
    // Of none, with words that are not ours and a wish to have seccomp and environment taken out.
    let undo = r#"{"made":["/linux/seccomp","/process/env","/linux"],"env":[[0,"PATH=/evil"]],"added":["PATH"],"sets":["bounding"]}"#;
    let forged = annotated(&[("neuron-container-runtime.lease", "0"), ("neuron-container-runtime.undo", undo)]);
    assert_eq!(host.begin("forger", &forged).config(), plain());
    assert_eq!(host.leases(), [("victim".to_owned(), vec![3])]);
}
