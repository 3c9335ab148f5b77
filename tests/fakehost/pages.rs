//! `neuron-ctk man` and `neuron-ctk completions`.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::host::FakeHost;

#[test]
fn each_face_and_each_verb_has_a_page() {
    let host = FakeHost::small();
    let folder = host.folder().join("man");
    assert!(host.ctk(&["man", "--output", folder.to_str().unwrap()]).status.success());
    let help = String::from_utf8(host.ctk(&["--help"]).stdout).unwrap();
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<_> = verbs.map(|line| line.split_whitespace().next().unwrap()).filter(|verb| *verb != "help").collect();
    assert!(verbs.len() >= 10, "{help}");
    let faces = ["neuron-ctk", "neuron-container-runtime", "neuron-container-hook"].map(str::to_owned);
    let pages: Vec<_> = faces.into_iter().chain(verbs.iter().map(|verb| format!("neuron-ctk-{verb}"))).collect();
    for page in &pages {
        let text = std::fs::read_to_string(folder.join(format!("{page}.8"))).unwrap();
        assert!(text.starts_with(&format!(".TH \"{page}\" 8 ")) && text.contains("\n.SH SYNOPSIS\n"), "{page}");
        assert_eq!(String::from_utf8(host.ctk(&["man", page]).stdout).unwrap(), text);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), pages.len());
    let output = host.ctk(&["man", "neuron-ctk-fly"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("there is no page \"neuron-ctk-fly\": there are neuron-ctk, "));
}

#[test]
fn bash_reads_its_completions() {
    let host = FakeHost::small();
    let script = host.ctk(&["completions", "bash"]).stdout;
    let mut bash = Command::new("bash").arg("-s").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = bash.stdin.take().unwrap();
    input.write_all(&script).unwrap();
    // What the shell would do where somebody types `neuron-ctk st` and a tab.
    input
        .write_all(b"\nCOMP_WORDS=(neuron-ctk st); COMP_CWORD=1; _neuron-ctk neuron-ctk st neuron-ctk; echo \"${COMPREPLY[@]}\"\n")
        .unwrap();
    // And of a verb's own options.
    input
        .write_all(b"COMP_WORDS=(neuron-ctk status --p); COMP_CWORD=2; _neuron-ctk neuron-ctk --p status; echo \"${COMPREPLY[@]}\"\n")
        .unwrap();
    drop(input);
    assert_eq!(String::from_utf8(bash.wait_with_output().unwrap().stdout).unwrap(), "status\n--prometheus\n");
    for shell in ["zsh", "fish"] {
        let script = String::from_utf8(host.ctk(&["completions", shell]).stdout).unwrap();
        assert!(script.contains("prometheus") && !script.contains("demo-runtime"), "{shell}");
    }
}
