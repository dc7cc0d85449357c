//! Decompression, recognized by the first bytes and bounded in how far it expands.

use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Output up to this size is never refused for its expansion.
const FREE: u64 = 16 * 1024 * 1024;

/// The error inside the [`io::Error`] of an input that expands further than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bomb {
    /// How many bytes one compressed byte may become.
    pub expansion: u64,
}

impl fmt::Display for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expands to more than {} times its compressed size",
            self.expansion
        )
    }
}

impl std::error::Error for Bomb {}

/// Returns the decompressed bytes of `source`, which are its own bytes when it is not compressed.
pub(super) fn expand(
    mut source: impl Read + Send + 'static,
    expansion: u64,
) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::with_capacity(ZSTD.len());
    source
        .by_ref()
        .take(ZSTD.len() as u64)
        .read_to_end(&mut magic)?;
    let gzip = magic.starts_with(&GZIP);
    let zstd = magic.starts_with(&ZSTD);
    let whole = Cursor::new(magic).chain(source);
    if !gzip && !zstd {
        return Ok(Box::new(whole));
    }
    let meter = Meter {
        source: whole,
        taken: 0,
    };
    let input = BufReader::with_capacity(128 * 1024, meter);
    let decoder = if gzip {
        Decoder::Gzip(Box::new(MultiGzDecoder::new(input)))
    } else {
        Decoder::Zstd(Box::new(Frames::new(input)))
    };
    Ok(Box::new(Bounded {
        decoder,
        given: 0,
        expansion,
    }))
}

/// Counts the compressed bytes taken.
struct Meter<R> {
    source: R,
    taken: u64,
}

impl<R: Read> Read for Meter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.taken += read as u64;
        Ok(read)
    }
}

type Input<R> = BufReader<Meter<R>>;

enum Decoder<R: Read> {
    /// Any number of members, one after the other.
    Gzip(Box<MultiGzDecoder<Input<R>>>),
    Zstd(Box<Frames<R>>),
}

struct Bounded<R: Read> {
    decoder: Decoder<R>,
    given: u64,
    expansion: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (read, taken) = match &mut self.decoder {
            Decoder::Gzip(gzip) => (gzip.read(buffer)?, gzip.get_ref().get_ref().taken),
            Decoder::Zstd(zstd) => {
                let read = zstd.read(buffer)?;
                (read, zstd.input.get_ref().taken)
            }
        };
        self.given += read as u64;
        if self.given > FREE && self.given / self.expansion.max(1) > taken {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                Bomb {
                    expansion: self.expansion,
                },
            ));
        }
        Ok(read)
    }
}

/// The frames of a zstd stream, one after the other, skippable ones skipped.
struct Frames<R: Read> {
    input: Input<R>,
    decoder: FrameDecoder,
    /// A frame has begun and its last byte is not yet given out.
    inside: bool,
}

impl<R: Read> Frames<R> {
    fn new(input: Input<R>) -> Self {
        Self {
            input,
            decoder: FrameDecoder::new(),
            inside: false,
        }
    }

    /// Begins the next frame; returns whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.input.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.input) {
                Ok(()) => {
                    self.inside = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut self.input.by_ref().take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(invalid(error)),
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        match (
            self.decoder.get_checksum_from_data(),
            self.decoder.get_calculated_checksum(),
        ) {
            (Some(stored), Some(found)) if stored != found => {
                Err(invalid("the checksum does not match"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while self.inside || self.begin()? {
            // A bounded step: a block is at most 128 KiB, and a window's worth is kept anyway.
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(invalid)?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            self.check()?;
            self.inside = false;
        }
        Ok(0)
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    fn read(bytes: Vec<u8>, expansion: u64) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        expand(Cursor::new(bytes), expansion)?.read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn plain_bytes_pass_however_few_there_are() {
        for text in [&b""[..], b"a", b"(\xb5/", b"plain text\n"] {
            assert_eq!(read(text.to_vec(), 1).unwrap(), text);
        }
    }

    #[test]
    fn gzip_members_are_read_one_after_the_other() {
        let bytes = [gzip(b"one\n"), gzip(b""), gzip(b"two\n")].concat();
        assert_eq!(read(bytes, 1_000).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn zstd_frames_are_read_one_after_the_other_and_skippable_ones_skipped() {
        let skippable = [
            &0x184d_2a53_u32.to_le_bytes()[..],
            &5u32.to_le_bytes(),
            b"extra",
        ]
        .concat();
        let bytes = [
            zstd(b"one\n"),
            skippable.clone(),
            zstd(b""),
            zstd(b"two\n"),
            skippable,
        ]
        .concat();
        assert_eq!(read(bytes, 1_000).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn a_stream_that_is_cut_or_changed_is_an_error() {
        let text = b"some text, long enough to be cut in the middle".repeat(20);
        for whole in [gzip(&text), zstd(&text)] {
            let cut = whole[..whole.len() - 6].to_vec();
            assert!(read(cut, 1_000).is_err());
            let mut changed = whole.clone();
            let at = whole.len() - 2;
            changed[at] ^= 0x55;
            assert!(read(changed, 1_000).is_err());
        }
        let trailing = [zstd(b"one\n"), b"rubbish that is no frame".to_vec()].concat();
        assert!(read(trailing, 1_000).is_err());
    }

    #[test]
    fn an_input_that_expands_too_far_stops() {
        let text = vec![0; 20 * 1024 * 1024];
        for bytes in [gzip(&text), zstd(&text)] {
            let expansion = (text.len() / bytes.len()) as u64;
            assert_eq!(
                read(bytes.clone(), expansion + 1).unwrap().len(),
                text.len()
            );
            let error = read(bytes, 20).unwrap_err();
            assert_eq!(
                error.get_ref().and_then(|inner| inner.downcast_ref()),
                Some(&Bomb { expansion: 20 })
            );
        }
    }
}
