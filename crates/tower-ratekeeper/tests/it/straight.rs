//! The usual request goes a straight way: it costs few allocations, and its client is told what the
//! general way would tell.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Request, Response};
use http_body_util::Empty;
use proptest::prelude::*;
use tower::{Layer, Service, service_fn};
use tower_ratekeeper::fields::{FieldFormat, FieldFormats, FieldScope, Reset};
use tower_ratekeeper::{
    Algorithm, BodyFormat, Jitter, ManualClock, Memory, Quota, RateLimitBody, RateLimitLayer,
    RateLimitLayerBuilder, Rule,
};

use crate::support::{bucket, key_of, request, text_of};

type Answered = Response<RateLimitBody<Empty<Bytes>>>;

/// Answers without a body, and so without an allocation.
fn bare(_: Request<()>) -> Ready<Result<Response<Empty<Bytes>>, Infallible>> {
    ready(Ok(Response::new(Empty::new())))
}

fn answer<S>(service: &mut S, request: Request<()>) -> Answered
where
    S: Service<Request<()>, Response = Answered, Error = Infallible>,
{
    let future = pin!(service.call(request));
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(response)) => response,
        Poll::Pending => panic!("decided at once"),
    }
}

/// The allocations of one request more, once the first ones have been looked at for mistakes.
fn allocations(layer: &RateLimitLayer) -> u64 {
    let mut service = layer.layer(service_fn(bare));
    for _ in 0..200 {
        drop(answer(&mut service, request(1)));
    }
    let request = request(1);
    let measured = allocation_counter::measure(|| {
        drop(answer(&mut service, request));
    });
    measured.count_total
}

fn builder(rule: Rule) -> RateLimitLayerBuilder {
    let clock = ManualClock::new();
    let store = Memory::builder().clock(clock.clone()).max_keys(1_024);
    RateLimitLayer::builder()
        .store(store.build())
        .rule(rule)
        .clock(clock)
}

#[test]
fn an_allowed_request_costs_no_allocation_and_its_fields_three() {
    let rule = || Rule::token_bucket("wide", Quota::per_minute(100_000)).by_fn(key_of);
    let silent = builder(rule()).fields_when_allowed(None).build().unwrap();
    assert_eq!(allocations(&silent), 0);
    // Two of the header map and one for the value that is new each time.
    let telling = builder(rule()).build().unwrap();
    assert_eq!(allocations(&telling), 3);
}

#[test]
fn a_refusal_costs_three_allocations() {
    let layer = builder(bucket("narrow")).build().unwrap();
    assert_eq!(allocations(&layer), 3);
    let layer = builder(bucket("narrow"))
        .fields(FieldFormats::none())
        .build()
        .unwrap();
    assert_eq!(allocations(&layer), 2, "the header map");
}

fn formats() -> impl Strategy<Value = FieldFormats> {
    let customary = |reset| FieldFormat::XRateLimit { reset };
    let drafts = prop::option::of(prop::sample::select(vec![
        FieldFormat::Draft11,
        FieldFormat::Draft07,
        FieldFormat::Draft06,
    ]));
    let resets = prop::option::of(prop::sample::select(vec![Reset::Epoch, Reset::Delta]));
    (drafts, resets).prop_map(move |(draft, reset)| {
        FieldFormats::new(draft.into_iter().chain(reset.map(customary))).unwrap()
    })
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(vec![
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingCounter,
        Algorithm::SlidingLog,
    ])
}

/// A rule, how much a request costs under it, and what a layer tells of it.
#[derive(Clone, Debug)]
struct Settings {
    algorithm: Algorithm,
    units: u64,
    seconds: u64,
    cost: u64,
    max_cost: Option<u64>,
    formats: FieldFormats,
    body: BodyFormat,
    cap: u64,
    partitions: bool,
    nameless: bool,
    denied: bool,
}

impl Settings {
    fn any() -> impl Strategy<Value = Self> {
        let rule = (algorithms(), 1_u64..20, 1_u64..20_000, 0_u64..25);
        let bodies = vec![
            BodyFormat::ProblemJson,
            BodyFormat::Plain,
            BodyFormat::Empty,
        ];
        let told = (formats(), prop::sample::select(bodies), 0_u64..10_000);
        let rare = (
            prop::option::weighted(0.1, 0_u64..25),
            any::<bool>(),
            prop::bool::weighted(0.1),
            prop::bool::weighted(0.1),
        );
        (rule, told, rare).prop_map(|(rule, told, rare)| Self {
            algorithm: rule.0,
            units: rule.1,
            seconds: rule.2,
            cost: rule.3,
            max_cost: rare.0,
            formats: told.0,
            body: told.1,
            cap: told.2,
            partitions: rare.1,
            nameless: rare.2,
            denied: rare.3,
        })
    }

    fn quota(&self) -> Quota {
        Quota::new(self.units, std::time::Duration::from_secs(self.seconds))
    }

    fn rule(&self) -> Rule {
        let rule = if self.denied {
            Rule::deny_all("rule")
        } else {
            Rule::with("rule", self.algorithm, self.quota())
        };
        let cost = self.cost;
        let rule = rule
            .by_fn(key_of)
            .jitter(Jitter::none())
            .cost_by(move |_| cost);
        match self.max_cost {
            Some(most) => rule.max_cost(most),
            None => rule,
        }
    }

    fn builder(&self) -> RateLimitLayerBuilder {
        let builder = builder(self.rule())
            .fields(self.formats)
            .fields_when_allowed(FieldScope::default())
            .body(self.body)
            .retry_after_cap(self.cap);
        if self.partitions {
            builder.partition_keys([7; 32])
        } else {
            builder
        }
    }

    fn request(&self) -> Request<()> {
        let mut request = request(1);
        if self.nameless {
            request.headers_mut().clear();
        }
        request
    }
}

fn heads(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    let mut heads: Vec<_> = text.collect();
    heads.sort();
    heads
}

/// What a layer answers to some requests in a row.
fn answers(settings: &Settings, layer: &RateLimitLayer) -> Vec<Answered> {
    let mut service = layer.layer(service_fn(bare));
    (0..4)
        .map(|_| answer(&mut service, settings.request()))
        .collect()
}

fn text(response: Answered) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(text_of(response.into_body()))
}

proptest! {
    /// A refusal that the layer answers itself, against one to which it adds what is missing.
    #[test]
    fn a_refusal_says_the_same_as_one_that_is_completed(settings in Settings::any()) {
        let straight = settings.builder().build().unwrap();
        for own in answers(&settings, &straight) {
            if own.status().is_success() {
                continue;
            }
            let (status, expected) = (own.status(), heads(own.headers()));
            let content_type = own.headers().get(CONTENT_TYPE).cloned();
            let body = text(own);
            let made = body.clone();
            let completed = settings.builder().respond_with(move |refusal, _| {
                let mut response = Response::new(made.clone());
                *response.status_mut() = refusal.status;
                if let Some(content_type) = &content_type {
                    response.headers_mut().insert(CONTENT_TYPE, content_type.clone());
                }
                response
            });
            let other = answers(&settings, &completed.build().unwrap())
                .into_iter()
                .find(|other| heads(other.headers()) == expected);
            let other = other.expect("one of them says the same");
            prop_assert_eq!(other.status(), status);
            prop_assert_eq!(other.headers().contains_key(CONTENT_LENGTH), !body.is_empty());
            prop_assert_eq!(text(other), body);
        }
    }

    /// A single rule, against the same one beside another that is only tried.
    #[test]
    fn a_single_rule_is_told_as_one_among_others(settings in Settings::any()) {
        let alone = settings.builder().build().unwrap();
        let tried = Rule::token_bucket("tried", Quota::per_hour(1_000)).by_fn(key_of);
        let beside = settings.builder().rule(tried.shadowed()).build().unwrap();
        let pairs = answers(&settings, &alone).into_iter().zip(answers(&settings, &beside));
        for (alone, beside) in pairs {
            prop_assert_eq!(alone.status(), beside.status());
            prop_assert_eq!(heads(alone.headers()), heads(beside.headers()));
            prop_assert_eq!(text(alone), text(beside));
        }
    }
}
