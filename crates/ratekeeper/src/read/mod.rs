//! Log files as lines: plain, gzip or zstd, `-` for standard input, all in bounded memory.

mod expand;
mod line;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::expand::Bomb;
pub use self::line::{Line, Lines};

/// What bounds the memory and the work that an input can cause.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The longest line that is read, in bytes; a longer one is skipped up to its end.
    pub line: usize,
    /// How many bytes one compressed byte may become, once the output exceeds 16 MiB.
    pub expansion: u64,
}

impl Default for Bounds {
    /// Lines of up to 64 KiB and an expansion of up to 1,000.
    fn default() -> Self {
        Self {
            line: 64 * 1024,
            expansion: 1_000,
        }
    }
}

/// A counter of the bytes taken from files so far, before decompression; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Taken(Arc<AtomicU64>);

impl Taken {
    /// Returns the bytes taken so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        // Relaxed: a progress display reads it, and nothing else is read through it.
        self.0.load(Ordering::Relaxed)
    }
}

/// The lines of any readable thing, decompressed.
pub type LogLines = Lines<Box<dyn Read + Send>>;

/// Opens a file, or standard input when `path` is `-`, and recognizes its compression by its first bytes.
///
/// # Errors
///
/// Fails when the file cannot be opened or read, or is a folder.
pub fn open(path: &Path, bounds: Bounds, taken: &Taken) -> io::Result<LogLines> {
    let source: Box<dyn Read + Send> = if path.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        Box::new(file)
    };
    lines_of(source, bounds, taken)
}

/// Returns the lines of `source`, whose compression is recognized by its first bytes.
///
/// # Errors
///
/// Fails when the first bytes cannot be read.
pub fn lines_of(
    source: Box<dyn Read + Send>,
    bounds: Bounds,
    taken: &Taken,
) -> io::Result<LogLines> {
    let counted = Counted {
        source,
        taken: taken.clone(),
    };
    Ok(Lines::new(
        expand::expand(counted, bounds.expansion)?,
        bounds.line,
    ))
}

/// Counts what passes through it.
struct Counted {
    source: Box<dyn Read + Send>,
    taken: Taken,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        // Relaxed: see `Taken::bytes`.
        self.taken.0.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
