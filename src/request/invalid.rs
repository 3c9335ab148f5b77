//! Why a request is refused that no host could serve.

use thiserror::Error;

use super::{CORES, Origin, VISIBLE_DEVICES};
use crate::chip::ChipId;
use crate::words::quoted;

/// A request that cannot be understood, or not be served on any host.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Invalid {
    /// The value of an annotation or variable is not in the grammar.
    #[error("{key}={}: {fault}; allowed are {}", quoted(value), allowed(.key))]
    Value {
        /// The annotation's key, or the variable's name.
        key: String,
        /// What it holds.
        value: String,
        /// What is wrong with it.
        fault: Fault,
    },
    /// Two annotations ask, perhaps for different things.
    #[error("the annotations {0} and {1} are both set: remove one of them")]
    TwoKeys(String, String),
    /// How long to wait is not understood.
    #[error("{key}={}: is no time span; allowed are spans such as 30s or 1m, 0 for none", quoted(value))]
    Wait {
        /// The annotation's key, or the variable's name.
        key: &'static str,
        /// What it holds.
        value: String,
    },
    /// Two variables ask.
    #[error("the variables AWS_NEURON_VISIBLE_DEVICES and AWS_NEURON_CORES are both set: remove one of them")]
    TwoVariables,
    /// Keys by container name are there, but the engine does not say which container this is.
    #[error(
        "the annotation {0} asks for a container by name, but the engine does not tell this container's name: update it, or use aws.amazon.com/neuron"
    )]
    Nameless(String),
    /// Device nodes by hand and a request.
    #[error("chips are asked for twice, by {0} and by device nodes in the spec ({1}): use one way only")]
    Twice(Origin, String),
    /// A mount hides the nodes that would be made.
    #[error("a mount at {} would hide the granted device nodes behind the host's own: remove it, they come into the container without one", quoted(.0))]
    Mount(String),
    /// The container names cores that it will not have.
    #[error(
        "NEURON_RT_VISIBLE_CORES={}: the container will have the cores {cores}, numbered from its first chip; name these, or leave the variable out",
        quoted(value)
    )]
    VisibleCores {
        /// What the variable holds.
        value: String,
        /// The cores that it may name, such as `0-3`.
        cores: String,
    },
    /// The size of a logical core is none that exists.
    #[error("{origin}={}: a logical core has 1 or 2 physical ones; set it to 1 or 2", quoted(value))]
    LogicalCores {
        /// The variable or file that says so.
        origin: String,
        /// What it holds.
        value: String,
    },
    /// A chip whose cores nobody tells.
    #[error(
        "how many cores chip {0} has is not known: sysfs core_count is unreadable and this instance type has no row in the table; run as root, or update the driver"
    )]
    UnknownCores(ChipId),
    /// A node that the container's user could not open.
    #[error(
        "{path} is open to its owner only (mode {mode:04o}) and {why}: give it mode 0666 by a udev rule, or start the container without that"
    )]
    ClosedNode {
        /// The node on the host.
        path: String,
        /// Its permission bits.
        mode: u32,
        /// Why the tool cannot make it usable.
        why: &'static str,
    },
    /// A restored container would find chips whose state is gone.
    #[error("a container with Neuron chips cannot be restored ({0}): a chip's state is not in a checkpoint; start it anew")]
    Restore(Origin),
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// `0` or `any:0`.
    #[error("asks for no chip")]
    Zero,
    /// `0` of cores.
    #[error("asks for no core")]
    ZeroCores,
    /// A list where a count belongs.
    #[error("a list of chips is written id:LIST here")]
    BareList,
    /// An id that is named twice.
    #[error("names chip {0} twice")]
    Repeated(ChipId),
    /// An id that no host has.
    #[error("no host has a chip {0}, ids end at 63")]
    Beyond(u32),
    /// `4-2`.
    #[error("the range {0}-{1} runs backwards")]
    Backwards(u32, u32),
    /// Not in the grammar at all.
    #[error("is not understood")]
    Junk,
}

fn allowed(key: &str) -> &'static str {
    if key == CORES || key.starts_with("aws.amazon.com/neuroncore") {
        "a number of NeuronCores such as 2, none"
    } else if key == VISIBLE_DEVICES {
        "ids such as 0,2-4, all, any:N, id:LIST, none"
    } else {
        "a count such as 2, all, any:N, id:LIST such as id:0,2-4, none"
    }
}
