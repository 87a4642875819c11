//! The reviewer.
