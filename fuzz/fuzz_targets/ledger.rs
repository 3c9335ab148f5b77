//! A ledger's text: what can be read can be written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use neuron_container_runtime::lease::Ledger;

fuzz_target!(|text: &[u8]| {
    let Ok(ledger) = Ledger::parse(text, "b") else { return };
    let _ = ledger.held("2026-11-30");
    let again = Ledger::parse(&ledger.to_text().expect("plain types"), "b").expect("what was written can be read");
    assert_eq!(again, ledger);
});
