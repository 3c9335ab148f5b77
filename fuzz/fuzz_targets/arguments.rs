//! The arguments of a runtime, one a line: what is found in them is of them.

#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use libfuzzer_sys::fuzz_target;
use neuron_container_runtime::runtime::scan;

fuzz_target!(|text: &[u8]| {
    let args: Vec<&OsStr> = text.split(|byte| *byte == b'\n').map(OsStr::from_bytes).collect();
    let found = scan(&args);
    if let Some(id) = found.id {
        assert!(args.contains(&id));
    }
    for path in [found.bundle, found.config, found.log].into_iter().flatten() {
        assert!(args.iter().any(|arg| arg.as_bytes().ends_with(path.as_os_str().as_bytes())));
    }
    if let Some(process) = found.process {
        assert!(args[process.position].as_bytes().ends_with(process.path.as_os_str().as_bytes()));
    }
});
