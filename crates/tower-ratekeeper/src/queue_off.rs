//! Stands in for the queue where the feature `queue` is off: there are no queues, so nothing waits.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use ratekeeper_core::{Algorithm, Answer, Claims, Observer, Quota, Store, StoreError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Waited {}

pub(crate) struct Lines;

pub(crate) struct Turn<F>(Infallible, PhantomData<F>);

pub(crate) struct Arrived {
    pub(crate) answer: Result<Answer, StoreError>,
    pub(crate) waited: Option<Waited>,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self
    }
}

impl Queue {
    pub(crate) fn quota(&self, _: Algorithm, _: Quota) -> Quota {
        match *self {}
    }
}

impl Waited {
    pub(crate) fn write_field(&self, _: &mut http::HeaderMap) {
        match *self {}
    }
}

pub(crate) fn ask<St: Store>(
    _: &Arc<Lines>,
    _: Option<&Arc<dyn Observer>>,
    _: &St,
    _: &Claims<'_>,
    _: usize,
    queue: &Queue,
) -> Result<Arrived, Box<Turn<St::Future>>> {
    match *queue {}
}

impl<F> Turn<F> {
    pub(crate) fn poll<St: Store<Future = F>>(
        &mut self,
        _: &mut Context<'_>,
        _: &St,
    ) -> Poll<Arrived> {
        match self.0 {}
    }
}
