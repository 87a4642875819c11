//! Short true stories that `demo` tells and `evidence` files: each runs the parts that ship and reports what it saw.

pub(crate) mod charge;
pub(crate) mod overload;
pub(crate) mod task;
