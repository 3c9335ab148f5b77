//! One executable, three faces: the file name of `argv[0]` says which.

use std::ffi::OsString;
use std::path::Path;

use neuron_container_runtime::{cli, hook, runtime, words};

fn main() {
    let args: Vec<OsString> = std::env::args_os().collect();
    let face = face(args.first());
    std::panic::set_hook(Box::new(move |panic| {
        end(face, &format!("fault in this program, please report it: {panic}"), 1);
    }));
    let (error, code) = match face {
        Face::Runtime => (runtime::run(&args), 1),
        Face::Hook => match hook::run(&args) {
            Ok(()) => return,
            Err(error) => (error, 1),
        },
        Face::Ctk => match cli::run(&args) {
            Ok(()) => return,
            Err(error) => {
                let code = cli::exit_code(&error);
                (error, code)
            }
        },
    };
    end(face, &format!("{error:#}"), code);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Face {
    Runtime,
    Hook,
    Ctk,
}

fn face(called_as: Option<&OsString>) -> Face {
    match called_as.and_then(|name| Path::new(name).file_name()).and_then(|name| name.to_str()) {
        Some("neuron-container-runtime") => Face::Runtime,
        Some("neuron-container-hook") => Face::Hook,
        _ => Face::Ctk,
    }
}

/// The only place that prints an error and exits.
#[expect(clippy::exit, clippy::print_stderr, reason = "the only place that does")]
fn end(face: Face, message: &str, code: i32) {
    let line = words::one_line(message);
    let args: Vec<_> = std::env::args_os().collect();
    match face {
        Face::Runtime => runtime::tell_engine(&args, &line),
        Face::Hook if args.get(1).is_some_and(|stage| stage == "precreate") => hook::tell_caller(&line),
        Face::Hook | Face::Ctk => {}
    }
    // clap's words on wrong usage are laid out for people already.
    if code == cli::WRONG_USAGE {
        eprint!("{message}");
    } else {
        eprintln!("error: {line}");
    }
    std::process::exit(code);
}
