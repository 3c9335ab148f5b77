//! The grammar, by tables from the design.

use super::*;

fn ids(list: &[u32]) -> Want {
    Want::Ids(list.iter().map(|id| ChipId::new(*id).unwrap()).collect())
}

fn spec(annotations: &[(&str, &str)], env: &[&str]) -> serde_json::Value {
    let annotations: serde_json::Map<_, _> = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
    serde_json::json!({"annotations": annotations, "process": {"env": env}})
}

fn ask(annotations: &[(&str, &str)], env: &[&str]) -> Result<Option<Want>, Invalid> {
    let spec = spec(annotations, env);
    read(&Peek::of(&spec).unwrap(), true).map(|request| request.map(|request| request.want))
}

#[test]
fn cores_are_a_plain_number() {
    for (value, want) in [
        ("2", Ok(Some(Want::Cores(2)))),
        (" 2 ", Ok(Some(Want::Cores(2)))),
        ("none", Ok(None)),
        ("", Ok(None)),
        ("0", Err(Fault::ZeroCores)),
        ("all", Err(Fault::Junk)),
        ("any:2", Err(Fault::Junk)),
        ("0-1", Err(Fault::Junk)),
        ("02", Err(Fault::Junk)),
    ] {
        assert_eq!(parse_cores(value), want, "{value:?}");
    }
    assert_eq!(ask(&[("aws.amazon.com/neuroncore", "3")], &["AWS_NEURON_CORES=1"]), Ok(Some(Want::Cores(3))));
    assert_eq!(ask(&[], &["AWS_NEURON_CORES=1"]), Ok(Some(Want::Cores(1))));
    let said = ask(&[], &["AWS_NEURON_CORES=0-1"]).unwrap_err().to_string();
    assert_eq!(said, "AWS_NEURON_CORES=\"0-1\": is not understood; allowed are a number of NeuronCores such as 2, none");
}

/// The table of the design, both columns.
#[test]
fn the_grammar_is_the_designs_table() {
    let two_to_four_and_zero = ids(&[0, 2, 3, 4]);
    for (value, annotation, environment) in [
        ("all", Ok(Some(Want::All)), Ok(Some(Want::All))),
        ("ALL", Ok(Some(Want::All)), Ok(Some(Want::All))),
        ("any:3", Ok(Some(Want::Any(3))), Ok(Some(Want::Any(3)))),
        ("id:0,2-4", Ok(Some(two_to_four_and_zero)), Ok(Some(two_to_four_and_zero))),
        ("2", Ok(Some(Want::Any(2))), Ok(Some(ids(&[2])))),
        ("0,2-4", Err(Fault::BareList), Ok(Some(two_to_four_and_zero))),
        (" 0 , 2 - 4 ", Err(Fault::BareList), Ok(Some(two_to_four_and_zero))),
        ("none", Ok(None), Ok(None)),
        ("", Ok(None), Ok(None)),
        ("  ", Ok(None), Ok(None)),
        ("0", Err(Fault::Zero), Ok(Some(ids(&[0])))),
        ("any:0", Err(Fault::Zero), Err(Fault::Zero)),
        ("any: 2 ", Ok(Some(Want::Any(2))), Ok(Some(Want::Any(2)))),
        ("id:3,3", Err(Fault::Repeated(ChipId::new(3).unwrap())), Err(Fault::Repeated(ChipId::new(3).unwrap()))),
        ("id:1,0-2", Err(Fault::Repeated(ChipId::new(1).unwrap())), Err(Fault::Repeated(ChipId::new(1).unwrap()))),
        ("id:64", Err(Fault::Beyond(64)), Err(Fault::Beyond(64))),
        ("id:0-4294967295", Err(Fault::Beyond(64)), Err(Fault::Beyond(64))),
        ("id:4-2", Err(Fault::Backwards(4, 2)), Err(Fault::Backwards(4, 2))),
    ] {
        assert_eq!(parse(value, Bare::Count), annotation, "annotation {value:?}");
        assert_eq!(parse(value, Bare::Ids), environment, "environment {value:?}");
    }
    for junk in [
        "+2",
        "-1",
        "02",
        "id:00",
        "2.0",
        "0x2",
        "any",
        "any:",
        "id:",
        "id:1,",
        "id:,1",
        "id:1-",
        "id:-1",
        "two",
        "Any:2",
        "all,1",
        "id:all",
        "1 2",
        "\t2",
        "２",
        "99999999999999999999",
        "any:any:2",
        "id:1--2",
        "1;2",
    ] {
        assert_eq!(parse(junk, Bare::Count), Err(Fault::Junk), "annotation {junk:?}");
        assert_eq!(parse(junk, Bare::Ids), Err(Fault::Junk), "environment {junk:?}");
    }
}

#[test]
fn the_annotation_wins_over_the_environment() {
    let env = ["AWS_NEURON_VISIBLE_DEVICES=0"];
    assert_eq!(ask(&[("aws.amazon.com/neuron", "2")], &env), Ok(Some(Want::Any(2))));
    assert_eq!(ask(&[("aws.amazon.com/neurondevice", "2")], &env), Ok(Some(Want::Any(2))));
    assert_eq!(ask(&[("aws.amazon.com/neuron", "none")], &env), Ok(None));
    assert_eq!(ask(&[("aws.amazon.com/neuron", "")], &env), Ok(None));
    assert_eq!(ask(&[("aws.amazon.com/sku", "2")], &env), Ok(Some(ids(&[0]))));
    assert_eq!(ask(&[], &["AWS_NEURON_VISIBLE_DEVICES="]), Ok(None));
    assert_eq!(ask(&[], &[]), Ok(None));
}

#[test]
fn an_administrator_can_turn_the_environment_off() {
    let spec = spec(&[], &["AWS_NEURON_VISIBLE_DEVICES=junk"]);
    assert_eq!(read(&Peek::of(&spec).unwrap(), false), Ok(None));
}

#[test]
fn two_annotations_are_one_too_many() {
    let two = ask(&[("aws.amazon.com/neurondevice", "2"), ("aws.amazon.com/neuron", "2")], &[]);
    assert_eq!(two, Err(Invalid::TwoKeys("aws.amazon.com/neuron".into(), "aws.amazon.com/neurondevice".into())));
    let both = ["AWS_NEURON_VISIBLE_DEVICES=0", "AWS_NEURON_CORES=1"];
    assert!(matches!(ask(&[], &both), Err(Invalid::TwoVariables)));
    assert_eq!(ask(&[("aws.amazon.com/neuron", "none")], &both), Ok(None));
}

#[test]
fn a_pods_sandbox_asks_for_nothing() {
    for key in ["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"] {
        assert_eq!(ask(&[(key, "sandbox"), ("aws.amazon.com/neuron", "junk")], &[]), Ok(None));
        assert_eq!(ask(&[(key, "container"), ("aws.amazon.com/neuron", "2")], &[]), Ok(Some(Want::Any(2))));
        // Device plugins set the variable as information.
        assert_eq!(ask(&[(key, "container")], &["AWS_NEURON_VISIBLE_DEVICES=0"]), Ok(None));
    }
}

#[test]
fn a_key_by_container_name_silences_the_bare_one() {
    let pod = [("io.kubernetes.cri.container-type", "container"), ("aws.amazon.com/neuron.train", "4"), ("aws.amazon.com/neuron", "1")];
    let named = |key, name| [&pod[..], &[(key, name)]].concat();
    for key in ["io.kubernetes.cri.container-name", "io.kubernetes.container.name"] {
        assert_eq!(ask(&named(key, "train"), &[]), Ok(Some(Want::Any(4))));
        assert_eq!(ask(&named(key, "sidecar"), &[]), Ok(None));
    }
    assert_eq!(ask(&pod, &[]), Err(Invalid::Nameless("aws.amazon.com/neuron.train".into())));
    // Outside Kubernetes there are no container names.
    assert_eq!(ask(&pod[1..], &[]), Ok(Some(Want::Any(1))));
    let twice = [&named("io.kubernetes.cri.container-name", "train")[..], &[("aws.amazon.com/neurondevice.train", "4")]].concat();
    assert!(matches!(ask(&twice, &[]), Err(Invalid::TwoKeys(..))));
}

#[test]
fn errors_quote_the_value_and_say_what_is_allowed() {
    let error = ask(&[("aws.amazon.com/neuron", "0,1")], &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "aws.amazon.com/neuron=\"0,1\": a list of chips is written id:LIST here; \
         allowed are a count such as 2, all, any:N, id:LIST such as id:0,2-4, none"
    );
    let error = ask(&[], &["AWS_NEURON_VISIBLE_DEVICES=x\u{7}"]).unwrap_err().to_string();
    assert!(error.starts_with("AWS_NEURON_VISIBLE_DEVICES=\"x\\u{7}\": is not understood; allowed are ids such as"), "{error}");
}
