//! What a runtime tells the hook on stdin.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oci_spec::runtime::State;

fuzz_target!(|text: &[u8]| {
    if let Ok(state) = serde_json::from_slice::<State>(text) {
        let _ = (state.id().len(), state.pid(), state.bundle().as_os_str().len());
    }
});
