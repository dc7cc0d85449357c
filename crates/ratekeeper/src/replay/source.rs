//! One log: its lines read, put in order and turned into keys.

use std::io;

use super::names::{KeyRef, Names};
use super::{Late, Sample, Settings};
use crate::client::Client;
use crate::order::{Order, Second};
use crate::parse::{Fault, Format, Parser, Record};
use crate::read::{Line, LogLines};

/// How many unreadable lines are kept to be shown.
const SAMPLES: usize = 5;

/// How many bytes of them.
const SAMPLE_BYTES: usize = 160;

/// A request on its way from its line to its decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Where its keys are held; means nothing once they are in a batch.
    pub(super) slot: u32,
    /// Bit i: rule i applies.
    pub(super) rules: u32,
    /// The log knows only the second.
    pub(super) whole_second: bool,
}

/// The keys of the requests that are held back: `stride` of them at every slot.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) stride: usize,
    keys: Vec<KeyRef>,
    free: Vec<u32>,
}

impl Held {
    pub(super) fn new(stride: usize) -> Self {
        Self {
            stride,
            keys: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn keys(&self, slot: u32) -> &[KeyRef] {
        &self.keys[slot as usize * self.stride..][..self.stride]
    }

    pub(super) fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }

    fn slot(&mut self) -> (u32, &mut [KeyRef]) {
        let slot = self.free.pop().unwrap_or_else(|| {
            // What is held is bounded far below 2^32 by the orders' room.
            let slot = u32::try_from(self.keys.len() / self.stride).unwrap_or(u32::MAX);
            self.keys
                .resize(self.keys.len() + self.stride, KeyRef::NONE);
            slot
        });
        (
            slot,
            &mut self.keys[slot as usize * self.stride..][..self.stride],
        )
    }
}

/// What all logs share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) settings: &'a Settings,
    /// The client comes first, then the kinds of key that rules name.
    pub(super) names: Vec<Names>,
    pub(super) held: Held,
    pub(super) unreadable: u64,
    pub(super) samples: Vec<Sample>,
    pub(super) late: u64,
    pub(super) first_late: Option<Late>,
}

/// One log that is being read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    lines: LogLines,
    parser: Parser,
    order: Order<Request>,
    pub(super) line: u64,
    ended: bool,
    /// The line that the latest time so far stands in.
    latest: (i64, u64),
}

impl Source {
    pub(super) fn new(name: String, lines: LogLines, settings: &Settings, room: usize) -> Self {
        Self {
            name,
            lines,
            parser: Parser::new(settings.format, settings.fields.clone()),
            order: Order::new(settings.skew, room),
            line: 0,
            ended: false,
            latest: (i64::MIN, 0),
        }
    }

    pub(super) fn format(&self) -> Option<Format> {
        self.parser.format()
    }

    pub(super) fn squeezed(&self) -> bool {
        self.order.squeezed()
    }

    /// Reads on until a second's requests are all there; nothing at the end.
    pub(super) fn next_second(
        &mut self,
        shared: &mut Shared<'_>,
    ) -> io::Result<Option<Second<Request>>> {
        loop {
            if let Some(second) = self.order.pop(self.ended) {
                return Ok(Some(second));
            }
            if self.ended {
                return Ok(None);
            }
            match self.lines.next_line()? {
                None => self.ended = true,
                Some(Line::TooLong) => {
                    self.line += 1;
                    unreadable(shared, &self.name, self.line, Fault::TooLong, b"");
                }
                Some(Line::Text(text)) => {
                    self.line += 1;
                    match self.parser.parse(text) {
                        Ok(record) => accept(
                            shared,
                            &mut self.order,
                            &mut self.latest,
                            &self.name,
                            self.line,
                            &record,
                        ),
                        Err(_) if text.trim_ascii().is_empty() => {}
                        Err(fault) => unreadable(shared, &self.name, self.line, fault, text),
                    }
                }
            }
        }
    }
}

fn accept(
    shared: &mut Shared<'_>,
    order: &mut Order<Request>,
    latest: &mut (i64, u64),
    file: &str,
    line: u64,
    record: &Record<'_>,
) {
    let time = record.stamp.unix;
    if order.is_late(time) {
        shared.late += 1;
        shared.first_late.get_or_insert_with(|| Late {
            file: file.to_owned(),
            line,
            by: latest.0.saturating_sub(time).unsigned_abs(),
            after: latest.1,
        });
        return;
    }
    if time > latest.0 {
        *latest = (time, line);
    }
    let client = Client::read(record.client);
    let (slot, keys) = shared.held.slot();
    for (key, names) in keys.iter_mut().zip(&mut shared.names) {
        *key = names.key(record, client);
    }
    let rules = shared.settings.rules.iter().enumerate();
    let applies = rules.filter(|(_, rule)| rule.on.applies(record.method, record.path));
    let rules = applies.fold(0, |rules, (index, _)| rules | 1 << index);
    order.push(
        time,
        Request {
            slot,
            rules,
            whole_second: record.stamp.whole_second,
        },
    );
}

fn unreadable(shared: &mut Shared<'_>, file: &str, line: u64, fault: Fault, text: &[u8]) {
    shared.unreadable += 1;
    if shared.samples.len() < SAMPLES {
        let text = text[..text.len().min(SAMPLE_BYTES)].to_vec();
        shared.samples.push(Sample {
            file: file.to_owned(),
            line,
            fault,
            text,
        });
    }
}
