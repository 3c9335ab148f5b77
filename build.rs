//! Tells the linker in which order to lay the functions (see benches/hot.sh).

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=src/hot.ld");
    println!("cargo::rerun-if-env-changed=NEURON_LINK_MAP");
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{folder}/src/hot.ld");
    if let Ok(map) = env::var("NEURON_LINK_MAP") {
        println!("cargo::rustc-link-arg-bins=-Wl,--no-demangle,-Map={map}");
    }
}
