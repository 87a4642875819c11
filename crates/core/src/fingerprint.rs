//! What a key is bound to.
