//! Waiting for a future without a runtime.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future on this thread until it is ready, parking in between.
///
/// Futures that need a runtime's timers or sockets need that runtime's own way to wait.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        // A wake that came before this is remembered by `park`, and one for nothing only polls once more.
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::mpsc, task::Poll, thread};

    use super::block_on;

    #[test]
    fn a_future_that_another_thread_wakes_is_finished() {
        let (sender, receiver) = mpsc::channel();
        let mut asked = false;
        let answer = block_on(poll_fn(|context| {
            if let Ok(answer) = receiver.try_recv() {
                return Poll::Ready(answer);
            }
            if !asked {
                asked = true;
                let (waker, sender) = (context.waker().clone(), sender.clone());
                thread::spawn(move || {
                    sender.send(7).unwrap();
                    waker.wake();
                });
            }
            Poll::Pending
        }));
        assert_eq!(answer, 7);
    }
}
