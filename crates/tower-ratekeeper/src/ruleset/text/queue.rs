//! The clauses of a queue: `queue 100 max-wait 5s at-once 3` and `wait-up-to 5s`.

use std::fmt;

use super::error::Fault;
use super::line::Line;
use crate::queue::Queue;

/// Reads what follows the word that begins a clause.
#[cfg(feature = "queue")]
pub(super) fn read(clause: &str, _: usize, line: &mut Line<'_>) -> Result<Queue, Fault> {
    use super::clause::duration;

    if clause == "wait-up-to" {
        return duration(line).map(Queue::wait_up_to);
    }
    let capacity = line.number("the number of requests that may wait")?;
    let mut queue = Queue::new(usize::try_from(capacity).unwrap_or(usize::MAX));
    if line.takes("max-wait") {
        queue = queue.max_wait(duration(line)?);
    }
    if line.takes("at-once") {
        queue = queue.at_once(line.number("a number of units")?);
    }
    Ok(queue)
}

#[cfg(not(feature = "queue"))]
pub(super) fn read(clause: &'static str, at: usize, _: &mut Line<'_>) -> Result<Queue, Fault> {
    let needed = "a build with the feature `queue`";
    Err(Fault::not_applicable(at, clause, needed))
}

/// Prints the clause of a queue, with a space before it.
#[cfg(feature = "queue")]
pub(in super::super) fn print(queue: &Queue, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use crate::queue::AtOnce;
    use crate::ruleset::print::duration;

    if *queue == Queue::wait_up_to(queue.max_wait) {
        f.write_str(" wait-up-to ")?;
        return duration(queue.max_wait, f);
    }
    write!(f, " queue {}", queue.capacity)?;
    if queue.max_wait != Queue::DEFAULT_MAX_WAIT {
        f.write_str(" max-wait ")?;
        duration(queue.max_wait, f)?;
    }
    match queue.at_once {
        AtOnce::Units(units) => write!(f, " at-once {units}"),
        AtOnce::Evenly | AtOnce::AsLimit => Ok(()),
    }
}

#[cfg(not(feature = "queue"))]
pub(in super::super) fn print(queue: &Queue, _: &mut fmt::Formatter<'_>) -> fmt::Result {
    match *queue {}
}
