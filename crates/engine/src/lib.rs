//! Use cases: a synchronous desk behind a thin driver
