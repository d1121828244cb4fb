//! The port to durable storage, and its in-memory reference
