//! What the hook is measured against: a program of the same build that does nothing.

fn main() {}
