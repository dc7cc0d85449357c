//! What the crate promises, asked from outside.

mod fields;
