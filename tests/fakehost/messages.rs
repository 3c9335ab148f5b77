//! Messages hold strangers' text: annotations, container ids. None of it may steer a terminal or break the engine's log.

use std::fs;

use serde_json::Value;

use crate::call::Running;
use crate::host::FakeHost;
use crate::specs::{asking, env_asking};

/// `refuses` asserts that neither line nor log holds a control character.
#[test]
fn an_annotation_with_escape_sequences_reaches_neither_terminal_nor_log() {
    let host = FakeHost::trn1();
    for value in
        ["\u{1b}[31mred\u{7}", "1\n2", "a\r\nerror: b", "\u{0}", "\u{9b}2J", "\u{202e}drawkcab", "quote\"and\\back", "\u{1b}]0;t\u{7}"]
    {
        for spec in [asking(value), env_asking(value)] {
            let message = host.refuses("c1", &spec);
            assert!(message.contains("allowed are"), "{message}");
        }
    }
    assert!(host.refuses("c1", &asking("1\n2\u{1b}")).contains("\"1\\u{a}2\\u{1b}\""), "a quotation shows what is quoted");
    let log = host.log();
    assert!(!log.chars().any(|c| c.is_control() && c != '\n'), "{log:?}");
}

#[test]
fn a_bundle_whose_path_has_escape_sequences_reaches_neither_terminal_nor_log() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("b\u{1b}[31m\u{202e}\r\n", &asking("1"));
    let elsewhere = host.folder().join("config.json");
    fs::rename(bundle.config(), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, bundle.config()).unwrap();
    assert!(host.refuses_bundle(&bundle, "c1").contains("b\\u{1b}[31m\\u{202e}"));
}

#[test]
fn a_container_id_with_escape_sequences_reaches_neither_terminal_nor_log() {
    let host = FakeHost::trn1();
    let evil = "evil\u{1b}[2J\u{202e}\n\"x";
    host.create(&host.bundle("evil", &asking("id:3")), evil).ok();
    let message = host.refuses("c1", &asking("id:3"));
    assert!(message.contains("chip 3 is held by evil\\u{1b}[2J\\u{202e}"), "{message}");
    let table = String::from_utf8(host.ctk(&["status"]).stdout).unwrap();
    assert!(table.contains("evil") && !table.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{table:?}");
    // As data it is what it was.
    assert_eq!(host.leases(), [(evil.to_owned(), vec![3])]);
    assert!(!host.log().chars().any(|c| c.is_control() && c != '\n'), "{:?}", host.log());
}

#[test]
fn a_value_of_a_megabyte_is_quoted_in_part() {
    let host = FakeHost::trn1();
    let message = host.refuses("c1", &asking(&"9".repeat(1 << 20)));
    assert!(message.len() < 512, "{} bytes", message.len());
}

#[test]
fn without_json_the_engine_gets_one_line_of_logrus_text() {
    let host = FakeHost::trn1();
    for format in [&["--log-format", "text"][..], &["--log-format=text"], &[]] {
        let bundle = host.bundle("c1", &asking("two \"chips\"\n"));
        let (mut command, record) = host.wrapper(&[], "");
        let log = record.join("log");
        command.arg("--log").arg(&log).args(format).args(["create", "--bundle"]).arg(&bundle.folder).arg("c1");
        let call = Running::start(command, record).finish();
        let message = crate::call::one_error_line(call.code, &call.stdout, &call.stderr);
        let text = fs::read_to_string(&log).unwrap();
        let (time, rest) = text.strip_prefix("time=\"").unwrap().split_once("\" level=error msg=").unwrap();
        assert!(crate::call::is_rfc3339(time), "{text}");
        assert!(rest.ends_with('\n') && rest.lines().count() == 1, "{text:?}");
        // A quoted string of Go's, which is one of JSON's here.
        assert_eq!(serde_json::from_str::<Value>(rest).unwrap(), Value::from(message));
    }
}

#[test]
fn a_line_is_added_to_what_the_engines_log_holds_already() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("c1", &asking("x"));
    let (mut command, record) = host.wrapper(&[], "");
    let log = record.join("log.json");
    let earlier = "{\"level\":\"warning\",\"msg\":\"earlier\",\"time\":\"2026-01-01T00:00:00Z\"}\n";
    fs::write(&log, earlier).unwrap();
    command.arg("--log").arg(&log).args(["--log-format=json", "create", "-b"]).arg(&bundle.folder).arg("c1");
    Running::start(command, record).finish();
    let text = fs::read_to_string(&log).unwrap();
    let added = text.strip_prefix(earlier).unwrap();
    assert_eq!(serde_json::from_str::<Value>(added).unwrap()["level"], "error");
}

#[test]
fn a_log_that_cannot_be_written_does_not_hide_the_message() {
    let host = FakeHost::trn1();
    let bundle = host.bundle("c1", &asking("x"));
    let args = ["--log", "/nowhere/log", "create", "--bundle"].map(std::ffi::OsStr::new);
    let call = host.call(&[&args[..], &[bundle.folder.as_os_str(), "c1".as_ref()]].concat(), "");
    assert!(crate::call::one_error_line(call.code, &call.stdout, &call.stderr).starts_with("aws.amazon.com/neuron=\"x\""));
}

#[test]
fn warnings_and_grants_are_in_the_tools_own_log_only() {
    for (level, lines) in [("info", 1), ("debug", 2)] {
        let host = FakeHost::trn1();
        host.settings(&format!("log-level = \"{level}\""));
        // Five chips of a torus are served with a warning.
        let call = host.begin("c1", &asking("5"));
        assert_eq!((call.engine_log(), call.stdout, call.stderr), (String::new(), String::new(), String::new()));
        let log = host.log();
        // One line a decision: the claim with its remarks. The bind decides nothing.
        assert_eq!(log.lines().count(), lines, "{log}");
        let mut log = log.lines();
        let granted = log.next().unwrap();
        assert!(
            granted.contains(" c1: granted: chips 0-4 for any:5, ") && granted.contains(" µs; chips 0-4 of a 4x4 torus: "),
            "{granted}"
        );
        let bound = |line: &str| line.contains(" c1: bound: chips 0-4 to pid ") && line.ends_with(" µs");
        assert!(log.all(bound));
    }
}
