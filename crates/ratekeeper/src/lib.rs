//! Shows what a rate limit would do to real traffic before it is switched on.
//!
//! This is the library behind the `ratekeeper` command: it reads access logs and decides every
//! request with the algorithms of [`ratekeeper_core`] on a clock that follows the log. The README
//! shows the command; [`replay`](mod@replay) is where a program of one's own begins.
//!
//! ```
//! use std::io::Cursor;
//!
//! use ratekeeper::read::{Bounds, Taken, lines_of};
//! use ratekeeper::replay::{Settings, replay};
//!
//! let log = "\
//! 192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] \"GET /a HTTP/1.1\" 200 12
//! 192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] \"GET /b HTTP/1.1\" 200 12
//! ";
//! let lines = lines_of(Box::new(Cursor::new(log)), Bounds::default(), &Taken::default())?;
//! let settings = Settings::new(vec!["per-ip: token-bucket 2/s burst 1 by ip".parse()?]);
//! let found = replay(vec![("access.log".to_owned(), lines)], &settings, || ())?;
//!
//! // At once one of them is refused; spread over their second none is.
//! assert_eq!((found.refused.at_once, found.refused.spread), (1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it sees only what a log tells (no header that was not logged), and it takes
//! every logged request as one that would have come anyway, although a refused client may well have
//! come again or stayed away.

pub mod cli;
pub mod client;
pub mod escape;
pub mod explain;
pub mod order;
mod output;
pub mod parse;
pub mod read;
pub mod replay;
pub mod rules;
mod series;
mod time;
