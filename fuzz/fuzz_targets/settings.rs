//! A `config.toml`: settings, or one line that says what is wrong.

#![no_main]

use libfuzzer_sys::fuzz_target;
use neuron_container_runtime::settings::Settings;

fuzz_target!(|text: &str| {
    if let Err(error) = Settings::parse(text) {
        assert!(!format!("{error:#}").is_empty());
    }
});
