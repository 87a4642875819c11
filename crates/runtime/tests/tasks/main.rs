//! Tool calls as tasks, in both eras, over one store.
//!
//! Time is moved by hand where it decides: leases, retention, dates. What crosses threads is waited for with a generous
//! limit, since nothing tells when it has happened.

mod harness;
mod legacy;
mod modern;
mod orphans;
