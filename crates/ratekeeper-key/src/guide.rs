#![doc = include_str!("guide.md")]

#[allow(unused_imports, reason = "the page links to them")]
use crate::*;
