//! Contests: the same work by several contestants, in turns within one process.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long to measure, and what to print along the way.
#[derive(Clone, Copy)]
pub struct Settings {
    pub quick: bool,
}

impl Settings {
    /// Returns the rounds of a contest: all of them, or a third of them when in a hurry.
    pub fn rounds(self, full: usize) -> usize {
        if self.quick {
            full.div_ceil(3).max(3)
        } else {
            full
        }
    }
}

/// A line of the results: the medians of one question's contestants, and the worst of each.
pub struct Row {
    pub id: String,
    pub unit: &'static str,
    /// Name and median, in the order in which they are printed.
    pub values: Vec<(String, f64)>,
    pub worst: BTreeMap<String, f64>,
}

impl Row {
    pub fn new(id: impl Into<String>, unit: &'static str) -> Self {
        Self {
            id: id.into(),
            unit,
            values: Vec::new(),
            worst: BTreeMap::new(),
        }
    }

    /// Adds a figure that is not a median of rounds.
    pub fn with(mut self, name: impl Into<String>, value: f64) -> Self {
        self.values.push((name.into(), value));
        self
    }

    pub fn with_worst(mut self, name: impl Into<String>, value: f64) -> Self {
        self.worst.insert(name.into(), value);
        self
    }

    pub fn get(&self, name: &str) -> f64 {
        let found = self.values.iter().find(|(other, _)| other == name);
        found.map_or(f64::NAN, |(_, value)| *value)
    }
}

/// One question, put to several contestants.
pub struct Contest<'a> {
    id: String,
    unit: &'static str,
    contestants: Vec<(&'static str, Box<dyn FnMut() -> f64 + 'a>)>,
}

impl<'a> Contest<'a> {
    pub fn new(id: impl Into<String>) -> Self {
        Self::in_unit(id, "ns")
    }

    pub fn in_unit(id: impl Into<String>, unit: &'static str) -> Self {
        Self {
            id: id.into(),
            unit,
            contestants: Vec::new(),
        }
    }

    /// Adds a contestant. Each call does one round of the work and returns its figure.
    pub fn entry(mut self, name: &'static str, round: impl FnMut() -> f64 + 'a) -> Self {
        self.contestants.push((name, Box::new(round)));
        self
    }

    /// Runs the rounds, each contestant once a round, and every round begins with another one. The
    /// first round warms up and does not count.
    pub fn run(mut self, rounds: usize) -> Row {
        let count = self.contestants.len();
        let mut samples = vec![Vec::with_capacity(rounds); count];
        for round in 0..=rounds {
            for turn in 0..count {
                let index = (round + turn) % count;
                let figure = (self.contestants[index].1)();
                if round > 0 {
                    samples[index].push(figure);
                }
            }
        }
        let mut row = Row::new(self.id, self.unit);
        for ((name, _), samples) in self.contestants.iter().zip(&mut samples) {
            samples.sort_by(f64::total_cmp);
            row.values
                .push(((*name).to_owned(), samples[samples.len() / 2]));
            row.worst
                .insert((*name).to_owned(), samples[samples.len() - 1]);
        }
        row
    }
}

/// Returns the nanoseconds that one of `count` calls takes.
#[inline(always)]
pub fn each(count: u64, mut work: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    for index in 0..count {
        work(index);
    }
    nanos(start.elapsed()) / count as f64
}

pub fn nanos(duration: Duration) -> f64 {
    duration.as_nanos() as f64
}

/// Returns what `threads` threads need for one call each, all of them calling at once: their time
/// over the calls that they made together.
pub fn each_of_threads(threads: u64, count: u64, work: impl Fn(u64, u64) + Sync) -> f64 {
    let barrier = std::sync::Barrier::new(threads as usize);
    let slowest = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    for index in 0..count {
                        work(thread, index);
                    }
                    start.elapsed()
                })
            })
            .collect();
        let times = handles
            .into_iter()
            .map(|handle| handle.join().expect("no panic"));
        times.max().unwrap_or_default()
    });
    nanos(slowest) / (count * threads) as f64
}

/// Keeps the processor from starting what follows before what came is done.
#[inline(always)]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has this instruction, and it does nothing but wait.
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Numbers that repeat from run to run and are hard to foresee for a processor.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `bound`, which is less than 2^32.
    #[inline(always)]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.next() >> 32) * bound) >> 32
    }
}

/// Uses a value without looking at it.
#[inline(always)]
pub fn used<T>(value: T) {
    black_box(value);
}
