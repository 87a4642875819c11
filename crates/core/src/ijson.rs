//! The I-JSON guard and RFC 8785.
