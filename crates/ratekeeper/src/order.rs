//! Puts requests in order of time, within a bounded lateness and bounded memory.
//!
//! Servers log a request when it ends, so lines come out of order by as long as requests last. A
//! request is held back until one is seen that is later by the allowed skew; one that is later
//! still than that is late, and its caller counts it. Requests are grouped by the second they were
//! logged in, since most logs know no more; within a second they keep the order of time and, where
//! that is equal, of arrival.

use std::collections::VecDeque;

use crate::time::SECOND;

/// The requests of one second, in order.
#[derive(Debug)]
pub struct Second<T> {
    /// Whole seconds since the Unix epoch.
    pub second: i64,
    /// Nanoseconds since the Unix epoch, and what was logged then.
    pub requests: Vec<(i64, T)>,
}

/// Holds requests back until their order is certain.
#[derive(Debug)]
pub struct Order<T> {
    skew: i64,
    /// How many requests may be held back.
    room: usize,
    held: usize,
    /// By second, ascending, no second twice.
    seconds: VecDeque<Second<T>>,
    /// The end of what has been given out; requests before it are late.
    given: Option<i64>,
    latest: Option<i64>,
    squeezed: bool,
}

impl<T> Order<T> {
    /// Creates an order for requests up to `skew` nanoseconds late, holding back up to `room` requests.
    #[must_use]
    pub fn new(skew: i64, room: usize) -> Self {
        Self {
            skew: skew.max(0),
            room: room.max(1),
            held: 0,
            seconds: VecDeque::new(),
            given: None,
            latest: None,
            squeezed: false,
        }
    }

    /// Returns whether the room ran out, so that some requests were given out before the skew had passed.
    #[must_use]
    pub fn squeezed(&self) -> bool {
        self.squeezed
    }

    /// Returns whether a request of this time would come too late to be put in order.
    #[must_use]
    pub fn is_late(&self, time: i64) -> bool {
        let skewed = self
            .latest
            .is_some_and(|latest| time < latest.saturating_sub(self.skew));
        skewed || self.given.is_some_and(|given| time < given)
    }

    /// Takes a request in. One that [is late](Self::is_late) is not taken: it belongs to a moment
    /// that has been given out.
    pub fn push(&mut self, time: i64, request: T) -> bool {
        if self.is_late(time) {
            return false;
        }
        self.latest = self.latest.max(Some(time));
        let second = time.div_euclid(SECOND);
        // Most requests belong to one of the last seconds.
        let mut index = self.seconds.len();
        while index > 0 && self.seconds[index - 1].second > second {
            index -= 1;
        }
        if index > 0 && self.seconds[index - 1].second == second {
            self.seconds[index - 1].requests.push((time, request));
        } else {
            self.seconds.insert(
                index,
                Second {
                    second,
                    requests: vec![(time, request)],
                },
            );
        }
        self.held += 1;
        true
    }

    /// Returns the next second whose requests are all there; with `ended`, when no more will come,
    /// the next second.
    pub fn pop(&mut self, ended: bool) -> Option<Second<T>> {
        let second = self.seconds.front()?.second;
        let end = (second + 1).saturating_mul(SECOND);
        let certain = self
            .latest
            .is_some_and(|latest| end <= latest.saturating_sub(self.skew));
        // One second alone is not squeezed out: it may still grow, and giving it out in two parts
        // would break it. It is the one that is growing, so memory holds one second more than the room.
        let full = self.held > self.room && self.seconds.len() > 1;
        if !(ended || certain || full) {
            return None;
        }
        self.squeezed |= !ended && !certain;
        let mut first = self.seconds.pop_front()?;
        self.given = Some(end);
        self.held -= first.requests.len();
        in_order(&mut first.requests);
        Some(first)
    }
}

/// Sorts by time and keeps the order of equal times.
pub(crate) fn in_order<T>(requests: &mut [(i64, T)]) {
    if !requests.is_sorted_by_key(|(time, _)| *time) {
        requests.sort_by_key(|(time, _)| *time);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(times: &[i64], skew: i64, room: usize) -> (Vec<(i64, usize)>, Vec<usize>) {
        let mut order = Order::new(skew, room);
        let (mut given, mut late) = (Vec::new(), Vec::new());
        for (index, time) in times.iter().enumerate() {
            if !order.push(*time, index) {
                late.push(index);
            }
            while let Some(second) = order.pop(false) {
                given.extend(second.requests);
            }
        }
        while let Some(second) = order.pop(true) {
            given.extend(second.requests);
        }
        (given, late)
    }

    proptest! {
        #[test]
        fn what_is_not_late_comes_out_as_a_stable_sort_gives_it(
            times in prop::collection::vec((-9i64..9, prop::sample::select(vec![0, 1, SECOND / 2])), 0..60),
            skew in 0i64..8 * SECOND,
        ) {
            let times: Vec<i64> = times.into_iter().map(|(second, part)| second * SECOND + part).collect();
            // The obvious slow way: what is later than the skew against all before it is late.
            let mut kept = Vec::new();
            let mut late = Vec::new();
            for (index, time) in times.iter().enumerate() {
                match times[..index].iter().enumerate().filter(|(i, _)| !late.contains(i)).map(|(_, t)| *t).max() {
                    Some(latest) if *time < latest - skew => late.push(index),
                    _ => kept.push((*time, index)),
                }
            }
            kept.sort();
            prop_assert_eq!(run(&times, skew, usize::MAX), (kept, late));
        }

        #[test]
        fn little_room_keeps_the_order_and_loses_nothing(
            times in prop::collection::vec(0i64..20, 0..80), room in 1usize..10,
        ) {
            let times: Vec<i64> = times.into_iter().map(|second| second * SECOND).collect();
            let (given, late) = run(&times, 5 * SECOND, room);
            prop_assert_eq!(given.len() + late.len(), times.len());
            prop_assert!(given.is_sorted());
        }
    }

    #[test]
    fn a_request_exactly_as_late_as_the_skew_is_in_order() {
        let (given, late) = run(&[60 * SECOND, 0, 60 * SECOND + 1, 0], 60 * SECOND, 100);
        assert_eq!(
            given.iter().map(|(_, index)| *index).collect::<Vec<_>>(),
            [1, 0, 2]
        );
        assert_eq!(late, [3]);
    }

    #[test]
    fn no_more_than_the_room_and_one_second_is_held() {
        let mut order = Order::new(SECOND * 1_000_000, 10);
        for second in 0..1_000 {
            assert!(order.push(second * SECOND, ()));
            while order.pop(false).is_some() {}
            assert!(order.held <= 11);
        }
        assert!(order.squeezed());
    }

    #[test]
    fn times_at_the_edges_of_the_range_do_not_overflow() {
        let (given, late) = run(&[i64::MIN, i64::MAX, i64::MIN, i64::MAX], i64::MAX, 100);
        assert_eq!((given.len(), late.len()), (3, 1));
    }
}
