//! The ledger's transitions.
