//! The dry run: `plan`, and `dry-run = true`. It says what a claim would do, and does nothing.

use serde_json::{Value, json};

use crate::host::{FakeHost, listing};
use crate::specs::{annotated, asking, given, plain};

/// What `plan` with these arguments ends with, says and shows.
fn plan(host: &FakeHost, args: &[&str]) -> (Option<i32>, String, String) {
    let output = host.ctk(&[&["plan"], args].concat());
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn plan_json(host: &FakeHost, args: &[&str]) -> (Option<i32>, Value) {
    let (code, shown, _) = plan(host, &[&["--json"], args].concat());
    (code, serde_json::from_str(&shown).unwrap())
}

/// By hand: of an empty torus the four rows could be had; each leaves one 8, three 4s and six 2s whole, so the lowest is taken.
#[test]
fn it_says_what_would_be_given_and_why() {
    let host = FakeHost::trn1();
    let (code, shown, said) = plan(&host, &["--annotation", "aws.amazon.com/neuron=4"]);
    assert_eq!((code, said), (Some(0), String::new()), "{shown}");
    for line in [
        "request   4 Neuron chips (any:4), from aws.amazon.com/neuron\n",
        "free      0-15 of 16 Neuron chips\n",
        "choice    0-3: the lowest of 4 possible runs, which spoil blocks of chips alike (left whole: 1 of 8, 3 of 4, 6 of 2)\n",
        "\n--- config.json\n+++ config.json as the low-level runtime would get it\n@@ ",
        "\n+      \"AWS_NEURON_VISIBLE_DEVICES=0,1,2,3\",\n+      \"NEURON_RT_NUM_CORES=8\"\n",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    assert!(shown.lines().any(|line| line.starts_with("command   ") && line.ends_with(" create --bundle . ID")), "{shown}");
}

#[test]
fn the_json_document_is_the_same_as_data() {
    let host = FakeHost::new("inf1.6xlarge");
    let pid = host.begin("web", &asking("id:0")).init().pid;
    let (code, shown) = plan_json(&host, &["--env", "AWS_NEURON_VISIBLE_DEVICES=any:2"]);
    assert_eq!(code, Some(0));
    // Free are 1 to 3. Both spoil the pair 2-3 (2), the pair half a size on 1-2 (1/2) and the four that web broke (1); 1-2 also the
    // pair 0-1 that web broke (1/2).
    let leaves = json!({"8": 0, "4": 0, "2": 0});
    assert_eq!(shown["version"], 1);
    assert_eq!(shown["request"], json!({"want": "any:2", "from": "AWS_NEURON_VISIBLE_DEVICES"}));
    assert_eq!((&shown["registered"], &shown["free"]), (&json!(4), &json!([1, 2, 3])));
    assert_eq!(shown["held"], json!([{"chips": [0], "container": "web", "pid": pid}]));
    let considered = [([1, 2], 4.0), ([2, 3], 3.5)].map(|(chips, cost)| json!({"chips": chips, "cost": cost, "leaves": leaves, "gap": 3}));
    assert_eq!(shown["considered"], json!(considered));
    assert_eq!((&shown["choice"], &shown["refusal"]), (&json!([2, 3]), &Value::Null));
    assert!(shown["diff"].as_str().unwrap().contains("+      \"AWS_NEURON_VISIBLE_DEVICES=2,3\""));
}

#[test]
fn the_answer_is_that_of_the_claim() {
    let host = FakeHost::trn1();
    for (number, ask) in ["any:3", "2", "8", "id:5-6", "all", "any:1"].iter().enumerate() {
        let (code, planned) = plan_json(&host, &["--annotation", &format!("aws.amazon.com/neuron={ask}")]);
        let id = format!("c{number}");
        match code {
            Some(0) => {
                host.begin(&id, &asking(ask));
                let given = host.leases().into_iter().find(|(container, _)| *container == id).unwrap().1;
                assert_eq!(planned["choice"], json!(given), "{ask}");
            }
            Some(3) => assert_eq!(planned["refusal"], json!(host.refuses(&id, &asking(ask))), "{ask}"),
            other => panic!("{ask}: {other:?}"),
        }
    }
}

#[test]
fn a_refusal_ends_with_3_and_a_mistake_with_1() {
    let host = FakeHost::trn1();
    let (code, shown, said) = plan(&host, &["--annotation", "aws.amazon.com/neuron=17"]);
    let refusal = "error: asked for 17 Neuron chips, this host has 16: ask for fewer, or use a larger instance\n";
    assert_eq!((code, &*said), (Some(3), refusal));
    assert!(shown.contains("free      0-15 of 16"), "{shown}");
    let (code, _, said) = plan(&host, &["--annotation", "aws.amazon.com/neuron=0,1"]);
    assert_eq!(code, Some(1));
    assert!(said.starts_with("error: aws.amazon.com/neuron=\"0,1\": a list of chips is written id:LIST here"), "{said}");
    assert_eq!(plan(&host, &["--bundle", "/nowhere"]).0, Some(1));
    assert_eq!(plan(&host, &["--annotation", "junk"]).0, Some(2));
}

#[test]
fn a_bundle_and_a_spec_file_are_read_and_nothing_is_written() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("2"));
    let folder = bundle.folder.to_str().unwrap();
    let before = listing(host.folder());
    for args in [&["--bundle", folder][..], &["--spec", bundle.config().to_str().unwrap()]] {
        let (code, shown) = plan_json(&host, args);
        assert_eq!((code, &shown["choice"]), (Some(0), &json!([0, 1])), "{args:?}");
    }
    let (_, shown, _) = plan(&host, &["--bundle", folder]);
    assert!(shown.contains(&format!("create --bundle {folder} ID\n")), "{shown}");
    assert_eq!(listing(host.folder()), before);
}

#[test]
fn who_asks_for_nothing_is_told_so() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &plain());
    let (code, shown, _) = plan(&host, &["--bundle", bundle.folder.to_str().unwrap()]);
    assert_eq!(code, Some(0));
    assert!(shown.starts_with("request   none: the container would be passed through unchanged\n"), "{shown}");
    let given = host.bundle("g", &given(host.major(), &[("/dev/neuron3", 3)]));
    let (_, shown, _) = plan(&host, &["--bundle", given.folder.to_str().unwrap()]);
    assert!(shown.starts_with("request   Neuron chip 3, to be recorded as taken (id:3), from device nodes of the spec\n"), "{shown}");
}

#[test]
fn a_dry_run_logs_what_would_be_done_and_passes_every_container_through() {
    let host = FakeHost::trn1();
    host.settings("dry-run = true");
    for (id, spec, logged) in [
        ("would", asking("2"), "would: dry run, would be granted: chips 0-1 for any:2, "),
        ("not", asking("17"), "not: dry run, would be refused: asked for 17 Neuron chips, this host has 16"),
        ("junk", asking("x"), "junk: dry run, would be refused: aws.amazon.com/neuron=\"x\": is not understood"),
        ("given", given(host.major(), &[("/dev/neuron3", 3)]), "given: dry run, would be recorded: chip 3 for device nodes of the spec, "),
    ] {
        let bundle = host.bundle(id, &spec);
        let before = bundle.text();
        let call = host.create(&bundle, id).ok();
        assert!(call.ran());
        assert_eq!((call.config_text(), bundle.text()), (before.clone(), before), "{id}");
        let log = host.log();
        assert!(log.lines().last().unwrap().contains(logged), "{logged}\n{log}");
    }
    assert_eq!((host.leases(), host.state_dir().exists()), (vec![], false));
}

#[test]
fn a_dry_run_of_a_bundle_that_was_used_before_takes_the_old_grant_out() {
    for ask in ["2", "17", "x"] {
        let host = FakeHost::trn1();
        let bundle = host.bundle("b", &asking("2"));
        host.create(&bundle, "c1").ok().init().kill();
        host.settings("dry-run = true");
        let mut spec = bundle.spec();
        spec["annotations"]["aws.amazon.com/neuron"] = ask.into();
        bundle.write(&spec);
        let call = host.create(&bundle, "c1").ok();
        assert!(call.ran(), "{ask}");
        assert_eq!((call.config(), call.hook(0, "code")), (asking(ask), None), "{ask}");
    }
}

#[test]
fn what_would_stop_the_wrapper_is_a_refusal_beside_the_choice() {
    let host = FakeHost::trn1();
    let ask = ["--annotation", "aws.amazon.com/neuron=2"];
    for (settings, why) in [
        ("runtimes = []", "no low-level runtime can be used: the settings name none"),
        ("runtimes = [\"/nowhere/runc\"]", "no low-level runtime can be used: /nowhere/runc is not there"),
        ("hook-path = \"/nowhere/hook\"", "the hook cannot be used: link it to neuron-ctk, or set hook-path: /nowhere/hook is not there"),
    ] {
        let runtime = if settings.contains("runtimes") { "" } else { "runtimes = [\"/bin/true\"]\n" };
        host.put(&host.config_toml(), &format!("{runtime}{settings}\n"));
        let (code, shown) = plan_json(&host, &ask);
        assert_eq!((code, &shown["choice"]), (Some(1), &json!([0, 1])), "{settings}");
        assert!(shown["refusal"].as_str().unwrap().starts_with(why), "{shown}");
        let (_, _, said) = plan(&host, &ask);
        assert!(said.starts_with(&format!("error: {why}")), "{said}");
    }
}

#[test]
fn what_only_looks_like_a_request_is_named() {
    let host = FakeHost::trn1();
    host.settings("accept-env = false");
    for (args, note) in [
        (["--env", "AWS_NEURON_VISIBLE_DEVICES=0"], "AWS_NEURON_VISIBLE_DEVICES is not heeded: accept-env = false in the settings"),
        (
            ["--annotation", "aws.amazon.com/neurom=2"],
            "the annotation \"aws.amazon.com/neurom\" is not known: did you mean aws.amazon.com/neuron?",
        ),
        (
            ["--annotation", "aws.amazon.com/neuron.web=2"],
            "the annotation \"aws.amazon.com/neuron.web\" is not heeded: only Kubernetes has names of containers",
        ),
    ] {
        let (code, shown, _) = plan(&host, &args);
        assert_eq!(code, Some(0));
        assert!(shown.starts_with("request   none: "), "{shown}");
        assert!(shown.contains(&format!("\nnote      {note}\n")), "{shown}");
    }
    // Of a container that is started so the log says it.
    host.begin("c1", &annotated(&[("aws.amazon.com/neurons", "2")]));
    let note = " c1: gets no chips: the annotation \"aws.amazon.com/neurons\" is not known: did you mean aws.amazon.com/neuron?\n";
    assert!(host.log().ends_with(note), "{}", host.log());
    host.settings("");
    let (_, shown, _) = plan(&host, &["--annotation", "aws.amazon.com/neuron=2", "--env", "AWS_NEURON_VISIBLE_DEVICES=0"]);
    assert!(shown.contains("AWS_NEURON_VISIBLE_DEVICES is not heeded: the annotation wins"), "{shown}");
}

#[test]
fn holders_are_sorted_by_their_chips() {
    let host = FakeHost::trn1();
    for (id, ask) in [("late", "id:9"), ("early", "id:1")] {
        host.begin(id, &asking(ask));
    }
    let (_, shown) = plan_json(&host, &["--annotation", "aws.amazon.com/neuron=1"]);
    assert_eq!([&shown["held"][0]["container"], &shown["held"][1]["container"]], ["early", "late"]);
}
