//! Gives containers free, neighbouring AWS Neuron chips for themselves alone, as long as their main process lives.
//!
//! The model: a container's `config.json` carries a *request*. The wrapper finds the host's chips (the *inventory*), locks the
//! *ledger*, drops each *lease* whose *holder* is dead, chooses a run of free chips (the *grant*), writes the lease down with itself as
//! holder, edits the spec and becomes the low-level runtime. The hook inside `create` makes the container's init the holder. A lease
//! lives exactly as long as its holder, and nothing else frees chips: there is no release command to forget.
//!
//! Three floors; imports go down only.

macro_rules! pure {
    ($($name:ident)*) => { $(
        #[deny(clippy::disallowed_methods, clippy::disallowed_types)]
        pub mod $name;
    )* };
}

macro_rules! pure_reads {
    ($($name:ident)*) => { $(
        #[deny(clippy::disallowed_methods, clippy::disallowed_types)]
        #[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
        pub mod $name;
    )* };
}

macro_rules! reads {
    ($($name:ident)*) => { $(
        #[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
        pub mod $name;
    )* };
}

// Pure: no file, environment, process or clock.
pure! { cdi picture topology select cores configure }

// Pure, and they read what strangers wrote: no input may make them panic.
pure_reads! { words chip document peek request lease grant spec }

// Touching the host, and reading files that others write.
reads! { bundle host kernel settings store }

// Touching the host.
pub mod bind;
pub mod claim;
pub mod dockerd;
pub mod journal;
pub mod process;
pub mod programs;
pub mod reset;
pub mod serve;
pub mod textfile;
pub mod users;
pub mod wait;

// Faces.
pub mod cli;
pub mod hook;
pub mod runtime;
