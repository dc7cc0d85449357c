//! Ending charges behind the callers' backs: settling is called from destructors and must not wait.

use std::sync::Arc;

use ratekeeper_core::{Limit, Observer, Receipt, Settle};
use redis::{Cmd, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::link::Link;
use crate::names::Namer;
use crate::reply;
use crate::request::{self, Time};

/// Charges that wait for their end. Beyond it they stay as they are.
const WAITING: usize = 8_192;

/// Charges ended by one round trip.
const TOGETHER: usize = 64;

pub(crate) enum Message {
    End(End),
    /// Answered once everything before it has been done or given up.
    Flush(oneshot::Sender<()>),
}

/// A charge to be ended.
pub(crate) struct End {
    command: Cmd,
    time: Time,
    limit: Limit,
    charge: u64,
}

impl End {
    /// Returns what there is to do, if anything.
    pub(crate) fn new(receipt: &Receipt, how: Settle, namer: &Namer, time: Time) -> Option<Self> {
        let units = receipt.units;
        let (refund, charge) = match how {
            Settle::Commit => (0, 0),
            Settle::Refund => (units, 0),
            Settle::Actual(actual) => (units.saturating_sub(actual), actual.saturating_sub(units)),
        };
        if (refund, charge) == (0, 0) {
            return None;
        }
        // A limit that cannot be kept was not charged either.
        let command = request::settle(receipt, refund, charge, namer, time).ok()?;
        Some(Self {
            command,
            time,
            limit: receipt.limit.clone(),
            charge,
        })
    }
}

/// Starts the task that ends charges; it stops when the sender is dropped.
pub(crate) fn start(link: Arc<Link>, observer: Arc<dyn Observer>) -> mpsc::Sender<Message> {
    let (sender, mut messages) = mpsc::channel(WAITING);
    link.runtime().clone().spawn(async move {
        let mut batch = Vec::with_capacity(TOGETHER);
        while messages.recv_many(&mut batch, TOGETHER).await > 0 {
            work_off(&link, &*observer, &mut batch).await;
        }
    });
    sender
}

async fn work_off(link: &Arc<Link>, observer: &dyn Observer, batch: &mut Vec<Message>) {
    let mut ends = Vec::new();
    for message in batch.drain(..) {
        match message {
            Message::End(end) => ends.push(end),
            Message::Flush(done) => {
                end_all(link, observer, std::mem::take(&mut ends)).await;
                // Whoever asked may have left.
                let _ = done.send(());
            }
        }
    }
    end_all(link, observer, ends).await;
}

async fn end_all(link: &Arc<Link>, observer: &dyn Observer, ends: Vec<End>) {
    let Some(time) = ends.first().map(|end| end.time) else {
        return;
    };
    let (commands, charged): (Vec<_>, Vec<_>) = ends
        .into_iter()
        .map(|end| (end.command, (end.limit, end.charge)))
        .unzip();
    let answered = |place: usize, value: Value| {
        if let Some((limit, charge)) = charged.get(place) {
            let clipped = reply::clipped(*charge, &value);
            if clipped > 0 {
                observer.clipped(limit, clipped);
            }
        }
    };
    // What fails stays as it is: whether it ran is unknown, and it must not run twice.
    let _ = timeout(
        crate::store::PATIENCE,
        link.call_all(commands, time, answered),
    )
    .await;
}
