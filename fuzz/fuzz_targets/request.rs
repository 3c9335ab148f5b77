//! Values of annotations and variables: what is understood is understood again as it is shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use neuron_container_runtime::peek::Peek;
use neuron_container_runtime::request::{Want, read};
use serde_json::json;

fuzz_target!(|input: (&str, &str, &str)| {
    let (annotation, variable, wait) = input;
    let ask = |annotations: serde_json::Value, env: serde_json::Value| {
        let spec = json!({"annotations": annotations, "process": {"env": env}});
        let read = read(&Peek::of(&spec).expect("a small spec"), true);
        if let Err(error) = &read {
            assert!(!error.to_string().contains(['\n', '\u{1b}']), "{error}");
        }
        read.ok().flatten().map(|request| request.want)
    };
    let shown = |want: Want| match want {
        Want::Cores(_) => None,
        want => ask(json!({"aws.amazon.com/neuron": want.to_string()}), json!([])),
    };
    for want in [
        ask(json!({"aws.amazon.com/neuron": annotation, "aws.amazon.com/neuron.wait": wait}), json!([])),
        ask(json!({}), json!([format!("AWS_NEURON_VISIBLE_DEVICES={variable}"), format!("AWS_NEURON_WAIT={wait}")])),
        ask(json!({"aws.amazon.com/neuroncore": annotation}), json!([format!("AWS_NEURON_CORES={variable}")])),
    ] {
        if let Some(want) = want.filter(|want| !matches!(want, Want::Cores(_))) {
            assert_eq!(shown(want), Some(want));
        }
    }
    let _ = ask(json!({annotation: variable, "io.kubernetes.cri.container-type": wait}), json!([annotation, variable]));
});
