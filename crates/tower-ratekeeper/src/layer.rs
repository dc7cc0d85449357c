//! The layer and its builder.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use ratekeeper_core::{Clock, Memory, Observer, Quota, Store};
use ratekeeper_key::{Exemptions, SelfCheck};
use tower_layer::Layer;

use crate::active::Active;
use crate::fields::{FieldFormats, FieldScope};
use crate::grpc::Code;
use crate::handle::{RateLimitHandle, check_store};
use crate::problem::BodyFormat;
use crate::refusal::{Refusal, RespondWith, Responder};
use crate::retry::MAX_RETRY_AFTER;
use crate::rule::Rule;
use crate::ruleset::{RuleError, RuleSet, RuleWarning};
use crate::service::RateLimit;
use crate::shared::{Settings, Shared};

/// Puts rate limits in front of a service.
///
/// Clones of the layer, and all services made by it, share their counts: cloning never makes a
/// second budget. By default the counts are in this process's memory, refusals are 429 with
/// `Retry-After`, `RateLimit` and `RateLimit-Policy` fields and a problem+json body, and allowed
/// responses carry the two rate limit fields.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::{Quota, RateLimitLayer, Rule};
///
/// // Five requests a second for each client, and up to ten at once.
/// let layer = RateLimitLayer::per_client("5/s burst 10".parse()?);
///
/// // Several limits at once: all of them admit a request, or none is charged.
/// let layer = RateLimitLayer::new([
///     Rule::token_bucket("second", Quota::per_second(10)),
///     Rule::sliding_counter("hour", Quota::per_hour(1_000)),
/// ])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It has one type parameter, the store, with a default: a struct of your own can name it.
///
/// ```
/// # use tower_ratekeeper::RateLimitLayer;
/// struct AppState {
///     limit: RateLimitLayer,
/// }
/// ```
pub struct RateLimitLayer<St = Memory> {
    shared: Arc<Shared<St>>,
}

impl RateLimitLayer {
    /// Creates a layer that holds each client, told by the address of the socket's peer, to a token
    /// bucket of this quota.
    ///
    /// Behind a proxy the peer is the proxy: say so with
    /// [`ClientIp`](crate::key::ClientIp) and [`Rule::by`].
    ///
    /// # Panics
    ///
    /// When the quota cannot be counted exactly: a rate of 2^32 or more units in a reduced period,
    /// or a burst that takes longer than 73 years to fill. [`RateLimitLayer::new`] returns an
    /// error instead.
    #[must_use]
    #[expect(clippy::expect_used, reason = "documented; the fallible twin is `new`")]
    pub fn per_client(quota: Quota) -> Self {
        Self::new([Rule::token_bucket("per-client", quota)]).expect("a quota that can be counted")
    }

    /// Creates a layer of these rules that counts in memory.
    ///
    /// # Errors
    ///
    /// See [`RuleErrorKind`](crate::RuleErrorKind).
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self, RuleError> {
        Self::builder().rules(rules).build()
    }

    /// Starts a layer with other settings.
    pub fn builder() -> RateLimitLayerBuilder {
        RateLimitLayerBuilder {
            rules: Vec::new(),
            set: None,
            clock: Clock::system(),
            observer: None,
            settings: Settings {
                exempt: None,
                on_allowed: Some(FieldScope::default()),
                formats: FieldFormats::default(),
                body: BodyFormat::default(),
                responder: None,
                grpc: None,
                retry_after_cap: MAX_RETRY_AFTER,
                expose: false,
                share_secret: Arc::from([]),
                partition_secret: None,
            },
            enabled: true,
            store: StoreOf::Made(memory),
        }
    }
}

impl<St: Store> RateLimitLayer<St> {
    /// Returns a handle that changes the layer while it runs.
    #[must_use]
    pub fn handle(&self) -> RateLimitHandle<St> {
        RateLimitHandle::new(Arc::clone(&self.shared))
    }

    /// Returns the store, to share it with other limiters.
    #[must_use]
    pub fn store(&self) -> &St {
        &self.shared.store
    }

    /// Returns what a person should look at once more.
    #[must_use]
    pub fn warnings(&self) -> Vec<RuleWarning> {
        self.shared.active().rules.warnings().to_vec()
    }
}

impl<S, St> Layer<S> for RateLimitLayer<St> {
    type Service = RateLimit<S, St>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, Arc::clone(&self.shared))
    }
}

impl<St> Clone for RateLimitLayer<St> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<St> fmt::Debug for RateLimitLayer<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("rules", &self.shared.active().rules)
            .finish_non_exhaustive()
    }
}

/// How gRPC calls are refused, where that is switched on.
#[derive(Clone, Debug)]
pub struct Grpc {
    pub(crate) code: Code,
    pub(crate) domain: Arc<str>,
}

impl Grpc {
    /// Creates the default: `RESOURCE_EXHAUSTED`, and an `ErrorInfo` of this domain, such as
    /// `api.example.org`.
    #[must_use]
    pub fn new(domain: &str) -> Self {
        Self {
            code: Code::ResourceExhausted,
            domain: domain.into(),
        }
    }

    /// Sets the code of a call that a limit refuses.
    #[must_use]
    pub fn code(self, code: Code) -> Self {
        Self { code, ..self }
    }
}

/// Settings of a [`RateLimitLayer`]; made by [`RateLimitLayer::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct RateLimitLayerBuilder<St = Memory> {
    rules: Vec<Rule>,
    set: Option<RuleSet>,
    clock: Clock,
    observer: Option<Arc<dyn Observer>>,
    settings: Settings,
    enabled: bool,
    store: StoreOf<St>,
}

/// The store that was given, or the default one, which is made with the builder's clock.
enum StoreOf<St> {
    Made(fn(Clock, Option<Arc<dyn Observer>>) -> St),
    Given(St),
}

impl<St> RateLimitLayerBuilder<St> {
    /// Adds rules.
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Adds a rule.
    pub fn rule(self, rule: Rule) -> Self {
        self.rules([rule])
    }

    /// Sets rules that were checked already, instead of any that were added.
    pub fn rule_set(mut self, rules: RuleSet) -> Self {
        self.set = Some(rules);
        self
    }

    /// Sets where the counts are kept: another [`Memory`], or a store that several processes share.
    pub fn store<Other: Store>(self, store: Other) -> RateLimitLayerBuilder<Other> {
        let Self {
            rules,
            set,
            clock,
            observer,
            settings,
            enabled,
            ..
        } = self;
        RateLimitLayerBuilder {
            rules,
            set,
            clock,
            observer,
            settings,
            enabled,
            store: StoreOf::Given(store),
        }
    }

    /// Sets the clock of the default store and of fields that name a point of time.
    ///
    /// A test moves a [`ManualClock`](crate::ManualClock) by hand. A store that was given keeps its
    /// own.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Sets whom to tell of decisions, evictions and failures.
    ///
    /// A store that was given tells its own observer of evictions and clipped debts.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Sets which requests no rule applies to.
    ///
    /// # Examples
    ///
    /// ```
    /// use tower_ratekeeper::key::Exemptions;
    /// use tower_ratekeeper::{Quota, RateLimitLayer, Rule};
    ///
    /// let layer = RateLimitLayer::builder()
    ///     .rule(Rule::token_bucket("per-client", Quota::per_second(10)))
    ///     .exempt(Exemptions::new().health_checks())
    ///     .build()?;
    /// # Ok::<(), tower_ratekeeper::RuleError>(())
    /// ```
    pub fn exempt(mut self, exemptions: Exemptions) -> Self {
        self.settings.exempt = Some(Arc::new(move |parts| exemptions.apply_to(parts)));
        self
    }

    /// Sets the formats of the rate limit fields, on refusals and on allowed responses.
    pub fn fields(mut self, formats: impl Into<FieldFormats>) -> Self {
        self.settings.formats = formats.into();
        self
    }

    /// Sets which allowed responses carry the rate limit fields; `None` is none of them.
    pub fn fields_when_allowed(mut self, scope: impl Into<Option<FieldScope>>) -> Self {
        self.settings.on_allowed = scope.into();
        self
    }

    /// Sets the form of refusals' bodies.
    pub fn body(mut self, format: BodyFormat) -> Self {
        self.settings.body = format;
        self
    }

    /// Sets what makes the responses to refused requests.
    pub fn responder(mut self, responder: impl Responder) -> Self {
        self.settings.responder = Some(Arc::new(responder));
        self
    }

    /// Sets a closure that makes the responses to refused requests.
    ///
    /// # Examples
    ///
    /// ```
    /// use tower_ratekeeper::{Quota, RateLimitLayer, Rule};
    ///
    /// let layer = RateLimitLayer::builder()
    ///     .rule(Rule::token_bucket("per-client", Quota::per_second(10)))
    ///     .respond_with(|refusal, _parts| {
    ///         let mut response = http::Response::new(format!("slow down: {:?}", refusal.rules));
    ///         *response.status_mut() = refusal.status;
    ///         response
    ///     })
    ///     .build()?;
    /// # Ok::<(), tower_ratekeeper::RuleError>(())
    /// ```
    pub fn respond_with<F, B>(self, respond: F) -> Self
    where
        F: Fn(&Refusal<'_>, &Parts) -> Response<B> + Send + Sync + 'static,
        B: Into<Bytes>,
        RespondWith<F>: Responder,
    {
        self.responder(RespondWith(respond))
    }

    /// Answers gRPC calls as gRPC does: refused ones with a status instead of a 429.
    pub fn grpc(mut self, grpc: Grpc) -> Self {
        self.settings.grpc = Some(grpc);
        self
    }

    /// Tells clients with `pk` parameters under which identity each rule counted them: not the key,
    /// but 16 bytes that stand for it under this secret, and are the same on every node that has it.
    ///
    /// A client behind a shared address can tell by it whose quota it uses up. Only
    /// [`Draft11`](crate::fields::FieldFormat::Draft11) has the parameter. Keys are extracted twice
    /// then. With a secret that can be guessed, so can be the keys: use at least 16 random bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use tower_ratekeeper::{Quota, RateLimitLayer, Rule};
    ///
    /// # let secret = [7; 32];
    /// let layer = RateLimitLayer::builder()
    ///     .rule(Rule::token_bucket("per-client", Quota::per_second(10)))
    ///     // RateLimit: "per-client";r=9;t=1;pk=:mRCUfVfMFFu8hOHjyqSoiw==:
    ///     .partition_keys(secret)
    ///     .build()?;
    /// # Ok::<(), tower_ratekeeper::RuleError>(())
    /// ```
    pub fn partition_keys(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.settings.partition_secret = Some(Arc::from(secret.as_ref()));
        self
    }

    /// Sets the most seconds of a `Retry-After`, and of the wait that a gRPC call is told;
    /// 2,147,483,647 unless set.
    pub fn retry_after_cap(mut self, seconds: u64) -> Self {
        self.settings.retry_after_cap = seconds;
        self
    }

    /// Puts the decision into the extensions of allowed requests, as a
    /// [`RateLimitInfo`](crate::RateLimitInfo). It costs an allocation a request.
    pub fn expose_decision(mut self) -> Self {
        self.settings.expose = true;
        self
    }

    /// Sets the secret under which [`RuleMode::EnforcedFor`](crate::RuleMode::EnforcedFor) picks
    /// its keys; every node with the same secret picks the same. It is empty unless set.
    pub fn share_secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.settings.share_secret = Arc::from(secret.as_ref());
        self
    }

    /// Builds a layer that lets everything pass until its handle enables it; for tests of what is
    /// behind it.
    pub fn disabled(mut self) -> Self {
        self.enabled = false;
        self
    }
}

fn memory(clock: Clock, observer: Option<Arc<dyn Observer>>) -> Memory {
    let memory = Memory::builder().clock(clock);
    match observer {
        Some(observer) => memory.observer(observer).build(),
        None => memory.build(),
    }
}

impl<St: Store> RateLimitLayerBuilder<St> {
    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// See [`RuleErrorKind`](crate::RuleErrorKind).
    pub fn build(self) -> Result<RateLimitLayer<St>, RuleError> {
        let rules = match self.set {
            Some(set) => set,
            None => RuleSet::new(self.rules)?,
        };
        let store = match self.store {
            StoreOf::Made(make) => make(self.clock.clone(), self.observer.clone()),
            StoreOf::Given(store) => store,
        };
        check_store(&store, &rules)?;
        let active = Active::new(rules, &self.settings)?;
        let shared = Shared::new(store, active, self.clock, self.observer, self.settings);
        shared.set_enabled(self.enabled);
        SelfCheck::global().note_build();
        Ok(RateLimitLayer {
            shared: Arc::new(shared),
        })
    }
}

impl<St> fmt::Debug for RateLimitLayerBuilder<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayerBuilder")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
