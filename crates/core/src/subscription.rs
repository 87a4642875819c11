//! Reconnecting a subscription.
