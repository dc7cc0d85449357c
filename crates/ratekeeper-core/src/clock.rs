//! Time as a parameter: monotonic for buckets and windows, calendar time where it is asked for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A moment in nanoseconds since some fixed start, never before an earlier one.
///
/// The start is the clock's own: moments of two clocks do not compare. Moments end at
/// [`Nanos::MAX`], about 146 years after the start, so that adding a limit's longest wait to one
/// never overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nanos(u64);

impl Nanos {
    /// The last moment, 2^62 ns after the start.
    pub const MAX: Self = Self(1 << 62);

    /// The first moment.
    pub const ZERO: Self = Self(0);

    /// Returns the moment this many nanoseconds after the start, at most [`Nanos::MAX`].
    #[must_use]
    #[inline]
    pub const fn new(nanos: u64) -> Self {
        if nanos > Self::MAX.0 {
            Self::MAX
        } else {
            Self(nanos)
        }
    }

    /// Returns the nanoseconds since the start.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<Duration> for Nanos {
    /// Takes the time since the start; what does not fit is [`Nanos::MAX`].
    #[inline]
    fn from(since_start: Duration) -> Self {
        Self::new(nanos(since_start))
    }
}

/// Returns the whole nanoseconds of a duration, `u64::MAX` when it holds more.
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    let whole = duration.as_secs().checked_mul(1_000_000_000);
    whole
        .and_then(|whole| whole.checked_add(duration.subsec_nanos().into()))
        .unwrap_or(u64::MAX)
}

/// A source of time that people write themselves; [`Clock::new`] takes one.
pub trait TimeSource: Send + Sync + 'static {
    /// Returns the present moment; never one before a moment it returned earlier.
    fn now(&self) -> Nanos;

    /// Returns the time since the Unix epoch, for windows that follow the calendar.
    ///
    /// It may step in both directions; limits cope with it.
    fn unix_now(&self) -> Duration;
}

/// The time that limits are decided at: the system's, or one that a test moves by hand.
///
/// Clones share the source.
///
/// # Examples
///
/// ```
/// use ratekeeper_core::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let clock = Clock::from(time.clone());
/// let before = clock.now();
/// time.advance(Duration::from_secs(3));
/// assert_eq!(clock.now().get() - before.get(), 3_000_000_000);
/// ```
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    /// Moments count from an instant taken when the clock was made.
    System(std::time::Instant),
    Manual(ManualClock),
    Custom(Arc<dyn TimeSource>),
}

impl Clock {
    /// Creates a clock that follows the system's monotonic clock.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the system's clock"
    )]
    pub fn system() -> Self {
        Self(Source::System(std::time::Instant::now()))
    }

    /// Creates a clock that asks `source`.
    pub fn new(source: impl TimeSource) -> Self {
        Self(Source::Custom(Arc::new(source)))
    }

    /// Returns the present moment.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Nanos {
        match &self.0 {
            Source::System(start) => Nanos::from(start.elapsed()),
            Source::Manual(manual) => manual.now(),
            Source::Custom(custom) => custom.now(),
        }
    }

    /// Returns the time since the Unix epoch; zero when the system's clock stands before it.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the system's clock"
    )]
    pub fn unix_now(&self) -> Duration {
        match &self.0 {
            Source::System(_) => SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default(),
            Source::Manual(manual) => manual.unix_now(),
            Source::Custom(custom) => custom.unix_now(),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl From<ManualClock> for Clock {
    fn from(manual: ManualClock) -> Self {
        Self(Source::Manual(manual))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System(_) => "Clock::System",
            Source::Manual(_) => "Clock::Manual",
            Source::Custom(_) => "Clock::Custom",
        })
    }
}

/// A clock that stands still until it is moved; clones show the same time.
///
/// It starts at moment zero and at the Unix epoch. Advancing moves both times; calendar time can
/// also be set on its own, to any value, as an operator or a time server would.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<ManualTime>);

#[derive(Debug, Default)]
struct ManualTime {
    now: AtomicU64,
    unix: AtomicU64,
}

impl ManualClock {
    /// Creates a clock at moment zero and at the Unix epoch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward, at most to [`Nanos::MAX`].
    pub fn advance(&self, by: Duration) {
        let by = nanos(by);
        // Relaxed: each word is a whole value and nothing else is read through it.
        let _ = self
            .0
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                Some(Nanos::new(now.saturating_add(by)).get())
            });
        self.advance_unix(by);
    }

    fn advance_unix(&self, by: u64) {
        let _ = self
            .0
            .unix
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |unix| {
                Some(unix.saturating_add(by))
            });
    }

    /// Moves the clock forward to this moment; a moment in the past leaves it where it is.
    pub fn advance_to(&self, moment: Nanos) {
        let before = self.0.now.fetch_max(moment.get(), Ordering::Relaxed);
        self.advance_unix(moment.get().saturating_sub(before));
    }

    /// Sets the calendar time, forward or back, as the time since the Unix epoch.
    pub fn set_unix(&self, since_epoch: Duration) {
        self.0.unix.store(nanos(since_epoch), Ordering::Relaxed);
    }

    /// Returns the present moment.
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos::new(self.0.now.load(Ordering::Relaxed))
    }

    /// Returns the calendar time as the time since the Unix epoch.
    #[must_use]
    pub fn unix_now(&self) -> Duration {
        Duration::from_nanos(self.0.unix.load(Ordering::Relaxed))
    }
}

/// A clock that reads the processor's counter of cycles, by way of the crate `quanta`: a reading
/// takes about half the time of one of the system's clock.
///
/// What it gives up for that: threads may read it some nanoseconds out of their order (a decision
/// is then as of the slightly earlier moment, and the refund of such a charge to a sliding log comes
/// to nothing), and its second is as long as it was measured to be
/// when the process made its first one, which takes up to 200 ms. Where the processor has no such
/// counter, it is the system's clock. Calendar time is always the system's.
///
/// # Examples
///
/// ```
/// use ratekeeper_core::{Limit, Limiter, Memory, QuantaClock, Quota};
///
/// let memory = Memory::builder().clock(QuantaClock::new()).build();
/// let limiter = Limiter::on(&memory, Limit::token_bucket("api", Quota::per_second(1))?)?;
/// assert!(limiter.check("alice").is_allowed());
/// assert!(!limiter.check("alice").is_allowed());
/// # Ok::<(), ratekeeper_core::LimitError>(())
/// ```
#[cfg(feature = "quanta")]
#[derive(Clone, Debug)]
pub struct QuantaClock {
    clock: quanta::Clock,
    start: u64,
}

#[cfg(feature = "quanta")]
impl QuantaClock {
    /// Creates a clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        Self { clock, start }
    }
}

#[cfg(feature = "quanta")]
impl Default for QuantaClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "quanta")]
impl TimeSource for QuantaClock {
    #[inline]
    fn now(&self) -> Nanos {
        Nanos::new(self.clock.delta_as_nanos(self.start, self.clock.raw()))
    }

    fn unix_now(&self) -> Duration {
        Clock::system().unix_now()
    }
}

#[cfg(feature = "quanta")]
impl From<QuantaClock> for Clock {
    fn from(clock: QuantaClock) -> Self {
        Self::new(clock)
    }
}

/// A clock that follows tokio's, so that `tokio::time::pause` and `advance` move the limits too.
#[cfg(feature = "tokio-clock")]
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: tokio::time::Instant,
    unix_start: Duration,
}

#[cfg(feature = "tokio-clock")]
impl TokioClock {
    /// Creates a clock that starts now; inside a runtime whose time is paused, at the paused time.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "calendar time follows tokio's from here on"
    )]
    pub fn new() -> Self {
        Self {
            start: tokio::time::Instant::now(),
            unix_start: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }
}

#[cfg(feature = "tokio-clock")]
impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "tokio-clock")]
impl TimeSource for TokioClock {
    fn now(&self) -> Nanos {
        Nanos::from(self.start.elapsed())
    }

    fn unix_now(&self) -> Duration {
        self.unix_start + self.start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_clock_never_passes_the_last_moment() {
        let clock = ManualClock::new();
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Nanos::MAX);
    }

    #[test]
    fn calendar_time_steps_without_moving_the_monotonic_one() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(5));
        clock.set_unix(Duration::from_secs(1_700_000_000));
        clock.set_unix(Duration::from_secs(1_600_000_000));
        assert_eq!(clock.now(), Nanos::new(5_000_000_000));
        assert_eq!(clock.unix_now().as_secs(), 1_600_000_000);
    }

    #[cfg(feature = "quanta")]
    #[test]
    fn the_counter_s_second_is_as_long_as_the_system_s() {
        let (counter, system) = (Clock::from(QuantaClock::new()), Clock::system());
        // The counter is read between two readings of the other, however long they take.
        let read = || [&system, &counter, &system].map(|clock| clock.now().get());
        let start = read();
        let mut end = read();
        while end[0] - start[2] < 20_000_000 {
            let before = end;
            end = read();
            assert!(end[1] >= before[1], "one thread sees it run forward");
        }
        let (least, passed, most) = (end[0] - start[2], end[1] - start[1], end[2] - start[0]);
        assert!(passed >= least - least / 100, "{passed} of {least}");
        assert!(passed <= most + most / 100, "{passed} of {most}");
        assert!(counter.unix_now().abs_diff(system.unix_now()) < Duration::from_secs(60));
    }
}
