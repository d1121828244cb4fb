//! One suite that every store must pass
