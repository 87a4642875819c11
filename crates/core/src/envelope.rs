//! JSON-RPC over raw JSON.
