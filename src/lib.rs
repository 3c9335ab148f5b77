//! Gives containers free, neighbouring AWS Neuron chips for themselves alone, as long as their main process lives.
//!
//! The model: a container's `config.json` carries a *request*. The wrapper finds the host's chips (the *inventory*), locks the
//! *ledger*, drops each *lease* whose *holder* is dead, chooses a run of free chips (the *grant*), writes the lease down with itself as
//! holder, edits the spec and becomes the low-level runtime. The hook inside `create` makes the container's init the holder. A lease
//! lives exactly as long as its holder, and nothing else frees chips: there is no release command to forget.
//!
//! Three floors; imports go down only. Pure modules know no file, environment, process or clock:
//! [`words`], [`chip`], [`topology`], [`peek`], [`request`], [`select`], [`lease`], [`grant`], [`spec`]. Host modules touch
//! the host: [`settings`], [`host`], [`process`], [`store`], [`bundle`], [`claim`], [`journal`]. Faces meet the caller:
//! [`runtime`], [`hook`], [`cli`].

#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod chip;
#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod grant;
#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod lease;
#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod peek;
#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod request;
#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod select;
#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod spec;
#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod topology;
#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod words;
